"""A run: train and test one model. Settings in, one JSON-serializable record out; records make the table of results.

Equal settings give equal numbers on the same machine with the same versions, which the record names.
"""

import gzip
import json
import math
import platform
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import cached_property, partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import fmean, mean, median
from typing import Any

import pandas as pd
import torch

from alibi_viz.arguments import (
    as_list,
    check_file_name,
    check_instance,
    check_integer,
    check_known,
    check_learning_rate,
    check_positive_integers,
    check_seed,
)
from alibi_viz.lab.evaluation import TARGETS, count_shared_targets, loss_by_length
from alibi_viz.lab.measures import length_blocks
from alibi_viz.lab.modify import VARIANTS, evaluation_variants
from alibi_viz.lab.questions import QUESTIONS, Question, find_question, main_question
from alibi_viz.lab.tasks import TASKS, Task
from alibi_viz.lab.text import Text, check_testable, load_text, python_text
from alibi_viz.lab.training import (
    BATCH_SIZE,
    LEARNING_RATE,
    LENGTH,
    STEPS,
    TrainingDiverged,
    check_device,
    limited_threads,
    make_model,
    model_config,
    train,
)
from alibi_viz.models import LanguageModel, register_method
from alibi_viz.models.positions.custom import Method, custom_method, provenance
from alibi_viz.table import AS_TRAINED, TRAINING_LOSS, Row, results_table

CURVE_POINTS = 60  # of the training loss, each the mean of the steps since the point before
ANSWER = ("variant", "question", "x", "value", "unit", "count")  # of a record's "answers", in this order
Record = dict[str, Any]  # one finished run as JSON, see `measure`
# What to train on, by the name of a task. The functions take a path, which is None for the built-in text.
SOURCES: dict[str, Callable[[str | Path | None], Text | Task]] = {
    "text": lambda path: load_text(path and Path(path)),
    "python reference": lambda path: python_text(),
    **{name: lambda path, task=task: task for name, task in TASKS.items()},  # type: ignore[misc]
}


@dataclass(frozen=True)
class Run:
    """The settings of one training run and its tests.

    Attributes:
        position: a position method: a name, or your own function or class, which is then known by its name.
        task: "text"; "python reference", as in `python_text`; or one of `TASKS`.
        length, steps, batch_size, learning_rate, seed, device: as in `train`; the seed also sets the starting weights.
        longest: tests go to this many times the training length, or the largest power of two below; 0 for no tests.
        targets: how many bytes of a text are predicted at each length.
        variants: names of `lab.modify.VARIANTS`, the changes with which the model is tested too; by default all that
            its position method allows.
        threads: of torch. One thread each is best when several runs share a machine.
        path: a text file of your own, instead of the built-in text; the other tasks don't read it.
        model: further fields of `TransformerConfig`, such as {"d_model": 96}.
        label: name in tables and legends; the position method by default.
        custom: your own position method; set by `position`.

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
    targets: int = TARGETS
    variants: Sequence[str] | None = None
    threads: int = 1
    path: str | Path | None = None
    device: str = "auto"
    model: dict[str, int | float | str | bool] = field(default_factory=dict)
    label: str = ""
    custom: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.task not in SOURCES:
            raise ValueError(f"task must be one of {', '.join(SOURCES)}, got {self.task!r}")
        names = ("length", "steps", "batch_size", "targets", "threads")
        check_positive_integers(**{name: getattr(self, name) for name in names})
        if self.variants is not None:
            check_known("variants", as_list("variants", self.variants, "names"), VARIANTS)
            object.__setattr__(self, "variants", tuple(self.variants))
        check_learning_rate(self.learning_rate)
        check_integer("longest", self.longest, 0)
        check_seed(self.seed)
        check_device(self.device)
        if self.path is not None:
            check_file_name("path", self.path)
            object.__setattr__(self, "path", str(self.path))
        check_instance("model", self.model, dict)
        is_copy = self.custom is not None and self.custom.__name__ == self.position  # by `dataclasses.replace`
        name = register_method(self.custom if is_copy else self.position)
        object.__setattr__(self, "position", name)
        object.__setattr__(self, "custom", custom_method(name))
        _ = self._provenance  # computed now, because what the method reads may change
        model_config(name, self.model)  # raises for fields that don't fit
        object.__setattr__(self, "label", str(self.label or name))
        object.__setattr__(self, "device", str(self.device))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a run in another process, where your own method has to be registered again."""
        self.__dict__.update(state)
        if self.custom is not None:
            register_method(self.custom)

    def settings(self) -> dict[str, Any]:
        """All settings as JSON-serializable values, with the source of your own method; equal for equal runs."""
        settings = asdict(self)
        del settings["custom"]
        settings["variants"] = None if self.variants is None else list(self.variants)  # as in JSON
        return settings if self._provenance is None else {**settings, "custom": self._provenance}

    @cached_property
    def _provenance(self) -> dict[str, str] | None:
        """The provenance of your own method at the time when the run was defined."""
        return None if self.custom is None else provenance(self.custom)

    def source(self) -> Text | Task:
        """The text or task to train on. Raises ValueError for a text that is too short for the tests."""
        source = SOURCES[self.task](self.path)
        if isinstance(source, Text) and self.longest:
            check_testable(source, self.length * self.longest + self.length)
        return source

    def new_model(self, source: Text | Task) -> LanguageModel:
        """The untrained model."""
        sizes = {"max_length": self.length, "vocabulary": source.vocabulary, **self.model}
        method = self.position if self.custom is None else self.custom  # another may have taken its name since
        return make_model(method, seed=self.seed, **sizes)

    def train(self, model: LanguageModel, source: Text | Task) -> Iterator[Row]:
        """Train the model, row by row."""
        names = ("length", "steps", "batch_size", "learning_rate", "seed", "device")
        return train(model, source, **{name: getattr(self, name) for name in names})


