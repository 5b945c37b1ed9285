"""A notebook in JupyterLab in a browser, driven as a person would: open, run all, press a key on a slider, look."""

import re
import time

from playwright.sync_api import ConsoleMessage, Locator, Page, Request
from playwright.sync_api import TimeoutError as TooLate

from tests.browser.jupyter import Server

# What a healthy JupyterLab says anyway.
HARMLESS = re.compile(
    r"Kernel is running over TCP without encryption|Notebook is not trusted|is not trusted|news|favicon"
    r"|Error retrieving list of .*news|the server responded with a status of 404.*workspaces"
)
SECOND = 1000  # playwright counts milliseconds
STARTED = r"[...document.querySelectorAll('.jp-InputPrompt')].some(prompt => /\[[*\d]+\]/.test(prompt.innerText))"


class NotebookPage:
    """One browser tab with one notebook.

    `problems` collects uncaught errors, errors on the console, and requests to any other host: the apps work offline.
    """

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server = page, server
        self.problems: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        page.on("request", self._asked)

    def open(self, name: str) -> None:
        """Open `name`.ipynb and wait for its kernel; try once more, since a first start can be lost."""
        address = f"{self.server.url}lab/tree/{name}.ipynb?reset&token={self.server.token}"
        ready = '.jp-Notebook-ExecutionIndicator[data-status="idle"]'
        try:
            self.page.goto(address)
            self.page.wait_for_selector(ready, timeout=60 * SECOND)
        except TooLate:
            self.page.goto(address)
            self.page.wait_for_selector(ready, timeout=90 * SECOND)

    def start_all(self) -> None:
        """Clear the stored outputs, so that all seen from here on is new, and run every cell."""
        self.command("Edit", "editmenu:clear-all")
        self.page.wait_for_function("![...document.querySelectorAll('.jp-OutputArea-child')].length")
        for patience in (10, 20, 30):
            self.command("Run", "runmenu:run-all")
            try:
                self.page.wait_for_function(STARTED, timeout=patience * SECOND)
                return
            except TooLate:  # a kernel that has only just said "idle" sometimes drops what it is sent
                continue
        raise TooLate("no cell has started to run")

    def run_all(self, timeout: float = 120) -> None:
        """Run every cell and wait until all are done."""
        self.start_all()
        self.wait_until_run(timeout)

    def wait_until_run(self, timeout: float = 120) -> None:
        """Wait, at most `timeout` seconds, until each cell has its number."""
        self.page.wait_for_function(
            """() => [...document.querySelectorAll('.jp-CodeCell')]
                .filter(cell => cell.querySelector('.cm-content')?.innerText.trim())
                .every(cell => /\\[\\d+\\]/.test(cell.querySelector('.jp-InputPrompt')?.innerText))""",
            timeout=timeout * SECOND,
        )

    def command(self, menu: str, name: str) -> None:
        """Choose an entry of the menu bar by its command."""
        self.page.click(f".lm-MenuBar-item >> text={menu}")
        self.page.click(f'.lm-Menu-item[data-command="{name}"]')

    def errors(self) -> list[str]:
        """What went wrong in the outputs: tracebacks, stderr, widgets that could not be shown."""
        kinds = ("application/vnd.jupyter.error", "application/vnd.jupyter.stderr")
        found = self.page.locator(", ".join(f'[data-mime-type="{kind}"]' for kind in kinds)).all_inner_texts()
        return found + self.page.get_by_text("Error displaying widget").all_inner_texts()

    def app(self, number: int = 0) -> Locator:
        """An app in the notebook, counted from the top, -1 the last; scrolled to."""
        app = self.page.locator(".alibi-app").nth(number)
        app.wait_for(timeout=60 * SECOND)
        app.scroll_into_view_if_needed()
        return app

    def caption(self, number: int = 0) -> str:
        """What an app says it shows."""
        return str(self.app(number).locator(".alibi-caption").text_content())

    def picture(self, number: int = 0) -> bytes:
        """An app's plot as the screen shows it, PNG; two of them differ when the picture has changed."""
        return self.settle(number).locator(".js-plotly-plot").first.screenshot()

    def press_slider(self, css: str, key: str = "ArrowRight", times: int = 1, number: int = 0) -> None:
        """Focus the slider with this CSS class in an app and press a key on it."""
        handle = self.app(number).locator(f".{css} .noUi-handle").first
        handle.focus()
        for _ in range(times):
            handle.press(key)

    def wait_for_text(self, text: str | re.Pattern[str], timeout: float = 30) -> None:
        """Wait until some visible element holds the text."""
        self.page.get_by_text(text).locator("visible=true").first.wait_for(timeout=timeout * SECOND)

    def wait_for_caption(self, part: str, number: int = 0, timeout: float = 30) -> None:
        """Wait until an app's caption holds the text."""
        words = self.app(number).locator(".alibi-caption")
        words.filter(has_text=part).wait_for(timeout=timeout * SECOND)

    def wait_for_new_picture(self, before: bytes, number: int = 0, timeout: float = 10) -> bytes:
        """Wait until an app's plot differs from an earlier `picture`, and give the new one."""
        end = time.monotonic() + timeout
        while (picture := self.picture(number)) == before:
            assert time.monotonic() < end, f"the picture has not changed in {timeout} s"
        return picture

    def settle(self, number: int = 0) -> Locator:
        """Scroll to an app and let the browser paint it: plots as wide as their place, and two frames."""
        app = self.app(number)
        app.evaluate(
            """async app => {
                const frame = () => new Promise(requestAnimationFrame);
                const fits = plot => Math.abs(plot.offsetWidth - plot.querySelector('.main-svg').clientWidth) < 2;
                const plots = [...app.querySelectorAll('.js-plotly-plot')];
                for (let n = 0; n < 600 && !plots.every(fits); n++) await frame();
                await frame(), await frame();
            }"""
        )
        return app

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not HARMLESS.search(f"{message.text} {message.location}"):
            self.problems.append(f"console: {message.text} {message.location}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.server.url, "ws" + self.server.url[4:], "data:", "blob:")):
            self.problems.append(f"request to another host: {request.url}")
