"""A saved app looks like its figure on the screen: in a file of any format, and in a notebook."""

import io
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Browser, Page
from plotly.offline import get_plotlyjs

from alibi_viz import widgets
from alibi_viz.figures import theme
from alibi_viz.widgets import App
from alibi_viz.widgets.core.plot import Plot
from tests.browser.chromium import DEADLINE

Pictures = dict[str, Image.Image]  # by the name of the app

APPS = [name for name in widgets.__all__ if name != "App"]
WIDTH = 900  # pixels
# Pictures are compared in blocks of 8 x 8 pixels. A PNG with twice the pixels, or a figure that
# begins at half a pixel, changes the mean of a block by up to 40 of 255.
BLOCK = 8
VISIBLE = 60
DRAW = """async ([name, figure]) => {
    const place = document.body.appendChild(document.createElement("div"));
    place.id = name;
    await Plotly.newPlot(place, JSON.parse(figure));
}"""


@pytest.fixture(scope="module")
def apps() -> Iterator[dict[str, App]]:
    """Every app on a page of 900 pixels."""
    apps = {name: getattr(widgets, name)() for name in APPS}
    for app in apps.values():
        app.fit(WIDTH)
    yield apps
    for app in apps.values():
        app.close()


@pytest.fixture(scope="module")
def folder(apps: dict[str, App], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every app in every format, drawn by one browser: `save` alone would start 42."""
    folder = tmp_path_factory.mktemp("saved")
    images: dict[str | Path, go.Figure] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theme, "save_images", images.update)
        for name, app in apps.items():
            for suffix in ("png", "svg", "pdf", "html"):
                app.save(folder / f"{name}.{suffix}")
    theme.save_images(images)
    return folder


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.set_default_timeout(DEADLINE * 1000)
    yield page
    page.close()


@pytest.fixture(scope="module")
def screen(browser: Browser, apps: dict[str, App]) -> Iterator[Page]:
    """A page with the figure of every app."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 700})
    page.set_default_timeout(DEADLINE * 1000)
    page.set_content("<body style='margin: 0'>")
    page.add_script_tag(content=get_plotlyjs())
    for name, app in apps.items():
        page.evaluate(DRAW, [name, app.figure.to_json()])
    yield page
    page.close()


@pytest.fixture(scope="module")
def expected(screen: Page) -> Pictures:
    """What the screen shows."""
    return screenshots(screen, ".svg-container")


def opened(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png), formats=["PNG"]).convert("RGB")


def screenshots(page: Page, css: str) -> Pictures:
    """Elements of a page, of which there is one for each app, in this order."""
    whole = opened(page.screenshot(full_page=True))
    pictures = {}
    for name, element in zip(APPS, page.locator(css).all(), strict=True):
        box = element.bounding_box()
        assert box is not None
        left, top = round(box["x"]), round(box["y"])
        right, bottom = left + round(box["width"]), top + round(box["height"])
        pictures[name] = whole.crop((left, top, right, bottom))
    return pictures


def difference(picture: Image.Image, expected: Image.Image) -> float:
    """The share of their blocks in which two pictures of a figure differ visibly."""
    size = (expected.width // BLOCK, expected.height // BLOCK)
    blocks = picture.resize(size, Image.Resampling.BOX)
    expected_blocks = expected.resize(size, Image.Resampling.BOX)
    by_channel = np.asarray(ImageChops.difference(blocks, expected_blocks))
    return float((by_channel.max(axis=-1) > VISIBLE).mean())


def unlike(pictures: Pictures, expected: Pictures) -> dict[str, float]:
    """The apps of which more than one block in 500 differs, and how many do."""
    shares = {name: difference(pictures[name], expected[name]) for name in APPS}
    return {name: round(share, 3) for name, share in shares.items() if share > 0.002}


def test_a_saved_png_looks_like_the_screen(folder: Path, expected: Pictures) -> None:
    pictures = {name: opened((folder / f"{name}.png").read_bytes()) for name in APPS}
    assert unlike(pictures, expected) == {}


def test_a_saved_svg_looks_like_the_screen(page: Page, folder: Path, expected: Pictures) -> None:
    images = [f"<img src={name}.svg>" for name in APPS]
    (folder / "images.html").write_text("\n".join(images), encoding="utf-8")
    page.goto((folder / "images.html").as_uri())
    pictures = screenshots(page, "img")
    assert unlike(pictures, expected) == {}


def test_a_saved_page_looks_like_the_screen(page: Page, folder: Path, expected: Pictures) -> None:
    saved = [(folder / f"{name}.html").read_text(encoding="utf-8") for name in APPS]
    # All below each other and with one library, because the browser needs a second for each
    first, *others = saved
    others = [text.replace(get_plotlyjs(), "") for text in others]
    (folder / "all.html").write_text(first + "".join(others), encoding="utf-8")
    page.goto((folder / "all.html").as_uri())
    pictures = screenshots(page, ".svg-container")
    assert unlike(pictures, expected) == {}


def test_a_saved_pdf_looks_like_the_screen(page: Page, folder: Path, expected: Pictures) -> None:
    if not page.evaluate("navigator.pdfViewerEnabled"):
        pytest.skip("this browser shows no PDF: install Chromium 112 or later")
    # All are on the screen, because a viewer draws nothing else.
    page.set_viewport_size({"width": 1900, "height": 470 * (len(APPS) // 2 + 1)})
    files = [f"<embed src='{name}.pdf#toolbar=0' width=930 height=460>" for name in APPS]
    (folder / "pages.html").write_text("\n".join(files), encoding="utf-8")
    page.goto((folder / "pages.html").as_uri())
    end = time.monotonic() + DEADLINE
    while True:  # nothing tells when a viewer has drawn its page
        viewers = screenshots(page, "embed")
        pictures = {name: sheet(viewer) for name, viewer in viewers.items()}
        different = unlike(pictures, expected)
        if not different or time.monotonic() > end:
            break
        page.wait_for_timeout(500)  # leaves the processor to the viewers
    assert different == {}


def sheet(viewer: Image.Image) -> Image.Image:
    """What a viewer shows without the dark background around the page."""
    return viewer.crop(viewer.convert("L").point(lambda gray: gray > 128 and 255).getbbox())


def test_a_saved_notebook_keeps_a_picture_like_the_screen(screen: Page, expected: Pictures) -> None:
    script = f"{Plot._esm}\nwindow.png = png;"
    screen.add_script_tag(type="module", content=script)
    screen.wait_for_function("typeof png === 'function'")
    pictures = {}
    for name in APPS:
        picture = screen.evaluate("name => png(document.getElementById(name))", name)
        pictures[name] = opened(b64decode(picture))
    assert unlike(pictures, expected) == {}
