"""How the controls of an app are arranged."""

import html
from collections.abc import Callable
from typing import Any

from ipywidgets import HTML, Button, HBox, Label, Layout, ToggleButton, VBox, Widget

__all__ = ["DESCRIBED", "FIT", "Details", "button", "column", "labeled", "row", "unfold_button"]

DESCRIBED = {"description_width": "initial"}  # the style of a menu whose description is as wide as its text
FIT = {"width": "max-content"}  # the layout of a control that is as wide as its text


class Details(HTML):  # type: ignore[misc]  # ipywidgets has no types
    """Plain text behind the word "Details", hidden while it is empty."""

    def show(self, text: str) -> None:
        self.value = f'<details class="alibi-details"><summary>Details</summary>{html.escape(text)}</details>'
        self.layout.display = None if text else "none"


def button(text: str, icon: str, css: str, tip: str, action: Callable[[], object], **layout: Any) -> Button:
    """A button that calls `action`. Its layout is as wide as its text unless `layout` says otherwise."""
    made = Button(description=text, icon=icon, tooltip=tip, layout=layout or FIT).add_class(css)
    made.on_click(lambda _: action())
    return made


def unfold_button(text: str, tip: str, unfold: Callable[[bool], object]) -> ToggleButton:
    """A button that calls `unfold` with whether it is pressed, with the CSS class "s-more"."""
    made = ToggleButton(description=text, icon="caret-right", tooltip=tip, layout=FIT).add_class("s-more")

    def on_change(change: Any) -> None:
        made.icon = "caret-down" if change.new else "caret-right"
        unfold(change.new)

    made.observe(on_change, names="value")
    return made


def row(*children: Widget) -> HBox:
    """Controls side by side, wrapping onto more lines where the page is narrow."""
    layout = Layout(flex_flow="row wrap", align_items="center", grid_gap="4px 20px", overflow="visible")
    return HBox(children, layout=layout)


def column(*children: Widget) -> VBox:
    """Rows of controls below each other, as wide as the app."""
    return VBox(children, layout=Layout(width="100%", grid_gap="4px", overflow="visible"))


def labeled(label: str, *controls: Widget, **layout: Any) -> HBox:
    """Controls behind a visible label, which is their accessible name as well (see `Page` in page.py).

    `layout` are further properties of the box, such as `width="100%"`.
    """
    text = Label(label, layout=Layout(flex="none"))
    return HBox([text, *controls], layout=Layout(align_items="center", overflow="visible", **layout))
