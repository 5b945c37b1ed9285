"""The law of a bias as the state of an app: ALiBi, one of `alibi_viz.laws`, or a function of the user's own."""

from collections.abc import Callable
from typing import Any

from ipywidgets import Dropdown
from traitlets import HasTraits

from alibi_viz import laws
from alibi_viz.models import POSITIONS, register_method
from alibi_viz.models.positions.custom import LawFunction, custom_method
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.layout import DESCRIBED, FIT
from alibi_viz.widgets.core.traits import BadValue, State, raising_bad_value, short_repr

__all__ = ["LINEAR", "Law", "law_function", "law_menu", "law_name", "open_menu"]

LINEAR = "linear"  # ALiBi itself


class Law(State):
    """The name of a law of `alibi_viz.laws`, or a function law(distance, head, num_heads) of the user's own.

    A function is registered by `register_method`, so that all apps offer it under its name.
    """

    def __init__(self) -> None:
        super().__init__(LINEAR)

    def validate(self, obj: HasTraits, value: Any) -> Any:
        offered = _offered()
        if isinstance(value, str):
            if value not in offered:
                raise BadValue(f"law must be one of {', '.join(offered)}, or a function, got {short_repr(value)}")
            return offered[value]
        if isinstance(value, type) or not callable(value):
            raise BadValue(f"law must be a name or a function law(distance, head, num_heads), got {short_repr(value)}")
        name = getattr(value, "__name__", "")
        if value is getattr(laws, name, None):
            return name
        if name == LINEAR:
            raise BadValue(f"a law of your own cannot be called {LINEAR!r}, which is ALiBi: choose another name")
        with raising_bad_value():
            register_method(value)
        return value


def law_name(law: str | LawFunction) -> str:
    """The name of a law."""
    return law if isinstance(law, str) else law.__name__


def law_function(law: str | LawFunction) -> LawFunction:
    """The function of a law."""
    return getattr(laws, law) if isinstance(law, str) else law


def law_menu(app: App) -> Dropdown:
    """A menu for the trait `law` of an app, with the CSS class "s-law". It also offers functions that are added later.

    The text of a law is its name.
    """
    tip = "How the bias depends on the distance: linear is ALiBi; your own functions are offered once they are used"
    return open_menu(app, "law", "law", "s-law", tip, options=_offered, text=law_name, changed_by="law")


def open_menu(
    app: App,
    name: str,
    label: str,
    css: str,
    tip: str,
    *,
    options: Callable[[], dict[str, Any]],
    text: Callable[[Any], str],
    changed_by: str,
) -> Dropdown:
    """A menu for a trait whose options change.

    Args:
        app, name: the app and its trait.
        label, css, tip: as in `App.menu`.
        options: returns {text: value of the trait}.
        text: the text of a value.
        changed_by: the trait with which the options change.
    """
    menu = Dropdown(description=label, tooltip=tip, style=DESCRIBED, layout=FIT)
    updating = False  # a menu with new options selects the first one, which is not the user's choice

    def update(_: Any = None) -> None:
        nonlocal updating
        new = [(option, option) for option in options()]
        if list(menu.options) != new:
            updating = True
            menu.options, menu.value = new, text(getattr(app, name))
            updating = False

    update()
    app.observe(update, names=changed_by)
    read = lambda option: getattr(app, name) if updating else options()[option]  # noqa: E731
    app.link(menu.add_class(css), name, read=read, show=text)
    return menu


def _offered() -> dict[str, Any]:
    """{name: law}: those of `alibi_viz.laws`, and all functions that were used as a position method or a law."""
    own = {name: custom_method(name) for name in POSITIONS}
    functions = {name: law for name, law in own.items() if callable(law) and not isinstance(law, type)}
    builtin = {name: name for name in laws.__all__}
    return builtin | {name: law for name, law in functions.items() if law is not getattr(laws, name, None)}
