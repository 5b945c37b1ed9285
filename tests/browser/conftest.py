"""Fixtures of the browser tests, which operate a real JupyterLab in a real Chromium.

A test uses the fixture `notebook` (notebook_page.py), which fails the test if the page had any
error:

    def test_more_heads_change_the_picture(notebook):
        notebook.show("widgets.SlopeExplorer()")
        before = notebook.picture()
        notebook.press_slider("s-heads", "ArrowRight")
        notebook.wait_for_caption("9 heads")
        assert notebook.picture() != before

`notebook.page` is the playwright page, `notebook.app(0)` the first app, `notebook.errors()` the
errors in outputs. Two processes run the tests, each file in one of them. All tests of a process
share server and browser, and those in test_apps.py one tab with all apps. Every `notebook` is
opened in the same tab, because loading JupyterLab takes longer than most tests; after a test that
failed, JupyterLab is loaded again. `show` uses a kernel that tests share, which is reset after each
test. A lesson, opened by `notebook.open("01_the_line")`, has a kernel of its own, as for a reader.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from docs.page.build import build_page
from tests.browser import chromium, jupyter
from tests.browser.chromium import DEADLINE
from tests.browser.jupyter import Server
from tests.browser.notebook_page import SECOND, NotebookPage, new_tab

# `make browsers` names it: it needs more than this folder's other tests.
collect_ignore = ["test_other_engines.py"]
expect.set_options(timeout=DEADLINE * SECOND)

NO_FONTS = "no fonts on this machine: apt-get install fonts-dejavu-core fonts-liberation"
LETTER_WIDTH = """() => {
    const letter = document.body.appendChild(document.createElement("span"));
    letter.textContent = "m";
    return letter.getBoundingClientRect().width;
}"""


def skip_or_fail(reason: str) -> None:
    """Skip the tests for what is missing. In continuous integration they fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium. Without one, or without fonts, the tests are skipped."""
    if chromium.find() is None:
        skip_or_fail(chromium.MISSING)
    with chromium.launch() as browser:
        page = browser.new_page()
        if page.evaluate(LETTER_WIDTH) == 0:
            skip_or_fail(NO_FONTS)
        page.close()
        yield browser


@pytest.fixture(scope="session")
def server(browser: Browser) -> Iterator[Server]:
    """JupyterLab on a copy of notebooks/; skipped together with `browser`."""
    with jupyter.serve() as server:
        yield server


@pytest.fixture(scope="session")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first page of the site. Without the option --site, it is built without the others."""
    folder = request.config.getoption("site")
    if folder is not None:
        return Path(folder).resolve() / "index.html"
    return build_page(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="session")
def tab(browser: Browser, server: Server) -> Iterator[NotebookPage]:
    """The tab in which tests open one notebook after the other."""
    with new_tab(browser, server) as page:
        yield page


@pytest.fixture
def notebook(tab: NotebookPage, request: pytest.FixtureRequest) -> Iterator[NotebookPage]:
    """A tab of JupyterLab without a notebook. Problems of the page fail the test."""
    failed_before = request.session.testsfailed
    tab.problems = []
    yield tab
    problems = tab.problems
    if problems or request.session.testsfailed > failed_before:
        tab.page.mouse.up()
        tab.page.goto("about:blank")  # nothing of this test is left for the next one
    tab.close()
    tab.server.clean_kernels()
    assert not problems, "\n".join(problems)


@contextmanager
def empty_page(browser: Browser) -> Iterator[tuple[Page, list[str]]]:
    """A tab without JupyterLab, and its problems: errors, and requests to a network."""
    page = browser.new_page()
    page.set_default_timeout(DEADLINE * SECOND)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(message.text)

    page.on("console", on_console)

    def needs_network(url: str) -> bool:
        return not url.startswith(("file:", "blob:"))

    page.route(needs_network, lambda route: problems.append(route.request.url))
    yield page, problems
    page.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab without JupyterLab, for one test. Problems of the page fail it."""
    with empty_page(browser) as (page, problems):
        yield page
    assert problems == []
