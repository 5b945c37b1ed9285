"""Train several position methods side by side: the same starting weights, the same batches, one step each in turn."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import TypeVar

import torch

from alibi_viz.arguments import check_instance, check_positive_integers, positive_integers
from alibi_viz.lab import training
from alibi_viz.lab.evaluation import diverged, evaluation_lengths, shared_losses
from alibi_viz.lab.questions import find_question, main_question
from alibi_viz.lab.tasks import Task, accuracy, evaluation_distances
from alibi_viz.lab.text import Text, check_testable
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.custom import Method, register_methods
from alibi_viz.table import TRAINING_LOSS, Row

T = TypeVar("T")
TASK_TOKENS = 32_768  # of the examples of one distance at a checkpoint, which are 16 to 256


class Race(Iterator[Row]):
    """The rows of a race, one after the other; `race` makes it.

    Attributes:
        models: {method: a copy of the model with the weights after its last row so far}. The next training step of a
            method overwrites the weights of its copy.
    """

    def __init__(self, rows: Generator[Row, None, None], models: dict[str, LanguageModel]) -> None:
        self._rows, self.models = rows, models

    def __next__(self) -> Row:
        return next(self._rows)

    def close(self) -> None:
        """End the race; no thread is left behind."""
        self._rows.close()


def race(
    methods: Iterable[Method],
    source: Text | Task,
    *,
    length: int = training.LENGTH,
    steps: int = training.STEPS,
    seed: int = 0,
    lengths: Iterable[int] | None = None,
    checkpoints: int = 10,
    targets: int = 4096,
    batch_size: int = training.BATCH_SIZE,
    learning_rate: float = training.LEARNING_RATE,
    **sizes: int | float | str | bool,
) -> Race:
    """Train one model per method, one step each in turn, and evaluate all of them at regular checkpoints.

    Yields the rows of `train` and, at checkpoints, the loss at each length and the gap between 4L and L.

    On a CPU as many models as torch has threads train at the same time, each on one thread. The rows come in turn, and
    the numbers are those of `train` with one thread.

    Args:
        methods: position methods, each at most once: names, or your own functions or classes, as in `make_model`.
        source, length, steps, seed, batch_size, learning_rate: as in `train`; the seed also sets the starting weights.
        lengths: to evaluate at, or distances for a task; by default `evaluation_lengths` or `evaluation_distances`.
        checkpoints: how often each model is evaluated, at even intervals; the last time is after its last step.
        targets: bytes predicted at a checkpoint of a text, always the same ones, and at least one longest window.
        sizes: as in `make_model`.

    Raises at the call ValueError for missing or repeated methods, bad lengths and a text that is too short, and as
    `train` and `make_model` do; TrainingDiverged, naming the method, when a loss becomes NaN or infinite.

    >>> race = lab.race(["alibi", "none"], lab.load_text(), steps=4, checkpoints=1)
    >>> rows = pd.DataFrame(race)
    >>> rows["method"][:3].tolist(), rows["x"][rows["question"] == "longer windows"].unique().tolist()
    (['alibi', 'none', 'alibi'], [64, 128, 256, 512, 1024])
    >>> race.models["alibi"].config.position
    'alibi'
    """
    check_instance("source", source, Text, Task)
    check_positive_integers(length=length, steps=steps, checkpoints=checkpoints, targets=targets)
    names = register_methods(methods)
    if not names or len(set(names)) != len(names):
        raise ValueError(f"methods must be one or more different names, got {names!r}")
    if lengths is None:
        lengths = evaluation_distances(source, length) if isinstance(source, Task) else evaluation_lengths(length)
    tested = positive_integers("lengths", lengths)
    if isinstance(source, Text):
        check_testable(source, max(tested))
    sizes = {"vocabulary": source.vocabulary, "max_length": length, **sizes}
    device = training.choose_device()
    models, copies = (
        {name: training.make_model(name, seed=seed, **sizes).to(device) for name in names} for _ in range(2)
    )
    tested_steps = {round(steps * checkpoint / checkpoints) for checkpoint in range(1, checkpoints + 1)}
    train = partial(training.train, length=length, steps=steps, batch_size=batch_size, learning_rate=learning_rate)
    threads = min(len(names), torch.get_num_threads()) if device.type == "cpu" else 1

    def answers(model: LanguageModel) -> Iterator[Row]:
        """The training of one model, and its tests at checkpoints."""
        try:
            for row in train(model, source, seed=seed):
                yield row
                if row["step"] in tested_steps:
                    yield from _test(model, source, row, tested, targets)
        except training.TrainingDiverged as error:
            raise training.TrainingDiverged(f"{model.config.position}: {error}") from None

    def rows(streams: list[Iterator[Row]]) -> Generator[Row, None, None]:
        weights = {name: [list(each[name].state_dict().values()) for each in (models, copies)] for name in names}
        with closing(round_robin(streams, threads)) as in_turn:
            for row in in_turn:
                if row["question"] == TRAINING_LOSS:  # copy the weights: the model may be a step ahead when asked for
                    for new, old in zip(*weights[row["method"]], strict=True):
                        old.copy_(new)
                yield row

    return Race(rows([answers(model) for model in models.values()]), copies)


def _test(
    model: LanguageModel, source: Text | Task, trained: Row, lengths: Sequence[int], targets: int
) -> Iterator[Row]:
    """The rows of a checkpoint, length by length, so that a race can be stopped between two."""
    length, step, values = trained["length"], trained["step"], dict[int, float]()
    tests: Iterator[tuple[int, float, int]]
    if isinstance(source, Task):
        counts = {at: max(16, min(256, TASK_TOKENS // source.min_length(at))) for at in lengths}
        tests = ((at, accuracy(model, source, at, samples=count), count) for at, count in counts.items())
    else:
        losses = shared_losses(model, source, lengths, targets=max(targets, *lengths))
        tests = ((at, float(bits.mean()), len(bits)) for at, bits in losses)
    for at, value, count in tests:
        if diverged(model, {source.min_length(at) if isinstance(source, Task) else at: value}):
            raise training.TrainingDiverged(
                f"after step {step} the loss at length {at} is {value}; try a lower learning rate"
            )
        values[at] = value
        yield main_question(trained["task"]).row(trained, at, value, count)
    if isinstance(source, Text) and {length, 4 * length} <= values.keys():
        yield find_question("gap").row(trained, step, values[4 * length] - values[length], count)


def round_robin(streams: Iterable[Iterator[T]], threads: int) -> Generator[T, None, None]:
    """Yield one item of each stream in turn, until all streams have ended.

    Up to `threads` of the streams work at once, each on a thread on which torch is limited to one thread, so it gives
    the same numbers as alone. None is more than one item ahead. An error in a stream is raised when it is that stream's
    turn. Closing the generator leaves no thread behind.

    >>> from alibi_viz.lab.race import round_robin
    >>> list(round_robin([iter(["a1", "a2"]), iter(["b1", "b2", "b3"])], threads=2))
    ['a1', 'b1', 'a2', 'b2', 'b3']
    """
    pool = ThreadPoolExecutor(threads, "alibi_viz race", initializer=torch.set_num_threads, initargs=(1,))
    try:
        turns = deque((stream, pool.submit(next, stream, None)) for stream in streams)
        while turns:
            stream, turn = turns.popleft()
            if (item := turn.result()) is not None:
                yield item  # before the stream goes on: the caller may read what it has made
                turns.append((stream, pool.submit(next, stream, None)))
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(torch.get_num_threads())  # the threads above changed the default of new threads
