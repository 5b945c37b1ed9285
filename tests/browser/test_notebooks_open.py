"""Every lesson, opened in JupyterLab and run from its menu, shows its apps and no error."""

import pytest

from tests.browser.jupyter import NOTEBOOKS
from tests.browser.notebook_page import NotebookPage


@pytest.mark.parametrize("name", sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")))
def test_lesson_runs(notebook: NotebookPage, name: str) -> None:
    notebook.open(name)
    notebook.run_all()
    assert notebook.errors() == []
    assert notebook.caption().strip(), "the app says what it shows"
    assert notebook.app().locator(".js-plotly-plot .main-svg").first.is_visible()


def test_an_app_in_a_new_notebook_follows_its_slider(notebook: NotebookPage) -> None:
    notebook.server.write("scratch", "from alibi_viz import widgets", "app = widgets.SlopeExplorer()\napp")
    notebook.open("scratch")
    notebook.run_all()
    assert notebook.errors() == []
    before = notebook.picture()
    notebook.press_slider("s-heads", "ArrowRight")
    notebook.wait_for_caption("9 heads")
    notebook.wait_for_new_picture(before)
