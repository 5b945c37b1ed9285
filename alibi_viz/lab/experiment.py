"""One run of the laboratory: settings in, one JSON-able record out. What a sweep repeats, on any machine.

A record holds numbers only and says with which versions it was made. Equal settings give equal numbers on the same
machine and versions, because the seed, the steps and the threads are settings too.
"""

import math
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

import torch

from alibi_viz.lab.context import loss_by_context
from alibi_viz.lab.evaluation import diverged, loss_by_length
from alibi_viz.lab.interventions import change_rotary_rule, impose_window
from alibi_viz.lab.race import test_lengths
from alibi_viz.lab.tasks import TASKS, Task, accuracy
from alibi_viz.lab.text import Text, load_text
from alibi_viz.lab.training import Step, TrainingDiverged, make_model, train
from alibi_viz.models import LanguageModel, TransformerConfig

__all__ = ["Record", "Run", "measure", "text_mark", "versions"]

Record = dict[str, Any]
CURVE_POINTS = 60  # of the training loss that a record keeps, each the mean of the steps since the last
TASK_TOKENS = 65_536  # read at each distance of a task
TARGETS = 8192  # bytes predicted at each length
CONTEXT_TARGETS, CONTEXT_STRIDE = 1024, 16  # 16 targets a window: they have c - 15 to c bytes of context


