"""Browser tests: a real JupyterLab, a real Chromium, and a notebook driven by its menus and its sliders.

A test asks for `notebook` (notebook_page.py), which fails it afterwards on any error the page has met:

    def test_more_heads_change_the_picture(notebook):
        notebook.server.write("heads", "from alibi_viz import widgets", "widgets.SlopeExplorer()")  # or a lesson's name
        notebook.open("heads")
        notebook.run_all()
        before = notebook.picture()
        notebook.press_slider("s-heads", "ArrowRight")
        notebook.wait_for_caption("9 heads")
        notebook.wait_for_new_picture(before)

`notebook.page` is the playwright page, `notebook.app(0)` the first app, `notebook.errors()` what cells complained of.
Server and browser are started once for all tests; every test has a fresh tab, and its kernels are ended after it.
"""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser import chromium, jupyter
from tests.browser.jupyter import Server
from tests.browser.notebook_page import NotebookPage


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium. A machine without one skips these tests; continuous integration fails them."""
    if chromium.find() is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(chromium.MISSING)
    with chromium.launch() as browser:
        yield browser


@pytest.fixture(scope="session")
def server(browser: Browser) -> Iterator[Server]:
    """JupyterLab on a copy of notebooks/; without a browser there is no need of it."""
    with jupyter.serve() as server:
        yield server


@pytest.fixture
def notebook(browser: Browser, server: Server) -> Iterator[NotebookPage]:
    """A fresh tab, 1280 x 900; any problem it met fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = NotebookPage(context.new_page(), server)
    yield page
    context.close()
    server.stop_kernels()
    assert not page.problems, "\n".join(page.problems)
