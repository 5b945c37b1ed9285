"""What only a page can get wrong: its own copy of a figure, from which a second view is drawn; words on an axis."""

import pytest

from tests.browser.notebook_page import NotebookPage

IMPORT = "from alibi_viz import widgets"
SMALL = "app = widgets.LengthLab(methods=['alibi', 'learned'], length=8, steps=20)"
LEGEND = ["alibi", "learned (to 8 only)"]


def words(notebook: NotebookPage, css: str, number: int = 0) -> list[str]:
    """Words in an app's picture."""
    return notebook.settle(number).locator(f".js-plotly-plot .{css}").all_text_contents()


@pytest.mark.parametrize(
    "cells", [(f"{SMALL}\napp", "await app.train()", "app"), (SMALL, "await app.train()", "app", "app")]
)
def test_a_view_that_is_shown_later_is_the_same(notebook: NotebookPage, cells: tuple[str, ...]) -> None:
    notebook.server.write("views", IMPORT, *cells)
    notebook.open("views")
    notebook.run_all()
    points = []
    for number in range(2):
        notebook.wait_for_caption("Trained 20 steps", number=number)
        notebook.page.wait_for_timeout(500)
        assert words(notebook, "legendtext", number) == LEGEND
        points.append(notebook.app(number).locator(".scatterlayer .points path").count())
    assert points[0] == points[1] > 0


@pytest.mark.parametrize(
    ("app", "away", "back"),
    [
        ("widgets.LengthLab()", ".s-view button:has-text('gap')", ".s-view button:has-text('race')"),
        ("widgets.ComparisonExplorer()", "gap", "longer windows"),
    ],
)
def test_marks_keep_their_names_when_the_axis_changes_its_kind(
    notebook: NotebookPage, app: str, away: str, back: str
) -> None:
    notebook.server.write("marks", IMPORT, app)
    notebook.open("marks")
    notebook.run_all()
    notebook.wait_for_caption("")
    assert "alibi 1/m" in words(notebook, "annotation-text")
    for go in (away, back):
        before = notebook.picture()
        if go.startswith("."):
            notebook.app().locator(go).click()
        else:
            notebook.app().locator(".s-task select").select_option(label=go)
        notebook.wait_for_new_picture(before)
        notebook.page.wait_for_timeout(500)
        assert ("alibi 1/m" in words(notebook, "annotation-text")) == (go == back)
