"""A race of LengthLab: its settings, one growing table of rows, and the trained models."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from alibi_viz import lab
from alibi_viz.data.tales import mentions
from alibi_viz.data.text import BUILT_IN
from alibi_viz.figures.curve_plot import COMMON_METHODS, STYLES, assign_slots
from alibi_viz.measure.continuations import Continuation, known_words
from alibi_viz.measure.questions import Question, main_question
from alibi_viz.measure.table import TRAINING_LOSS, Row, results_table
from alibi_viz.models import LanguageModel
from alibi_viz.train.race import Race
from alibi_viz.widgets.core.own_methods import known_methods

# Steps between two checkpoints. Evaluating a task takes longer.
TEXT_STEPS = 50
TASK_STEPS = 60
# How the validation part of the built-in text begins: what its continuations go on telling.
OPENING = "This is the story of Emma,"
HERO = "Emma"
CHECKPOINT_TARGETS = 2048  # bytes predicted: with more, evaluation would take longer than training


class Written(NamedTuple):
    """What one model writes."""

    texts: list[Continuation]
    # Share of the words beyond the training length that occur in the training text; NaN without any
    known_words: float

    @property
    def names_hero(self) -> bool:
        """Whether the first text names the hero of the opening again."""
        first = self.texts[0]
        names = [mention.value for mention in mentions(first.within + first.beyond)]
        return HERO in names


def continues_opening(text: lab.Text | None, length: int) -> bool:
    """Whether models that train on sequences of this length go on with the tale of `OPENING`.

    `text` is None for the built-in text.
    """
    is_tale = text is None or text.name == BUILT_IN
    prompt_length = length // 2
    return is_tale and prompt_length >= len(OPENING)


@dataclass
class RaceState:
    """A race of LengthLab: its settings, and its results so far.

    Races with the same settings are equal.
    """

    task: str  # "text", or one of `lab.TASKS`
    methods: tuple[str, ...]
    length: int
    steps: int
    seed: int
    seeds: int
    text: lab.Text | None = field(default=None, compare=False)
    guesses: dict[str, str | None] = field(default_factory=dict, compare=False)
    emma: str | None = field(default=None, compare=False)  # the guess about her: "yes" or "no"
    # Whether the models write at each test, too, so that one sees them learn
    writes_while_training: bool = field(default=False, compare=False)
    # The methods themselves, and the text: the law behind a name may have been edited.
    made_of: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        methods = [known_methods()[name] for name in self.methods]
        fingerprint = self.text.fingerprint if self.text else None
        self.made_of = (*methods, fingerprint)

        self.state = "ready"  # then "running", and at last "stopped", "finished" or "failed"
        self.source: Any = None  # the text or task, from the start on
        self.rows: list[Row] = []  # of `lab.race`, and then of questions measured after the race
        # {seed: {method: model}}, of the seeds that have started
        self.models: dict[int, dict[str, LanguageModel]] = {}
        self.complete: list[int] = []  # the seeds that have been trained to the end
        self.measured: set[str] = set()  # the names of the questions measured after the race
        self.written: dict[str, Written] = {}  # by the models of the latest seed
        # {step: what they wrote then}, if they write while they train
        self.written_at: dict[int, dict[str, Written]] = {}
        self.tests = 0  # how many tests of a model have ended
        self._table = results_table([])

    # What follows from the settings.

    @property
    def main(self) -> Question:
        """The question that is answered while the models train, beside their training loss."""
        return main_question(self.task)

    @property
    def source_name(self) -> str:
        """What the models train on, in words."""
        if self.task in lab.TASKS:
            return f"{self.task} examples of up to {self.length} tokens"
        # The built-in text is written when a race starts, not for its name.
        name = BUILT_IN if self.text is None else self.text.name
        return f"sequences of {self.length} bytes of {name}"

    @property
    def _text_or_built_in(self) -> lab.Text:
        return lab.load_text() if self.text is None else self.text

    @property
    def text_read(self) -> lab.Text | None:
        """The text that the models train on, None for a task."""
        return None if self.task in lab.TASKS else self._text_or_built_in

    @property
    def slots(self) -> list[str]:
        """The method in each slot of the figure."""
        return assign_slots(self.methods, COMMON_METHODS)

    def color(self, method: str) -> str:
        """The color of a method in the figure."""
        return STYLES[self.slots.index(method)][0]

    # What takes time: both yield after each short step, so that they can be stopped there.

    def start(self) -> Iterator[None]:
        """Run the whole race. Raises ValueError at the call if it cannot be run."""
        if not self.methods:
            names = ", ".join(known_methods())
            raise ValueError(f"methods must be at least one of {names}, got none")

        if self.task in lab.TASKS:
            self.source = lab.TASKS[self.task]
            checkpoints = max(5, self.steps // TASK_STEPS)
        else:
            self.source = self._text_or_built_in
            checkpoints = max(10, self.steps // TEXT_STEPS)

        methods = {name: known_methods()[name] for name in self.methods}
        races = {}
        for seed in range(self.seed, self.seed + self.seeds):
            races[seed] = lab.race(
                methods,
                self.source,
                length=self.length,
                steps=self.steps,
                seed=seed,
                checkpoints=checkpoints,
                targets=CHECKPOINT_TARGETS,
            )
        self.state = "running"
        return self._run(races)

    def _run(self, races: dict[int, Race]) -> Iterator[None]:
        """Collect the rows of one race per seed, and what the last models write."""
        for seed, race in races.items():
            self.models[seed] = race.models
            self.written_at.clear()  # of the seed before
            with closing(race):
                for row in race:
                    self.rows.append(row)
                    yield
                    if self._ends_a_test(row):
                        yield from self._after_a_test(row)
            self.complete.append(seed)

        if self.task == "text" and not self.writes_while_training:
            for method in self.last_models:
                self._write(method)
                yield

    def _ends_a_test(self, row: Row) -> bool:
        """Whether a model has been tested at every length with this row."""
        longest = lab.evaluation_lengths(self.length)[-1]
        return row["question"] == self.main.name and row["x"] == longest

    def _after_a_test(self, row: Row) -> Iterator[None]:
        """Count the test, and let the model write if it is to be seen while it learns."""
        if self.task == "text" and self.writes_while_training:
            method = row["method"]
            self._write(method)
            self.written_at.setdefault(row["step"], {})[method] = self.written[method]
        self.tests += 1
        yield

    def _write(self, method: str) -> None:
        """Let the latest model of a method continue the text."""
        model = self.models[max(self.models)][method]
        texts = lab.continuations(model, self.source, self.length, seed=self.seed)
        share = known_words([text.beyond for text in texts], self.source)
        self.written[method] = Written(texts, share)

    def unmeasured(self, question: Question) -> bool:
        """Whether the trained models still have to be measured to answer a question."""
        if not self.models or self.failed or question.task != self.task:
            return False
        is_asked_later = question.measure is not None and question is not self.main
        return is_asked_later and question.name not in self.measured

    def measure(self, question: Question) -> Iterator[None]:
        """Measure one model after the other; nothing is kept if this is stopped."""
        assert question.measure is not None, "otherwise it isn't `unmeasured`"
        longest = lab.evaluation_lengths(self.length)[-1] // self.length
        last_rows = {  # the settings of each model
            (row["seed"], row["method"]): row for row in self.rows if row["seed"] in self.counted
        }
        rows = []
        for (seed, method), last_row in last_rows.items():
            model = self.models[seed][method]
            for answer in question.measure(model, self.source, self.length, longest):
                rows.append(question.row(last_row, *answer))
                yield
        self.rows += rows
        self.measured.add(question.name)

    # What has been measured so far.

    @property
    def table(self) -> pd.DataFrame:
        """All rows so far. Only new rows are converted."""
        table = self._table  # once, because two threads may ask at the same time
        new = self.rows[len(table) :]
        if new:
            table = pd.concat([table, results_table(new)], ignore_index=True)
            self._table = table
        return table

    @property
    def losses(self) -> pd.DataFrame:
        """The training losses of the latest seed."""
        table = self.table
        latest = max(self.models, default=-1)
        return table[(table["question"] == TRAINING_LOSS) & (table["seed"] == latest)]

    @property
    def counted(self) -> list[int]:
        """The seeds that results are based on: the complete ones, or the first if none is."""
        return self.complete or list(self.models)

    @property
    def failed(self) -> bool:
        """Whether the race ended with an error before any seed was complete."""
        return self.state == "failed" and not self.complete

    @property
    def last_models(self) -> dict[str, LanguageModel]:
        """The models of the last counted seed, which can be saved."""
        return self.models[self.counted[-1]] if self.models else {}

    @property
    def tested_steps(self) -> list[int]:
        """The steps after which all methods were tested, in every counted seed."""
        tests = self._full_tests(self._rows_of(self.main))
        seeds_by_step = tests.groupby("step")["seed"].nunique()
        steps = seeds_by_step[seeds_by_step == len(self.counted)].index
        return [int(step) for step in sorted(steps)]

    def results(self, question: Question, step: int | None = None) -> pd.DataFrame:
        """The rows of the counted seeds for one question.

        Those of the main question are from one of the `tested_steps`, by default from the last step
        at which all methods were tested.
        """
        rows = self._rows_of(question)
        if question is not self.main:
            return rows
        if step is not None:
            return rows[rows["step"] == step]

        last_step = self._full_tests(rows).groupby("seed")["step"].max()
        return rows[rows["step"] == rows["seed"].map(last_step)]

    def _rows_of(self, question: Question) -> pd.DataFrame:
        """All rows of the counted seeds for one question."""
        table = self.table  # once, because the race goes on on its thread
        return table[(table["question"] == question.name) & table["seed"].isin(self.counted)]

    def _full_tests(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The seed and step of each test of all methods at all lengths, of rows of the main
        question."""
        rows_of_a_full_test = len(self.methods) * len(lab.evaluation_lengths(self.length))
        rows_per_step = rows.groupby(["seed", "step"]).size()
        return rows_per_step[rows_per_step == rows_of_a_full_test].reset_index()
