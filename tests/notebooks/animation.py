"""Make the README's first picture, notebooks/images/page.gif: the page of `make docs` writes, and
trains.

python -m tests.notebooks.animation
"""

import tempfile
from io import BytesIO

from PIL import Image
from playwright.sync_api import Page, ViewportSize

from docs.page.build import build_page
from tests.browser import chromium
from tests.notebooks.lessons import FOLDER

SIZE: ViewportSize = {"width": 1060, "height": 620}
WRITING, SLOWER = (
    16,
    12,
)  # frames while the models write, and how many times slower than usual, so that one can follow
EVERY, PATIENCE = (
    1500,
    80,
)  # milliseconds between two frames of the training, and how many frames it may take


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium.launch() as browser:
        page = browser.new_page(viewport=SIZE)
        page.goto(build_page(folder).as_uri())
        frames = [*_writing(page), *_training(page)]
    small = [frame.resize((795, 465)).quantize(48) for frame in frames]
    times = [120] * WRITING + [200] * (len(frames) - WRITING)
    times[WRITING - 1] = times[-1] = 3000
    small[0].save(
        FOLDER / "images" / "page.gif",
        save_all=True,
        append_images=small[1:],
        duration=times,
        loop=0,
    )


def _writing(page: Page) -> list[Image.Image]:
    page.wait_for_timeout(2000)
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    page.evaluate("document.getElementById('again').click()")
    frames = [_frame(page) for _ in range(WRITING - 1)]
    session.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    page.wait_for_timeout(1500)
    return [*frames, _frame(page)]


def _training(page: Page) -> list[Image.Image]:
    page.evaluate("document.getElementById('h-train').scrollIntoView()")
    page.check('input[value="sinusoidal"]')
    page.click("#train")
    frames: list[Image.Image] = []
    while page.is_disabled("#train") and len(frames) < PATIENCE:
        page.wait_for_timeout(EVERY)
        frames.append(_frame(page))
    return frames


def _frame(page: Page) -> Image.Image:
    return Image.open(BytesIO(page.screenshot())).convert("RGB")


if __name__ == "__main__":
    main()