@dataclass(frozen=True)
class Run:
    """Settings of one training run and its tests.

    Attributes:
        position: a position method.
        task: "text", or one of `TASKS`.
        length: the training length L.
        steps, batch_size, learning_rate, seed: as in `train`; the seed also sets the starting weights.
        longest: tests go to this many times L, or the largest power of two below.
        threads: of torch. One each is best when several runs share a machine, and part of what makes numbers repeat.
        path: a file of your own, instead of the built-in text.
        device: as in `train`. Numbers from a GPU are not equal to those from a CPU.
        model: further fields of `TransformerConfig`, such as {"d_model": 96}.
        label: what a table calls it; the position method by default.

    Raises ValueError and TypeError for settings that no run could have.

    >>> Run("alibi", seed=1).label
    'alibi'
    """

    position: str
    task: str = "text"
    length: int = 64
    steps: int = 600
    batch_size: int = 32
    learning_rate: float = 8e-3
    seed: int = 0
    longest: int = 16
    threads: int = 1
    path: str | None = None
    device: str = "auto"
    model: dict[str, int | float | str | bool] = field(default_factory=dict)
    label: str = ""

    def __post_init__(self) -> None:
        if self.task != "text" and self.task not in TASKS:
            raise ValueError(f"task must be one of text, {', '.join(TASKS)}, got {self.task!r}")
        for name in ("length", "steps", "batch_size", "longest", "threads"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number from 1 up, got {value!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise ValueError(f"seed must be a whole number, got {self.seed!r}")
        TransformerConfig(position=self.position, **{"num_heads": 4, **self.model})  # type: ignore[arg-type]
        object.__setattr__(self, "label", self.label or self.position)

    def settings(self) -> dict[str, Any]:
        """All of it as JSON-able values; equal for equal runs."""
        return asdict(self)


def measure(run: Run) -> Record:
    """Train and test one run.

    Returns a record with "run" (the settings), "text" (what `text_mark` says of a file of your own, else None), "error"
    (None, or how training diverged), "curve" ([[step, bits], ...]),
    "seconds", "tokens_per_second" (median), "made_with", and the tests: for text "by_length", "by_context" and the same
    "by_length" under "changed" evaluations (a window of L; rotary's rules), and "by_step" (at L and 4L after each
    quarter of the steps, for a gap may only mean that training was short); for a task "accuracy" by distance. A value
    that is not defined, as learned positions beyond their table, is None. Raises ValueError, before any training, for a
    text that is too short for the tests.

    >>> record = measure(Run("none", length=16, steps=5, longest=2))
    >>> list(record["by_length"]), record["error"]
    (['16', '32'], None)
    """
    started = time.perf_counter()
    with _threads(run.threads):
        source: Text | Task = TASKS[run.task] if run.task in TASKS else load_text(path=run.path)
        if isinstance(source, Text):
            _check_length(source, run)
        vocabulary = {"vocabulary": source.vocabulary} if isinstance(source, Task) else {}
        model = make_model(run.position, seed=run.seed, **{"max_length": run.length, **vocabulary, **run.model})
        steps: list[Step] = []
        at_steps: Record = {}
        quarters = {max(1, run.steps * part // 4) for part in range(1, 5)}
        record: Record = {"run": run.settings(), "text": text_mark(run.path), "error": None}
        settings = {"length": run.length, "steps": run.steps, "batch_size": run.batch_size, "seed": run.seed}
        try:
            for step in train(model, source, learning_rate=run.learning_rate, device=run.device, **settings):
                steps.append(step)
                if isinstance(source, Text) and step.index in quarters:
                    at_steps[str(step.index)] = _by_length(model, source, _near(run))
        except TrainingDiverged as error:
            record["error"] = str(error)
        else:
            tests = _tested(model, run)
            if diverged(model, {int(at): math.nan if v is None else v for at, v in tests.get("by_length", {}).items()}):
                record["error"] = "the trained model gives no number: its training has diverged"
            record.update(tests, **({"by_step": at_steps} if at_steps else {}))
    record["curve"] = [[steps[last - 1].index, _mean(steps, first, last)] for first, last in _parts(len(steps))]
    record["tokens_per_second"] = round(median(step.tokens_per_second for step in steps)) if steps else None
    record["seconds"] = round(time.perf_counter() - started, 2)
    record["made_with"] = versions()
    return record


def text_mark(path: str | None) -> str | None:
    """The fingerprint of the text that a run reads."""
    return load_text(path=path).fingerprint


def versions() -> dict[str, str]:
    """What the numbers depend on, besides the settings."""
    import alibi_viz  # noqa: PLC0415 - the package loads this module, not the other way round

    return {
        "alibi_viz": alibi_viz.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def _tested(model: LanguageModel, run: Run) -> Record:
    lengths = test_lengths(run.length, run.longest)
    if run.task != "text":
        task = TASKS[run.task]
        furthest = {task.furthest(length) for length in lengths}
        return {"accuracy": {str(far): _accuracy(model, task, far) for far in sorted(furthest)}}
    text = load_text(path=run.path)
    longest = run.length * run.longest
    stride = min(CONTEXT_STRIDE, run.length)
    settings = {"targets": CONTEXT_TARGETS, "stride": stride, "longest": longest}
    return {
        "by_length": _by_length(model, text, lengths),
        "by_context": _table(loss_by_context(model, text, lengths, **settings)),
        "changed": {
            name: _by_length(changed, text, lengths) for name, changed in _evaluation_rules(model, run.length).items()
        },
    }


def _check_length(text: Text, run: Run) -> None:
    """The last tenth of the text must hold the longest window, and the targets that follow it."""
    needed = run.length * run.longest + CONTEXT_TARGETS + 1
    if len(text.validation) < needed:
        raise ValueError(
            f"{text.name} is too short for tests up to {run.longest} times {run.length}: its last tenth has "
            f"{len(text.validation):,} bytes, at least {needed:,} are needed"
        )


def _near(run: Run) -> list[int]:
    """L, and 4 L or the longest test: the two lengths whose gap is followed while training goes on."""
    return sorted({run.length, run.length * min(4, run.longest)})


def _accuracy(model: LanguageModel, task: Task, distance: int) -> float | None:
    """On as many exercises as fit into TASK_TOKENS, 256 at most."""
    return _known(accuracy(model, task, distance, samples=max(1, min(256, TASK_TOKENS // task.needs(distance)))))


def _evaluation_rules(model: LanguageModel, length: int) -> dict[str, LanguageModel]:
    """The same weights under other rules: a window for all that look at distances only, and two more for rotary."""
    absolute = ("sinusoidal", "learned")
    changed = {} if model.config.position in absolute else {"window": impose_window(model, length)}
    if model.config.position == "rotary":
        changed |= {rule: change_rotary_rule(model, rule, length) for rule in ("pi", "ntk")}
    return changed


def _by_length(model: LanguageModel, text: Text, lengths: list[int]) -> dict[str, float | None]:
    return _table(loss_by_length(model, text, lengths, targets=max(TARGETS, *lengths)))


def _table(losses: dict[int, float]) -> dict[str, float | None]:
    return {str(length): _known(loss) for length, loss in losses.items()}


def _known(value: float) -> float | None:
    """JSON has no NaN; what is not defined is null there."""
    return None if math.isnan(value) else round(value, 5)


def _parts(count: int) -> list[tuple[int, int]]:
    """(first, last) of at most CURVE_POINTS equal parts of 0 .. count."""
    points = min(count, CURVE_POINTS)
    ends = [count * point // points for point in range(points + 1)] if points else []
    return list(pairwise(ends))


def _mean(steps: list[Step], first: int, last: int) -> float:
    return round(sum(step.loss for step in steps[first:last]) / (last - first), 4)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
