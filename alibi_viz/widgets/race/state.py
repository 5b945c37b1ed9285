"""The settings of a race, and its state: one growing table of rows, and the models that were trained."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from alibi_viz import lab
from alibi_viz.figures.curves import STYLES, assign_slots
from alibi_viz.lab.questions import Question, main_question
from alibi_viz.lab.race import Race
from alibi_viz.lab.sweep import check_new
from alibi_viz.lab.tasks import Task, evaluation_distances
from alibi_viz.lab.training import DEFAULT_MODEL
from alibi_viz.models import POSITIONS, LanguageModel
from alibi_viz.slopes import alibi_slopes
from alibi_viz.table import AS_TRAINED, TRAINING_LOSS, Row, results_table
from alibi_viz.widgets.race.traits import built_in_name, read_source
from alibi_viz.widgets.race.written import Written, write

TRAINING_TRAITS = ("methods", "length", "steps", "seed", "seeds", "learning_rate")
COMMON_METHODS = ("alibi", "sinusoidal", "rotary", "learned", "none")  # always in view, and always in the same colors
TEXT_STEPS, TASK_STEPS = 50, 60  # between two checkpoints; evaluating a task takes longer
CHECKPOINT_TARGETS = 2048  # bytes predicted: with more, evaluation would take longer than training


@dataclass(frozen=True)
class RaceSettings:
    """The state of LengthLab that a race depends on: its traits, and the task ("text", or one of `TASKS`)."""

    task: str
    methods: tuple[str, ...]
    length: int
    steps: int
    seed: int
    seeds: int
    learning_rate: float
    text: str | Path | None = None  # None for a task

    @classmethod
    def of(cls, app: Any, task: str) -> "RaceSettings":
        """The settings of the race that a LengthLab would start now on this task."""
        traits = {name: getattr(app, name) for name in TRAINING_TRAITS}
        return cls(task, text=None if task in lab.TASKS else app.text, **traits)

    @property
    def main(self) -> Question:
        """The question that is answered while the models train, beside their training loss."""
        return main_question(self.task)

    @property
    def lengths(self) -> list[int]:
        """The lengths at which models are evaluated; for a task, the distances."""
        if self.task in lab.TASKS:
            return evaluation_distances(lab.TASKS[self.task], self.length)
        return lab.evaluation_lengths(self.length)

    @property
    def source_name(self) -> str:
        """What the models train on, in words. A text of your own is not read for this."""
        if self.task in lab.TASKS:
            return f"{self.task} examples of up to {self.length} tokens"
        text = self.text.name if isinstance(self.text, Path) else "your text" if self.text else built_in_name()
        return f"windows of {self.length} bytes of {text}"

    @property
    def slots(self) -> list[str]:
        """The method in each slot of the figure."""
        return assign_slots(self.methods, COMMON_METHODS)

    def color(self, method: str) -> str:
        """The color of a method in the figure."""
        return STYLES[self.slots.index(method)][0]


@dataclass
class RaceState:
    """The state and the results of one race.

    Attributes:
        settings: of the race.
        guesses: {method: outcome, or None}, made before the race.
        source: the text or task; None before the start.
        state: "ready", "running", "stopped", "finished" or "failed".
        rows: what has been measured, as `lab.race` yields it; questions measured after the race follow.
        models: {seed: {method: model}}, of the seeds that have started.
        measuring: whether the trained models are being measured now.
        measured: the (question, seed, method) of what was measured after the race.
        written: {method: what the model of the last seed writes}, after a race on a text has finished.
    """

    settings: RaceSettings
    guesses: dict[str, str | None] = field(default_factory=dict)
    source: Any = None
    state: str = "ready"
    rows: list[Row] = field(default_factory=list)
    models: dict[int, dict[str, LanguageModel]] = field(default_factory=dict)
    measuring: bool = False
    measured: set[tuple[str, int, str]] = field(default_factory=set)
    written: dict[str, Written] = field(default_factory=dict)
    started: float = 0.0  # when the latest seed started, by `time.monotonic`
    _table: pd.DataFrame = field(default_factory=lambda: results_table([]), repr=False)

    def start(self) -> Iterator[None]:
        """Run the whole race, in short steps. Raises ValueError at the call if it cannot be run."""
        settings = self.settings
        if not settings.methods:
            raise ValueError(f"methods must be at least one of {', '.join(POSITIONS)}, got none")
        self.source = lab.TASKS.get(settings.task) or read_source(settings.text)
        is_task = isinstance(self.source, Task)
        races = {
            seed: lab.race(
                settings.methods,
                self.source,
                length=settings.length,
                steps=settings.steps,
                seed=seed,
                lengths=settings.lengths,
                checkpoints=max(5, settings.steps // TASK_STEPS) if is_task else max(10, settings.steps // TEXT_STEPS),
                targets=CHECKPOINT_TARGETS,
                learning_rate=settings.learning_rate,
            )
            for seed in range(settings.seed, settings.seed + settings.seeds)
        }
        self.state = "running"
        return self._run(races)

    def _run(self, races: dict[int, Race]) -> Iterator[None]:
        """Collect the rows of one race per seed, and what the last models write."""
        for seed, race in races.items():
            self.started, self.models[seed] = time.monotonic(), race.models
            try:
                for row in race:
                    self.rows.append(row)
                    yield
            finally:
                race.close()
        if self.settings.task == "text":
            for method, model in self.last_models.items():
                self.written[method] = write(model, self.source, self.settings.length, self.settings.seed)
                yield

    def unmeasured(self, question: Question) -> list[tuple[int, str]]:
        """The models that still have to be measured to answer a question: (seed, method)."""
        if question.while_training or question.task != self.settings.task or self.failed:
            return []
        models = [(seed, method) for seed in self.counted for method in self.models[seed]]
        return [model for model in models if (question.name, *model) not in self.measured]

    def measure(self, question: Question) -> Iterator[None]:
        """Measure one model after the other, in short steps."""
        settings = self.settings
        for seed, method in self.unmeasured(question):
            common = {"origin": "live", "task": settings.task, "variant": AS_TRAINED, "length": settings.length}
            common |= {"step": settings.steps, "text": getattr(self.source, "fingerprint", ""), "seed": seed}
            common |= {"method": method, "label": method, "question": question.name, "unit": question.unit}
            longest = settings.lengths[-1] // settings.length
            rows = []
            for x, value, count in question.measure(self.models[seed][method], self.source, settings.length, longest):
                rows.append(common | {"x": x, "value": value, "count": count})
                yield
            self.rows += rows
            self.measured.add((question.name, seed, method))

    # What has been measured so far.

    @property
    def table(self) -> pd.DataFrame:
        """All rows so far. Only new rows are converted."""
        done = len(self._table)
        if new := self.rows[done:]:
            self._table = pd.concat([self._table, results_table(new)], ignore_index=True)
        return self._table

    def checkpoint(self, seed: int) -> int:
        """The step of the last checkpoint of a seed that every method has completed; 0 before the first."""
        table = self.table
        tests = table[(table["question"] == self.settings.main.name) & (table["seed"] == seed)]
        sizes = tests.groupby("step").size()
        complete = sizes[sizes == len(self.settings.methods) * len(self.settings.lengths)]
        return int(complete.index.max()) if len(complete) else 0

    @property
    def complete(self) -> list[int]:
        """The seeds that have been trained to the end."""
        return [seed for seed in self.models if self.checkpoint(seed) == self.settings.steps]

    @property
    def counted(self) -> list[int]:
        """The seeds that results are based on: the complete ones, or the latest if none is."""
        return self.complete or list(self.models)[-1:]

    @property
    def failed(self) -> bool:
        """Whether the race ended with an error before any seed was complete."""
        return self.state == "failed" and not self.complete

    @property
    def last_models(self) -> dict[str, LanguageModel]:
        """The models of the last counted seed, which can be saved."""
        return self.models[self.counted[-1]] if self.models else {}

    def results(self, question: Question, seeds: list[int] | None = None) -> pd.DataFrame:
        """The rows of some seeds, by default the counted ones, for one question: after equal training."""
        table, seeds = self.table, self.counted if seeds is None else seeds
        rows = table[(table["question"] == question.name) & table["seed"].isin(seeds)]
        if question is self.settings.main:
            rows = rows[rows["step"] == rows["seed"].map({seed: self.checkpoint(seed) for seed in seeds})]
        return rows

    def unfinished(self, question: Question) -> pd.DataFrame | None:
        """The rows of the seed that is still training, after others that are complete; None if there is none."""
        running = [seed for seed in self.models if seed not in self.counted]
        return self.results(question, running) if self.state == "running" and running else None

    @property
    def losses(self) -> pd.DataFrame:
        """The training losses of the latest seed."""
        table = self.table
        return table[(table["question"] == TRAINING_LOSS) & (table["seed"] == max(self.models, default=-1))]

    def pace(self, method: str) -> tuple[int, float, float | None]:
        """Steps done by a method, its tokens per second over the recent steps, and the seconds left (None at first)."""
        step, speeds = 0, []
        for row in reversed(self.rows[-400:]):
            if row["method"] == method and row["question"] == TRAINING_LOSS and row["seed"] == max(self.models):
                step = max(step, row["step"])
                speeds.append(row["tokens_per_second"])
        if not step:
            return 0, 0.0, None
        left = (time.monotonic() - self.started) / step * (self.settings.steps - step)
        return step, len(speeds) / sum(1 / speed for speed in speeds), left

    @property
    def marks(self) -> dict[str, float]:
        """How far back ALiBi's flattest head attends in a model of the default size: {label: tokens}."""
        if "alibi" not in self.settings.methods:
            return {}
        return alibi_marks(int(DEFAULT_MODEL["num_heads"]))

    def save_models(self, folder: Path) -> list[Path]:
        """Save the models of the last counted seed in `folder`, each in a new folder of its own.

        Raises FileExistsError, before anything is written, if one of these exists, and ValueError for models whose
        training has diverged.
        """
        if self.failed:
            raise ValueError("the training of these models has diverged: train again with a lower learning rate")
        settings, seed = self.settings, self.counted[-1]
        paths = {method: folder / method for method in self.last_models}
        for path in paths.values():
            check_new(path)
        saved = {"task": settings.task, "text": self.source.name, "length": settings.length, "seed": seed}
        saved["learning_rate"] = settings.learning_rate
        for method, path in paths.items():
            results = self.table[(self.table["method"] == method) & (self.table["seed"] == seed)]
            step = int(results.loc[results["question"] == TRAINING_LOSS, "step"].max())
            lab.save_run(path, self.last_models[method], settings=saved | {"steps": step}, results=results)
        return list(paths.values())


def alibi_marks(num_heads: int) -> dict[str, float]:
    """How far back ALiBi's flattest head attends: {label: tokens}, for the marks of a figure.

    >>> from alibi_viz.widgets.race.state import alibi_marks
    >>> alibi_marks(4)
    {'alibi 1/m': 256.0, 'alibi 4/m': 1024.0}
    """
    flattest = alibi_slopes(num_heads).min()
    return {"alibi 1/m": float(1 / flattest), "alibi 4/m": float(4 / flattest)}
