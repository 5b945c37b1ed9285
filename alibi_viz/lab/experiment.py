"""Train and test one model: settings in, one JSON-serializable record out.

Equal settings give equal numbers on the same machine with the same versions, which the record names.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from alibi_viz.arguments import (
    check_file_name,
    check_instance,
    check_integer,
    check_learning_rate,
    check_positive_integers,
    check_seed,
)
from alibi_viz.lab.checkpoints import versions
from alibi_viz.lab.evaluation import TARGETS, count_shared_targets, loss_by_length
from alibi_viz.lab.modify import evaluation_variants
from alibi_viz.lab.questions import QUESTIONS, Answer, Question, main_question
from alibi_viz.lab.results import AS_TRAINED, TRAINING_LOSS, Record
from alibi_viz.lab.sources import SOURCES
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text, check_testable
from alibi_viz.lab.training import (
    BATCH_SIZE,
    LEARNING_RATE,
    LENGTH,
    STEPS,
    Step,
    TrainingDiverged,
    check_device,
    make_model,
    model_config,
    train,
)
from alibi_viz.models import LanguageModel, Method, method_name, own_method, provenance

__all__ = ["Run", "final_answers", "limited_threads", "measure", "new_model", "training_steps"]

CURVE_POINTS = 60  # of the training loss, each the mean of the steps since the point before


@dataclass(frozen=True)
class Run:
    """The settings of one training run and its tests.

    Attributes:
        position: a position method: a name, or your own function or class, which is then known by its name.
        task: "text"; "passages" or "text with passages", as in `passages_text`; or one of `TASKS`.
        length, steps, batch_size, learning_rate, seed, device: as in `train`; the seed also sets the starting weights.
        longest: tests go to this many times the training length, or the largest power of two below; 0 for no tests.
        threads: of torch. One thread each is best when several runs share a machine.
        path: a text file of your own, instead of the built-in text; the other tasks don't read it.
        model: further fields of `TransformerConfig`, such as {"d_model": 96}.
        label: name in tables and legends; the position method by default.
        own: your own position method; set by `position`.

    Raises ValueError and TypeError for invalid settings.

    >>> Run("alibi", seed=1).label
    'alibi'
    """

    position: Method
    task: str = "text"
    length: int = LENGTH
    steps: int = STEPS
    batch_size: int = BATCH_SIZE
    learning_rate: float = LEARNING_RATE
    seed: int = 0
    longest: int = 16
    threads: int = 1
    path: str | Path | None = None
    device: str = "auto"
    model: dict[str, int | float | str | bool] = field(default_factory=dict)
    label: str = ""
    own: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.task not in SOURCES:
            raise ValueError(f"task must be one of {', '.join(SOURCES)}, got {self.task!r}")
        check_positive_integers(length=self.length, steps=self.steps, batch_size=self.batch_size, threads=self.threads)
        check_learning_rate(self.learning_rate)
        check_integer("longest", self.longest, 0)
        check_seed(self.seed)
        check_device(self.device)
        if self.path is not None:
            check_file_name("path", self.path)
            object.__setattr__(self, "path", str(self.path))
        check_instance("model", self.model, dict)
        is_copy = self.own is not None and self.own.__name__ == self.position  # by `dataclasses.replace`
        name = method_name(self.own if is_copy else self.position)
        object.__setattr__(self, "position", name)
        object.__setattr__(self, "own", own_method(name))
        _ = self._provenance  # computed now, because what the method reads may change
        model_config(name, self.model)  # raises for fields that don't fit
        object.__setattr__(self, "label", str(self.label or name))
        object.__setattr__(self, "device", str(self.device))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a run in another process, where your own method has to be registered again."""
        self.__dict__.update(state)
        if self.own is not None:
            method_name(self.own)

    def settings(self) -> dict[str, Any]:
        """All settings as JSON-serializable values, with the source of your own method; equal for equal runs."""
        settings = asdict(self)
        del settings["own"]
        return settings if self._provenance is None else {**settings, "own": self._provenance}

    @cached_property
    def _provenance(self) -> dict[str, str] | None:
        """The provenance of your own method at the time when the run was defined."""
        return None if self.own is None else provenance(self.own)

    def source(self) -> Text | Task:
        """The text or task to train on. Raises ValueError for a text that is too short for the tests."""
        source = SOURCES[self.task](self.path)
        if isinstance(source, Text) and self.longest:
            check_testable(source, self.length * self.longest + self.length)
        return source


