"""The record of a race over one or several seeds, and of what is measured on its models afterwards."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from alibi_viz import lab
from alibi_viz.lab import Answer, Lap, Question, Scoreboard, Task, Text, race, save_run
from alibi_viz.lab.evaluation import count_shared_targets
from alibi_viz.lab.folders import check_new
from alibi_viz.lab.questions import QUESTIONS
from alibi_viz.lab.questions.question import mean_curve
from alibi_viz.lab.results import AS_TRAINED, TRAINING_LOSS, results_table, seed_curves
from alibi_viz.lab.tasks import task_samples
from alibi_viz.models import POSITIONS
from alibi_viz.panel import Panel, Points
from alibi_viz.widgets.race.settings import RaceSettings, alibi_range
from alibi_viz.widgets.race.traits import read_source
from alibi_viz.widgets.race.written import Written, write

__all__ = ["CHECKPOINT_TARGETS", "RaceReport"]

TEXT_STEPS, TASK_STEPS = 50, 60  # between two checkpoints; evaluating a task takes longer
CHECKPOINT_TARGETS = 2048  # bytes predicted: with more, evaluation would take longer than training


@dataclass
class RaceReport:
    """The state and the results of one race.

    Attributes:
        settings: of the race.
        guesses: {method: outcome, or None}, made before the race.
        source: the text or task; None before the start.
        state: "ready", "running", "stopped", "finished" or "failed".
        boards: one scoreboard for each seed that has started.
        measuring: whether the trained models are being measured now.
        measured: {(question, index of the seed, method): answers}, added after the race.
        written: {method: what the model of the last seed writes}, after a race on a text has finished.
    """

    settings: RaceSettings
    guesses: dict[str, str | None] = field(default_factory=dict)
    source: Text | Task | None = None
    state: str = "ready"
    boards: list[Scoreboard] = field(default_factory=list)
    measuring: bool = False
    measured: dict[tuple[str, int, str], list[Answer]] = field(default_factory=dict)
    written: dict[str, Written] = field(default_factory=dict)
    _complete_rows: dict[tuple[str, int], list[dict[str, Any]]] = field(default_factory=dict, repr=False)

    @property
    def board(self) -> Scoreboard:
        """The scoreboard of the latest seed; an empty one before the start."""
        return self.boards[-1] if self.boards else self._new_board()

    @property
    def complete(self) -> list[int]:
        """The indices of the seeds that have been trained to the end."""
        return [index for index in range(len(self.boards)) if self._is_complete(index)]

    @property
    def counted(self) -> list[int]:
        """The indices of the seeds that results are based on: the complete ones, or the latest if none is."""
        return self.complete or list(range(len(self.boards)))[-1:]

    @property
    def failed(self) -> bool:
        """Whether the race ended with an error before any seed was complete."""
        return self.state == "failed" and not self.complete

    @property
    def last(self) -> Scoreboard:
        """The scoreboard whose models can be saved: that of the last counted seed."""
        return self.boards[self.counted[-1]] if self.boards else self._new_board()

    def start(self) -> Iterator[None]:
        """Run the whole race, in short steps. Raises ValueError at the call if it cannot be run."""
        settings = self.settings
        if not settings.methods:
            raise ValueError(f"methods must be at least one of {', '.join(POSITIONS)}, got none")
        source = lab.TASKS.get(settings.task) or read_source(settings.text)
        is_task = isinstance(source, Task)
        checkpoints = max(5, settings.steps // TASK_STEPS) if is_task else max(10, settings.steps // TEXT_STEPS)
        races = [
            race(
                settings.methods,
                source,
                length=settings.length,
                steps=settings.steps,
                seed=settings.seed + index,
                lengths=settings.lengths,
                checkpoints=checkpoints,
                targets=CHECKPOINT_TARGETS,
                learning_rate=settings.learning_rate,
            )
            for index in range(settings.seeds)
        ]
        self.source, self.state = source, "running"
        return self._run(races)

    def _run(self, races: Sequence[Iterator[Lap]]) -> Iterator[None]:
        """Record the laps of one race per seed, and what the last models write."""
        for laps in races:
            for number, lap in enumerate(laps):
                if number == 0:
                    self.boards.append(self._new_board())
                self.board.add(lap)
                yield
        if isinstance(self.source, Text):
            for method, model in self.last.models.items():
                self.written[method] = write(model, self.source, self.settings.length, self.settings.seed)
                yield

    def unmeasured(self, question: Question) -> list[tuple[int, str]]:
        """The models that still have to be measured to answer a question: (index of the seed, method)."""
        if question.while_training or question.task != self.settings.task or self.failed:
            return []
        models = [(index, method) for index in self.counted for method in self.boards[index].models]
        return [model for model in models if (question.name, *model) not in self.measured]

    def measure(self, question: Question) -> Iterator[None]:
        """Measure one model after the other, in short steps."""
        assert self.source is not None
        for index, method in self.unmeasured(question):
            answers = []
            for answer in question.measure(self.boards[index].models[method], self.source, self.settings.length):
                answers.append(answer)
                yield
            self.measured[question.name, index, method] = answers

    def results(self, question: Question) -> pd.DataFrame:
        """The rows of the counted seeds for one question, with the columns of `lab.results`."""
        return results_table(chain.from_iterable(self._rows(question, index) for index in self.counted))

    def means(self, question: Question) -> dict[str, Points]:
        """{method: {x: value}}, the mean over the counted seeds."""
        curves = seed_curves(self.results(question))
        return {method: mean_curve(list(curves.get(method, {}).values())) for method in self.settings.methods}

    def unfinished(self, question: Question) -> pd.DataFrame | None:
        """The rows of the seed that is still training, after others that are complete; None if there is none."""
        latest = len(self.boards) - 1
        if self.state != "running" or not self.complete or latest in self.complete:
            return None
        return results_table(self._rows(question, latest))

    def panel(self, question: Question, results: pd.DataFrame, *, marked: bool) -> Panel:
        """The panel of a question; `marked` is whether to show how far back ALiBi attends."""
        settings = self.settings
        return question.panel(
            results,
            settings.length,
            labels=settings.methods,
            unfinished=self.unfinished(question),
            marks=alibi_range(settings.methods) if marked else None,
            last=question.last_x(settings.steps),
        )

    def table(self) -> pd.DataFrame:
        """All results of the counted seeds: every question, and the training loss of each step."""
        questions = [question for question in QUESTIONS if question.task == self.settings.task]
        rows = [row for index in self.counted for question in questions for row in self._rows(question, index)]
        return results_table([*rows, *chain.from_iterable(map(self._training_losses, self.counted))])

    def save_models(self, folder: Path) -> list[Path]:
        """Save the models of the last counted seed in `folder`, each in a new folder of its own.

        Raises FileExistsError, before anything is written, if one of these exists, and ValueError for models whose
        training has diverged.
        """
        if self.failed:
            raise ValueError("the training of these models has diverged: train again with a lower learning rate")
        board, settings = self.last, self.settings
        paths = {method: folder / method for method in board.models}
        for path in paths.values():
            check_new(path)
        assert self.source is not None
        seed = settings.seed + self.boards.index(board)
        saved = {"task": settings.task, "text": self.source.name, "length": settings.length, "seed": seed}
        saved["learning_rate"] = settings.learning_rate
        table = self.table()
        for method, path in paths.items():
            results = table[(table["method"] == method) & (table["seed"] == seed)]
            save_run(path, board.models[method], settings=saved | {"steps": board.step(method)}, results=results)
        return list(paths.values())

    def _rows(self, question: Question, index: int) -> list[dict[str, Any]]:
        """The rows of one question and one seed. Those of a seed that is complete are computed once."""
        if (question.name, index) in self._complete_rows:
            return self._complete_rows[question.name, index]
        rows = [
            self._row(index, method, question.name, question.unit, answer)
            for method in self.settings.methods
            for answer in self._answers(question, index, method)
        ]
        if question.while_training and self._is_complete(index):
            self._complete_rows[question.name, index] = rows
        return rows

    def _answers(self, question: Question, index: int, method: str) -> list[Answer]:
        board = self.boards[index]
        if question is self.settings.main:
            return [Answer(x, value, self._count(x)) for x, value in board.scores(method).items()]
        if question.while_training:
            return [
                answer
                for step, scores in board.checkpoints[method].items()
                for answer in question.at_checkpoint(step, scores, self.settings.length, self._count(max(scores)))
            ]
        return self.measured.get((question.name, index, method), [])

    def _training_losses(self, index: int) -> Iterator[dict[str, Any]]:
        unit = "bits per answer" if isinstance(self.source, Task) else "bits per byte"
        for method in self.settings.methods:
            for step, loss in enumerate(self.boards[index].losses[method], start=1):
                yield self._row(index, method, TRAINING_LOSS, unit, Answer(step, loss, 1))

    def _row(self, index: int, method: str, question: str, unit: str, answer: Answer) -> dict[str, Any]:
        settings, text = self.settings, self.source.fingerprint if isinstance(self.source, Text) else ""
        run = {"origin": "live", "task": settings.task, "length": settings.length, "text": text}
        run |= {"method": method, "label": method, "seed": settings.seed + index, "evaluated": AS_TRAINED}
        values = {"x": answer.x, "value": answer.value, "count": answer.samples}
        return {**run, "question": question, "unit": unit, **values}

    def _count(self, x: int) -> int:
        """How many targets a value at a checkpoint is the mean of."""
        if isinstance(self.source, Task):
            return task_samples(self.source, x)
        assert isinstance(self.source, Text)
        return count_shared_targets(self.source, self.settings.lengths, max(CHECKPOINT_TARGETS, *self.settings.lengths))

    def _is_complete(self, index: int) -> bool:
        return self.boards[index].last_checkpoint() == self.settings.steps

    def _new_board(self) -> Scoreboard:
        return Scoreboard(self.settings.methods, steps=self.settings.steps, lengths=self.settings.lengths)
