"""Operate a notebook in JupyterLab as a user would: run cells, press keys on sliders."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, ViewportSize

from tests.browser.chromium import DEADLINE
from tests.browser.jupyter import Server

# Messages of a healthy JupyterLab. It cancels what it has asked a kernel when a notebook is closed.
HARMLESS = re.compile(
    r"Kernel is running over TCP without encryption|is not trusted|news|favicon"
    r"|the server responded with a status of 404.*workspaces"
    r"|Canceled future for \w+ message before replies were done"
)
SECOND = 1000  # playwright counts milliseconds
LAPTOP = ViewportSize(width=1366, height=768)
LINE = 22  # pixels: how much higher a text may be with the fonts of another machine
# anywidget gives up on a part of an app that isn't ready within two seconds, and a busy machine may
# take longer. A part that never gets ready still fails its test, which waits for it.
NO_TIME_LIMIT = "AbortSignal.timeout = () => new AbortController().signal;"
OPEN = "path => void jupyterapp.commands.execute('docmanager:open', { path })"
CLOSE = "() => [...jupyterapp.shell.widgets('main')].forEach(widget => widget.dispose())"
# Keep account of what the page has sent to the kernel, until the kernel has done it and the page
# has dealt with the answer. The kernel does not answer what comes while a cell awaits something, so
# after a cell we ask it once more: when it answers that, it has done all that came before. Returns
# whether there is a kernel yet.
WATCH_KERNEL = """() => {
    const kernel = jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel;
    if (!kernel) return false;
    const unanswered = window.unanswered = new Set();
    kernel.anyMessage.connect((_, { direction, msg }) => {
        if (direction === 'send' && msg.channel === 'shell') unanswered.add(msg.header.msg_id);
    });
    const before = [];  // sent before we asked
    kernel.iopubMessage.connect((_, { header, content, parent_header: request }) => {
        if (header.msg_type !== 'status' || content.execution_state !== 'idle') return;
        unanswered.delete(request.msg_id);
        if (request.msg_type === 'execute_request') {
            before.push(...unanswered);
            kernel.requestKernelInfo();
        } else if (request.msg_type === 'kernel_info_request') {
            before.splice(0).forEach(id => unanswered.delete(id));
        }
    });
    kernel.statusChanged.connect((_, status) => {
        if (status.includes('restarting')) unanswered.clear();
    });
    return true;
}"""
# The kernel has done all that the page has asked for, and the page asks for no more. Once all
# values have arrived, an app lets a click go on within 20 ms: on any machine, the timer for 50 ms
# ends later. Within the frames, a page reports a new width, draws, and scrolls to a new app.
QUIET = """async () => {
    const frame = () => new Promise(requestAnimationFrame);
    let isQuiet = false;
    while (!isQuiet) {
        while (unanswered.size) await frame();
        isQuiet = true;
        await new Promise(done => setTimeout(done, 50));
        for (let n = 0; n < 5; n++) {
            isQuiet &&= !unanswered.size;
            await frame();
        }
    }
    return true;
}"""
WATCH_SAVE = """() => {
    const { saveState } = jupyterapp.shell.currentWidget.context;
    window.isSaved = false;
    saveState.connect((_, state) => { window.isSaved ||= state === 'completed'; });
}"""
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
# plotly has drawn every figure of an app.
DRAWN = """app => {
    const figures = [...app.querySelectorAll('.alibi-figure')];
    return figures.length && figures.every(figure => figure.querySelector('.main-svg'));
}"""


@contextmanager
def new_tab(
    browser: Browser, server: Server, size: ViewportSize = LAPTOP
) -> Iterator["NotebookPage"]:
    """A new tab of this size in pixels, closed afterwards together with its kernel."""
    context = browser.new_context(viewport=size)
    context.set_default_timeout(DEADLINE * SECOND)
    context.add_init_script(NO_TIME_LIMIT)
    try:
        yield NotebookPage(context.new_page(), server)
    finally:
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
        page.on("pageerror", self._on_error)
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
        """Open `name`.ipynb and wait for its kernel.

        The first one is opened by its address. The others are opened in the same JupyterLab, which
        takes longer to load than most tests.
        """
        if self.page.url == "about:blank":
            address = f"{self.server.url}lab/tree/{name}.ipynb?reset&token={self.server.token}"
            self.page.goto(address)
        else:
            self.close()
            self.page.evaluate(OPEN, f"{name}.ipynb")
        self._wait_for_kernel()

    def close(self) -> None:
        """Close the notebook, and the other tabs that show it. JupyterLab stays."""
        for other in self.page.context.pages:
            if other != self.page:
                other.close()
        if self.page.url != "about:blank":
            self.page.evaluate(CLOSE)

    def reload(self) -> None:
        """Reload the page until the apps are there.

        JupyterLab gives up if a busy kernel has not sent an app within two seconds.
        """
        problems_before = self.problems.copy()
        lost = self.page.get_by_text("Error displaying widget")
        end = time.monotonic() + DEADLINE
        while True:
            self.page.reload()
            self._wait_for_kernel()
            self.page.locator(".alibi-app").or_(lost).first.wait_for()
            if lost.count() == 0:
                return
            assert time.monotonic() < end, "JupyterLab does not get the app from the kernel"
            self.problems = problems_before.copy()

    def _wait_for_kernel(self) -> None:
        self.page.wait_for_selector(IDLE)
        self.page.wait_for_function(WATCH_KERNEL)

    def start_all(self) -> None:
        """Run all cells, without waiting for their end.

        The stored outputs are cleared first, so everything visible afterwards is new.
        """
        self.command("Edit", "editmenu:clear-all")
        self.page.wait_for_function(
            "![...document.querySelectorAll('.jp-OutputArea-child')].length"
        )
        self.command("Run", "runmenu:run-all")
        self.page.wait_for_function(STARTED)

    def run_all(self) -> None:
        """Run all cells and wait until they are done."""
        self.start_all()
        self.wait_until_run()

    def wait_until_run(self) -> None:
        """Wait until every visible cell has an execution count, and then for hidden ones."""
        self.page.wait_for_function(ALL_RUN)
        self.page.wait_for_selector(IDLE)

    def wait_until_quiet(self) -> None:
        """Wait until the kernel has done all that the page has asked for, and it is drawn."""
        self.page.wait_for_function(QUIET)

    def command(self, menu: str, name: str) -> None:
        """Choose an entry of the menu bar by its command."""
        self.page.click(f".lm-MenuBar-item >> text={menu}")
        self.page.click(f'.lm-Menu-item[data-command="{name}"]')

    def save(self) -> None:
        """Save the notebook, and wait until it is saved."""
        self.page.evaluate(WATCH_SAVE)
        self.page.keyboard.press("Control+s")
        self.page.wait_for_function("isSaved")

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
        app.wait_for()
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

    def wait_for_caption(self, part: str, number: int = 0) -> None:
        """Wait until the caption of an app contains the text."""
        self.app(number).locator(".alibi-caption").filter(has_text=part).wait_for()

    def settle(self, number: int = 0, css: str = ".alibi-app") -> Locator:
        """Scroll to an app or a guess, and wait until its figures fit the width of the page."""
        app = self.app(number, css)
        self.page.wait_for_function(DRAWN, arg=app.element_handle())
        self.wait_until_quiet()
        return app

    def _on_error(self, error: Exception) -> None:
        if not HARMLESS.search(str(error)):
            self.problems.append(f"uncaught: {error}")

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not HARMLESS.search(f"{message.text} {message.location}"):
            self.problems.append(f"console: {message.text} {message.location}")

    def _on_request(self, request: Request) -> None:
        websockets = self.server.url.replace("http", "ws", 1)
        if not request.url.startswith((self.server.url, websockets, "data:", "blob:")):
            self.problems.append(f"request to another host: {request.url}")
