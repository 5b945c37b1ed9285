"""What a reader finds in every app: a tooltip on each control, and a link to the lesson that explains the picture."""

from collections.abc import Iterator

import pytest
from ipywidgets import ToggleButtons, Widget

from alibi_viz import widgets
from alibi_viz.widgets.core.app import App
from tests.notebooks.lessons import named, read

APPS = [getattr(widgets, name) for name in widgets.__all__ if name != "App"]


def below(widget: Widget) -> Iterator[Widget]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from below(child)


@pytest.mark.parametrize("app", APPS)
def test_every_control_says_what_it_does(app: type[App]) -> None:
    controls = [widget for widget in below(app()) if widget.has_trait("disabled")]
    assert len(controls) > 3
    for control in controls:
        tips = control.tooltips if isinstance(control, ToggleButtons) else [control.tooltip]
        assert tips and all(tips), (type(control).__name__, control._dom_classes)


@pytest.mark.parametrize("app", APPS)
def test_the_reason_leads_to_a_heading(app: type[App]) -> None:
    (lesson,) = named([app.why.lesson])
    assert any(f"## {app.why.section}\n" in cell.source for cell in read(lesson).cells)
