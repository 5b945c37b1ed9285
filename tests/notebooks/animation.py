"""Make the README's first picture, notebooks/images/page.gif, from the page of `make docs`.

Three models write, two train after a guess, and at the end ALiBi's slopes are doubled: its words
suffer.

python -m tests.notebooks.animation
"""

import tempfile
from collections.abc import Iterator
from io import BytesIO

from PIL import Image
from playwright.sync_api import Page, ViewportSize

from docs.page.build import build_page
from tests.browser import chromium
from tests.notebooks.lessons import FOLDER

SIZE: ViewportSize = {"width": 1280, "height": 768}
_SMALL = (896, 538)  # pixels of the picture
_COLORS = 64
_SLOWER = 12  # times slower than usual, so that one can follow a text
_WRITING = 14  # frames of a text that is being written
# Milliseconds
_FRAME = 120
_TEST = 300  # how long the curves of a test are shown
_READ = 3000  # how long the end of a scene is shown
_POLL = 500
_PATIENCE = 900_000


def main() -> None:
    """Record all scenes, and write the picture."""
    frames: list[Image.Image] = []
    times: list[int] = []
    with tempfile.TemporaryDirectory() as folder, chromium.launch() as browser:
        page = browser.new_page(viewport=SIZE)
        page.goto(build_page(folder).as_uri())
        _wait_for_texts(page)
        scenes = [
            (_writing(page, "document.getElementById('again').click()"), _FRAME),
            (_training(page), _TEST),
            (_writing(page, _DOUBLE_THE_SLOPES), _FRAME),
        ]
        for scene, duration in scenes:
            for frame in scene:
                frames.append(frame.resize(_SMALL))
                times.append(duration)
            times[-1] = _READ
    first, *others = _with_common_colors(frames)
    first.save(
        FOLDER / "images" / "page.gif",
        save_all=True,
        append_images=others,
        duration=times,
        loop=0,
    )


_DOUBLE_THE_SLOPES = """() => {
    scrollTo(0, 0);
    const slider = document.getElementById("scale");
    slider.value = 1;
    slider.dispatchEvent(new Event("input"));
}"""


def _with_common_colors(frames: list[Image.Image]) -> list[Image.Image]:
    """The frames in the same few colors, so that a file stores only what changes between two."""
    width, height = _SMALL
    some = frames[:: len(frames) // 4]
    mosaic = Image.new("RGB", (width, height * len(some)))
    for place, frame in enumerate(some):
        mosaic.paste(frame, (0, place * height))
    # The octree keeps the rare colors of the curves, and the light ones of the bands apart.
    palette = mosaic.quantize(_COLORS, method=Image.Quantize.FASTOCTREE)
    return [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]


def _wait_for_texts(page: Page) -> None:
    """Wait until no model writes."""
    page.wait_for_function(
        "[...document.querySelectorAll('#cards .earlier')].length === 3"
        " && document.getElementById('live-writing').textContent !== ''",
        timeout=_PATIENCE,
    )


def _writing(page: Page, start: str) -> Iterator[Image.Image]:
    """The frames of a text, slowed down, and its end."""
    page.evaluate("document.getElementById('live-writing').textContent = ''")
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": _SLOWER})
    page.evaluate(start)
    for _ in range(_WRITING):
        yield _frame(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    _wait_for_texts(page)
    yield _frame(page)


def _training(page: Page) -> Iterator[Image.Image]:
    """The guess, then a frame for each test of the models."""
    page.evaluate("document.getElementById('train').scrollIntoView()")
    yield _frame(page)
    page.get_by_role("slider", name="sinusoidal at 128 letters").press("PageUp")
    for _ in range(3):
        page.get_by_role("slider", name="sinusoidal at 512 letters").press("PageUp")
        yield _frame(page)

    page.click("#start")
    curves = ""
    waited = 0
    while page.get_attribute("#start", "aria-disabled") == "true" and waited < _PATIENCE:
        page.wait_for_timeout(_POLL)
        waited += _POLL
        latest = page.locator("#curve").inner_html()
        if latest != curves:
            curves = latest
            yield _frame(page)
    yield _frame(page)


def _frame(page: Page) -> Image.Image:
    return Image.open(BytesIO(page.screenshot())).convert("RGB")


if __name__ == "__main__":
    main()
