"""Train a small model, or race several side by side: the same starting weights, the same batches,
one step in turn.

Training is a generator that yields one row per step; to stop it, stop iterating.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from alibi_viz import arguments
from alibi_viz.data.tasks import NOT_ASKED, Task
from alibi_viz.data.text import Text, check_testable
from alibi_viz.measure import losses as evaluation
from alibi_viz.measure.losses import evaluation_lengths
from alibi_viz.measure.questions import find_question, main_question
from alibi_viz.measure.table import AS_TRAINED, TRAINING_LOSS, Row
from alibi_viz.measure.task_accuracy import accuracy
from alibi_viz.models import LanguageModel, TransformerConfig, register_method
from alibi_viz.models.positions.custom import Method, custom_method, register_methods

# Two models learn to write mostly real words in 20 seconds on two cores, with each of the seeds 0
# to 4.
LENGTH, STEPS, BATCH_SIZE, LEARNING_RATE = 64, 800, 16, 1.2e-2
# The fields of `TransformerConfig` in which the lab's small models differ from its defaults.
DEFAULT_MODEL: dict[str, int | float | str | bool] = {
    "num_layers": 2,
    "d_model": 64,
    "num_heads": 8,
    "dropout": 0.0,
}
DEFAULT_MODEL["max_length"] = LENGTH
TASK_TOKENS = 32_768  # of the examples of one length at a checkpoint of a race, which are 16 to 256

T = TypeVar("T")


class TrainingDiverged(ArithmeticError):
    """The loss became NaN or infinite. The steps yielded before are valid."""


def make_model(
    position: Method = "alibi", *, seed: int = 0, **sizes: int | float | str | bool
) -> LanguageModel:
    """Create a byte-level model that trains in seconds: 2 layers, width 64, 8 heads, no dropout,
    about 130,000 weights.

    Models with equal `seed` and sizes start from the same weights, whatever their position method,
    so that a comparison of methods is paired. `position` is a name, or your own function or class
    (see `alibi_viz.models.register_method`). `sizes` are other fields of `TransformerConfig`,
    except `causal`. One is `max_length`, the training length to which some methods are scaled, 64
    by default. The global random state is left unchanged.

    Raises TypeError or ValueError for sizes that don't fit, and ValueError for your own method that
    looks ahead.

    >>> alibi, rotary = lab.make_model("alibi"), lab.make_model("rotary")
    >>> bool((alibi.head.weight == rotary.head.weight).all())
    True
    """
    position = register_method(position)
    arguments.check_seed(seed)
    with _random_state(seed, torch.device("cpu")), torch.device("cpu"):
        common, model = (LanguageModel(model_config(name, sizes)) for name in ("none", position))
    model.load_state_dict(common.state_dict(), strict=False)
    if custom_method(position) is not None:
        _check_causal(model)
    return model


def model_config(position: str, sizes: Mapping[str, int | float | str | bool]) -> TransformerConfig:
    """The configuration of a small model. Raises ValueError for an unknown field and for sizes that
    don't fit."""
    fields = [
        name
        for name in TransformerConfig.__dataclass_fields__
        if name not in {"position", "causal"}
    ]
    arguments.check_known("fields of a model", sizes, fields)
    return TransformerConfig(position=position, **{**DEFAULT_MODEL, **sizes})  # type: ignore[arg-type]


@torch.no_grad()
def _check_causal(model: LanguageModel) -> None:
    """Raise ValueError if the last token changes an earlier prediction."""
    length = min(16, model.transformer.position.max_length or 16)
    tokens = torch.arange(length, device="cpu").repeat(2, 1) % model.config.vocabulary
    tokens[1, -1] = (tokens[1, -1] + 1) % model.config.vocabulary
    model.eval()
    first, second = (model(each[None])[0, :-1] for each in tokens)
    model.train()
    difference = (first - second).abs().amax(-1)
    if bool((difference > 1e-6).any()):
        what = (
            f"another token at position {length - 1} changes the prediction at position "
            f"{int(difference.argmax())}"
        )
        raise ValueError(f"position method {model.config.position!r} looks ahead: {what}")


