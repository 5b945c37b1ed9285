"""Race several models: the same starting parameters, the same batches, one step in turn."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

import torch
from torch import Tensor

from alibi_viz import arguments
from alibi_viz.data.tasks import Task
from alibi_viz.data.text import Text, check_testable
from alibi_viz.measure.losses import diverged, evaluation_lengths, shared_losses
from alibi_viz.measure.questions import find_question, main_question
from alibi_viz.measure.table import TRAINING_LOSS, Row
from alibi_viz.measure.task_accuracy import accuracy
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.methods import Method, named_methods
from alibi_viz.train.training import (
    BATCH_SIZE,
    LENGTH,
    STEPS,
    TrainingDiverged,
    choose_device,
    draws_random_numbers,
    make_model,
    train,
)

# At a checkpoint, the examples of one length have about this many tokens; they are 16 to 256.
TASK_TOKENS = 32_768

T = TypeVar("T")


class Race(Iterator[Row]):
    """The rows of a race, one after the other; `race` makes it.

    Attributes:
        models: {method: a copy of the model with the parameters after its last row so far}. The
            next step overwrites it.
    """

    def __init__(self, rows: Generator[Row, None, None], models: dict[str, LanguageModel]) -> None:
        self._rows = rows
        self.models = models

    def __next__(self) -> Row:
        return next(self._rows)

    def close(self) -> None:
        """End the race; no thread is left behind."""
        self._rows.close()


def race(
    methods: Iterable[Method] | Mapping[str, Method],
    source: Text | Task,
    *,
    length: int = LENGTH,
    steps: int = STEPS,
    seed: int = 0,
    lengths: Iterable[int] | None = None,
    checkpoints: int = 10,
    targets: int = 4096,
    batch_size: int = BATCH_SIZE,
    optimizer: str = "muon",
    learning_rate: float | None = None,
    **sizes: int | float | str | bool,
) -> Race:
    """Train one model per method, one step each in turn, and test all of them at checkpoints.

    Yields the rows of `train` and, at checkpoints, the loss at each length and the gap between 4L
    and L.

    On a CPU as many models as torch has threads train at the same time, each on one thread. The
    rows come in turn, one of each method, and the numbers are those of `train` with one thread.

    Args:
        methods: position methods, as in `make_model`: a list, or {name: method} with names of your
            own, such as {"slope 1/2": law(0.5), "slope 2": law(2.0)}.
        source, length, steps, seed, batch_size, optimizer, learning_rate: as in `train`; the seed
            also sets the starting parameters.
        lengths: to evaluate at; `evaluation_lengths` by default.
        checkpoints: how often each model is evaluated, at even intervals; the last time is after
            its last step.
        targets: bytes predicted at a checkpoint of a text, always the same ones, and at least one
            longest sequence.
        sizes: as in `make_model`.

    Raises at the call ValueError for missing or repeated methods, bad lengths and a text that is
    too short, and as `train` and `make_model` do; TrainingDiverged, naming the method, when a loss
    becomes NaN or infinite.

    >>> import pandas as pd
    >>> from alibi_viz import lab
    >>> race = lab.race(["alibi", "none"], lab.load_text(), steps=4, checkpoints=1)
    >>> rows = pd.DataFrame(race)
    >>> rows["method"][:3].tolist()
    ['alibi', 'none', 'alibi']
    >>> rows.loc[rows["question"] == "longer sequences", "x"].unique().tolist()
    [64, 128, 256, 512, 1024]
    >>> race.models["alibi"].config.position
    'alibi'
    """
    arguments.check_instance("source", source, Text, Task)
    arguments.check_positive_integers(
        length=length, steps=steps, checkpoints=checkpoints, targets=targets
    )
    methods = named_methods(methods)
    if lengths is None:
        lengths = evaluation_lengths(length)
    test_lengths = arguments.positive_integers("lengths", lengths)
    if isinstance(source, Text):
        check_testable(source, max(test_lengths))

    sizes = {"vocabulary": source.vocabulary, "max_length": length, **sizes}
    device = choose_device()
    # A model in training may be a step ahead of its last row, so the caller gets copies.
    models = {}
    copies = {}
    for name, method in methods.items():
        models[name] = make_model(method, seed=seed, **sizes).to(device)
        copies[name] = make_model(method, seed=seed, **sizes).to(device)

    streams = []
    for name, model in models.items():
        training = train(
            model,
            source,
            length=length,
            steps=steps,
            batch_size=batch_size,
            optimizer=optimizer,
            learning_rate=learning_rate,
            seed=seed,
        )
        streams.append(
            _train_and_test(
                name,
                model,
                source,
                training,
                steps=steps,
                checkpoints=checkpoints,
                lengths=test_lengths,
                targets=targets,
            )
        )

    threads = min(len(methods), torch.get_num_threads()) if device.type == "cpu" else 1
    # Training ahead would draw from one random state at the same time as the caller.
    ahead = not any(draws_random_numbers(model) for model in models.values())
    rows = _rows_with_copies(round_robin(streams, threads, ahead=ahead), models, copies)
    return Race(rows, copies)


def _rows_with_copies(
    rows: Generator[Row, None, None],
    models: dict[str, LanguageModel],
    copies: dict[str, LanguageModel],
) -> Generator[Row, None, None]:
    """Pass the rows on, and copy the parameters of a model before each row of its training."""
    # Looked up once: a state dict takes long compared with a step.
    tensors = {name: _tensors(model) for name, model in models.items()}
    tensors_of_copies = {name: _tensors(model) for name, model in copies.items()}
    with closing(rows):
        for row in rows:
            if row["question"] == TRAINING_LOSS:
                method = row["method"]
                for new, old in zip(tensors[method], tensors_of_copies[method], strict=True):
                    old.copy_(new)
            yield row


def _tensors(model: LanguageModel) -> list[Tensor]:
    return list(model.state_dict().values())


def _train_and_test(
    name: str,
    model: LanguageModel,
    source: Text | Task,
    training: Iterator[Row],
    *,
    steps: int,
    checkpoints: int,
    lengths: Sequence[int],
    targets: int,
) -> Iterator[Row]:
    """The training of one model, and its tests at checkpoints."""
    try:
        for training_row in training:
            row = training_row | {"method": name, "label": name}
            yield {**row}  # the caller may change it
            if _is_checkpoint(row["step"], steps, min(checkpoints, steps)):
                yield from _test(model, source, row, lengths, targets)
    except TrainingDiverged as error:
        raise TrainingDiverged(f"{name}: {error}") from None


def _is_checkpoint(step: int, steps: int, checkpoints: int) -> bool:
    """Whether a step, counted from 1, is one of the checkpoints at even intervals."""
    # No list of them, because there may be many: only the two that are next to the step.
    number = step * checkpoints // steps
    before = round(steps * number / checkpoints)
    after = round(steps * (number + 1) / checkpoints)
    return step in (before, after)


def _test(
    model: LanguageModel, source: Text | Task, trained: Row, lengths: Sequence[int], targets: int
) -> Iterator[Row]:
    """The rows of a checkpoint, length by length, so that a race can be stopped between two."""
    training_length = trained["length"]
    step = trained["step"]
    question = main_question(trained["task"])
    values: dict[int, float] = {}
    for length, value, count in _test_values(model, source, lengths, targets):
        if diverged(model, {length: value}):
            raise TrainingDiverged(
                f"after step {step} the loss at length {length} is {value}; "
                "try a lower learning rate"
            )
        values[length] = value
        yield question.row(trained, length, value, count)

    has_gap = training_length in values and 4 * training_length in values
    if isinstance(source, Text) and has_gap:
        gap = values[4 * training_length] - values[training_length]
        yield find_question("gap").row(trained, step, gap, count)


def _test_values(
    model: LanguageModel, source: Text | Task, lengths: Sequence[int], targets: int
) -> Iterator[tuple[int, float, int]]:
    """For each length: the length, the mean, and how many bytes or examples it is a mean of."""
    if isinstance(source, Task):
        for length in lengths:
            samples = max(16, min(256, TASK_TOKENS // length))
            yield length, accuracy(model, source, length, samples=samples), samples
    else:
        targets = max(targets, *lengths)
        for length, bits in shared_losses(model, source, lengths, targets=targets):
            yield length, float(bits.mean()), len(bits)


def round_robin(
    streams: Iterable[Iterator[T]], threads: int, *, ahead: bool = True
) -> Generator[T, None, None]:
    """Yield one item of each stream in turn, until all streams have ended.

    Up to `threads` of the streams work at once, each on a thread on which torch is limited to one
    thread, so it gives the same numbers as alone. None is more than one item ahead; without
    `ahead`, one works while the caller waits for it. Errors are raised in turn. Closing leaves no
    thread.

    >>> from alibi_viz.train.race import round_robin
    >>> list(round_robin([iter(["a1", "a2"]), iter(["b1", "b2", "b3"])], threads=2))
    ['a1', 'b1', 'a2', 'b2', 'b3']
    """
    pool = ThreadPoolExecutor(
        threads, "alibi_viz race", initializer=torch.set_num_threads, initargs=(1,)
    )

    def start(stream: Iterator[T]) -> Future[T | None]:
        return pool.submit(next, stream, None)

    try:
        turns: deque[tuple[Iterator[T], Future[T | None] | None]] = deque()
        for stream in streams:
            turns.append((stream, start(stream) if ahead else None))

        while turns:
            stream, future = turns.popleft()
            if future is None:
                future = start(stream)
            item = future.result()
            if item is None:  # the stream has ended
                continue
            # The stream goes on only after the caller has read what it has made.
            yield item
            turns.append((stream, start(stream) if ahead else None))
    finally:
        pool.shutdown(cancel_futures=True)
        # The threads above have changed the default of new threads.
        torch.set_num_threads(torch.get_num_threads())
