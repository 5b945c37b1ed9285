"""A button that brings an app back to the state in which it was created."""

from collections.abc import Mapping
from typing import Any

from ipywidgets import Button

from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.layout import button

__all__ = ["reset_button", "set_together"]


def reset_button(app: App) -> Button:
    """A button, with the CSS class "s-reset", that sets every trait of an app back to its value at this call."""
    initial = app._state()
    tip = "Set everything back to how it was at the start"
    return button("Reset", "undo", "s-reset", tip, lambda: app.attempt(lambda: set_together(app, initial)))


def set_together(app: App, state: Mapping[str, Any]) -> None:
    """Set several traits of an app and draw once, because one of them may be valid only with another.

    Raises BadValue if the app rejects them.
    """
    with app.hold_trait_notifications():
        _set(app, state)
    _set(app, state)  # again: a change of one trait may have changed another, as a new text deselects the query


def _set(app: App, state: Mapping[str, Any]) -> None:
    for name, value in state.items():
        setattr(app, name, value)
