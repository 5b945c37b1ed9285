"""Train several position methods side by side: the same starting weights, the same batches, one step each in turn."""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import harmonic_mean
from typing import Any

import torch

from alibi_viz.arguments import check_instance, check_integer, check_positive_integers, positive_integers
from alibi_viz.lab.evaluation import diverged, length_losses
from alibi_viz.lab.tasks import Task, accuracy, task_samples
from alibi_viz.lab.text import Text, check_testable
from alibi_viz.lab.training import (
    BATCH_SIZE,
    LEARNING_RATE,
    LENGTH,
    STEPS,
    Step,
    TrainingDiverged,
    choose_device,
    make_model,
    train,
)
from alibi_viz.lab.turns import take_turns
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.custom import Method, register_methods

__all__ = ["Lap", "Scoreboard", "evaluation_distances", "evaluation_lengths", "race"]

RECENT_STEPS = 20  # single steps vary too much, so the speed is averaged over these


@dataclass(frozen=True)
class Lap:
    """One training step of one model in a race, or one evaluation of it at a checkpoint.

    Attributes:
        method: the position method.
        step: the last training step of this model.
        scores: None for a training step. For an evaluation, {length: bits per byte}, or for a task {distance:
            accuracy}, of the lengths so far. Each length adds a lap, so that a race can be stopped between two lengths.
        model: a copy of the model with the weights after this step. All laps of a method share one copy: the next step
            overwrites its weights.
    """

    method: str
    step: Step
    scores: dict[int, float] | None
    model: LanguageModel


def evaluation_lengths(length: int, longest: int = 16) -> list[int]:
    """The training length L, 2L, 4L, ..., up to `longest` times L; no lengths if `longest` is 0.

    Raises TypeError or ValueError unless `length` is an integer of at least 1, and `longest` of at least 0.

    >>> lab.evaluation_lengths(32)
    [32, 64, 128, 256, 512]
    """
    check_positive_integers(length=length)
    check_integer("longest", longest, 0)
    return [length * 2**power for power in range(longest.bit_length())]


def evaluation_distances(task: Task, length: int, longest: int = 32) -> list[int]:
    """The largest distances of a task in examples of L, 2L, 4L, ..., up to `longest` times L tokens.

    >>> lab.evaluation_distances(lab.TASKS["needle"], 32)
    [31, 63, 127, 255, 511, 1023]
    """
    return [task.max_distance(size) for size in evaluation_lengths(length, longest)]


def race(
    methods: Iterable[Method],
    source: Text | Task,
    *,
    length: int = LENGTH,
    steps: int = STEPS,
    seed: int = 0,
    lengths: Iterable[int] | None = None,
    checkpoints: int = 10,
    targets: int = 4096,
    batch_size: int = BATCH_SIZE,
    learning_rate: float = LEARNING_RATE,
    **sizes: int | float | str | bool,
) -> Iterator[Lap]:
    """Train one model per method, one step each in turn, and evaluate all of them at regular checkpoints.

    On a CPU as many models as torch has threads (`torch.get_num_threads` at the call) train at the same time, each on
    one thread. The laps still come in turn, and the numbers are those of `train` with one thread.

    Args:
        methods: position methods, each at most once: names, or your own functions or classes, as in `make_model`.
        source, length, steps, seed, batch_size, learning_rate: as in `train`; the seed also sets the starting weights.
        lengths: to evaluate at, by default `evaluation_lengths(length)`; for a task, distances, by default its
            `evaluation_distances`.
        checkpoints: how often each model is evaluated, at even intervals; the last time is after its last step.
        targets: bytes predicted at a checkpoint of a text, always the same ones, and at least one longest window.
        sizes: as in `make_model`.

    Raises at the call TypeError for methods that are not a list, ValueError for missing or repeated methods, bad
    lengths and a text that is too short, and as `train` and `make_model` do. Raises TrainingDiverged, naming the
    method, when a loss becomes NaN or infinite, in training or evaluation.

    >>> laps = list(lab.race(["alibi", "none"], lab.load_text(), steps=4, checkpoints=1))
    >>> [(lap.method, lap.step.index) for lap in laps[:3]]
    [('alibi', 1), ('none', 1), ('alibi', 2)]
    >>> list(laps[-1].scores)
    [64, 128, 256, 512, 1024]
    """
    check_instance("source", source, Text, Task)
    check_positive_integers(length=length, checkpoints=checkpoints, targets=targets)
    names = register_methods(methods)
    if not names or len(set(names)) != len(names):
        raise ValueError(f"methods must be one or more different names, got {names!r}")
    if lengths is None:
        lengths = evaluation_distances(source, length) if isinstance(source, Task) else evaluation_lengths(length)
    lengths = positive_integers("lengths", lengths)
    if isinstance(source, Text):
        check_testable(source, max(lengths))
    sizes = {"vocabulary": source.vocabulary, "max_length": length, **sizes}
    device = choose_device()
    models, copies = ({name: make_model(name, seed=seed, **sizes).to(device) for name in names} for _ in range(2))
    settings: dict[str, Any] = {"length": length, "steps": steps, "batch_size": batch_size, "seed": seed}
    streams = [train(model, source, learning_rate=learning_rate, **settings) for model in models.values()]
    evaluated_steps = {round(steps * checkpoint / checkpoints) for checkpoint in range(1, checkpoints + 1)}
    threads = min(len(names), torch.get_num_threads()) if device.type == "cpu" else 1

    def turns(method: str, stream: Iterator[Step]) -> Iterator[Lap | None]:
        """The laps of one model, and None after each step and its evaluation."""
        model = models[method]
        try:
            for step in stream:
                yield Lap(method, step, None, model)
                scores: dict[int, float] = {}
                for at, score in _evaluate(model, source, lengths, targets) if step.index in evaluated_steps else ():
                    if diverged(model, {source.min_length(at) if isinstance(source, Task) else at: score}):
                        raise TrainingDiverged(
                            f"after step {step.index} of {steps} the loss at length {at} is {score}; "
                            f"try a learning rate below {learning_rate:g}"
                        )
                    scores = {**scores, at: score}
                    yield Lap(method, step, scores, model)
                yield None
        except TrainingDiverged as error:
            raise TrainingDiverged(f"{method}: {error}") from None

    def laps() -> Iterator[Lap]:
        weights = {name: [list(each[name].state_dict().values()) for each in (models, copies)] for name in names}
        with closing(take_turns(map(turns, models, streams), threads)) as turn_laps:
            for lap in turn_laps:
                if lap.scores is None:  # copy the weights, because the model itself may soon be a step ahead
                    new, old = weights[lap.method]
                    for old_tensor, new_tensor in zip(old, new, strict=True):
                        old_tensor.copy_(new_tensor)
                yield replace(lap, model=copies[lap.method])

    return laps()


