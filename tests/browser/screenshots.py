"""Photograph the apps of the lessons in a running JupyterLab, for the README and for readers without a kernel.

    make screenshots                 every picture of every lesson, into notebooks/images/
    make screenshots ONLY=01_slopes  those of one of them

A lesson asks for a picture by showing it: for ![...](images/NAME.png) the cells above it are run, and the app shown
last is photographed. An app with a Train button is trained first, and photographed twice: half-way, as NAME-live.png,
and at the end.
"""

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from PIL import Image
from playwright.sync_api import Browser, Locator

from tests.browser import chromium, jupyter
from tests.browser.jupyter import NOTEBOOKS, Server
from tests.browser.notebook_page import NotebookPage

IMAGES = NOTEBOOKS / "images"
WIDTH, HEIGHT = 1400, 1200  # the app and its caption fit on the screen, beside JupyterLab's file browser
ASKED = re.compile(r"!\[[^\]]*\]\(images/([^)\s]+)\.png\)")


def pictures(lesson: str) -> Iterator[tuple[str, list[str]]]:
    """What a lesson asks for: the name of each picture, and the code above it."""
    code: list[str] = []
    for cell in nbformat.read(NOTEBOOKS / f"{lesson}.ipynb", as_version=4).cells:
        if cell.cell_type == "code":
            code.append(cell.source)
        for name in ASKED.findall(cell.source):
            if not name.endswith("-live"):  # comes with the picture of the race's end
                yield name, list(code)


def photograph(name: str, code: list[str], browser: Browser, server: Server) -> None:
    """Run the code in JupyterLab and write the picture of the app it shows last."""
    server.write(f"photograph of {name}", *code)
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    notebook = NotebookPage(context.new_page(), server)
    notebook.open(f"photograph of {name}")
    notebook.run_all()
    if notebook.app(-1).locator(".s-train").count():
        train(notebook, IMAGES / f"{name}-live.png")
    if errors := notebook.errors():
        sys.exit(f"{name} shows errors:\n{errors[0]}")
    save(notebook.settle(-1), IMAGES / f"{name}.png")
    context.close()
    server.stop_kernels()


def train(notebook: NotebookPage, live: Path) -> None:
    """Press Train, photograph the race when a progress bar has passed its middle, and wait for its end."""
    app = notebook.app(-1)
    app.locator(".s-train").click()
    notebook.page.wait_for_function(
        """() => [...document.querySelectorAll('.alibi-app .progress-bar')]
            .some(bar => bar.offsetWidth > 0.5 * bar.parentElement.offsetWidth)""",
        timeout=120_000,
    )
    save(app, live)
    app.locator(".s-stop:disabled").wait_for(timeout=120_000)


def save(element: Locator, path: Path) -> None:
    """Write what an element looks like as a small PNG."""
    picture = Image.open(io.BytesIO(element.screenshot())).convert("RGB")
    picture.save(path, optimize=True)
    print(f"{path.name}: {picture.width} x {picture.height}, {path.stat().st_size / 1000:.0f} kB", flush=True)


def main(names: list[str]) -> None:
    """Photograph the named lessons, or all."""
    known = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"no notebook {', '.join(unknown)}; there are: {', '.join(known)}")
    IMAGES.mkdir(exist_ok=True)
    with chromium.launch() as browser, jupyter.serve() as server:
        for lesson in names or known:
            for name, code in pictures(lesson):
                photograph(name, code, browser, server)


if __name__ == "__main__":
    main(sys.argv[1:])
