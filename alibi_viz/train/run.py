"""A run trains and tests one model: settings in, one JSON-serializable record out, with rows of the
table of results.

A sweep does many runs, on one core or on many. It saves each at once in a JSON file of its own,
which is written under another name and then renamed, so it is complete or absent: two sweeps may
share a folder, and a killed sweep loses only the runs in progress. When it is restarted, it
executes only the missing runs.
"""

import gzip
import hashlib
import json
import multiprocessing
import os
import platform
import re
import signal
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import cached_property, partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import fmean, mean
from typing import Any

import cloudpickle
import pandas as pd
import torch
from tqdm import tqdm

from alibi_viz import arguments
from alibi_viz.data.tasks import TASKS, Task
from alibi_viz.data.text import Text, check_testable, load_text, python_text
from alibi_viz.files import write
from alibi_viz.measure.losses import TARGETS, diverged
from alibi_viz.measure.questions import QUESTIONS, main_question
from alibi_viz.measure.table import AS_TRAINED, COLUMNS, Row, results_table
from alibi_viz.models import LanguageModel, register_method
from alibi_viz.models.positions.custom import Method, custom_method, evaluate_law, provenance
from alibi_viz.surgery.modify import VARIANTS, evaluation_variants
from alibi_viz.train import training

CURVE_POINTS = 60  # of the training loss, each the mean of the steps since the point before
Record = dict[str, Any]  # one finished run as JSON, see `measure`
SOURCES = ("text", "python reference", *TASKS)  # what to train on


