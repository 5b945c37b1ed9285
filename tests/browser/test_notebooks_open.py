"""Every lesson runs in JupyterLab without errors and shows its apps."""

import pytest

from tests.browser.jupyter import NOTEBOOKS
from tests.browser.notebook_page import NotebookPage


@pytest.mark.parametrize("name", sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")))
def test_lesson_runs(notebook: NotebookPage, name: str) -> None:
    notebook.open(name)
    notebook.run_all()
    assert notebook.errors() == []
    assert notebook.caption().strip(), "the app has no caption"
    assert notebook.app().locator(".js-plotly-plot .main-svg").first.is_visible()


def test_slider_changes_caption_and_picture(notebook: NotebookPage) -> None:
    notebook.show("widgets.SlopeExplorer()")
    before = notebook.picture()
    notebook.press_slider("s-heads", "ArrowRight")
    notebook.wait_for_caption("9 heads")
    notebook.wait_for_new_picture(before)