def train(
    model: LanguageModel,
    source: Text | Task,
    *,
    length: int = LENGTH,
    steps: int = STEPS,
    batch_size: int = BATCH_SIZE,
    learning_rate: float = LEARNING_RATE,
    seed: int = 0,
    device: str = "auto",
) -> Iterator[Row]:
    """Train a model to predict the next byte of a text, or the answers of a task, yielding a row
    after each step.

    A row has the columns of `lab.COLUMNS`, and "tokens_per_second": its "value" is the loss on the
    batch of this step before the update, in bits per byte or per answer, its "count" the examples
    in the batch.

    The optimizer is AdamW with weight decay 0.1. The learning rate rises linearly over the first
    twentieth of the steps, then falls along a cosine to a tenth. Gradients are clipped at norm 1.
    Equal seeds, thread counts and torch versions give equal numbers, and the batches don't depend
    on the model, so runs with equal seeds are paired.

    Args:
        model: is trained in place; its `vocabulary` must be that of the source.
        source: a text, whose training part is used, or a task.
        length: bytes in a training sequence, L; for a task, the maximum length of an example.
        steps, batch_size: how many updates of the weights, and sequences or examples in each batch.
        learning_rate: the highest one of the schedule.
        seed: of the batches, and of dropout.
        device: "auto" is CUDA if available, else the CPU. On CUDA, training uses bfloat16
            (autocast).

    Raises TypeError or ValueError at the call for wrong arguments, a text that is too short for one
    sequence, and a device that isn't there, and TrainingDiverged when the loss becomes NaN or
    infinite.

    >>> rows = list(lab.train(lab.make_model(), lab.load_text(), steps=20))
    >>> rows[-1]["step"], rows[-1]["value"] < rows[0]["value"]
    (20, True)
    """
    evaluation.check_decoder(model)
    arguments.check_instance("source", source, Text, Task)
    arguments.check_positive_integers(length=length, steps=steps, batch_size=batch_size)
    arguments.check_positive("learning_rate", learning_rate)
    arguments.check_seed(seed)
    if isinstance(source, Task):
        source.max_distance(length)  # raises ValueError if no example fits
        pairs = source.batches(length, batch_size, seed)
    elif len(source.train) > length:
        pairs = (
            (batch[:, :-1], batch[:, 1:])
            for batch in batches(source.train, length, batch_size, seed)
        )
    else:
        has = f"its training part has {len(source.train):,} bytes, at least {length + 1} are needed"
        raise ValueError(f"{source.name} is too short to train on sequences of {length}: {has}")
    task, unit = (
        (source.name, "bits per answer") if isinstance(source, Task) else ("text", "bits per byte")
    )
    row: Row = {
        "origin": "live",
        "task": task,
        "method": model.config.position,
        "label": model.config.position,
    }
    row |= {
        "variant": AS_TRAINED,
        "question": TRAINING_LOSS,
        "unit": unit,
        "seed": seed,
        "length": length,
    }
    row["text"] = getattr(source, "fingerprint", "")
    model.to(choose_device(device))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    return _training_rows(model, pairs, optimizer, steps, row)


def choose_device(device: object = "auto") -> torch.device:
    """The torch device of that name; "auto" is CUDA if available. Raises ValueError if it is
    unknown or not here."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    try:
        chosen = torch.device(("cuda" if count else "cpu") if device == "auto" else str(device))
    except RuntimeError as error:
        raise ValueError(
            f"device must be auto, cpu, cuda or another of torch's names, got {device!r}"
        ) from error
    try:
        is_here = (
            count > (chosen.index or 0)
            if chosen.type == "cuda"
            else not torch.empty(0, device=chosen).is_meta
        )
    except (AssertionError, ImportError, RuntimeError):  # each missing kind raises another error
        is_here = False
    if not is_here:
        raise ValueError(
            f"device {device!r} was requested, but there is no {chosen.type.upper()} device here"
        )
    return chosen


def batches(data: Tensor, length: int, batch_size: int, seed: int) -> Iterator[Tensor]:
    """Endless batches of random sequences of `data`, int64 [batch, length + 1]: inputs, and targets
    shifted by one."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(
            len(data) - length, (batch_size, 1), generator=generator, device="cpu"
        )
        yield data[starts + torch.arange(length + 1, device="cpu")].long()