def measure(run: Run) -> Record:
    """Train one model, evaluate it on every question of its task, and return the record.

    The record has "run" (the settings), "text" (the fingerprint of the text, "" for a task), "error" (None, or how
    training diverged), "seconds", "tokens_per_second" (median), "made_with" (versions) and "answers", a list of
    [variant, question, x, value, unit, count], where a value that is not defined is None. `read_results` turns records
    into a table.

    Raises ValueError, before any training, for a text that is too short for the tests.

    >>> record = lab.measure(lab.Run("none", length=16, steps=5, longest=2))
    >>> {answer[1] for answer in record["answers"]} >= {"training loss", "longer windows", "same targets"}
    True
    """
    check_instance("run", run, Run)
    started = time.perf_counter()
    source = run.source()
    record: Record = {"run": run.settings(), "text": getattr(source, "fingerprint", ""), "error": None}
    steps: list[Row] = []
    answers: list[list[Any]] = []
    quarters = {max(1, run.steps * quarter // 4) for quarter in range(1, 5)} if run.longest else set()
    with limited_threads(run.threads):
        model = run.new_model(source)
        try:
            for row in run.train(model, source):
                steps.append(row)
                if isinstance(source, Text) and row["step"] in quarters:
                    answers.append(_gap(model, source, run, row["step"]))
            answers += final_answers(model, source, run)
        except TrainingDiverged as error:
            record["error"], answers = str(error), []
    record["answers"] = _training_curve(steps, run) + answers
    record["tokens_per_second"] = round(median(row["tokens_per_second"] for row in steps)) if steps else None
    record["seconds"] = round(time.perf_counter() - started, 2)
    record["made_with"] = versions()
    return record


def _gap(model: LanguageModel, text: Any, run: Run, step: int) -> list[Any]:
    """The loss on windows of 4L minus that on windows of L, as a row of a record."""
    lengths = sorted({run.length, run.length * min(4, run.longest)})
    targets = max(TARGETS, *lengths)
    losses = list(loss_by_length(model, text, lengths, targets=targets).values())
    count = count_shared_targets(text, lengths, targets)
    return _answer(AS_TRAINED, find_question("gap"), step, losses[-1] - losses[0], count)


def final_answers(model: LanguageModel, source: Text | Task, run: Run) -> list[list[Any]]:
    """The answers to every question of the task, for the model as trained and changed, as rows of a record.

    Raises TrainingDiverged if the main question has a NaN at a length at which the model is defined.
    """
    task = run.task if isinstance(source, Task) else "text"
    main, models = main_question(task), {AS_TRAINED: model, **evaluation_variants(model, run.length)}
    if run.variants is not None:
        models = {variant: models[variant] for variant in (AS_TRAINED, *run.variants) if variant in models}
    answers = []
    for question in QUESTIONS if run.longest else ():
        measure: Callable[..., Iterator[tuple[int, Any, int]]] = question.measure
        if question is main and isinstance(source, Text):
            measure = partial(length_blocks, targets=run.targets)
        for variant in question.variants:
            if question.task != task or variant not in models:
                continue
            for x, value, count in measure(models[variant], source, run.length, run.longest):
                answer = _answer(variant, question, x, value, count)
                length = source.min_length(x) if isinstance(source, Task) else x
                if question is main and answer[3] is None and model.is_defined_at(length):
                    raise TrainingDiverged("the trained model gives no number: its training has diverged")
                answers.append(answer)
    return answers


def _answer(variant: str, question: Question, x: int, value: float | list[float], count: int) -> list[Any]:
    """A row of a record. Its value may be a list of block means; JSON has no NaN, so an undefined one is None."""
    values = [value] if isinstance(value, float) else value
    rounded = None if any(map(math.isnan, values)) else [round(each, 5) for each in values]
    return [variant, question.name, x, rounded and rounded[0] if len(values) == 1 else rounded, question.unit, count]


def _training_curve(rows: list[Row], run: Run) -> list[list[Any]]:
    points = min(len(rows), CURVE_POINTS)
    answers = []
    for first, last in pairwise(len(rows) * point // points for point in range(points + 1) if points):
        loss, count = mean(row["value"] for row in rows[first:last]), (last - first) * run.batch_size
        answers.append([AS_TRAINED, TRAINING_LOSS, last, round(loss, 4), rows[0]["unit"], count])
    return answers


def versions() -> dict[str, str]:
    """What results depend on besides their settings: the versions and the processor; and the date."""
    return {
        "date": date.today().isoformat(),
        "alibi_viz": version("alibi-viz"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
    }


def record_table(records: Iterable[Record], origin: str, *, by_block: bool = False) -> pd.DataFrame:
    """The table of finished runs. Runs that diverged have their training loss only.

    With `by_block`, a value that is a mean over blocks of text has one row for each, with a further column "block".
    """
    rows: list[Row] = []
    for record in records:
        run = record["run"]
        common = {name: run[name] for name in ("task", "label", "seed", "length")}
        common |= {"origin": origin, "method": run["position"], "text": record["text"]}
        for values in record["answers"]:
            row = common | dict(zip(ANSWER, values, strict=True))
            row["step"] = row["x"] if row["question"] in (TRAINING_LOSS, "gap") else run["steps"]
            blocks = row["value"] if isinstance(row["value"], list) else [row["value"]]
            if by_block:
                rows += [row | {"value": value, "block": block} for block, value in enumerate(blocks)]
            else:
                rows.append(row if len(blocks) == 1 else row | {"value": fmean(blocks)})
    table = results_table(rows)
    return table.assign(block=[row["block"] for row in rows]) if by_block else table


def read_results(path: str | Path, *, by_block: bool = False) -> pd.DataFrame:
    """The table of the finished runs in a results folder or file; the origin is its name.

    With `by_block`, losses on longer windows have a row for each of sixteen blocks of the held-out text, and the table
    a column "block": so one can tell how far other passages could have moved a mean.

    Raises FileNotFoundError, and ValueError that names the file that cannot be read, or the file or line that is not a
    result.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = list(lab.sweep([lab.Run("alibi", length=16, steps=5, longest=2)], path=folder, progress=False))
    ...     results = lab.read_results(folder)
    >>> results["x"][results["question"] == "longer windows"].unique().tolist()
    [16, 32]
    """
    return record_table(read_records(path), Path(path).name, by_block=by_block)


def read_records(path: str | Path) -> list[Record]:
    """The finished runs in a results folder (one JSON file per run), or in a file with one JSON record per line.

    A file whose name ends in .gz is decompressed. Raises as `read_results`.
    """
    path = Path(path)
    if path.is_dir():
        sources = [(file.name, _read(file)) for file in sorted(path.glob("*.json"))]
    else:
        sources = [(f"line {number}", line) for number, line in enumerate(_read(path).splitlines(), start=1)]
    return [_record(text, f"{name} of {str(path)!r}") for name, text in sources]


def _read(file: Path) -> str:
    data = file.read_bytes()
    try:
        return (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8")
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read results from {str(file)!r}: {error}") from error


def _record(text: str, source: str) -> Record:
    try:
        record = json.loads(text)
        if not {"run", "text", "error", "answers"} <= record.keys():
            raise KeyError
        return record
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(
            f"{source} is not a result of this version: {text[:60]!r}; remove it, and the run is made again"
        ) from None
