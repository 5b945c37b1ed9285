"""The live race, in JupyterLab in headless Chromium, all of it on two cores of this machine.

How long from pressing Train until the page says that sinusoidal needs at least half a bit more than ALiBi at four times
the training length; how long the whole default race takes; how long Stop takes to answer; and what share of
its speed the app costs the training: the same race as a bare generator and in the app, in turns, in the same kernel.

    python -m benchmarks race    with the others
    python benchmarks/race.py    alone
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.row import Row
from tests.browser import chromium, jupyter
from tests.browser.notebook_page import SECOND, NotebookPage

CORES = 2
RACES = 3
LOOK = 5  # seconds until a person who has opened a notebook and run it presses a button
PAIRS = 7  # of a bare race and one in the app
HALF_A_BIT = """() => {
    const words = document.querySelector(".alibi-caption").innerText.match(/sinusoidal ([0-9.]+) more/);
    return words && Number(words[1]) >= 0.5;
}"""
APP = "from alibi_viz import widgets\napp = widgets.LengthLab()\napp"
COMPARE = f"""
import json, time, torch
from alibi_viz import lab
from alibi_viz.widgets.race.report import TARGETS
settings = dict(length=app.length, steps=100, seed=app.seed, targets=TARGETS)
app.steps = settings["steps"]

torch.set_num_threads(1)  # as in the app

def bare():
    for lap in lab.race(app.methods, lab.load_text(), **settings):
        pass

def in_app():
    app.train().result()

def seconds(turn):
    clock, cpu = time.perf_counter(), time.process_time()
    turn()
    taken = time.perf_counter() - clock, time.process_time() - cpu
    time.sleep(0.5)  # the page catches up
    return taken

pairs = []
for number in range({PAIRS}):
    order = [bare, in_app] if number % 2 else [in_app, bare]
    taken = {{turn: seconds(turn) for turn in order}}
    pairs.append((taken[bare], taken[in_app]))
with open("pairs.json", "w") as file:
    json.dump(pairs, file)
"""


def main() -> list[Row]:
    with on_cores(CORES), jupyter.serve() as server, chromium.launch() as browser:
        server.write("race", APP)
        server.write("compare", APP, COMPARE)
        page = NotebookPage(browser.new_context(viewport={"width": 1280, "height": 900}).new_page(), server)
        page.open("race")
        page.run_all()
        time.sleep(LOOK)
        times = [race(page) for _ in range(RACES)]
        stops = [stop(page) for _ in range(RACES)]
        server.stop_kernels()
        page.open("compare")
        page.run_all(timeout=600)
        pairs = json.loads((server.folder / "pairs.json").read_text())
    gaps, wholes = zip(*times, strict=True)
    clock, cpu = (statistics.median(1 - bare[by] / in_app[by] for bare, in_app in pairs) for by in (0, 1))
    return [
        row("Train to a gap of half a bit at 4 L, alibi and sinusoidal", statistics.median(gaps), 5, "s"),
        row("the same, the first time in a new kernel", gaps[0], 5, "s"),
        row("the whole default race", statistics.median(wholes), 20, "s"),
        row("Stop to its answer on the page", statistics.median(stops), 0.5, "s"),
        row("tokens per second that the app costs", 100 * clock, 5, "%"),
        row("the same, by the kernel's processor time", 100 * cpu, 5, "%"),
    ]


def race(page: NotebookPage) -> tuple[float, float]:
    """Seconds from Train to the visible gap, and to the end."""
    page.app().locator(".s-train").click()
    pressed = time.monotonic()
    page.page.wait_for_function("document.querySelector('.alibi-caption').innerText.startsWith('Training')")
    page.page.wait_for_function(HALF_A_BIT, timeout=120 * SECOND)
    gap = time.monotonic() - pressed
    page.wait_for_caption("Trained 300 steps", timeout=300)
    return gap, time.monotonic() - pressed


def stop(page: NotebookPage) -> float:
    """Seconds from Stop, pressed some steps into a race, until the page says that it is over."""
    page.app().locator(".s-train").click()
    page.wait_for_caption("tested last after step", timeout=120)
    page.app().locator(".s-stop").click()
    pressed = time.monotonic()
    page.wait_for_caption("Stopped after step")
    return time.monotonic() - pressed


def row(name: str, figure: float, target: float, unit: str) -> Row:
    return {"name": name, "figure": figure, "target": target, "unit": unit}


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Keep this process, and all that it starts, on so many cores; where the system cannot do that, on all."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


if __name__ == "__main__":
    for measured in main():
        print(f"{measured['name']:60}{measured['figure']:8.2f} {measured['unit']:3} at most {measured['target']}")
