"""From a key pressed on a slider of BiasExplorer to the new picture on the screen, in JupyterLab in headless Chromium.

On the same page is a slider with a line of text, which is what JupyterLab itself takes. The two are pressed by turns,
and the app is compared with that. The clock starts at the key event and stops at the frame after the one in which both
picture and caption are new. Frames come every 16.7 ms.
"""

import time
from statistics import median

from playwright.sync_api import Page

from benchmarks.row import Row
from tests.browser import chromium, jupyter
from tests.browser.notebook_page import NotebookPage

PRESSES, WARM_UP = 24, 4
SLIDER_AND_TEXT = """
import ipywidgets
slider, text = ipywidgets.IntSlider(min=1, max=256, value=128).add_class("s-bare"), ipywidgets.HTML()
slider.observe(lambda change: text.set_trait("value", f'<div class="alibi-caption">{change.new}</div>'), "value")
text.value = '<div class="alibi-caption">128</div>'
ipywidgets.VBox([slider, text]).add_class("bare")
"""
APP = "from alibi_viz import widgets\nwidgets.BiasExplorer(num_heads={heads}, length={length})"
CASES = (  # heads, length, the slider that is moved, and the largest ratio allowed
    (8, 64, "length", None),
    (16, 128, "length", 1.5),
    (16, 128, "heads", 1.5),
    (32, 256, "length", 2.2),
    (32, 256, "heads", 2.2),
)
STOPWATCH = """
([box, slider]) => {
  const find = (selector) => document.querySelector(`${box} ${selector}`);
  const state = () => [find(".imagelayer image")?.href.baseVal, find(".alibi-caption").innerText];
  const [image, caption] = state();
  window.painted = new Promise((done, failed) => {
    find(`.${slider} .noUi-handle`).addEventListener("keydown", () => {
      const begin = performance.now();
      const look = () => {
        const now = state();
        if ((box === ".bare" || now[0] !== image) && now[1] !== caption)
          requestAnimationFrame(() => done(performance.now() - begin));
        else if (performance.now() - begin > 20000) failed(new Error("the picture has not changed in 20 s"));
        else requestAnimationFrame(look);
      };
      look();
    }, { once: true, capture: true });
  });
}
"""


def main() -> list[Row]:
    """For each case, the median time of the app divided by that of the slider with a line of text."""
    rows: list[Row] = []
    bare: list[float] = []
    with jupyter.serve() as server, chromium.launch() as browser:
        for heads, length, slider, target in CASES:
            server.write("latency", SLIDER_AND_TEXT, APP.format(heads=heads, length=length))
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            notebook = NotebookPage(context.new_page(), server)
            notebook.open("latency")
            notebook.run_all()
            notebook.app().locator(".imagelayer image").first.wait_for()
            time.sleep(2)  # until the page has reported its width and the app has been drawn again
            turns = [press(notebook.page, slider, number) for number in range(PRESSES)][WARM_UP:]
            bare_times, app_times = zip(*turns, strict=True)
            name = f"slider to paint: {heads} heads x {length}^2, {slider}"
            ratio = median(app_times) / median(bare_times)
            rows.append({"name": name, "figure": ratio, "target": target, "unit": "x a slider and a line of text"})
            bare += bare_times
            context.close()
            server.stop_kernels()
    return [{"name": "a slider and a line of text", "figure": median(bare), "target": None, "unit": "ms"}, *rows]


def press(page: Page, slider: str, number: int) -> tuple[float, float]:
    """Move the bare slider and the app's by one step, left and right by turns: milliseconds from key to paint."""
    times = []
    for box, css in ((".bare", "s-bare"), (".alibi-app", f"s-{slider}")):
        page.locator(f"{box} .{css} .noUi-handle").first.focus()
        page.evaluate(STOPWATCH, [box, css])
        page.keyboard.press(("ArrowLeft", "ArrowRight")[number % 2])
        times.append(page.evaluate("() => window.painted"))
        time.sleep(0.1)  # so that each is pressed about three times a second
    return times[0], times[1]
