"""Measure the time from a key press on a slider until the page shows the new picture and caption.

The slider is one of BiasExplorer, in JupyterLab in headless Chromium. The same page has a plain
slider with a line of text, which measures JupyterLab itself. The two are moved alternately, and the
app's time is divided by the plain slider's. The clock stops at the frame after the one in which
picture and caption are new; frames come every 16.7 ms.
"""

import time
from statistics import median

from playwright.sync_api import Page

from benchmarks.row import Row
from tests.browser import chromium, jupyter
from tests.browser.notebook_page import NotebookPage

TURNS = 6
PRESSES = 6  # in a turn; the first is not counted: a user drags a slider over many steps
SLIDER_AND_TEXT = """
import ipywidgets

slider = ipywidgets.IntSlider(min=1, max=256, value=128).add_class("s-bare")
text = ipywidgets.HTML('<div class="alibi-caption">128</div>')

def show(change):
    text.value = f'<div class="alibi-caption">{change.new}</div>'

slider.observe(show, "value")
ipywidgets.VBox([slider, text]).add_class("bare")
"""
APP = "from alibi_viz import widgets\nwidgets.BiasExplorer(num_heads={heads}, length={length})"
# Heads, length, the slider that is moved, and the largest ratio allowed. Another number of heads
# moves all tiles, so plotly lays out the whole figure. No explorer has a slider for the query.
CASES = (
    (8, 64, "length", None),
    (16, 128, "length", 1.5),
    (16, 128, "heads", 1.5),
    (32, 256, "length", 2.0),
    (32, 256, "heads", 2.0),
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
        else if (performance.now() - begin > 20000)
          failed(new Error("the picture has not changed in 20 s"));
        else requestAnimationFrame(look);
      };
      look();
    }, { once: true, capture: true });
  });
}
"""


def main(*, smallest: bool = False) -> list[Row]:
    """Measure the median time of the app divided by that of the plain slider, for each case."""
    cases = CASES[:1] if smallest else CASES
    turns = 1 if smallest else TURNS
    ratios: list[Row] = []
    all_bare_times: list[float] = []
    with jupyter.serve() as server, chromium.launch() as browser:
        for heads, length, slider, target in cases:
            server.write("latency", SLIDER_AND_TEXT, APP.format(heads=heads, length=length))
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            notebook = NotebookPage(context.new_page(), server)
            notebook.open("latency")
            notebook.run_all()
            notebook.app().locator(".imagelayer image").first.wait_for()
            time.sleep(2)  # until the page has reported its width and the app has been drawn again

            bare_times = []
            app_times = []
            for _ in range(turns):
                bare_times += drag(notebook.page, ".bare", "s-bare")
                app_times += drag(notebook.page, ".alibi-app", f"s-{slider}")
            context.close()
            server.clean_kernels()

            all_bare_times += bare_times
            row = Row(
                name=f"slider to paint: {heads} heads x {length}^2, {slider}",
                figure=median(app_times) / median(bare_times),
                target=target,
                unit="x a slider and a line of text",
            )
            ratios.append(row)
    bare = Row(name="a slider and a line of text", figure=median(all_bare_times), unit="ms")
    return [bare, *ratios]


def drag(page: Page, box: str, slider: str) -> list[float]:
    """Move a slider by one step, left and right by turns.

    Returns the milliseconds from key to paint, without the first step.
    """
    times = []
    page.locator(f"{box} .{slider} .noUi-handle").first.focus()
    for number in range(PRESSES):
        page.evaluate(STOPWATCH, [box, slider])
        page.keyboard.press("ArrowLeft" if number % 2 == 0 else "ArrowRight")
        times.append(page.evaluate("() => window.painted"))
        time.sleep(0.15)
    return times[1:]
