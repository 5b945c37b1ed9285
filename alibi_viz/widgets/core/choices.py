"""Traits and controls for names that an app offers: questions, methods, kinds of evaluation.

The names are read from the app, not at import, so that a question or a method that was added later is offered as well.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ipywidgets import Checkbox, Layout, ToggleButtons
from traitlets import HasTraits

from alibi_viz.widgets.core.traits import State

__all__ = ["Name", "Names", "boxes", "css_class", "tabs"]


class Name(State):
    """One of the names in the app's attribute `offered`."""

    def __init__(self, default: str, offered: str) -> None:
        super().__init__(default)
        self.offered = offered

    def validate(self, obj: HasTraits, value: Any) -> str:
        names = getattr(obj, self.offered)
        if not isinstance(value, str) or value not in names:
            self.error(obj, value, info=f"one of {', '.join(names)}")
        return value


class Names(State):
    """At most `most` different names in the app's attribute `offered`, kept in its order; there may be none."""

    def __init__(self, default: tuple[str, ...], offered: str, most: int) -> None:
        super().__init__(default)
        self.offered, self.most = offered, most

    def validate(self, obj: HasTraits, value: Any) -> tuple[str, ...]:
        offered = getattr(obj, self.offered)
        chosen = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [None]
        unknown = [name for name in chosen if not isinstance(name, str) or name not in offered]
        if unknown or len(set(chosen)) < len(chosen) or len(chosen) > self.most:
            self.error(obj, value, info=f"at most {self.most} different names out of {'; '.join(offered)}")
        return tuple(name for name in offered if name in chosen)


def tabs(app: Any, trait: str, names: Sequence[str]) -> ToggleButtons:
    """One button per name, for a `Name`, with the CSS class "s-TRAIT"."""
    buttons = ToggleButtons(options=list(names), style={"button_width": "max-content"}).add_class(f"s-{trait}")
    app.link(buttons, trait)
    return buttons


def boxes(app: Any, trait: str, names: Sequence[str]) -> list[Checkbox]:
    """One checkbox per name, for a `Names`, with the CSS class `css_class(name)`."""
    return [_box(app, trait, name) for name in names]


def css_class(name: str) -> str:
    """The CSS class of the checkbox of a name.

    >>> from alibi_viz.widgets.core.choices import css_class
    >>> css_class("alibi, learned slopes")
    's-alibi-learned-slopes'
    """
    return f"s-{re.sub('[^a-zA-Z0-9]+', '-', name)}"


def _box(app: Any, trait: str, name: str) -> Checkbox:
    def read(checked: bool) -> list[str]:
        return [*(other for other in getattr(app, trait) if other != name), *([name] if checked else [])]

    box = Checkbox(description=name, indent=False, layout=Layout(width="max-content")).add_class(css_class(name))
    app.link(box, trait, read=read, show=lambda names: name in names)
    return box