def _training_rows(
    model: LanguageModel,
    pairs: Iterator[tuple[Tensor, Tensor]],
    optimizer: torch.optim.Optimizer,
    steps: int,
    row: Row,
) -> Iterator[Row]:
    """Train on pairs of inputs and targets, each [batch, length]; `row` has what all rows share."""
    device, learning_rate = next(model.parameters()).device, optimizer.defaults["lr"]
    is_random = _is_random(model)
    model.train()
    for index in range(1, steps + 1):
        started = time.perf_counter()
        inputs, targets = (part.to(device) for part in next(pairs))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _schedule(index, steps)
        # seeded in each step, so that random numbers drawn elsewhere in between change nothing
        seeded = (
            _random_state((row["seed"] * steps + index) % 2**63, device)
            if is_random
            else nullcontext()
        )
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"), seeded:
            loss = cross_entropy(
                model(inputs).flatten(0, 1), targets.flatten(), ignore_index=NOT_ASKED
            )
        bits = loss.item() / math.log(2)
        if not math.isfinite(bits):
            advice = f"try a learning rate below {learning_rate:g}"
            raise TrainingDiverged(f"the loss became {bits} at step {index} of {steps}; {advice}")
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        speed = inputs.numel() / (time.perf_counter() - started)
        yield row | {
            "step": index,
            "x": index,
            "value": bits,
            "count": len(inputs),
            "tokens_per_second": speed,
        }


def _is_random(model: LanguageModel) -> bool:
    """Whether its training draws from torch's random state."""
    return model.config.dropout > 0 or bool(model.transformer.position.is_random)


