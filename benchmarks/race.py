"""Measure the live race of LengthLab, in JupyterLab in headless Chromium.

It measures the time until the page shows that the loss of sinusoidal rises by at least half a bit
on longer sequences, until the default race ends, and until the app answers Stop; and the time from
a key press on a slider of another app to its new picture, with and without a race in the same
kernel.

Races are run alternately in the same kernel: as a plain loop in which one model after the other
trains, is tested and writes on one thread, as a plain generator that trains two at the same time,
and in the app.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from alibi_viz.train.training import BATCH_SIZE, STEPS
from benchmarks.row import Row
from benchmarks.ui_latency import drag
from tests.browser import chromium, jupyter
from tests.browser.notebook_page import SECOND, NotebookPage

REACTION_TIME = 5  # seconds that a person needs to find the button on a new page
RISE = """(() => {
    const { data } = document.querySelector(".alibi-figure .js-plotly-plot");
    const losses = data.find(({ name }) => name === "sinusoidal").y;
    return losses.at(-1) - losses[0] >= 0.5;
})()"""
APP = "from alibi_viz import widgets\napp = widgets.LengthLab({settings})\napp"
OTHER_APP = "widgets.BiasExplorer(num_heads=8, length=64)"
TURNS = 4  # of the slider, five steps each
CASES = [STEPS // 2, STEPS // 2]  # steps
SMALLEST_CASES = [10]
# With fewer steps, the loss of sinusoidal rises too little.
SMALLEST_RACE = 'methods=["sinusoidal"], steps=100'
CHECKPOINTS = 10
COMPARE = f"""
import json, time

from alibi_viz import lab
from alibi_viz.train.training import limited_threads
from alibi_viz.widgets.race.state import CHECKPOINT_TARGETS, RaceState

