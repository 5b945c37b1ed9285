"""From a key pressed on a slider of BiasExplorer to the new picture on the screen, in JupyterLab in headless Chromium.

A key event is stamped in the page; before every frame the page is asked whether the picture's image and the caption
are new, and the clock stops at the frame after the one that paints them. Frames come every 16.7 ms, which is why the
figures jump. `a slider and a line of text` is what JupyterLab itself takes, without a picture: compare with that.

    python -m benchmarks ui_latency                   with the other benchmarks: the median of each
    python benchmarks/ui_latency.py --json out.json   alone: medians, 95th percentiles, kilobytes
"""

import argparse
import functools
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, WebSocket

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.row import Row
from tests.browser import chromium, jupyter
from tests.browser.notebook_page import NotebookPage

PRESSES = 24  # of which the first four warm up
# What is shown, the slider that is moved, and what its median is to be at most, in ms.
EXPLORER = "from alibi_viz import widgets\nwidgets.BiasExplorer(num_heads={heads}, length={length})"
SLIDER_AND_TEXT = """
import ipywidgets
slider, text = ipywidgets.IntSlider(min=1, max=256, value=128).add_class("s-length"), ipywidgets.HTML()
slider.observe(lambda change: text.set_trait("value", f'<div class="alibi-caption">{change.new}</div>'), "value")
text.value = '<div class="alibi-caption">128</div>'
ipywidgets.VBox([slider, text]).add_class("alibi-app")
"""
CASES = (
    ("a slider and a line of text", SLIDER_AND_TEXT, "s-length", None),
    ("8 heads x 64^2, length", EXPLORER.format(heads=8, length=64), "s-length", None),
    ("16 heads x 128^2, length", EXPLORER.format(heads=16, length=128), "s-length", 60),
    ("16 heads x 128^2, heads", EXPLORER.format(heads=16, length=128), "s-heads", 60),
    ("32 heads x 256^2, length", EXPLORER.format(heads=32, length=256), "s-length", 100),
    ("32 heads x 256^2, heads", EXPLORER.format(heads=32, length=256), "s-heads", 100),
)
STOPWATCH = """
([css, key]) => new Promise((done, failed) => {
  const app = document.querySelector(".alibi-app");
  const find = (selector) => app.querySelector(selector);
  const seen = () => [find(".imagelayer image")?.href.baseVal, find(".alibi-caption").innerText];
  const [image, words] = seen();
  app.querySelector(`.${css} .noUi-handle`).addEventListener("keydown", () => {
    const begin = performance.now();
    const look = () => {
      const now = seen();
      if ((now[0] !== image || !image) && now[1] !== words)
        requestAnimationFrame(() => done(performance.now() - begin));
      else if (performance.now() - begin > 20000) failed(new Error("the picture has not changed in 20 s"));
      else requestAnimationFrame(look);
    };
    look();
  }, { once: true, capture: true });
})
"""


def main() -> list[Row]:
    """The medians, for the table of all benchmarks."""
    return [
        {"name": f"slider to paint: {case['name']}", "figure": case["median"], "target": case["target"], "unit": "ms"}
        for case in measure()
    ]


def measure() -> list[dict[str, Any]]:
    """Every case, in a notebook and a kernel of its own."""
    found = []
    with jupyter.serve() as server, chromium.launch() as browser:
        for name, code, css, target in CASES:
            server.write("latency", code)
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = NotebookPage(context.new_page(), server)
            received = [0]
            page.page.on("websocket", functools.partial(count, received))
            page.open("latency")
            page.run_all()
            page.app()
            time.sleep(2)  # the page tells its width and the picture settles
            received[0] = 0
            times = sorted(press(page.page, css)[4:])
            middle, late = statistics.median(times), times[int(0.95 * len(times))]
            size = received[0] / PRESSES / 1000
            found.append({"name": name, "median": middle, "p95": late, "kilobytes": size, "target": target})
            context.close()
            server.stop_kernels()
    return found


def press(page: Page, css: str) -> list[float]:
    """One step down and one up, again and again: milliseconds from key to paint."""
    times = []
    for number in range(PRESSES):
        key = ("ArrowLeft", "ArrowRight")[number % 2]
        page.locator(f".{css} .noUi-handle").first.focus()
        page.evaluate(f"([css, key]) => {{ window.painted = ({STOPWATCH})([css, key]); }}", [css, key])
        page.keyboard.press(key)
        times.append(page.evaluate("() => window.painted"))
        time.sleep(0.2)  # a brisk hand: some four presses a second
    return times


def count(total: list[int], socket: WebSocket) -> None:
    """Add up what a websocket receives."""
    socket.on("framereceived", lambda data: total.__setitem__(0, total[0] + len(data)))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--json", type=Path, help="also write the figures here")
    path = arguments.parse_args().json
    cases = measure()
    print(f"{'slider to paint':28}{'median ms':>10}{'p95 ms':>8}{'kB':>8}{'at most':>9}")
    for case in cases:
        figures = f"{case['median']:10.0f}{case['p95']:8.0f}{case['kilobytes']:8.0f}{case['target'] or '':>9}"
        print(f"{case['name']:28}{figures}")
    if path:
        path.write_text(json.dumps(cases, indent=2) + "\n")
