"""Views of a figure that the page draws from its own copy, and annotations on axes that change their type."""

import pytest

from tests.browser.notebook_page import NotebookPage

SMALL = "app = widgets.LengthLab(methods=['alibi', 'learned'], length=8, steps=20)"
LEGEND = ["alibi", "learned (to 8 only)"]


def texts(notebook: NotebookPage, css: str, number: int = 0) -> list[str]:
    """The texts of a kind in an app's figure."""
    return notebook.settle(number).locator(f".js-plotly-plot .{css}").all_text_contents()


@pytest.mark.parametrize(
    "cells", [(f"{SMALL}\napp", "await app.train()", "app"), (SMALL, "await app.train()", "app", "app")]
)
def test_a_view_opened_later_shows_the_same(notebook: NotebookPage, cells: tuple[str, ...]) -> None:
    notebook.show(*cells)
    points = []
    for number in range(2):
        notebook.wait_for_caption("Up to 128 bytes", number=number)
        notebook.page.wait_for_timeout(500)
        assert texts(notebook, "legendtext", number) == LEGEND
        points.append(notebook.app(number).locator(".scatterlayer .points path").count())
    assert points[0] == points[1] > 0


@pytest.mark.parametrize("app", ["widgets.LengthLab()", "widgets.ComparisonExplorer()"])
def test_annotations_survive_an_axis_that_switches_to_linear_and_back(notebook: NotebookPage, app: str) -> None:
    notebook.show(app)
    notebook.wait_for_caption("")
    assert "alibi 1/m" in texts(notebook, "annotation-text")
    for question in ("gap", "longer windows"):
        before = notebook.picture()
        notebook.choose("s-question", question)
        notebook.wait_for_new_picture(before)
        notebook.page.wait_for_timeout(500)
        assert ("alibi 1/m" in texts(notebook, "annotation-text")) == (question != "gap")