@dataclass(frozen=True)
class Run:
    """The settings of one training run and its tests. Equal settings give equal numbers on one
    machine and version.

    Attributes:
        position: a position method: a name, or your own function or class, which is then known by
            its name.
        task: "text"; "python reference", as in `python_text`; or one of `TASKS`.
        length, steps, batch_size, learning_rate, seed, device: as in `train`; the seed also sets
            the starting weights.
        longest: tests are at L, 2L, 4L, ... up to this many times the training length L; 0 for no
            tests.
        targets: how many bytes of a text are predicted at each length.
        variants: names of `lab.modify.VARIANTS`, with which the model is tested too; all by
            default.
        threads: of torch. One thread each is best when several runs share a machine.
        path: a text file of your own, instead of the built-in text.
        model: further fields of `TransformerConfig`, such as {"d_model": 96}.
        label: name in tables and legends; the position method by default.
        custom: your own position method; set by `position`.

    Raises ValueError and TypeError for invalid settings.

    >>> Run("alibi", seed=1).label
    'alibi'
    """

    position: Method
    task: str = "text"
    length: int = training.LENGTH
    steps: int = training.STEPS
    batch_size: int = training.BATCH_SIZE
    learning_rate: float = training.LEARNING_RATE
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
        arguments.check_choice("task", self.task, SOURCES)
        numbers = {"length": self.length, "steps": self.steps, "batch_size": self.batch_size}
        arguments.check_positive_integers(**numbers, targets=self.targets, threads=self.threads)
        variants = (
            None
            if self.variants is None
            else tuple(arguments.as_list("variants", self.variants, "names"))
        )
        arguments.check_known("variants", variants or (), VARIANTS)
        arguments.check_positive("learning_rate", self.learning_rate)
        arguments.check_integer("longest", self.longest, 0)
        arguments.check_seed(self.seed)
        training.choose_device(self.device)
        if self.path is not None:
            arguments.as_path("path", self.path)
            if self.task != "text":
                raise ValueError(
                    f"path must be None for task {self.task!r}, got {str(self.path)!r}"
                )
        arguments.check_instance("model", self.model, dict)
        is_copy = (
            getattr(self.custom, "__name__", None) == self.position
        )  # by `dataclasses.replace`
        name = register_method(self.custom if is_copy else self.position)
        training.model_config(name, self.model)  # raises for fields that don't fit
        given: dict[str, Any] = {
            "position": name,
            "label": str(self.label or name),
            "device": str(self.device),
        }
        given |= {"path": None if self.path is None else str(self.path), "variants": variants}
        given |= {"custom": custom_method(name), "model": {**self.model}}
        for field_name, value in given.items():
            object.__setattr__(self, field_name, value)
        _ = self._provenance, self._law  # computed now, because what the method reads may change

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a run in another process, where your own method has to be registered again."""
        self.__dict__.update(state)
        if self.custom is not None:
            register_method(self.custom)

    def settings(self) -> dict[str, Any]:
        """All settings as JSON-serializable values, with the source of your own method; equal for
        equal runs."""
        settings = {
            **asdict(self),
            "variants": None if self.variants is None else list(self.variants),
        }  # as in JSON
        del settings["custom"]
        return settings if self._provenance is None else {**settings, "custom": self._provenance}

    @cached_property
    def _provenance(self) -> dict[str, str] | None:
        return None if self.custom is None else provenance(self.custom)

    @cached_property
    def _law(self) -> torch.Tensor | None:
        """The values of a law of your own at the first distances; None for other methods."""
        return None if self.custom is None or isinstance(self.custom, type) else self._evaluated()

    def _evaluated(self) -> torch.Tensor:
        return evaluate_law(
            self.custom, training.model_config(str(self.position), self.model).num_heads, 64
        )

    def source(self) -> Text | Task:
        """The text or task to train on. Raises ValueError for a text that is too short for the
        tests."""
        if self.task in TASKS:
            return TASKS[self.task]
        text = (
            python_text()
            if self.task == "python reference"
            else load_text(self.path and Path(self.path))
        )
        if self.longest:
            check_testable(text, self.length * self.longest + self.length)
        return text

    def new_model(self, source: Text | Task) -> LanguageModel:
        """The untrained model. Raises ValueError if its own law gives other values than when the
        run was made."""
        if self._law is not None and not torch.allclose(
            self._evaluated(), self._law, rtol=1e-4, atol=1e-6
        ):
            advice = "pass what it reads as a default argument, or in a closure"
            raise ValueError(
                f"law {self.position!r} has other values than when its run was made: {advice}"
            )
        sizes = {"max_length": self.length, "vocabulary": source.vocabulary, **self.model}
        return training.make_model(
            self.custom or self.position, seed=self.seed, **sizes
        )  # the name may be taken since

    def train(self, model: LanguageModel, source: Text | Task) -> Iterator[Row]:
        """Train the model, row by row."""
        names = ("length", "steps", "batch_size", "learning_rate", "seed", "device")
        rows = training.train(model, source, **{name: getattr(self, name) for name in names})
        return (row | {"task": self.task, "label": self.label} for row in rows)

    def test(self, model: LanguageModel, source: Text | Task, trained: Row) -> Iterator[Row]:
        """Answer every question of the task, for the model and its variants; `trained` is the last
        row of training.

        Raises TrainingDiverged if the main question has a NaN at a length at which the model is
        defined.
        """
        task = source.name if isinstance(source, Task) else "text"
        main, models = (
            main_question(task),
            {AS_TRAINED: model, **evaluation_variants(model, self.length)},
        )
        if self.variants is not None:
            models = {
                variant: models[variant]
                for variant in (AS_TRAINED, *self.variants)
                if variant in models
            }
        asked = [question for question in QUESTIONS if question.task == task and self.longest]
        for question, variant in [
            (each, name) for each in asked for name in each.variants if name in models
        ]:
            more = (
                {"targets": self.targets} if question is main and isinstance(source, Text) else {}
            )
            for x, value, count in question.measure(
                models[variant], source, self.length, self.longest, **more
            ):
                blocks = [
                    round(each, 5) for each in (value if isinstance(value, list) else [value])
                ]
                row = question.row(trained, x, fmean(blocks), count) | {"variant": variant}
                if question is main and diverged(model, {x: row["value"]}):
                    raise training.TrainingDiverged(
                        "the trained model gives no number: its training has diverged"
                    )
                yield row if len(blocks) == 1 else row | {"blocks": blocks}


def measure(run: Run, *, progress: bool = False) -> Record:
    """Train one model, evaluate it on every question of its task, and return the record.

    The record has "run" (the settings), "text" (the fingerprint of the text, "" for a task),
    "error" (None, or how training diverged), "seconds", "made_with" (versions) and "rows" with the
    columns of `lab.COLUMNS`. Losses on longer sequences are also there as means of up to sixteen
    "blocks" of the text. With `progress`, standard error shows the steps of training and then the
    answers. Raises ValueError, before any training, if the text is too short to test on.

    >>> record = lab.measure(lab.Run("none", length=16, steps=5, longest=2))
    >>> {row["question"] for row in record["rows"]} >= {"training loss", "longer sequences", "same targets"}
    True
    """
    arguments.check_instance("run", run, Run)
    started = time.perf_counter()
    source, error = run.source(), None
    steps: list[Row] = []
    answers: list[Row] = []
    with training.limited_threads(run.threads):
        model = run.new_model(source)
        try:
            name, bar = (
                f"{run.label}, seed {run.seed}",
                partial(tqdm, leave=False, disable=not progress),
            )
            steps.extend(bar(run.train(model, source), f"train {name}", run.steps, unit="step"))
            answers.extend(bar(run.test(model, source, steps[-1]), f"test {name}", unit=" answers"))
        except training.TrainingDiverged as reason:
            error, answers = str(reason), []
    return {
        "run": run.settings(),
        "text": getattr(source, "fingerprint", ""),
        "error": error,
        "rows": [*_training_curve(steps), *answers],
        "seconds": round(time.perf_counter() - started, 2),
        "made_with": versions(run.device),
    }


def versions(device: str = "cpu") -> dict[str, str]:
    """What results depend on besides their settings: the versions and the machine; and the date."""
    chosen = training.choose_device(device)
    return {
        "date": date.today().isoformat(),
        "alibi_viz": version("alibi-viz"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"
        + (f", {torch.cuda.get_device_name(chosen)}" if chosen.type == "cuda" else ""),
    }


def _training_curve(steps: list[Row]) -> Iterator[Row]:
    """The training loss in `CURVE_POINTS` rows."""
    points = min(len(steps), CURVE_POINTS)
    for first, last in pairwise(
        len(steps) * point // points for point in range(points + 1) if points
    ):
        value = round(mean(step["value"] for step in steps[first:last]), 4)
        count = sum(step["count"] for step in steps[first:last])
        yield {name: steps[last - 1][name] for name in COLUMNS} | {"value": value, "count": count}


def sweep(
    runs: Iterable[Run],
    executor: Executor | None = None,
    *,
    path: str | Path | None = None,
    progress: bool = True,
) -> Iterator[Record]:
    """Execute every run and yield each record when it is finished (see `measure`), saved records
    first.

    Args:
        runs: the settings of the runs. Equal ones are executed once.
        executor: any `concurrent.futures.Executor`, such as one of worker processes; by default
            this process, one run after the other. Your own position methods are sent along.
        path: the results folder, created if missing. Without it nothing is saved. Saved records are
            kept as they are, whichever version or machine made them ("made_with").
        progress: show a progress bar on standard error, and without an executor, one for the run in
            progress.

    A run that diverges is a result (its "error" says how). Any other failure ends the sweep and is
    raised: waiting runs are canceled, except for a few that a pool of processes has taken already,
    and finished runs stay in the folder. Leaving the loop early does the same, without an error.

    Raises at the call TypeError for other objects than runs and executors; ValueError for a folder
    with other JSON files, and a saved run whose text has changed since; OSError if the folder can't
    be made.

    >>> runs = [lab.Run("alibi", length=16, steps=5, longest=2, seed=seed) for seed in range(2)]
    >>> [record["run"]["seed"] for record in lab.sweep(runs, progress=False)]
    [0, 1]
    """
    runs = arguments.as_list("runs", runs, "Run objects", Run)
    if executor is not None:
        arguments.check_instance("executor", executor, Executor)
    by_key = {_key(run.settings()): run for run in runs}
    folder = None if path is None else create_folder(path)
    saved = {_key(record["run"]): record for record in (read_records(folder) if folder else ())}
    finished = [saved[key] for key in by_key if key in saved]
    missing = [run for key, run in by_key.items() if key not in saved]
    for key, run in by_key.items():
        if key in saved and getattr(run.source(), "fingerprint", "") != saved[key]["text"]:
            name = f"the built-in {run.task}" if run.path is None else repr(run.path)
            raise ValueError(
                f"{name} has changed since runs in {str(folder)!r} were made: use another results "
                "folder"
            )

    def records() -> Iterator[Record]:
        yield from finished
        in_turn = (_save(measure(run, progress=progress), folder) for run in missing)
        made = in_turn if executor is None else _submit(missing, executor, folder)
        with tqdm(
            made, total=len(by_key), initial=len(finished), unit="run", disable=not progress
        ) as bar:
            yield from bar

    return records()


def _submit(runs: list[Run], executor: Executor, folder: Path | None) -> Iterator[Record]:
    """The saved records of runs on an executor, as they finish."""
    futures: list[Future[Record]] = []
    try:
        for (
            run
        ) in runs:  # one by one: an interruption here must not lose the runs already submitted
            futures.append(executor.submit(_measure_pickled, cloudpickle.dumps((run, folder))))
        for future in as_completed(futures):
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


def _measure_pickled(task: bytes) -> Record:
    """What a worker does. It saves at once: the caller may be slow to ask for the next record, or
    never ask."""
    run, folder = cloudpickle.loads(task)  # also functions of notebooks, which pickle can't send
    return _save(measure(run), folder)


def executor(workers: int) -> AbstractContextManager[Executor | None]:
    """For a `with` block: worker processes that end with this one, even if it is killed; None for a
    single worker."""
    if workers == 1:
        return nullcontext()
    return ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), initializer=_exit_with_parent
    )


def _exit_with_parent() -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # Ctrl-C ends a worker; a KeyboardInterrupt would end one of its runs
    parent: Any = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def create_folder(path: str | Path) -> Path:
    """The path of a folder, created if missing. Raises OSError if it can't be made."""
    folder = arguments.as_path("path", path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def check_new(path: Path) -> None:
    """Raise FileExistsError if there is a folder or file of this name."""
    if path.exists():
        raise FileExistsError(
            f"{str(path)!r} exists already and is not overwritten; choose another name or remove it"
        )


def _key(settings: Record) -> str:
    return json.dumps(settings, sort_keys=True)


def _save(record: Record, folder: Path | None) -> Record:
    """Write the record into the folder, complete or not at all, and return it."""
    if folder is not None:
        run = record["run"]
        digest = hashlib.sha256(_key(run).encode()).hexdigest()[:12]
        label = re.sub(r"[^\w-]+", "-", run["label"])[:40]
        path = folder / f"{run['task'].replace(' ', '-')}-{label}-seed-{run['seed']}-{digest}.json"
        write(path, json.dumps(record))
    return record


def record_table(records: Iterable[Record], origin: str, *, by_block: bool = False) -> pd.DataFrame:
    """The table of finished runs; with `by_block`, as in `read_results`."""
    rows = [
        row | {"origin": origin, "value": value, "block": block}
        for record in records
        for row in record["rows"]
        for block, value in enumerate(
            row.get("blocks", [row["value"]]) if by_block else [row["value"]]
        )
    ]
    return results_table(rows).assign(
        **{"block": [row["block"] for row in rows]} if by_block else {}
    )


def read_results(path: str | Path, *, by_block: bool = False) -> pd.DataFrame:
    """The table of the finished runs in a results folder or file; the origin is its name.

    With `by_block`, losses on longer sequences have a row for each of up to sixteen blocks of the
    text, and the table a column "block". Raises FileNotFoundError, and ValueError that names what
    isn't a result.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = list(lab.sweep([lab.Run("alibi", length=16, steps=5, longest=2)], path=folder, progress=False))
    ...     lab.read_results(folder)["origin"].nunique()
    1
    """
    arguments.check_flag("by_block", by_block)
    if not (records := read_records(path)):
        raise ValueError(
            f"{str(path)!r} has no results: `compare` and `sweep` write them there as .json files"
        )
    return record_table(records, Path(path).name, by_block=by_block)


def read_records(path: str | Path) -> list[Record]:
    """The finished runs in a results folder, or in a file, gzipped or not, with one JSON record per
    line."""
    path = arguments.as_path("path", path)
    return [
        record
        for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])
        for record in _read(file)
    ]


def _read(file: Path) -> Iterator[Record]:
    data = file.read_bytes()
    try:
        lines = (
            (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8").splitlines()
        )
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read results from {str(file)!r}: {error}") from error
    for number, line in enumerate(lines, start=1):
        try:
            record: Record = json.loads(line)
            if not {"run", "text", "error", "rows"} <= record.keys():
                raise KeyError
        except (ValueError, KeyError, AttributeError, RecursionError):
            message = (
                f"line {number} of {str(file)!r} is not a result of this version: {line[:60]!r}"
            )
            raise ValueError(
                f"{message}; remove it if it is an old result, or use another folder"
            ) from None
        yield record
