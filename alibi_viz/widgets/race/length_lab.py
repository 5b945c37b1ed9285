"""LengthLab: train small models side by side on short windows, and see how they do on longer ones."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import torch._dynamo  # noqa: F401  # else the first optimizer imports it during the first race, for most of a second
from ipywidgets import HTML, Widget
from traitlets import HasTraits

from alibi_viz.figures import curves as picture
from alibi_viz.lab import TASKS, load_text
from alibi_viz.lab.questions import QUESTIONS, Question
from alibi_viz.lab.training import LEARNING_RATE, LENGTH, STEPS, limited_threads
from alibi_viz.models import POSITIONS, LanguageModel, register_method
from alibi_viz.table import over_seeds
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.background import Background
from alibi_viz.widgets.core.controls import column
from alibi_viz.widgets.core.traits import BadValue, Choice, Count, Flag, Names, Number, State, raising_bad_value
from alibi_viz.widgets.race import captions
from alibi_viz.widgets.race.controls import RaceControls, check_path
from alibi_viz.widgets.race.state import OUTCOMES, RaceState
from alibi_viz.widgets.race.written import Written, written_html

STYLE = Path(__file__).with_name("race.css").read_text(encoding="utf-8")


class Methods(Names):
    """Names of position methods. Your own functions and classes are registered and replaced by their names."""

    def offered(self, obj: HasTraits) -> tuple[str, ...]:
        return tuple(POSITIONS)  # and your own ones, once they have been used

    def validate(self, obj: HasTraits, value: Any) -> Any:
        if isinstance(value, Iterable) and not isinstance(value, str):
            with raising_bad_value():
                value = [method if isinstance(method, str) else register_method(method) for method in value]
        return super().validate(obj, value)


class TextSource(State):
    """A text: None for the built-in one, a string, bytes in UTF-8 (stored as a string), or a `pathlib.Path`."""

    def validate(self, obj: HasTraits, value: Any) -> str | Path | None:
        with raising_bad_value():
            load_text(value)
        return bytes(value).decode() if isinstance(value, bytes | bytearray | memoryview) else value


class Guesses(State):
    """{method: one of `OUTCOMES`, or None while it is still to be guessed}; empty for none."""

    info_text = f"{{method: {', '.join(OUTCOMES)} or None}}"

    def validate(self, obj: HasTraits, value: Any) -> dict[str, str | None]:
        if not isinstance(value, Mapping) or not {*value} <= {*POSITIONS}:
            self.error(obj, value)
        if not all(guess is None or (isinstance(guess, str) and guess in OUTCOMES) for guess in value.values()):
            self.error(obj, value)
        return dict(value)


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

    why = Why(
        "On a text, the same bytes are predicted at every length, and only their context changes. So a rising line "
        "means that longer windows make the predictions worse.",
        "06_train_short_test_long",
        "How length is tested",
    )
    methods = Methods(("alibi", "sinusoidal", "rotary"), (), picture.MAX_METHODS)
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
        self._races: dict[str, RaceState] = {}  # {task: the latest race on it}
        super().__init__(**state)
        self.children = [*self.children[:-3], self._written, *self.children[-3:]]
        self.observe(lambda _: self._measure(), names="question")

    # The results of the race that the open question is about.

    @property
    def losses(self) -> dict[str, list[float]]:
        """{method: bits at each training step} of the latest seed; empty before the first race."""
        return {method: bits.tolist() for method, bits in self._shown.losses.groupby("method", sort=False)["value"]}

    @property
    def results(self) -> pd.DataFrame:
        """All rows so far, with the columns of `lab.COLUMNS` and the origin "live"."""
        return self._shown.table

    @property
    def means(self) -> dict[str, dict[int, float]]:
        """{method: {x: value}} for the open question, the mean over the seeds; empty before the first race."""
        means = over_seeds(self._shown.results(self._question))["mean"]
        labels = means.index.get_level_values("label")
        return {label: means[label].to_dict() for label in labels.unique()}

    @property
    def models(self) -> dict[str, LanguageModel]:
        """{method: model} of the last complete seed or, if there is none, of the latest."""
        return self._shown.last_models

    @property
    def written(self) -> dict[str, Written]:
        """{method: what the model of the last seed writes beyond L}, after a race on a text has finished."""
        return dict(self._shown.written)

    @property
    def running(self) -> bool:
        """Whether a race is running; once it is not, the app shows how it ended."""
        with self._lock:
            return self._active is not None

    # Actions.

    def train(self) -> Background[None]:
        """Start a new race, on the task that the open question is about, and return its future.

        Raises:
            RuntimeError: a race is running.
            BadValue: no method is chosen, a method of your own fails, or the text is unreadable or too short.
            TrainingDiverged (from the future): the loss became NaN or infinite.
        """
        if not self.running:
            self.stop()  # it may still be measuring
            for work in self.works:
                work.join()
        with self._lock:
            if race := self._active:
                where = f"step {min(race.done.values()):,} of {race.steps:,}"
                raise RuntimeError(f"a race is running, {where}: wait for its end or stop it; nothing was changed")
            race = self._planned()
            try:
                steps = race.start()
            except (OSError, TypeError, ValueError) as error:
                raise BadValue(str(error)) from error
            except Exception as error:  # a class of the user's own may raise anything
                raise BadValue(f"a position method failed with {type(error).__name__}: {error}") from error
            self._races[race.task] = race
            self.say("")
            return self._run(race, steps)

    def stop(self) -> None:
        """End the race after the current row, within a fraction of a second. Does nothing without a race."""
        for work in self.works:
            work.stop()

    def save_models(self, folder: str | Path) -> list[Path]:
        """Save `models` in `folder`, one folder per method, for `lab.load_run` and SlopeSurgery.

        Raises BadValue if nothing has been trained, a race is running, or a folder of that name exists.
        """
        if self.running or self._race is None or not self.models:
            raise BadValue("there is no trained model to save: train first, and wait for the race to end or stop it")
        with raising_bad_value():
            return self._race.save_models(check_path(folder))

    # Methods that `App` requires.

    def blank(self) -> go.Figure:
        return picture.blank(400, left_title="Loss while training")

    def controls(self) -> list[Widget]:
        self._controls, self._lanes = RaceControls(self), HTML().add_class("s-lanes")
        self._written = HTML().add_class("s-written")
        style = HTML(f"<style>{STYLE}</style>")
        return [column(self._controls, style, self._lanes, self._controls.tabs)]

    def draw(self) -> tuple[str, str]:
        question, race = self._question, self._shown
        results = race.results(question)
        xs = sorted({*results["x"].tolist(), *([race.steps] if question.name == "gap" else [])})
        axes = question.axes(race.length, xs, {} if self.simple else race.marks)
        is_main = question is race.main
        domain = picture.RIGHT if is_main else picture.FULL_WIDTH
        rows = {"unfinished": race.unfinished(question), "notes": question.notes(results)}
        with self.figure.batch_update():
            picture.draw(self.figure, race.slots, axes, results, domain=domain, **rows)
            picture.draw_training(self.figure, race.slots, race.losses if is_main else None, race.steps)
        self._written.value = written_html(race)
        self._written.layout.display = None if race.written else "none"
        self._lanes.value = captions.lanes(self._active or race)
        self._controls.update()
        return captions.caption(race, question, results, self._note(race))

    @property
    def _question(self) -> Question:
        return self.questions[self.question]

    @property
    def _race(self) -> RaceState | None:
        """The race that the open question is about, if there was one."""
        return self._races.get(self._question.task)

    @property
    def _shown(self) -> RaceState:
        """The race that is shown: the one that the open question is about, or the one that Train would start."""
        return self._race or self._planned()

    @property
    def _active(self) -> RaceState | None:
        """The race that is running, if there is one."""
        return next((race for race in self._races.values() if race.state == "running"), None)

    def _planned(self) -> RaceState:
        """The race that Train would start now."""
        task = self._question.task
        text = None if task in TASKS else self.text
        training = (self.methods, self.length, self.steps, self.seed, self.seeds, self.learning_rate)
        return RaceState(task, *training, text, self.guesses)

    def _run(self, race: RaceState, steps: Iterable[None]) -> Background[None]:
        """Train or measure the models of a race on a thread."""

        def on_one_thread() -> Iterator[None]:
            with limited_threads(1):
                yield from steps

        background = Background(on_one_thread(), lambda _: None, self.refresh, partial(self._on_end, race))
        self.works = [background]
        self.refresh()
        return background.start()

    def _on_end(self, race: RaceState, error: BaseException | None) -> None:
        """Called on the thread when a race or its measurements have finished, failed or been stopped."""
        with self._lock:
            measured, race.measuring = race.measuring, False
            if not measured:
                complete = len(race.complete) == race.seeds
                race.state = "failed" if error else "finished" if complete else "stopped"
            if error:
                self.say(str(error) or type(error).__name__)
            self.refresh()
            if not measured or not (error or self.works[0].stopped):
                self._measure()  # another question may have been opened meanwhile

    def _measure(self) -> None:
        """Measure the trained models for the open question, unless they are already measured or being measured."""
        with self._lock:
            race, is_busy = self._race, any(race.measuring for race in self._races.values())
            if race is None or is_busy or self.running or self.closed or not race.unmeasured(self._question):
                return
            race.measuring = True
            self._run(race, race.measure(self._question))

    def _note(self, race: RaceState) -> str:
        """A note on another race or changed settings; empty for none."""
        if self._active and self._active is not race:
            return "The race that is running is for another question."
        if race.models and not self._active and race != self._planned():
            return "The settings have changed since this race: train again to apply them."
        return ""
