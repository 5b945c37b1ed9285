"""A race of LengthLab: its settings, one growing table of rows, and the models that were trained."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import harmonic_mean
from typing import Any

import pandas as pd

from alibi_viz import lab
from alibi_viz.figures.curves import STYLES, assign_slots
from alibi_viz.lab.evaluation import known_words
from alibi_viz.lab.questions import Question, main_question
from alibi_viz.lab.race import Race
from alibi_viz.lab.say import VERBS
from alibi_viz.lab.sweep import check_new
from alibi_viz.lab.tasks import evaluation_distances
from alibi_viz.lab.training import DEFAULT_MODEL
from alibi_viz.models import POSITIONS, LanguageModel
from alibi_viz.slopes import alibi_slopes
from alibi_viz.table import AS_TRAINED, TRAINING_LOSS, Row, results_table
from alibi_viz.widgets.race.written import Written

COMMON_METHODS = ("alibi", "sinusoidal", "rotary", "learned", "none")  # always in view, and always in the same colors
OUTCOMES = tuple(VERBS)  # of a method on longer windows, as `outcome` of lab.say classifies
TEXT_STEPS, TASK_STEPS = 50, 60  # between two checkpoints; evaluating a task takes longer
CHECKPOINT_TARGETS = 2048  # bytes predicted: with more, evaluation would take longer than training
RECENT = 400  # rows: the speed of training is measured over these


@dataclass
class RaceState:
    """A race of LengthLab: its settings, and its results so far. Races with the same settings are equal.

    Attributes:
        task: what the models train on: "text", or one of `lab.TASKS`.
        methods, length, steps, seed, seeds, learning_rate, text: as in LengthLab; the text is None for a task.
        guesses: {method: outcome, or None}, made before the race.
        state: "ready", "running", "stopped", "finished" or "failed".
        source: the text or task; None before the start.
        rows: what has been measured, as `lab.race` yields it; questions measured after the race follow.
        models: {seed: {method: model}}, of the seeds that have started.
        measuring: whether the trained models are being measured now.
        measured: the (question, seed, method) of what was measured after the race, also if that gave no rows.
        written: {method: what the model of the last seed writes}, after a race on a text has finished.
        started: when the latest seed started, by `time.monotonic`.
    """

    task: str
    methods: tuple[str, ...]
    length: int
    steps: int
    seed: int
    seeds: int
    learning_rate: float
    text: str | Path | None = None
    guesses: dict[str, str | None] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        self.state, self.measuring, self.started = "ready", False, 0.0
        self.source: Any = None
        self.rows: list[Row] = []
        self.models: dict[int, dict[str, LanguageModel]] = {}
        self.measured: set[tuple[str, int, str]] = set()
        self.written: dict[str, Written] = {}
        self._table = results_table([])

    # What follows from the settings.

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
        text = self.text.name if isinstance(self.text, Path) else "your text" if self.text else lab.load_text().name
        return f"windows of {self.length} bytes of {text}"

    @property
    def slots(self) -> list[str]:
        """The method in each slot of the figure."""
        return assign_slots(self.methods, COMMON_METHODS)

    def color(self, method: str) -> str:
        """The color of a method in the figure."""
        return STYLES[self.slots.index(method)][0]

    @property
    def marks(self) -> dict[str, float]:
        """How far back ALiBi's flattest head attends in a model of the default size: {label: tokens}."""
        return alibi_marks(int(DEFAULT_MODEL["num_heads"])) if "alibi" in self.methods else {}

    # What takes time: both yield after each short step, so that they can be stopped there.

    def start(self) -> Iterator[None]:
        """Run the whole race. Raises ValueError at the call if it cannot be run."""
        if not self.methods:
            raise ValueError(f"methods must be at least one of {', '.join(POSITIONS)}, got none")
        self.source = lab.TASKS.get(self.task) or lab.load_text(self.text)
        is_task = self.task in lab.TASKS
        races = {
            seed: lab.race(
                self.methods,
                self.source,
                length=self.length,
                steps=self.steps,
                seed=seed,
                lengths=self.lengths,
                checkpoints=max(5, self.steps // TASK_STEPS) if is_task else max(10, self.steps // TEXT_STEPS),
                targets=CHECKPOINT_TARGETS,
                learning_rate=self.learning_rate,
            )
            for seed in range(self.seed, self.seed + self.seeds)
        }
        self.state = "running"
        return self._run(races)

    def _run(self, races: dict[int, Race]) -> Iterator[None]:
        """Collect the rows of one race per seed, and what the last models write."""
        for seed, race in races.items():
            self.started, self.models[seed] = time.monotonic(), race.models
            with closing(race):
                for row in race:
                    self.rows.append(row)
                    yield
        if self.task == "text":
            for method, model in self.last_models.items():
                texts = lab.continuations(model, self.source, self.length, seed=self.seed)
                self.written[method] = Written(texts, known_words([each.beyond for each in texts], self.source))
                yield

    def unmeasured(self, question: Question) -> list[tuple[int, str]]:
        """The models that still have to be measured to answer a question: (seed, method)."""
        if question.while_training or question.task != self.task or self.failed:
            return []
        models = [(seed, method) for seed in self.counted for method in self.models[seed]]
        return [model for model in models if (question.name, *model) not in self.measured]

    def measure(self, question: Question) -> Iterator[None]:
        """Measure one model after the other."""
        common = {"origin": "live", "task": self.task, "variant": AS_TRAINED, "length": self.length}
        common |= {"step": self.steps, "text": getattr(self.source, "fingerprint", "")}
        common |= {"question": question.name, "unit": question.unit}
        longest = self.lengths[-1] // self.length
        for seed, method in self.unmeasured(question):
            rows = []
            for x, value, count in question.measure(self.models[seed][method], self.source, self.length, longest):
                own = {"seed": seed, "method": method, "label": method, "x": x, "value": value, "count": count}
                rows.append(common | own)
                yield
            self.rows += rows
            self.measured.add((question.name, seed, method))

    # What has been measured so far.

    @property
    def table(self) -> pd.DataFrame:
        """All rows so far. Only new rows are converted."""
        table = self._table  # once, because two threads may ask at the same time
        if new := self.rows[len(table) :]:
            table = self._table = pd.concat([table, results_table(new)], ignore_index=True)
        return table

    @property
    def losses(self) -> pd.DataFrame:
        """The training losses of the latest seed."""
        table = self.table
        return table[(table["question"] == TRAINING_LOSS) & (table["seed"] == max(self.models, default=-1))]

    @property
    def done(self) -> dict[str, int]:
        """The steps that each method has done with the latest seed."""
        steps = self.losses["method"].value_counts()
        return {method: int(steps.get(method, 0)) for method in self.methods}

    def speed(self, method: str) -> float:
        """Tokens per second of a method over its recent steps; 0 before the first."""
        recent = [row for row in self.rows[-RECENT:] if row["method"] == method and row["question"] == TRAINING_LOSS]
        return harmonic_mean([row["tokens_per_second"] for row in recent]) if recent else 0.0

    def checkpoint(self, seed: int) -> int:
        """The step of the last checkpoint of a seed that every method has completed; 0 before the first."""
        table = self.table
        sizes = table[(table["question"] == self.main.name) & (table["seed"] == seed)].groupby("step").size()
        return int(max(sizes.index[sizes == len(self.methods) * len(self.lengths)], default=0))

    @property
    def complete(self) -> list[int]:
        """The seeds that have been trained to the end."""
        return [seed for seed in self.models if self.checkpoint(seed) == self.steps]

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
        if question is self.main:
            rows = rows[rows["step"] == rows["seed"].map({seed: self.checkpoint(seed) for seed in seeds})]
        return rows

    def unfinished(self, question: Question) -> pd.DataFrame | None:
        """The rows of the seed that is still training, after others that are complete; None if there is none."""
        running = [seed for seed in self.models if seed not in self.counted]
        return self.results(question, running) if self.state == "running" and running else None

    def save_models(self, folder: Path) -> list[Path]:
        """Save the models of the last counted seed in `folder`, each in a new folder of its own.

        Raises FileExistsError, before anything is written, if one of these exists, and ValueError for models whose
        training has diverged.
        """
        if self.failed:
            raise ValueError("the training of these models has diverged: train again with a lower learning rate")
        seed, paths = self.counted[-1], {method: folder / method for method in self.last_models}
        for path in paths.values():
            check_new(path)
        settings = {"task": self.task, "text": self.source.name, "length": self.length, "seed": seed}
        settings["learning_rate"] = self.learning_rate
        for method, path in paths.items():
            results = self.table[(self.table["method"] == method) & (self.table["seed"] == seed)]
            steps = int((results["question"] == TRAINING_LOSS).sum())
            lab.save_run(path, self.last_models[method], settings=settings | {"steps": steps}, results=results)
        return list(paths.values())


def alibi_marks(num_heads: int) -> dict[str, float]:
    """How far back ALiBi's flattest head attends: {label: tokens}, for the marks of a figure.

    >>> from alibi_viz.widgets.race.state import alibi_marks
    >>> alibi_marks(4)
    {'alibi 1/m': 256.0, 'alibi 4/m': 1024.0}
    """
    flattest = float(alibi_slopes(num_heads).min())
    return {"alibi 1/m": 1 / flattest, "alibi 4/m": 4 / flattest}
