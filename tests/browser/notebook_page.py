"""A notebook in JupyterLab, operated as a user would: open it, run all cells, press keys on
sliders."""

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
STARTED = r"[...document.querySelectorAll('.jp-InputPrompt')].some(prompt => /\[[*\d]+\]/.test(prompt.innerText))"


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
        self.page, self.server = page, server
        self.problems: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        page.on("request", self._on_request)

    def show(self, *cells: str) -> None:
        """Run these cells after an import of `widgets`, in the kernel that tests share; none may
        have an error."""
        self.write(*cells)
        self.run_all()
        assert self.errors() == []

    def write(self, *cells: str) -> None:
        """Open a new notebook with an import of `widgets` and these cells, connected to the kernel
        that tests share."""
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
        """Reload the page; again if a busy kernel has not sent an app within two seconds, where
        JupyterLab gives up."""
        lost = self.page.get_by_text("Error displaying widget")
        for _ in range(5):
            self.page.reload()
            self.page.wait_for_selector(IDLE, timeout=60 * SECOND)
            self.page.locator(".alibi-app").or_(lost).first.wait_for(timeout=60 * SECOND)
            if lost.count() == 0:
                return
            self.problems.clear()

    def start_all(self) -> None:
        """Clear the stored outputs, so that everything visible afterwards is new, and run all
        cells."""
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
        """Wait at most `timeout` seconds until every visible cell has an execution count, and then
        for hidden ones."""
        self.page.wait_for_function(
            """() => [...document.querySelectorAll('.jp-CodeCell')]
                .filter(cell => cell.querySelector('.cm-content')?.innerText.trim())
                .every(cell => /\\[\\d+\\]/.test(cell.querySelector('.jp-InputPrompt')?.innerText))""",
            timeout=timeout * SECOND,
        )
        self.page.wait_for_selector(IDLE, timeout=timeout * SECOND)

    def wait_until_quiet(self) -> None:
        """Wait until the kernel is idle for 30 frames: ipywidgets holds back a value until it has
        answered the last."""
        self.page.evaluate(
            """async idle => {
                for (let still = 0; still < 30; await new Promise(requestAnimationFrame))
                    still = document.querySelector(idle)?.innerText.endsWith('| Idle') ? still + 1 : 0;
            }""",
            ".jp-StatusBar-TextItem[title^='Change kernel']",
        )

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

    def errors(self) -> list[str]:
        """Errors in the outputs: tracebacks, stderr, widgets that could not be displayed."""
        kinds = ("application/vnd.jupyter.error", "application/vnd.jupyter.stderr")
        texts = self.page.locator(
            ", ".join(f'[data-mime-type="{kind}"]' for kind in kinds)
        ).all_inner_texts()
        return texts + self.page.get_by_text("Error displaying widget").all_inner_texts()

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
        self.app(number).locator(".alibi-caption").filter(has_text=part).wait_for(
            timeout=timeout * SECOND
        )

    def wait_for_new_picture(self, before: bytes, number: int = 0, timeout: float = 10) -> bytes:
        """Wait until an app's plot differs from an earlier `picture`, and return the new one."""
        end = time.monotonic() + timeout
        while (picture := self.picture(number)) == before:
            assert time.monotonic() < end, f"the picture has not changed within {timeout} s"
        return picture

    def settle(self, number: int = 0) -> Locator:
        """Scroll to an app and wait until its plots fill their containers and are painted.

        Whole heatmaps of BiasExplorer seldom fill the width, so a narrower plot may stay so if it
        no longer changes.
        """
        app = self.app(number)
        app.evaluate(
            """async app => {
                const frame = () => new Promise(requestAnimationFrame);
                const plots = [...app.querySelectorAll('.js-plotly-plot')];
                const space = () => plots.map(p => p.offsetWidth - p.querySelector('.main-svg').clientWidth);
                let before = space(), still = 0;  // frames
                for (let n = 0; n < 600 && still < 30 && !before.every(s => Math.abs(s) < 2); n++) {
                    await frame();
                    const now = space();
                    still = now.every((s, i) => s === before[i] && s > -2) ? still + 1 : 0;
                    before = now;
                }
                await frame(), await frame();
            }"""
        )
        return app

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not HARMLESS.search(f"{message.text} {message.location}"):
            self.problems.append(f"console: {message.text} {message.location}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith(
            (self.server.url, "ws" + self.server.url[4:], "data:", "blob:")
        ):
            self.problems.append(f"request to another host: {request.url}")
