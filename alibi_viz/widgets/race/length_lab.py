"""LengthLab: train small models side by side on short windows, and see how they do on longer ones."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import torch._dynamo  # noqa: F401  # else the first optimizer imports it during the first race, for most of a second
from ipywidgets import HTML, Widget

from alibi_viz import lab
from alibi_viz.figures import race as picture
from alibi_viz.figures.panel import MAX_METHODS
from alibi_viz.lab.questions import QUESTIONS
from alibi_viz.lab.training import LEARNING_RATE, LENGTH, STEPS
from alibi_viz.lab.turns import on_one_thread
from alibi_viz.models import POSITIONS, LanguageModel
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.background import Background
from alibi_viz.widgets.core.controls import column
from alibi_viz.widgets.core.traits import BadValue, Choice, Count, Flag, Number, raising_bad_value
from alibi_viz.widgets.race import captions
from alibi_viz.widgets.race.controls import RaceControls
from alibi_viz.widgets.race.report import RaceReport
from alibi_viz.widgets.race.settings import RaceSettings
from alibi_viz.widgets.race.traits import Guesses, Methods, TextSource, check_path
from alibi_viz.widgets.race.written import Written, written_html

__all__ = ["LengthLab"]


class LengthLab(App):
    """A race: one small model per position method, trained on windows of `length` bytes and tested on longer ones.

    `train` starts the race on a thread of its own, so the kernel stays free, and returns a future: `await app.train()`
    in a notebook, `app.train().result()` in a script. `stop` ends the race and keeps its results so far. Changes of
    the state during a race apply to the next one.

    Traits:
        methods: at most seven position methods: names, or your own functions law(distance, head, num_heads) and
            subclasses of `Position`, which are offered under their names from then on.
        length: bytes in a training window, L, 8 to 128; tests go up to 16 L, and to 32 L for a task.
        steps: 10 to 2,000.
        seed: of the starting weights and the batches.
        seeds: how many races, 1 to 5: seed, seed + 1, ..., one after the other.
        learning_rate: 1e-6 to 1,000. Try 100 to see training diverge.
        text: None for the built-in text, a string, or a `pathlib.Path`.
        guesses: {method: "holds", "degrades" or "fails"} on windows of up to 16 L, compared with the next race on a
            text. With None instead, the Train button asks for a guess first.
        question: the name of one of `lab.QUESTIONS` that has `in_race`. Questions about a task, such as
            "needle", need a race of their own on that task; the others share a race on the text.
        simple: show only what a first race needs: the guesses, Train and Stop, the curves, and what the models write.

    >>> from alibi_viz.widgets import LengthLab
    >>> app = LengthLab(methods=["alibi", "none"], steps=10)
    >>> app.train().result()
    >>> list(app.means["alibi"]), len(app.losses["none"]), app.models["alibi"].config.position
    ([64, 128, 256, 512, 1024], 10, 'alibi')
    """

    why = captions.WHY
    methods = Methods(("alibi", "sinusoidal", "rotary"), "method_names", MAX_METHODS)
    length = Count(LENGTH, 8, 128)
    steps = Count(STEPS, 10, 2000)
    seed = Count(0, 0, 2**31 - 1)
    seeds = Count(1, 1, 5)
    learning_rate = Number(LEARNING_RATE, 1e-6, 1000)
    text = TextSource(None, allow_none=True)
    guesses = Guesses({})
    question = Choice("longer windows", "questions")
    simple = Flag(False)
    redraw_to_fit = True  # the legend needs more rows on a narrow page

    def __init__(self, **state: Any) -> None:
        self.questions = {question.name: question for question in QUESTIONS if question.in_race}
        self._reports: dict[str, RaceReport] = {}  # {task: the latest race on it}
        self._active: RaceReport | None = None  # the latest race of all
        self._background: Background[None] | None = None
        self._closed = False
        super().__init__(**state)
        *above, details, why, page = self.children
        self.children = [*above, self._written, details, why, page]
        self._controls.hide_in_simple_mode(self._tabs, why)
        self.observe(lambda _: self._measure(), names="question")

    @property
    def method_names(self) -> tuple[str, ...]:
        """The position methods to choose from; your own are added when they are first used."""
        return tuple(POSITIONS)

    # The results of the race that the open question is about.

    @property
    def losses(self) -> dict[str, list[float]]:
        """{method: bits at each training step} of the latest seed; empty before the first race."""
        return self._report.board.losses if self._report else {}

    @property
    def results(self) -> pd.DataFrame:
        """All answers and training losses so far, with the columns of `lab.COLUMNS` and the origin "live"."""
        return (self._report or self._planned()).table()

    @property
    def means(self) -> dict[str, dict[int, float]]:
        """{method: {x: value}} for the open question, the mean over the seeds; empty before the first race."""
        means = self._report.means(self._question) if self._report else {}
        return {method: dict(points) for method, points in means.items()}

    @property
    def models(self) -> dict[str, LanguageModel]:
        """{method: model} of the last complete seed or, if there is none, of the latest."""
        return self._report.last.models if self._report else {}

    @property
    def written(self) -> dict[str, Written]:
        """{method: what the model of the last seed writes beyond L}, after a race on a text has finished."""
        return dict(self._report.written) if self._report else {}

    @property
    def running(self) -> bool:
        """Whether a race is running; once it is not, the app shows how it ended."""
        with self._lock:
            return self._active is not None and self._active.state == "running"

    # Actions.

    def train(self) -> Background[None]:
        """Start a new race, on the task that the open question is about, and return its future.

        Raises:
            RuntimeError: a race is running.
            BadValue: no method is chosen, a method of your own fails, or the text is unreadable or too short.
            TrainingDiverged (from the future): the loss became NaN or infinite.
        """
        if self._background and not self.running:
            self._background.stop()  # it may still be measuring
            self._background.join()
        with self._lock:
            if self._active and self.running:
                board = self._active.board
                step = f"step {min(map(board.step, board.methods)):,} of {board.steps:,}"
                raise RuntimeError(f"a race is running, {step}: wait for its end or stop it; nothing was changed")
            report = self._planned()
            try:
                steps = report.start()
            except (OSError, TypeError, ValueError) as error:
                raise BadValue(str(error)) from error
            except Exception as error:  # a class of the user's own may raise anything
                raise BadValue(f"a position method failed with {type(error).__name__}: {error}") from error
            self._active = self._reports[report.settings.task] = report
            self.say("")
            self._controls.lock(True)
            return self._run(steps, self._on_end)

    def stop(self) -> None:
        """End the race after the current lap, within a fraction of a second. Does nothing without a race."""
        if self._background:
            self._background.stop()

    def save_models(self, folder: str | Path) -> list[Path]:
        """Save `models` in `folder`, one folder per method, for `lab.load_run` and SlopeSurgery.

        Raises BadValue if nothing has been trained, a race is running, or a folder of that name exists.
        """
        if self.running or self._report is None or not self.models:
            raise BadValue("there is no trained model to save: train first, and wait for the race to end or stop it")
        with raising_bad_value():
            return self._report.save_models(check_path(folder))

    def close(self) -> None:
        """Remove the app from the page and end its race."""
        self._closed = True
        self.stop()
        super().close()

    # Methods that `App` requires.

    def blank(self) -> go.Figure:
        return picture.blank()

    def controls(self) -> list[Widget]:
        self._controls, self._lanes = RaceControls(self), HTML().add_class("s-lanes")
        self._written = HTML().add_class("s-written")
        self._tabs = self.tabs("question", "What is measured", lambda name: self.questions[name].summary)
        return [column(self._controls, HTML(captions.LANES_STYLE), self._lanes, self._tabs)]

    def draw(self) -> tuple[str, str]:
        question, report = self._question, self._report or self._planned()
        settings = report.settings
        results = report.results(question)
        panel = report.panel(question, results, marked=not self.simple)
        losses = report.board.losses if question is settings.main else None
        unit = "answer" if settings.task in lab.TASKS else "byte"
        picture.draw(self.figure, settings.slots, panel, losses=losses, steps=settings.steps, unit=unit)
        texts = written_html(dict(report.written), settings)  # a copy: the race adds to it
        self._written.value, self._written.layout.display = texts, None if texts else "none"
        self._lanes.value = captions.lanes(self._active if self._active and self.running else report)
        return captions.caption(report, question, results, self._note(report))

    @property
    def _question(self) -> lab.Question:
        return self.questions[self.question]

    @property
    def _report(self) -> RaceReport | None:
        """The race that the open question is about, if there was one."""
        return self._reports.get(self._question.task)

    def _planned(self) -> RaceReport:
        """The race that Train would start now."""
        return RaceReport(RaceSettings.of(self, self._question.task), guesses=self.guesses)

    def _run(self, steps: Iterable[None], end: Callable[[BaseException | None], None]) -> Background[None]:
        self._background = Background(on_one_thread(steps), lambda _: None, self.refresh, end)
        self.refresh()
        return self._background.start()

    def _on_end(self, error: BaseException | None) -> None:
        """Called on the race's thread when the race has finished, failed or been stopped."""
        assert self._active
        with self._lock:
            complete = len(self._active.complete) == self._active.settings.seeds
            self._active.state = "failed" if error else "finished" if complete else "stopped"
            self._controls.lock(False)
            self._show_end(error)
        self._measure()

    def _show_end(self, error: BaseException | None) -> None:
        if error:
            self.say(str(error) or type(error).__name__)
        self.refresh()

    def _measure(self) -> None:
        """Measure the trained models for the open question, unless they are already measured or being measured."""
        with self._lock:
            report, question = self._report, self._question
            busy = self._closed or self.running or any(other.measuring for other in self._reports.values())
            if report is None or busy or not report.unmeasured(question):
                return
            report.measuring = True
            self._run(report.measure(question), self._on_measured)

    def _on_measured(self, error: BaseException | None) -> None:
        assert self._background
        with self._lock:
            for report in self._reports.values():
                report.measuring = False
            self._show_end(error)
        if not error and not self._background.stopped:
            self._measure()  # another question may have been opened meanwhile

    def _note(self, report: RaceReport) -> str:
        """A note on another race or changed settings; empty for none."""
        if self.running and self._active is not report:
            return "The race that is running is for another question."
        if report.boards and not self.running and report.settings != self._planned().settings:
            return "The settings have changed since this race: train again to apply them."
        return ""
