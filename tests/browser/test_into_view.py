"""An app comes into view when its cell is run: below its cell, it would be half off the screen."""

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.notebook_page import NotebookPage

LONG = "\n".join(f"# line {number}" for number in range(60))  # a cell higher than the screen
APP = "widgets.SlopeExplorer()"
# Waits for a file before it shows the app.
WAITING_APP = """import pathlib, time
while not pathlib.Path({file!r}).exists():
    time.sleep(0.01)
{app}"""
APP_CELL = 2  # after the import and a long cell
# The distance in pixels from the upper edge of the notebook to that of the app.
TOP = """app => {
    const notebook = app.closest('.jp-WindowedPanel-outer') ?? app.closest('.jp-Notebook');
    return app.getBoundingClientRect().top - notebook.getBoundingClientRect().top;
}"""


def open_notebook(notebook: NotebookPage, app: str = APP) -> None:
    """A notebook with an app between long cells, of which only the import has run."""
    notebook.write(LONG, app, LONG, LONG)
    run(notebook, 0)
    notebook.wait_until_quiet()


def run(notebook: NotebookPage, cell: int) -> None:
    """Click a cell and press Shift+Enter."""
    editor = notebook.page.locator(".jp-CodeCell .cm-content").nth(cell)
    editor.scroll_into_view_if_needed()
    editor.click()
    editor.press("Shift+Enter")


def top_of_the_app(notebook: NotebookPage) -> float:
    """Where the app is once it is drawn."""
    app = notebook.page.locator(".alibi-app").first
    app.locator(".js-plotly-plot .main-svg").first.wait_for(state="attached")
    notebook.wait_until_quiet()
    return float(app.evaluate(TOP))


def test_app_is_at_the_top_of_the_screen_after_its_cell_was_run(notebook: NotebookPage) -> None:
    open_notebook(notebook)
    run(notebook, APP_CELL)
    assert abs(top_of_the_app(notebook)) < 20


def test_arrow_up_and_tab_lead_from_the_next_cell_into_the_app(notebook: NotebookPage) -> None:
    open_notebook(notebook)
    run(notebook, APP_CELL)
    top_of_the_app(notebook)
    notebook.page.keyboard.press("ArrowUp")
    notebook.page.keyboard.press("Tab")
    first_slider = notebook.page.locator(".alibi-app .noUi-handle").first
    expect(first_slider).to_be_focused()
    expect(first_slider).to_be_in_viewport()
    notebook.page.keyboard.press("ArrowRight")
    notebook.wait_for_caption("9 heads")


def test_a_guess_comes_into_view_as_well(notebook: NotebookPage) -> None:
    choice = 'lessons.guess_choice("wide", "Which?", {"a": "head a", "b": "head b"}, "a")'
    ask = f"from alibi_viz import lessons\n{choice}"
    open_notebook(notebook, ask)
    run(notebook, APP_CELL)
    guess = notebook.page.locator(".alibi-guess")
    guess.wait_for()
    notebook.wait_until_quiet()
    assert abs(float(guess.evaluate(TOP))) < 20


def test_run_all_does_not_stop_at_the_app(notebook: NotebookPage) -> None:
    open_notebook(notebook)
    notebook.run_all()
    assert abs(top_of_the_app(notebook)) > 100


def test_page_that_is_loaded_again_does_not_scroll_to_the_app(notebook: NotebookPage) -> None:
    open_notebook(notebook)
    run(notebook, APP_CELL)
    top_of_the_app(notebook)
    notebook.settle()  # a picture that is drawn later would change the notebook again
    notebook.save()
    notebook.reload()
    assert top_of_the_app(notebook) > 100


def test_reader_who_scrolls_away_meanwhile_is_left_alone(
    notebook: NotebookPage, tmp_path: Path
) -> None:
    file = tmp_path / "go on"
    open_notebook(notebook, WAITING_APP.format(file=str(file), app=APP))
    run(notebook, APP_CELL)
    cell = notebook.page.locator(".jp-CodeCell").nth(APP_CELL)
    cell.locator(".jp-InputPrompt", has_text="*").wait_for()
    notebook.page.mouse.wheel(0, -5000)
    expect(cell).not_to_be_in_viewport()
    file.touch()
    assert top_of_the_app(notebook) > 100