def _evaluate(
    model: LanguageModel, source: Text | Task, lengths: Sequence[int], targets: int
) -> Iterator[tuple[int, float]]:
    """(length, bits per byte) for a text, (distance, accuracy) for a task."""
    if isinstance(source, Text):
        yield from length_losses(model, source, lengths, targets=max(targets, *lengths))
    else:
        for distance in lengths:
            yield distance, accuracy(model, source, distance, samples=task_samples(source, distance))


class Scoreboard:
    """The curves and speeds of a race, collected lap by lap. `methods` and `lengths` are those of `race`.

    Attributes:
        losses: {method: training losses}, in bits per byte (for a task, per answer), one for each step.
        checkpoints: {method: {step: scores}}, complete evaluations only, oldest first; scores as in `Lap`.
        models: {method: model}, from the latest laps.

    >>> board = lab.Scoreboard(["alibi"], steps=4, lengths=[32, 64])
    >>> for lap in lab.race(["alibi"], lab.load_text(), steps=4, lengths=[32, 64], checkpoints=2):
    ...     board.add(lap)
    >>> board.step("alibi"), list(board.checkpoints["alibi"]), board.seconds_left("alibi")
    (4, [2, 4], 0.0)
    """

    def __init__(self, methods: Iterable[Method], *, steps: int, lengths: Iterable[int]) -> None:
        self.methods, self.steps = tuple(register_methods(methods)), steps
        self.lengths = tuple(positive_integers("lengths", lengths))
        self.losses: dict[str, list[float]] = {method: [] for method in self.methods}
        self.checkpoints: dict[str, dict[int, dict[int, float]]] = {method: {} for method in self.methods}
        self.models: dict[str, LanguageModel] = {}
        self._speeds: dict[str, deque[float]] = {method: deque(maxlen=RECENT_STEPS) for method in self.methods}
        self._started = time.monotonic()

    def add(self, lap: Lap) -> None:
        """Add a lap. The laps of one method must come in order."""
        self.models[lap.method] = lap.model
        if lap.scores is None:
            self.losses[lap.method].append(lap.step.loss)
            self._speeds[lap.method].append(lap.step.tokens_per_second)
        elif len(lap.scores) == len(self.lengths):
            self.checkpoints[lap.method][lap.step.index] = lap.scores

    def step(self, method: str) -> int:
        """The number of steps that a method has taken."""
        return len(self.losses[method])

    def last_checkpoint(self) -> int:
        """The step of the last checkpoint that every method has completed; 0 before the first."""
        return min((max(steps, default=0) for steps in self.checkpoints.values()), default=0)

    def scores(self, method: str) -> dict[int, float]:
        """The scores of a method at the last common checkpoint, so after equal training; empty before the first."""
        return self.checkpoints[method].get(self.last_checkpoint(), {})

    def tokens_per_second(self, method: str) -> float:
        """Training speed of a method over its recent steps, not counting evaluations and other models; 0 at first."""
        return harmonic_mean(speeds) if (speeds := self._speeds[method]) else 0.0

    def seconds_left(self, method: str) -> float | None:
        """Estimated time until a method has taken all steps, at the pace of the race so far; None before a step."""
        done = self.step(method)
        return (time.monotonic() - self._started) / done * (self.steps - done) if done else None
