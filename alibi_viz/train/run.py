"""Train and test one model: settings in, one JSON-serializable record out."""

import json
import platform
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from operator import methodcaller
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from tqdm import tqdm

from alibi_viz import arguments
from alibi_viz.data.tasks import TASKS, Task
from alibi_viz.data.text import Text, check_testable, load_text, python_text, tales_text
from alibi_viz.measure.losses import TARGETS, diverged
from alibi_viz.measure.questions import QUESTIONS, Question, main_question
from alibi_viz.measure.table import AS_TRAINED, COLUMNS, Row
from alibi_viz.models import POSITIONS, LanguageModel
from alibi_viz.models.positions.methods import Method, method_name, source_text
from alibi_viz.surgery.modify import VARIANTS, evaluation_variants
from alibi_viz.train import training

Record = dict[str, Any]  # one finished run as JSON, see `lab.sweep`
# A record keeps this many points of the training loss, each the mean of the steps since the last.
CURVE_POINTS = 60
SOURCES = ("text", "other tales", "python reference", *TASKS)  # what to train on


@dataclass
class Run:
    """The settings of one training run and its tests.

    Equal settings give equal numbers on one machine and version.

    Attributes:
        position: a position method: a name, or your own function or class.
        task: "text"; "other tales", which are `tales_text(seed=1)`; "python reference", as in
            `python_text`; or one of `TASKS`.
        length, steps, batch_size, optimizer, learning_rate, seed, device: as in `train`; the seed
            also sets the starting parameters.
        longest: tests are at L, 2L, 4L, ... up to this many times the training length L; 0 for no
            tests.
        targets: how many bytes of a text are predicted at each length.
        variants: ids in `alibi_viz.surgery.modify.VARIANTS`, with which the model is tested too;
            all by default.
        threads: of torch. One thread each is best when several runs share a machine.
        path: a text file of your own, instead of the built-in text.
        model: further fields of `TransformerConfig`, such as {"d_model": 96}.
        label: name in tables and legends; the name of the position method by default.
        source_code: the text of your own position method, for reading; set by `position`.

    Raises ValueError and TypeError for invalid settings.

    >>> from alibi_viz import lab
    >>> lab.Run("alibi", seed=1).label
    'alibi'
    """

    position: Method
    task: str = "text"
    length: int = training.LENGTH
    steps: int = training.STEPS
    batch_size: int = training.BATCH_SIZE
    optimizer: str = "muon"
    learning_rate: float | None = None
    seed: int = 0
    longest: int = 16
    targets: int = TARGETS
    variants: Sequence[str] | None = None
    threads: int = 1
    path: str | Path | None = None
    device: str = "auto"
    model: dict[str, int | float | str | bool] = field(default_factory=dict)
    label: str = ""
    source_code: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        arguments.check_choice("task", self.task, SOURCES)
        arguments.check_positive_integers(
            length=self.length,
            steps=self.steps,
            batch_size=self.batch_size,
            targets=self.targets,
            threads=self.threads,
        )
        for name in ("length", "steps", "batch_size", "targets", "threads"):
            setattr(self, name, int(getattr(self, name)))  # JSON has no numbers of NumPy
        self.longest = arguments.check_integer("longest", self.longest, 0)
        self.seed = arguments.check_seed(self.seed)
        training.choose_device(self.device)
        self.device = str(self.device)
        self.learning_rate = training.checked_rate(self.optimizer, self.learning_rate)
        if self.variants is not None:
            self.variants = tuple(arguments.as_list("variants", self.variants, "names"))
            arguments.check_known("variants", self.variants, VARIANTS)
        if self.path is not None:
            self.path = str(arguments.as_path("path", self.path))
            if self.task != "text":
                raise ValueError(f"path must be None for task {self.task!r}, got {self.path!r}")

        arguments.check_instance("model", self.model, dict)
        # Raises for what is no method, and for fields that don't fit.
        training.model_config(self.position, self.model)
        self.model = {**self.model}
        name = method_name(self.position)
        self.label = str(self.label or name)
        self.source_code = ""
        if isinstance(self.position, str) or self.position is POSITIONS.get(name):
            self.position = name
        else:
            # The text now, because a worker process or an edited file would have another.
            self.source_code = source_text(self.position)

    def settings(self) -> dict[str, Any]:
        """All settings as JSON-serializable values, equal for equal runs.

        Your own position method is known by its name, and its text is in "custom".
        """
        settings = asdict(self)
        source_code = settings.pop("source_code")
        if not isinstance(self.position, str):
            settings["position"] = method_name(self.position)
            settings["custom"] = {"source": source_code}
        # A tuple becomes a list, and a number of NumPy one of Python.
        as_json: dict[str, Any] = json.loads(json.dumps(settings, default=methodcaller("item")))
        return as_json

    def source(self) -> Text | Task:
        """The text or task to train on.

        Raises ValueError for a text that is too short for the tests.
        """
        if self.task in TASKS:
            return TASKS[self.task]
        if self.task == "python reference":
            text = python_text()
        elif self.task == "other tales":
            text = tales_text(seed=1)
        elif self.path is not None:
            text = load_text(Path(self.path))
        else:
            text = load_text()
        if self.longest:
            check_testable(text, self.length * self.longest + self.length)
        return text

    def new_model(self, source: Text | Task) -> LanguageModel:
        """The untrained model for a text or task."""
        sizes = {"max_length": self.length, "vocabulary": source.vocabulary, **self.model}
        return training.make_model(self.position, seed=self.seed, **sizes)

    def train(self, model: LanguageModel, source: Text | Task) -> Iterator[Row]:
        """Train the model, row by row."""
        rows = training.train(
            model,
            source,
            length=self.length,
            steps=self.steps,
            batch_size=self.batch_size,
            optimizer=self.optimizer,
            learning_rate=self.learning_rate,
            seed=self.seed,
            device=self.device,
        )
        return (row | {"task": self.task, "label": self.label} for row in rows)

    def test(self, model: LanguageModel, source: Text | Task, trained: Row) -> Iterator[Row]:
        """Answer every question of the task, for the model and its variants.

        `trained` is the last row of training. Raises TrainingDiverged if the main question has a
        NaN at a length at which the model is defined.
        """
        if self.longest == 0:
            return
        task = source.name if isinstance(source, Task) else "text"
        models = self._tested_models(model)
        for question in QUESTIONS:
            if question.task != task:
                continue
            for variant in question.variants:
                if variant in models:
                    rows = self._answers(question, models[variant], source, trained)
                    yield from (row | {"variant": variant} for row in rows)

    def _tested_models(self, model: LanguageModel) -> dict[str, LanguageModel]:
        """{variant: model}, the model as trained and the variants that were asked for."""
        models = {AS_TRAINED: model, **evaluation_variants(model, self.length)}
        if self.variants is None:
            return models
        asked_for = (AS_TRAINED, *self.variants)
        return {variant: models[variant] for variant in asked_for if variant in models}

    def _answers(
        self, question: Question, model: LanguageModel, source: Text | Task, trained: Row
    ) -> Iterator[Row]:
        """The rows of one question; none if it is measured elsewhere."""
        if question.measure is None:
            return
        is_main = question is main_question(question.task)
        options = {}
        if is_main and isinstance(source, Text):
            options["targets"] = self.targets
        answers = question.measure(model, source, self.length, self.longest, **options)
        for x, value, count in answers:
            row = question.row(trained, x, _rounded(value), count)
            if is_main and diverged(model, {x: row["value"]}):
                raise training.TrainingDiverged(
                    "the trained model gives no number: its training has diverged"
                )
            yield row


