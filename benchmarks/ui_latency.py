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
CASES = (  # heads, length, the slider that is moved, what its median is to be at most, in ms
    (8, 64, "s-length", None),
    (16, 128, "s-length", 60),
    (16, 128, "s-heads", 60),
    (32, 256, "s-length", 100),
    (32, 256, "s-heads", 100),
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
      if (now[0] !== image && now[1] !== words)
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
    rows: list[Row] = []
    for case in measure():
        name = f"{case['moved']} slider to paint, {case['heads']} heads x {case['length']}^2"
        rows.append({"name": name, "figure": case["median"], "target": case["target"], "unit": "ms"})
    return rows


def measure() -> list[dict[str, Any]]:
    """Every case, in one notebook page each."""
    with jupyter.serve() as server, chromium.launch() as browser:
        found = []
        for number, (heads, length, css, target) in enumerate(CASES):
            app = f"widgets.BiasExplorer(num_heads={heads}, length={length})"
            server.write(f"case{number}", "from alibi_viz import widgets", app)
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = NotebookPage(context.new_page(), server)
            received = [0]
            page.page.on("websocket", functools.partial(count, received))
            page.open(f"case{number}")
            page.run_all()
            page.app()
            time.sleep(2)  # the page tells its width and the picture settles
            received[0] = 0
            times = sorted(press(page.page, css)[4:])
            found.append(
                {
                    "heads": heads,
                    "length": length,
                    "moved": css.removeprefix("s-"),
                    "median": statistics.median(times),
                    "p95": times[int(0.95 * len(times))],
                    "kilobytes": received[0] / PRESSES / 1000,
                    "target": target,
                }
            )
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
        time.sleep(0.15)  # a person's pause, and the browser's for what comes after the paint
    return times


def count(total: list[int], socket: WebSocket) -> None:
    """Add up what a websocket receives."""
    socket.on("framereceived", lambda data: total.__setitem__(0, total[0] + len(data)))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--json", type=Path, help="also write the figures here")
    path = arguments.parse_args().json
    cases = measure()
    print(f"{'heads x length':16}{'slider':8}{'median ms':>10}{'p95 ms':>8}{'kB':>8}{'at most':>9}")
    for case in cases:
        size = f"{case['heads']} x {case['length']}^2"
        print(f"{size:16}{case['moved']:8}{case['median']:10.0f}{case['p95']:8.0f}{case['kilobytes']:8.0f}", end="")
        print(f"{case['target'] or '':>9}")
    if path:
        path.write_text(json.dumps(cases, indent=2) + "\n")
