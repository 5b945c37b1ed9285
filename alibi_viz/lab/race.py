"""Several position methods trained side by side: the same weights at the start, the same batches, step by step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from alibi_viz.lab.evaluation import diverged, length_losses
from alibi_viz.lab.tasks import Task, accuracy
from alibi_viz.lab.text import Text
from alibi_viz.lab.training import Step, TrainingDiverged, make_model, train
from alibi_viz.models import LanguageModel

__all__ = ["Lap", "race", "task_samples", "test_distances", "test_lengths"]

TASK_TOKENS = 32_768  # read at each distance when a task is tested, in at most 256 exercises


@dataclass(frozen=True)
class Lap:
    """One step of one model in a race; or, at a checkpoint, one test of it after that step.

    A lap is short, so that whoever stops asking has stopped soon: a test at one length is a lap of its own.

    Attributes:
        method: the position method.
        step: the step taken last.
        by_length: None for a step. For a test, bits per byte at the test lengths so far, in a dict that grows from
            lap to lap until it holds every length; for a task, the share of right answers by distance.
        model: the model as it is now.
    """

    method: str
    step: Step
    by_length: dict[int, float] | None
    model: LanguageModel


def test_lengths(length: int, longest: int = 16) -> list[int]:
    """The training length L, doubled as often as it stays within `longest` times it: L, 2L, 4L, ...

    >>> test_lengths(32)
    [32, 64, 128, 256, 512]
    """
    return [length * 2**power for power in range(longest.bit_length())]


def test_distances(task: Task, length: int, longest: int = 32) -> list[int]:
    """The distances at which a race on a task is tested: the largest in exercises of L, 2L, 4L, ..., longest * L.

    >>> test_distances(lab.TASKS["needle"], 32)
    [31, 63, 127, 255, 511, 1023]
    """
    return [task.furthest(size) for size in test_lengths(length, longest)]


test_lengths.__test__ = test_distances.__test__ = False  # type: ignore[attr-defined]  # pytest: not a test


def race(
    methods: Sequence[str],
    text: Text | Task,
    *,
    length: int = 32,
    steps: int = 300,
    seed: int = 0,
    lengths: Sequence[int] | None = None,
    checkpoints: int = 10,
    targets: int = 4096,
    batch_size: int = 32,
    learning_rate: float = 8e-3,
    **sizes: int | float | str | bool,
) -> Iterator[Lap]:
    """Train one model a method, in turn, a step each, and test them at every length now and then.

    Args:
        methods: names of position methods, each at most once.
        text, length, steps, seed, batch_size, learning_rate: as in `train`; the seed also sets the starting weights.
        lengths: test lengths, `test_lengths(length)` by default; for a task distances, `test_distances(task, length)`.
        checkpoints: how often each model is tested, evenly spaced, the last time after its last step.
        targets: bytes predicted at a checkpoint, the same ones at each, and never fewer than the longest test has; of
            no meaning for a task.
        sizes: as in `make_model`.

    Raises as `train` and `loss_by_length` do, ValueError at the call for methods that are missing or doubled.
    A model that diverges, in training or so far that a test gives no number, ends the race, and the error names it.

    >>> laps = list(lab.race(["alibi", "none"], lab.load_text(), steps=4, checkpoints=1))
    >>> [(lap.method, lap.step.index) for lap in laps[:3]]
    [('alibi', 1), ('none', 1), ('alibi', 2)]
    >>> list(laps[-1].by_length)
    [32, 64, 128, 256, 512]
    """
    if not methods or len(set(methods)) != len(methods):
        raise ValueError(f"methods must be one or more different names, got {list(methods)!r}")
    if lengths is None:
        lengths = test_distances(text, length) if isinstance(text, Task) else test_lengths(length)
    if isinstance(text, Task):
        sizes = {"vocabulary": text.vocabulary, **sizes}
    elif max(lengths) >= len(text.validation):
        raise ValueError(
            f"{text.name} is too short to test at length {max(lengths)}: its last tenth has "
            f"{len(text.validation):,} bytes, at least {max(lengths) + 1} are needed"
        )
    models = {method: make_model(method, seed=seed, max_length=length, **sizes) for method in methods}
    streams = [
        train(model, text, length=length, steps=steps, batch_size=batch_size, learning_rate=learning_rate, seed=seed)
        for model in models.values()
    ]
    marks = {round(steps * part / checkpoints) for part in range(1, checkpoints + 1)}

    def laps() -> Iterator[Lap]:
        for _ in range(steps):
            for (method, model), stream in zip(models.items(), streams, strict=True):
                try:
                    step = next(stream)
                except TrainingDiverged as error:
                    raise TrainingDiverged(f"{method}: {error}") from None
                yield Lap(method, step, None, model)
                by_length: dict[int, float] = {}
                for tested, result in _tests(model, text, lengths, targets) if step.index in marks else ():
                    by_length = {**by_length, tested: result}
                    needed = text.needs(tested) if isinstance(text, Task) else tested
                    if diverged(model, {needed: result}):
                        raise TrainingDiverged(
                            f"{method}: after step {step.index} of {steps} a test at length {tested} gave no number; "
                            f"try a learning rate below {learning_rate:g}"
                        )
                    yield Lap(method, step, by_length, model)

    return laps()


def _tests(
    model: LanguageModel, text: Text | Task, lengths: Sequence[int], targets: int
) -> Iterator[tuple[int, float]]:
    if not isinstance(text, Task):
        yield from length_losses(model, text, lengths, targets=max(targets, *lengths))
        return
    for distance in lengths:
        yield distance, accuracy(model, text, distance, samples=task_samples(text, distance))


def task_samples(task: Task, distance: int) -> int:
    """How many exercises of one distance a race is tested on, 16 to 256: fewer where they are long."""
    return max(16, min(256, TASK_TOKENS // task.needs(distance)))