def _rounded(value: float | list[float]) -> float | list[float]:
    """A value, or those of blocks, with five digits."""
    if isinstance(value, list):
        return [round(block, 5) for block in value]
    return round(value, 5)


def measure(run: Run, *, progress: bool = False) -> Record:
    """Train one model, evaluate it on every question of its task, and return the record.

    The record is that of `lab.sweep`. Losses on longer sequences and on the same targets are also
    there as means of up to sixteen "blocks" of the text. With `progress`, a terminal shows the
    steps of training. Raises ValueError, before any training, if the text is too short to test on.

    >>> from alibi_viz import lab
    >>> from alibi_viz.train.run import measure
    >>> record = measure(lab.Run("none", length=16, steps=5, longest=2))
    >>> questions = {row["question"] for row in record["rows"]}
    >>> questions >= {"training loss", "longer sequences", "same targets"}
    True
    """
    started = time.perf_counter()
    source = run.source()
    steps: list[Row] = []
    answers: list[Row] = []
    error = None
    with training.limited_threads(run.threads):
        model = run.new_model(source)
        bar = tqdm(
            run.train(model, source),
            f"train {run.label}, seed {run.seed}",
            run.steps,
            leave=False,
            unit="step",
            disable=None if progress else True,  # None: unless it is a terminal
        )
        try:
            for row in bar:  # those before a divergence are kept
                steps.append(row)
            answers = list(run.test(model, source, steps[-1]))
        except training.TrainingDiverged as reason:
            error = str(reason)
    return {
        "run": run.settings(),
        "text": getattr(source, "fingerprint", ""),
        "error": error,
        "rows": [*_training_curve(steps), *answers],
        "seconds": round(time.perf_counter() - started, 2),
        "made_with": versions(run.device),
    }


def versions(device: str = "cpu") -> dict[str, str]:
    """What results depend on besides their settings: the versions and the machine; and the date.

    "commit" is that of a checkout of alibi_viz, and "" for an installed package.
    """
    chosen = training.choose_device(device)
    machine = f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"
    if chosen.type == "cuda":
        machine += f", {torch.cuda.get_device_name(chosen)}"
    return {
        "date": date.today().isoformat(),
        "alibi_viz": version("alibi-viz"),
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": machine,
    }


@cache
def _commit() -> str:
    """The git commit of this file, with "-dirty" if the checkout has changes; "" without one."""
    folder = Path(__file__).parent
    is_tracked = ["git", "ls-files", "--error-unmatch", Path(__file__).name]
    name_of_commit = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    output = ""
    try:
        for command in (is_tracked, name_of_commit):
            output = subprocess.run(
                command, cwd=folder, capture_output=True, check=True, text=True
            ).stdout
    except (OSError, subprocess.CalledProcessError):  # no git, or no checkout
        return ""
    return output.strip()


def _training_curve(steps: list[Row]) -> Iterator[Row]:
    """The training loss in at most `CURVE_POINTS` rows."""
    if not steps:  # training diverged at the first step
        return
    points = min(len(steps), CURVE_POINTS)
    edges = [len(steps) * point // points for point in range(points + 1)]
    for start, end in pairwise(edges):
        interval = steps[start:end]
        row = {name: interval[-1][name] for name in COLUMNS}
        row["value"] = round(mean(step["value"] for step in interval), 4)
        row["count"] = sum(step["count"] for step in interval)
        yield row