def _schedule(index: int, steps: int) -> float:
    """The learning rate at step `index`, as a share of its maximum."""
    warm_up = max(1, steps // 20)
    progress = max(0, index - warm_up) / max(1, steps - warm_up)
    return min(index / warm_up, 0.1 + 0.9 * (1 + math.cos(math.pi * progress)) / 2)


_RANDOM_STATE = threading.Lock()


@contextmanager
def _random_state(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch inside a `with` block, then restore its random state, which all threads share."""
    with _RANDOM_STATE, torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


@contextmanager
def limited_threads(count: int, before: int | None = None) -> Iterator[None]:
    """Use that many threads of torch inside a `with` block, and then `before`. The numbers depend
    on it, a little.

    On busy cores one thread is much faster for models this small: several wait for the slowest in
    each step.
    """
    before = before or torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Race(Iterator[Row]):
    """The rows of a race, one after the other; `race` makes it.

    Attributes:
        models: {method: a copy of the model with the weights after its last row so far}. The next
            step overwrites it.
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
    length: int = LENGTH,
    steps: int = STEPS,
    seed: int = 0,
    lengths: Iterable[int] | None = None,
    checkpoints: int = 10,
    targets: int = 4096,
    batch_size: int = BATCH_SIZE,
    learning_rate: float = LEARNING_RATE,
    **sizes: int | float | str | bool,
) -> Race:
    """Train one model per method, one step each in turn, and evaluate all of them at regular
    checkpoints.

    Yields the rows of `train` and, at checkpoints, the loss at each length and the gap between 4L
    and L.

    On a CPU as many models as torch has threads train at the same time, each on one thread. The
    rows come in turn, one of each method, and the numbers are those of `train` with one thread.

    Args:
        methods: position methods, each at most once: names, or your own functions or classes, as in
            `make_model`.
        source, length, steps, seed, batch_size, learning_rate: as in `train`; the seed also sets
            the starting weights.
        lengths: to evaluate at; `evaluation_lengths` by default.
        checkpoints: how often each model is evaluated, at even intervals; the last time is after
            its last step.
        targets: bytes predicted at a checkpoint of a text, always the same ones, and at least one
            longest sequence.
        sizes: as in `make_model`.

    Raises at the call ValueError for missing or repeated methods, bad lengths and a text that is
    too short, and as `train` and `make_model` do; TrainingDiverged, naming the method, when a loss
    becomes NaN or infinite.

    >>> race = lab.race(["alibi", "none"], lab.load_text(), steps=4, checkpoints=1)
    >>> rows = pd.DataFrame(race)
    >>> rows["method"][:3].tolist(), rows["x"][rows["question"] == "longer sequences"].unique().tolist()
    (['alibi', 'none', 'alibi'], [64, 128, 256, 512, 1024])
    >>> race.models["alibi"].config.position
    'alibi'
    """
    arguments.check_instance("source", source, Text, Task)
    arguments.check_positive_integers(
        length=length, steps=steps, checkpoints=checkpoints, targets=targets
    )
    names = register_methods(methods)
    tested = arguments.positive_integers(
        "lengths", evaluation_lengths(length) if lengths is None else lengths
    )
    if isinstance(source, Text):
        check_testable(source, max(tested))
    sizes = {"vocabulary": source.vocabulary, "max_length": length, **sizes}
    device = choose_device()
    models, copies = (
        {name: make_model(name, seed=seed, **sizes).to(device) for name in names} for _ in range(2)
    )
    tests = min(checkpoints, steps)
    settings: dict[str, Any] = {"length": length, "steps": steps, "batch_size": batch_size}
    settings |= {"learning_rate": learning_rate, "seed": seed}
    threads = min(len(names), torch.get_num_threads()) if device.type == "cpu" else 1

    def answers(model: LanguageModel, training: Iterator[Row]) -> Iterator[Row]:
        """The training of one model, and its tests at checkpoints."""
        try:
            for row in training:
                yield {**row}  # the caller may change it
                test = (
                    row["step"] * tests // steps
                )  # the checkpoints, at even intervals, may be too many for a list
                if row["step"] in (round(steps * test / tests), round(steps * (test + 1) / tests)):
                    yield from _test(model, source, row, tested, targets)
        except TrainingDiverged as error:
            raise TrainingDiverged(f"{model.config.position}: {error}") from None

    def rows(streams: list[Iterator[Row]]) -> Generator[Row, None, None]:
        weights = {
            name: [list(each[name].state_dict().values()) for each in (models, copies)]
            for name in names
        }
        ahead = not any(
            map(_is_random, models.values())
        )  # else it and the caller would draw from one random state
        with closing(round_robin(streams, threads, ahead=ahead)) as in_turn:
            for row in in_turn:
                if (
                    row["question"] == TRAINING_LOSS
                ):  # copy the weights: the model may be a step ahead when asked for
                    for new, old in zip(*weights[row["method"]], strict=True):
                        old.copy_(new)
                yield row

    return Race(
        rows([answers(model, train(model, source, **settings)) for model in models.values()]),
        copies,
    )


def _test(
    model: LanguageModel, source: Text | Task, last: Row, lengths: Sequence[int], targets: int
) -> Iterator[Row]:
    """The rows of a checkpoint, length by length, so that a race can be stopped between two."""
    length, step, values = last["length"], last["step"], dict[int, float]()
    tests: Iterator[tuple[int, float, int]]
    if isinstance(source, Task):
        counts = {at: max(16, min(256, TASK_TOKENS // at)) for at in lengths}
        tests = (
            (at, accuracy(model, source, at, samples=count), count) for at, count in counts.items()
        )
    else:
        losses = evaluation.shared_losses(model, source, lengths, targets=max(targets, *lengths))
        tests = ((at, float(bits.mean()), len(bits)) for at, bits in losses)
    for at, value, count in tests:
        if evaluation.diverged(model, {at: value}):
            raise TrainingDiverged(
                f"after step {step} the loss at length {at} is {value}; try a lower learning rate"
            )
        values[at] = value
        yield main_question(last["task"]).row(last, at, value, count)
    if isinstance(source, Text) and {length, 4 * length} <= values.keys():
        yield find_question("gap").row(last, step, values[4 * length] - values[length], count)


def round_robin(
    streams: Iterable[Iterator[T]], threads: int, *, ahead: bool = True
) -> Generator[T, None, None]:
    """Yield one item of each stream in turn, until all streams have ended.

    Up to `threads` of the streams work at once, each on a thread on which torch is limited to one
    thread, so it gives the same numbers as alone. None is more than one item ahead; without
    `ahead`, one works while the caller waits for it. Errors are raised in turn. Closing leaves no
    thread.

    >>> from alibi_viz.train.training import round_robin
    >>> list(round_robin([iter(["a1", "a2"]), iter(["b1", "b2", "b3"])], threads=2))
    ['a1', 'b1', 'a2', 'b2', 'b3']
    """
    pool = ThreadPoolExecutor(
        threads, "alibi_viz race", initializer=torch.set_num_threads, initargs=(1,)
    )
    try:
        turns = deque(
            (stream, pool.submit(next, stream, None) if ahead else None) for stream in streams
        )
        while turns:
            stream, turn = turns.popleft()
            if (item := (turn or pool.submit(next, stream, None)).result()) is not None:
                yield item  # before the stream goes on: the caller may read what it has made
                turns.append((stream, pool.submit(next, stream, None) if ahead else None))
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(
            torch.get_num_threads()
        )  # the threads above changed the default of new threads
