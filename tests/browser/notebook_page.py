"""Operate a notebook in JupyterLab as a user would: run cells, press keys on sliders."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request

from tests.browser.jupyter import Server

# Messages of a healthy JupyterLab.
HARMLESS = re.compile(
    r"Kernel is running over TCP without encryption|is not trusted|news|favicon"
    r"|the server responded with a status of 404.*workspaces"
)
SECOND = 1000  # playwright counts milliseconds
# The kernel has nothing to run. A page that has no kernel yet is idle too, but a run would open a
# dialog to choose one.
IDLE = ".jp-StatusBar-TextItem:text-is('Python 3 (ipykernel) | Idle')"
# Some cell is running or has an execution count.
STARTED = r"""[...document.querySelectorAll('.jp-InputPrompt')]
    .some(prompt => /\[[*\d]+\]/.test(prompt.innerText))"""
# Every cell with code has an execution count.
ALL_RUN = r"""() => {
    const hasCode = cell => cell.querySelector('.cm-content')?.innerText.trim();
    const hasRun = cell => /\[\d+\]/.test(cell.querySelector('.jp-InputPrompt')?.innerText);
    return [...document.querySelectorAll('.jp-CodeCell')].filter(hasCode).every(hasRun);
}"""
KERNEL_STATE = ".jp-StatusBar-TextItem[title^='Change kernel']"
IDLE_FOR_30_FRAMES = """async selector => {
    for (let frames = 0; frames < 30;) {
        await new Promise(requestAnimationFrame);
        const isIdle = document.querySelector(selector)?.innerText.endsWith('| Idle');
        frames = isIdle ? frames + 1 : 0;
    }
}"""
# Plots are as wide as their containers, or have kept their width for 30 frames.
PLOTS_FILL_THE_WIDTH = """async app => {
    const frame = () => new Promise(requestAnimationFrame);
    const plots = [...app.querySelectorAll('.js-plotly-plot')];
    const unusedWidth = plot =>
        plot.offsetWidth - plot.querySelector('.main-svg').clientWidth;
    const space = () => plots.map(unusedWidth);
    let before = space();
    let framesUnchanged = 0;
    for (let n = 0; n < 600 && framesUnchanged < 30; n++) {
        if (before.every(width => Math.abs(width) < 2)) break;
        await frame();
        const now = space();
        const isUnchanged = now.every((width, i) => width === before[i] && width > -2);
        framesUnchanged = isUnchanged ? framesUnchanged + 1 : 0;
        before = now;
    }
    await frame();
    await frame();
}"""


@contextmanager
def new_tab(
    browser: Browser, server: Server, width: int = 1280, height: int = 900
) -> Iterator["NotebookPage"]:
    """A new tab of this size in pixels, closed afterwards together with its kernel."""
    context = browser.new_context(viewport={"width": width, "height": height})
    yield NotebookPage(context.new_page(), server)
    context.close()
    server.clean_kernels()


class NotebookPage:
    """One browser tab with one notebook.

    `problems` collects uncaught errors, errors on the console, and requests to other hosts: the
    apps work offline.
    """

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self.server = server
        self.problems: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        page.on("request", self._on_request)

    def show(self, *cells: str) -> None:
        """Run these cells after an import of `widgets`, in the shared kernel, without errors."""
        self.write(*cells)
        self.run_all()
        assert self.errors() == []

    def write(self, *cells: str) -> None:
        """Open a new notebook with an import of `widgets` and these cells, in the shared kernel."""
        self.server.write("test", "from alibi_viz import widgets", *cells)
        self.server.share_kernel("test")
        self.open("test")

    def open(self, name: str) -> None:
        """Open `name`.ipynb and wait for its kernel."""
        self.page.goto(
            f"{self.server.url}lab/tree/{name}.ipynb?reset&token={self.server.token}",
            timeout=120 * SECOND,
        )
        self.page.wait_for_selector(IDLE, timeout=120 * SECOND)

    def reload(self) -> None:
        """Reload the page until the apps are there.

        JupyterLab gives up if a busy kernel has not sent an app within two seconds.
        """
        lost = self.page.get_by_text("Error displaying widget")
        for _ in range(5):
            self.page.reload()
            self.page.wait_for_selector(IDLE, timeout=60 * SECOND)
            self.page.locator(".alibi-app").or_(lost).first.wait_for(timeout=60 * SECOND)
            if lost.count() == 0:
                return
            self.problems.clear()

    def start_all(self) -> None:
        """Run all cells, without waiting for their end.

        The stored outputs are cleared first, so everything visible afterwards is new.
        """
        self.command("Edit", "editmenu:clear-all")
        self.page.wait_for_function(
            "![...document.querySelectorAll('.jp-OutputArea-child')].length"
        )
        self.command("Run", "runmenu:run-all")
        self.page.wait_for_function(STARTED, timeout=60 * SECOND)

    def run_all(self, timeout: float = 120) -> None:
        """Run all cells and wait until they are done."""
        self.start_all()
        self.wait_until_run(timeout)

    def wait_until_run(self, timeout: float = 120) -> None:
        """Wait until every visible cell has an execution count, and then for hidden ones.

        Each wait takes at most `timeout` seconds.
        """
        self.page.wait_for_function(ALL_RUN, timeout=timeout * SECOND)
        self.page.wait_for_selector(IDLE, timeout=timeout * SECOND)

    def wait_until_quiet(self) -> None:
        """Wait until the kernel has been idle for 30 frames.

        ipywidgets holds back a value until the kernel has answered the one before.
        """
        self.page.evaluate(IDLE_FOR_30_FRAMES, KERNEL_STATE)

    def command(self, menu: str, name: str) -> None:
        """Choose an entry of the menu bar by its command."""
        self.page.click(f".lm-MenuBar-item >> text={menu}")
        self.page.click(f'.lm-Menu-item[data-command="{name}"]')

    def choose_theme(self, name: str) -> None:
        """Choose a theme in the menu, and wait until the page wears it."""
        self.page.click(".lm-MenuBar-item >> text=Settings")
        self.page.hover(".lm-Menu-item >> text=Theme")
        self.page.click(f'.lm-Menu-item[data-command="apputils:change-theme"] >> text="{name}"')
        self.page.wait_for_selector(f'body[data-jp-theme-name="{name}"]', state="attached")
        # Meanwhile, JupyterLab veils the page.
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def errors(self) -> list[str]:
        """Errors in the outputs: tracebacks, stderr, widgets that could not be displayed."""
        tracebacks = self.page.locator('[data-mime-type="application/vnd.jupyter.error"]')
        stderr = self.page.locator('[data-mime-type="application/vnd.jupyter.stderr"]')
        missing_widgets = self.page.get_by_text("Error displaying widget")
        texts = []
        for errors in (tracebacks, stderr, missing_widgets):
            texts += errors.all_inner_texts()
        return texts

    def app(self, number: int = 0, css: str = ".alibi-app") -> Locator:
        """Scroll to an app, or to a guess: 0 is the first in the notebook, -1 the last."""
        app = self.page.locator(css).nth(number)
        app.wait_for(timeout=60 * SECOND)
        app.scroll_into_view_if_needed()
        return app

    def caption(self, number: int = 0) -> str:
        """The caption of an app."""
        return str(self.app(number).locator(".alibi-caption").text_content())

    def picture(self, number: int = 0) -> bytes:
        """A screenshot (PNG) of an app's plot, for comparison with a later one."""
        return self.settle(number).locator(".js-plotly-plot").first.screenshot()

    def press_slider(self, css: str, key: str = "ArrowRight", number: int = 0) -> None:
        """Focus the slider with this CSS class in an app and press a key on it."""
        self.app(number).locator(f".{css} .noUi-handle").first.press(key)

    def wait_for_caption(self, part: str, number: int = 0, timeout: float = 30) -> None:
        """Wait until the caption of an app contains the text."""
        caption = self.app(number).locator(".alibi-caption").filter(has_text=part)
        caption.wait_for(timeout=timeout * SECOND)

    def wait_for_new_picture(self, before: bytes, number: int = 0, timeout: float = 10) -> bytes:
        """Wait until an app's plot differs from an earlier `picture`, and return the new one."""
        end = time.monotonic() + timeout
        picture = before
        while picture == before:
            assert time.monotonic() < end, f"the picture has not changed within {timeout} s"
            picture = self.picture(number)
        return picture

    def settle(self, number: int = 0) -> Locator:
        """Scroll to an app and wait until its plots fill their containers and are painted.

        Whole heatmaps of BiasExplorer seldom fill the width, so a narrower plot may stay so if it
        no longer changes.
        """
        app = self.app(number)
        app.evaluate(PLOTS_FILL_THE_WIDTH)
        return app

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not HARMLESS.search(f"{message.text} {message.location}"):
            self.problems.append(f"console: {message.text} {message.location}")

    def _on_request(self, request: Request) -> None:
        websockets = self.server.url.replace("http", "ws", 1)
        if not request.url.startswith((self.server.url, websockets, "data:", "blob:")):
            self.problems.append(f"request to another host: {request.url}")
