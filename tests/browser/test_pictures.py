"""A lesson shows the picture of an app until its cell runs, then the app: never both, never neither."""

import base64
import io

import nbformat
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image
from playwright.sync_api import Browser, expect

from tests.browser.jupyter import METADATA, Server
from tests.browser.notebook_page import NotebookPage
from tests.notebooks.pictures import capture

CODE = "from alibi_viz import widgets\nwidgets.SlopeExplorer()"


def test_picture_of_an_app_is_a_small_png(browser: Browser, server: Server) -> None:
    shot, caption = capture("picture", [CODE], browser, server)
    assert caption.startswith("8 heads"), caption
    picture = Image.open(io.BytesIO(shot), formats=["PNG"])
    assert picture.width >= 600 and picture.height >= 300
    assert len(shot) < 100_000


def test_picture_of_a_race_that_asks_for_guesses_shows_its_end(browser: Browser, server: Server) -> None:
    code = 'from alibi_viz import widgets\nwidgets.LengthLab(methods=["alibi"], steps=10, guesses={"alibi": None})'
    _, caption = capture("guess", [code], browser, server)
    assert caption.startswith("You guessed")


def test_stored_picture_is_shown_until_the_cell_runs(notebook: NotebookPage) -> None:
    file = io.BytesIO()
    Image.new("RGB", (640, 400), "white").save(file, "PNG")
    data = {"text/plain": "SlopeExplorer()", "image/png": base64.b64encode(file.getvalue()).decode()}
    output = new_output("execute_result", data, execution_count=1)
    cells = [new_code_cell(CODE, outputs=[output], execution_count=1)]
    nbformat.write(new_notebook(cells=cells, metadata=METADATA), notebook.server.folder / "stored.ipynb")
    notebook.open("stored")
    picture, app = notebook.page.locator(".jp-OutputArea img"), notebook.page.locator(".alibi-app")
    expect(picture).to_be_visible()
    expect(app).to_have_count(0)
    notebook.run_all()
    expect(app).to_have_count(1)
    expect(picture).to_have_count(0)
