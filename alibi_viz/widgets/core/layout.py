"""How the controls of an app are arranged."""

from collections.abc import Callable
from typing import Any

from ipywidgets import Button, HBox, Label, Layout, VBox, Widget

__all__ = ["button", "column", "labeled", "row"]


def button(text: str, icon: str, css: str, tip: str, action: Callable[[], object], **layout: Any) -> Button:
    """A button that calls `action`. Its layout is as wide as its text unless `layout` says otherwise."""
    made = Button(description=text, icon=icon, tooltip=tip, layout=layout or {"width": "max-content"}).add_class(css)
    made.on_click(lambda _: action())
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
