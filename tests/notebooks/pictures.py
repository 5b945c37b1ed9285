"""Put a picture of each app into the lessons, beside the app's text output, and renew the pictures of the README.

    make screenshots                 every lesson
    make screenshots ONLY=01_slopes  one of them

With a kernel a reader sees the app, without one the picture. For each output that shows an app, the code up to its
cell runs in JupyterLab, and the app shown last is captured. An app with a Train button is trained first. If it asks for
guesses, we guess that every method fails.

The README may link notebooks/images/LESSON.png, the first app of a lesson, and LESSON-live.png, the same app half-way
through training.
"""

import base64
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from PIL import Image
from playwright.sync_api import Browser, Locator

from tests.browser import chromium, jupyter
from tests.browser.jupyter import Server
from tests.browser.notebook_page import NotebookPage
from tests.notebooks.lessons import FOLDER, app_outputs, named, read

README = FOLDER.parent / "README.md"
WIDTH, HEIGHT = 1400, 1600  # an app and its caption fit on the screen, beside JupyterLab's file browser


def renew(paths: list[Path]) -> None:
    """Renew the pictures in these lessons and those that the README shows of them."""
    linked = set(re.findall(r"\(notebooks/images/([^)\s]+)\.png\)", README.read_text(encoding="utf-8")))
    with chromium.launch() as browser, jupyter.serve() as server:
        for path in paths:
            notebook = read(path)
            for number, (code, output) in enumerate(app_outputs(notebook)):
                shots, caption = capture(f"{path.stem}-{number}", code, browser, server)
                output.data["image/png"] = base64.b64encode(shots[""]).decode()
                output.metadata["image/png"] = {"alt": f"Screenshot of the app. Its caption: {caption}"}
                for suffix, png in shots.items():
                    if number == 0 and path.stem + suffix in linked:
                        (FOLDER / "images" / f"{path.stem}{suffix}.png").write_bytes(png)
            nbformat.write(notebook, path)


def capture(name: str, code: list[str], browser: Browser, server: Server) -> tuple[dict[str, bytes], str]:
    """Run the code in JupyterLab, and return PNGs of the app it shows last, and its caption.

    The PNGs are "", and "-live" half-way through training.
    """
    with run(name, code, browser, server) as notebook:
        shots = {}
        app = notebook.app(-1)
        if app.locator(".s-train").count():
            for button in app.locator(".s-guesses button:visible", has_text="fails").all():
                button.click()
            shots["-live"] = train(notebook)
        if errors := notebook.errors():
            sys.exit(f"{name} shows errors:\n{errors[0]}")
        shots[""], caption = png(notebook.settle(-1)), notebook.caption(-1)
    print(f"{name}: {len(shots['']) / 1000:.0f} kB", flush=True)
    return shots, caption


@contextmanager
def run(name: str, code: list[str], browser: Browser, server: Server) -> Iterator[NotebookPage]:
    """A page on which the code has run, closed afterwards together with its kernel."""
    server.write(name, *code)
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    notebook = NotebookPage(context.new_page(), server)
    notebook.open(name)
    notebook.run_all(timeout=300)
    yield notebook
    context.close()
    server.clean_kernels()


def train(notebook: NotebookPage) -> bytes:
    """Press Train, capture the app when a progress bar has passed its middle, and wait until all are full."""
    app = notebook.app(-1)
    app.locator(".s-train").click()
    app.locator(".s-stop:enabled").wait_for(timeout=300_000)  # the kernel has begun
    notebook.page.wait_for_function(
        """app => [...app.querySelectorAll('.progress-bar')]
            .some(bar => bar.offsetWidth > 0.5 * bar.parentElement.offsetWidth)""",
        arg=app.element_handle(),
        timeout=300_000,
    )
    live = png(app)
    app.locator(".s-stop:disabled").wait_for(timeout=300_000)
    return live


def png(element: Locator) -> bytes:
    """A screenshot of an element. Its background is white, so it can be read on a dark page as well."""
    file = io.BytesIO()
    Image.open(io.BytesIO(element.screenshot())).convert("RGB").save(file, "PNG", optimize=True)
    return file.getvalue()


if __name__ == "__main__":
    renew(named(sys.argv[1:]))