def one_by_one():
    text = lab.load_text()
    streams = dict()
    for method in app.methods:
        model = lab.make_model(method, max_length=app.length)
        streams[model] = lab.train(model, text, length=app.length, steps=app.steps)
    lengths = lab.evaluation_lengths(app.length)
    for step in range(app.steps + 1):
        for model, stream in streams.items():
            if step > 0:
                yield next(stream)
            if step % (app.steps // {CHECKPOINTS}) == 0:
                lab.loss_by_length(model, text, lengths, targets=CHECKPOINT_TARGETS)
                lab.continuations(model, text, app.length)

def sequential():
    with limited_threads(1):
        for _ in one_by_one():
            pass

def plain():
    methods = dict(zip(app.methods, app.methods))
    settings = dict(length=app.length, steps=app.steps, seed=0, text=None)
    race = RaceState(methods, **settings, guesses=dict(), emma=None)
    for _ in race.start():
        pass

def in_app():
    app.train().result()

def seconds(race):
    clock, cpu = time.perf_counter(), time.process_time()
    race()
    taken = time.perf_counter() - clock, time.process_time() - cpu
    time.sleep(0.5)  # let the page catch up
    return taken

rounds = []
for app.steps in CASES:
    rounds.append([*map(seconds, (sequential, plain, in_app))])
tokens = len(app.methods) * app.steps * {BATCH_SIZE} * app.length
with open("rounds.json", "w") as file:
    json.dump([tokens, rounds], file)
"""


# Places in a round of `COMPARE`: three kinds of a race, each with its wall time and its CPU time
SEQUENTIAL, PLAIN, IN_APP = range(3)
WALL, CPU = range(2)


def main(*, smallest: bool = False) -> list[Row]:
    turns = 1 if smallest else TURNS
    settings = SMALLEST_RACE if smallest else ""
    cases = SMALLEST_CASES if smallest else CASES
    with lab_page(settings, cases) as page:
        page.page.set_default_timeout(600 * SECOND)  # a busy machine is slow, and not broken
        page.open("race")
        page.run_all()
        time.sleep(REACTION_TIME)
        idle = move_slider(page, turns)
        first_rise, pressed = train(page)
        page.app().locator(".s-stop:disabled").wait_for(timeout=300 * SECOND)
        race_seconds = time.monotonic() - pressed
        second_rise, _ = train(page)
        stop = stop_seconds(page)
        page.app().locator(".s-train").click()
        page.wait_for_caption("last tested after step")
        busy = move_slider(page, turns)
        page.server.clean_kernels()
        page.open("compare")
        page.run_all()
        tokens, rounds = json.loads((page.server.folder / "rounds.json").read_text())
    trained = [tokens / in_app[0] for _, _, in_app in rounds]
    one_by_one = "x one model after the other"
    return [
        Row(
            name="Train to a rise of half a bit on longer sequences, first in a new kernel",
            figure=first_rise,
            unit="s",
        ),
        Row(name="the same, second race", figure=second_rise, unit="s"),
        Row(name="the default race, from Train to its end", figure=race_seconds, unit="s"),
        Row(name="Stop to its answer on the page", figure=stop, unit="s"),
        Row(name="slider of another app to paint, no race", figure=median(idle), unit="ms"),
        Row(name="slider of another app to paint, during a race", figure=median(busy), unit="ms"),
        Row(name="the same, the slowest", figure=max(busy), unit="ms"),
        Row(
            name="training in the app, tests and texts included",
            figure=median(trained),
            unit="tokens/s",
        ),
        Row(
            name="a race in the app, on all cores",
            figure=ratio(rounds, IN_APP, SEQUENTIAL),
            target=0.65,
            unit=one_by_one,
        ),
        Row(name="a plain race", figure=ratio(rounds, PLAIN, SEQUENTIAL), unit=one_by_one),
        Row(
            name="a race in the app",
            figure=ratio(rounds, IN_APP, PLAIN),
            target=1.05,
            unit="x plain race",
        ),
        Row(
            name="a race in the app, CPU time",
            figure=ratio(rounds, IN_APP, PLAIN, clock=CPU),
            target=1.05,
            unit="x plain race",
        ),
    ]


def ratio(rounds: list[list[list[float]]], race: int, baseline: int, *, clock: int = WALL) -> float:
    """How long a race takes relative to another of the same round: the median."""
    return median(races[race][clock] / races[baseline][clock] for races in rounds)


def move_slider(page: NotebookPage, turns: int) -> list[float]:
    """Milliseconds from a key press on a slider of the second app to its new picture."""
    page.app(1).locator(".imagelayer image").first.wait_for()
    milliseconds = []
    for _ in range(turns):
        milliseconds += drag(page.page, ".alibi-app:has(.s-heads)", "s-length")
    return milliseconds


@contextmanager
def lab_page(settings: str, cases: list[int]) -> Iterator[NotebookPage]:
    """A browser page on a JupyterLab that has the notebooks "race" and "compare"."""
    app = APP.format(settings=settings)
    with jupyter.serve() as server, chromium.launch() as browser:
        server.write("race", app, OTHER_APP)
        server.write("compare", app, f"CASES = {cases}", COMPARE)
        yield NotebookPage(
            browser.new_context(viewport={"width": 1280, "height": 900}).new_page(), server
        )


def train(page: NotebookPage) -> tuple[float, float]:
    """Press Train.

    Returns the seconds until the rise is visible, and the time at which the button was pressed.
    """
    page.app().locator(".s-train").click()
    pressed = time.monotonic()
    page.page.wait_for_function(f"!{RISE}")  # the curves of the race before are gone
    page.page.wait_for_function(RISE, timeout=120 * SECOND)
    return time.monotonic() - pressed, pressed


def stop_seconds(page: NotebookPage) -> float:
    """Seconds from pressing Stop until the page says that the race has ended."""
    page.app().locator(".s-stop").click()
    pressed = time.monotonic()
    page.wait_for_caption("Stopped after step")
    return time.monotonic() - pressed