def measure(run: Run) -> Record:
    """Train one model, evaluate it on every question of its task, and return the record.

    The record has "run" (the settings), "text" (the fingerprint of the text, "" for a task), "error" (None, or how
    training diverged), "seconds", "tokens_per_second" (median), "made_with" (versions) and "answers", a list of
    [evaluated, question, x, value, unit, count], where a value that is not defined is None. `read_results` turns
    records into a table.

    Raises ValueError, before any training, for a text that is too short for the tests.

    >>> record = lab.measure(lab.Run("none", length=16, steps=5, longest=2))
    >>> {answer[1] for answer in record["answers"]} >= {"training loss", "longer windows", "same targets"}
    True
    """
    check_instance("run", run, Run)
    started = time.perf_counter()
    source = run.source()
    text = source.fingerprint if isinstance(source, Text) else ""
    checkpoints = _checkpoints(run.steps) if run.longest and main_question(run.task).while_training else set()
    record: Record = {"run": run.settings(), "text": text, "error": None}
    steps: list[Step] = []
    answers: list[list[Any]] = []
    with limited_threads(run.threads):
        model = new_model(run, source)
        try:
            for step in training_steps(model, source, run):
                steps.append(step)
                if isinstance(source, Text) and step.index in checkpoints:
                    answers += _checkpoint_answers(model, source, run, step.index)
            answers += final_answers(model, source, run) if run.longest else []
        except TrainingDiverged as error:
            record["error"], answers = str(error), []
    unit = "bits per byte" if isinstance(source, Text) else "bits per answer"
    record["answers"] = _training_curve(steps, run, unit) + answers
    record["tokens_per_second"] = round(median(step.tokens_per_second for step in steps)) if steps else None
    record["seconds"] = round(time.perf_counter() - started, 2)
    record["made_with"] = versions()
    return record


def new_model(run: Run, source: Text | Task) -> LanguageModel:
    """The untrained model of a run."""
    sizes = {"max_length": run.length, "vocabulary": source.vocabulary, **run.model}
    method = run.position if run.own is None else run.own  # another method may have taken its name since
    return make_model(method, seed=run.seed, **sizes)


def training_steps(model: LanguageModel, source: Text | Task, run: Run) -> Iterator[Step]:
    """Train the model of a run, step by step."""
    names = ("length", "steps", "batch_size", "learning_rate", "seed", "device")
    return train(model, source, **{name: getattr(run, name) for name in names})


def _checkpoints(steps: int) -> set[int]:
    """The last step of each quarter of training. A single gap at the end could be due to short training."""
    return {max(1, steps * quarter // 4) for quarter in range(1, 5)}


def _checkpoint_answers(model: LanguageModel, text: Text, run: Run, step: int) -> list[list[Any]]:
    lengths = sorted({run.length, run.length * min(4, run.longest)})
    targets = max(TARGETS, *lengths)
    losses = loss_by_length(model, text, lengths, targets=targets)
    count = count_shared_targets(text, lengths, targets)
    return [
        _as_row(AS_TRAINED, question, answer)
        for question in QUESTIONS
        if question.task == run.task
        for answer in question.at_checkpoint(step, losses, run.length, count)
    ]


def final_answers(model: LanguageModel, source: Text | Task, run: Run) -> list[list[Any]]:
    """The answers to every question of the task, for the model as trained and changed, as rows of a record.

    Raises TrainingDiverged if the main question has a NaN at a length at which the model is defined.
    """
    main, models = main_question(run.task), {AS_TRAINED: model, **evaluation_variants(model, run.length)}
    rows = []
    for question in QUESTIONS:
        for evaluated in question.evaluations:
            if question.task != run.task or evaluated not in models:
                continue
            for answer in question.measure(models[evaluated], source, run.length, longest=run.longest):
                length = source.min_length(answer.x) if isinstance(source, Task) else answer.x
                if question is main and math.isnan(answer.value) and model.is_defined_at(length):
                    raise TrainingDiverged("the trained model gives no number: its training has diverged")
                rows.append(_as_row(evaluated, question, answer))
    return rows


def _as_row(evaluated: str, question: Question, answer: Answer) -> list[Any]:
    """An answer as a record holds it; JSON has no NaN, so a value that is not defined is None."""
    value = None if math.isnan(answer.value) else round(answer.value, 5)
    return [evaluated, question.name, answer.x, value, question.unit, answer.samples]


def _training_curve(steps: list[Step], run: Run, unit: str) -> list[list[Any]]:
    points = min(len(steps), CURVE_POINTS)
    ends = [len(steps) * point // points for point in range(points + 1)] if points else []
    rows = []
    for first, last in pairwise(ends):
        loss = sum(step.loss for step in steps[first:last]) / (last - first)
        count = (last - first) * run.batch_size
        rows.append([AS_TRAINED, TRAINING_LOSS, steps[last - 1].index, round(loss, 4), unit, count])
    return rows


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Use that many threads of torch inside a `with` block: the numbers depend on it, a little."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
