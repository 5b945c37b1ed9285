"""Photograph the apps of the lessons in a running JupyterLab, for the README and for readers without a kernel.

    make screenshots                 every lesson's app, into notebooks/images/LESSON.png
    make screenshots ONLY=01_slopes  one of them

A lesson that trains is photographed twice: half-way, as LESSON-live.png, and at its end.
"""

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Locator

from tests.browser import chromium, jupyter
from tests.browser.jupyter import NOTEBOOKS, Server
from tests.browser.notebook_page import NotebookPage

IMAGES = NOTEBOOKS / "images"
WIDTH, HEIGHT = 1400, 1200  # the app and its caption fit on the screen, beside JupyterLab's file browser
COLOURS = 256  # a palette makes a plot a third of its size; the eye sees no difference
LIVE = "04_train_short_test_long"


def photograph(name: str, browser: Browser, server: Server) -> None:
    """Run one lesson and write its picture or pictures."""
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    notebook = NotebookPage(context.new_page(), server)
    notebook.open(name)
    if name == LIVE:
        notebook.start_all()
        halfway(notebook)
        save(notebook.app(), IMAGES / f"{name}-live.png")
        notebook.wait_until_run()
    else:
        notebook.run_all()
    if errors := notebook.errors():
        sys.exit(f"{name} shows errors:\n{errors[0]}")
    notebook.settle()
    save(notebook.app(), IMAGES / f"{name}.png")
    context.close()
    server.stop_kernels()


def halfway(notebook: NotebookPage) -> None:
    """Wait until a progress bar of the first app has passed its middle."""
    notebook.app()
    notebook.page.wait_for_function(
        """() => [...document.querySelectorAll('.alibi-app .progress-bar')]
            .some(bar => bar.offsetWidth > 0.5 * bar.parentElement.offsetWidth)""",
        timeout=120_000,
    )


def save(element: Locator, path: Path) -> None:
    """Write what an element looks like as a small PNG."""
    picture = Image.open(io.BytesIO(element.screenshot())).convert("RGB")
    picture.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {picture.width} x {picture.height}, {path.stat().st_size / 1000:.0f} kB", flush=True)


def main(names: list[str]) -> None:
    """Photograph the named lessons, or all."""
    known = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"no notebook {', '.join(unknown)}; there are: {', '.join(known)}")
    IMAGES.mkdir(exist_ok=True)
    with chromium.launch() as browser, jupyter.serve() as server:
        for name in names or known:
            photograph(name, browser, server)


if __name__ == "__main__":
    main(sys.argv[1:])
