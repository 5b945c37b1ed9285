"""Measure the live race of LengthLab, in JupyterLab in headless Chromium.

It measures the time until the page shows that sinusoidal needs at least half a bit more than ALiBi at four times the
training length, until the default race ends, and until the app answers Stop. The slowdown by the app is
measured by running the same race as a plain generator and in the app, alternately, in the same kernel.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from benchmarks.row import Row
from tests.browser import chromium, jupyter
from tests.browser.notebook_page import SECOND, NotebookPage

REACTION_TIME = 5  # seconds that a person needs to find the button on a new page
HALF_A_BIT = """() => {
    const words = document.querySelector(".alibi-caption").innerText.match(/sinusoidal ([0-9.]+) more/);
    return words && Number(words[1]) >= 0.5;
}"""
APP = "from alibi_viz import widgets\napp = widgets.LengthLab()\napp"
PAIRS, STEPS, BATCH = 5, 60, 32
COMPARE = f"""
import json, time

from alibi_viz.lab.turns import on_one_thread
from alibi_viz.widgets.race.report import RaceReport
from alibi_viz.widgets.race.settings import RaceSettings

app.steps = {STEPS}
settings = RaceSettings("text", app.methods, app.length, app.steps, app.seed, app.seeds, app.learning_rate)

def plain():
    for lap in on_one_thread(RaceReport(settings).start()):
        pass

def in_app():
    app.train().result()

def seconds(race):
    clock, cpu = time.perf_counter(), time.process_time()
    race()
    taken = time.perf_counter() - clock, time.process_time() - cpu
    time.sleep(0.5)  # let the page catch up
    return taken

pairs = []
for number in range({PAIRS}):
    order = [plain, in_app] if number % 2 else [in_app, plain]
    taken = {{race: seconds(race) for race in order}}
    pairs.append((taken[plain], taken[in_app]))
tokens = len(app.methods) * app.steps * {BATCH} * app.length
with open("pairs.json", "w") as file:
    json.dump([tokens, pairs], file)
"""


def main() -> list[Row]:
    with lab_page() as page:
        page.open("race")
        page.run_all()
        time.sleep(REACTION_TIME)
        first_gap, pressed = train(page)
        page.wait_for_caption("Trained 300 steps", timeout=300)
        whole = time.monotonic() - pressed
        second_gap, _ = train(page)
        stop = stop_seconds(page)
        page.server.stop_kernels()
        page.open("compare")
        page.run_all(timeout=600)
        tokens, pairs = json.loads((page.server.folder / "pairs.json").read_text())
    clock, cpu = (median(in_app[kind] / plain[kind] for plain, in_app in pairs) for kind in (0, 1))
    speed = median(tokens / in_app[0] for _, in_app in pairs)
    return [
        reported("Train to a gap of half a bit at 4L, first race in a new kernel", first_gap, "s"),
        reported("the same, second race", second_gap, "s"),
        reported("the default race, from Train to its end", whole, "s"),
        reported("Stop to its answer on the page", stop, "s"),
        reported("training in the app, evaluations included", speed, "tokens/s"),
        Row(name="a race in the app", figure=clock, target=1.05, unit="x plain race"),
        Row(name="a race in the app, CPU time of the kernel", figure=cpu, target=1.05, unit="x plain race"),
    ]


@contextmanager
def lab_page() -> Iterator[NotebookPage]:
    """A browser page on a JupyterLab that has the notebooks "race" and "compare"."""
    with jupyter.serve() as server, chromium.launch() as browser:
        server.write("race", APP)
        server.write("compare", APP, COMPARE)
        yield NotebookPage(browser.new_context(viewport={"width": 1280, "height": 900}).new_page(), server)


def train(page: NotebookPage) -> tuple[float, float]:
    """Press Train. Returns the seconds until the gap is visible, and the time at which the button was pressed."""
    page.app().locator(".s-train").click()
    pressed = time.monotonic()
    page.page.wait_for_function("document.querySelector('.alibi-caption').innerText.startsWith('Training')")
    page.page.wait_for_function(HALF_A_BIT, timeout=120 * SECOND)
    return time.monotonic() - pressed, pressed


def stop_seconds(page: NotebookPage) -> float:
    """Seconds from pressing Stop until the page says that the race has ended."""
    page.app().locator(".s-stop").click()
    pressed = time.monotonic()
    page.wait_for_caption("Stopped after step")
    return time.monotonic() - pressed


def reported(name: str, figure: float, unit: str) -> Row:
    """A figure without a target, because it depends on the machine."""
    return Row(name=name, figure=figure, target=None, unit=unit)
