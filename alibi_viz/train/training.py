"""Make a small model and train it: a generator that yields one row per step.

To stop a training, stop iterating. `alibi_viz.train.race` trains several models side by side.
"""

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from alibi_viz import arguments
from alibi_viz.data.tasks import NOT_ASKED, Task
from alibi_viz.data.text import Text
from alibi_viz.measure.losses import check_decoder
from alibi_viz.measure.table import AS_TRAINED, TRAINING_LOSS, Row
from alibi_viz.models import LanguageModel, TransformerConfig
from alibi_viz.models.positions import Method
from alibi_viz.train.muon import Muon

# With these, a model with ALiBi learns to write mostly real words, with each of the seeds 0 to 4.
LENGTH = 64
STEPS = 400
BATCH_SIZE = 16
# {optimizer: the learning rate with which it does best on the tales}
LEARNING_RATES = {"muon": 2e-2, "adamw": 1.2e-2}
# Muon's matrices learn best at this many times the learning rate of everything else.
MATRIX_RATE = 2

# What Muon trains: the matrices in a block that map vectors to vectors. The embedding, the head and
# a table of biases are matrices as well, but each of their rows is a vector of its own, for one
# token or head.
PROJECTIONS = "attention.qkv.weight"  # of queries, keys and values: three matrices in one
OTHER_MATRICES = ("attention.output.weight", "feed_forward.0.weight", "feed_forward.2.weight")

# The fields of `TransformerConfig` in which the lab's small models differ from its defaults.
DEFAULT_MODEL: dict[str, int | float | str | bool] = {
    "num_layers": 2,
    "d_model": 64,
    "num_heads": 4,
    "dropout": 0.0,
    "max_length": LENGTH,
}

Batch = tuple[Tensor, Tensor]  # inputs and targets, each int64 [batch, length]


class TrainingDiverged(ArithmeticError):
    """The loss became NaN or infinite. The steps yielded before are valid."""


def make_model(
    position: Method = "alibi", *, seed: int = 0, **sizes: int | float | str | bool
) -> LanguageModel:
    """Create a byte-level model that trains in seconds.

    It has 2 layers, width 64, 4 heads and no dropout, about 130,000 parameters. Models with equal
    `seed` and sizes start from the same parameters, whatever their position method, so that a
    comparison of methods is paired. The global random state is left unchanged.

    Args:
        position: the name of a position method; your own law, a function law(distance, head,
            num_heads) -> bias, where distance is int64 [n], all at least 0, head counts from 1, and
            the bias is floating point [n]; or your own subclass of `Position`.
        seed: of the starting parameters.
        sizes: other fields of `TransformerConfig`, except `causal`. One is `max_length`, the
            training length to which some methods are scaled, 64 by default.

    Raises TypeError or ValueError for sizes that don't fit and for what is no position method, and
    ValueError for your own method that looks ahead.

    >>> from alibi_viz import lab
    >>> alibi = lab.make_model("alibi")
    >>> rotary = lab.make_model("rotary")
    >>> bool((alibi.head.weight == rotary.head.weight).all())
    True
    >>> def root(distance, head, num_heads):
    ...     return -0.5 * distance.float().sqrt() / head
    >>> lab.make_model(root).transformer.position.bias(1, 5)[0, 0, :4]
    tensor([-1.0000, -0.8660, -0.7071, -0.5000])
    """
    seed = arguments.check_seed(seed)
    with _random_state(seed, torch.device("cpu")), torch.device("cpu"), _default_float32():
        common = LanguageModel(model_config("none", sizes))
        model = LanguageModel(model_config(position, sizes))

    # Parameters of the position method keep their own starting values.
    model.load_state_dict(common.state_dict(), strict=False)
    if not isinstance(position, str):
        # A method of your own may draw random numbers when it is tried.
        with _random_state(seed, torch.device("cpu")):
            _check_causal(model)
    return model


def model_config(
    position: Method, sizes: Mapping[str, int | float | str | bool]
) -> TransformerConfig:
    """The configuration of a small model.

    Raises ValueError for an unknown field and for sizes that don't fit.
    """
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
    vocabulary = model.config.vocabulary
    length = min(16, model.transformer.position.longest or 16)
    tokens = torch.arange(length, device="cpu") % vocabulary
    other_tokens = tokens.clone()
    other_tokens[-1] = (tokens[-1] + 1) % vocabulary

    model.eval()
    predictions = model(tokens[None])[0, :-1]
    other_predictions = model(other_tokens[None])[0, :-1]
    model.train()

    difference = (predictions - other_predictions).abs().amax(-1)
    if bool((difference > 1e-6).any()):
        raise ValueError(
            f"position method {model.config.method!r} looks ahead: another token at position "
            f"{length - 1} changes the prediction at position {int(difference.argmax())}"
        )


def train(
    model: LanguageModel,
    source: Text | Task,
    *,
    length: int = LENGTH,
    steps: int = STEPS,
    batch_size: int = BATCH_SIZE,
    optimizer: str = "muon",
    learning_rate: float | None = None,
    seed: int = 0,
    device: str = "auto",
) -> Iterator[Row]:
    """Train a model on a text or a task, yielding a row after each step.

    The model learns to predict the next byte of the text, or the answers of the task. A row has the
    columns of `lab.COLUMNS`, and "tokens_per_second": its "value" is the loss on the batch of this
    step before the update, in bits per byte or per answer, its "count" the examples in the batch.

    With "muon", the matrices inside of the blocks are trained by Muon (see
    `alibi_viz.train.muon`) and everything else by AdamW. A model is as good after half as many
    steps as with "adamw", which trains everything by AdamW. Weight decay is 0.1. The learning rate
    rises linearly over the first twentieth of the steps, then falls along a cosine to a tenth.
    Gradients are clipped at norm 1. Equal seeds, thread counts and torch versions give equal
    numbers, and the batches don't depend on the model, so runs with equal seeds are paired.

    Args:
        model: is trained in place; its `vocabulary` must be that of the source.
        source: a text, whose training part is used, or a task.
        length: bytes in a training sequence, L; for a task, the maximum length of an example. The
            model must have positions for so many tokens.
        steps: how many updates of the parameters.
        batch_size: sequences or examples in each batch.
        optimizer: "muon" or "adamw".
        learning_rate: the highest one of the schedule, by default 0.02 for "muon" and 0.012 for
            "adamw". Muon's matrices learn at twice this rate.
        seed: of the batches, and of dropout.
        device: "auto" is CUDA if available, else the CPU. On CUDA, training uses bfloat16
            (autocast).

    Raises TypeError or ValueError at the call for wrong arguments, a text that is too short for one
    sequence, and a device that isn't there, and TrainingDiverged when the loss becomes NaN or
    infinite.

    >>> from alibi_viz import lab
    >>> rows = list(lab.train(lab.make_model(), lab.load_text(), steps=20))
    >>> rows[-1]["step"], rows[-1]["value"] < rows[0]["value"]
    (20, True)
    """
    check_decoder(model)
    arguments.check_instance("source", source, Text, Task)
    arguments.check_positive_integers(length=length, steps=steps, batch_size=batch_size)
    learning_rate = checked_rate(optimizer, learning_rate)
    seed = arguments.check_seed(seed)

    if isinstance(source, Task):
        source.max_distance(length)  # raises ValueError if no example fits
        training_batches = source.batches(length, batch_size, seed)
        task = source.name
        fingerprint = ""
        unit = "bits per answer"
    else:
        training_batches = _text_batches(source, length, batch_size, seed)
        task = "text"
        fingerprint = source.fingerprint
        unit = "bits per byte"
    _check_fit(model, source.vocabulary, task, length)
    row: Row = {
        "origin": "live",
        "task": task,
        "method": model.config.method,
        "label": model.config.method,
        "variant": AS_TRAINED,
        "question": TRAINING_LOSS,
        "unit": unit,
        "seed": seed,
        "length": length,
        "text": fingerprint,
    }
    model.to(choose_device(device))
    optimizers = _optimizers(model, optimizer, learning_rate)
    return _training_rows(
        model, training_batches, optimizers, learning_rate=learning_rate, steps=steps, row=row
    )


def _check_fit(model: LanguageModel, vocabulary: int, task: str, length: int) -> None:
    """Raise ValueError unless the model has the vocabulary of its task and enough positions."""
    if model.config.vocabulary != vocabulary:
        raise ValueError(
            f"model must have vocabulary={vocabulary}, for the source {task!r}, got "
            f"{model.config.vocabulary}"
        )
    if not model.is_defined_at(length):
        raise ValueError(
            f"length must be a number of tokens for which the model's {model.config.method!r} "
            f"positions are defined, got {length}"
        )


def checked_rate(optimizer: str, learning_rate: float | None) -> float:
    """The learning rate, or the default of the optimizer.

    Raises TypeError or ValueError for an unknown optimizer, and a rate that isn't positive.
    """
    arguments.check_choice("optimizer", optimizer, LEARNING_RATES)
    if learning_rate is None:
        return LEARNING_RATES[optimizer]
    arguments.check_positive("learning_rate", learning_rate)
    return learning_rate


def _optimizers(
    model: LanguageModel, name: str, learning_rate: float
) -> list[torch.optim.Optimizer]:
    """What trains the parameters: AdamW, and for "muon" also Muon."""
    optimizers: list[torch.optim.Optimizer] = []
    by_muon: set[Tensor] = set()
    if name == "muon":
        projections = []
        others = []
        for path, parameter in model.transformer.blocks.named_parameters():
            if path.endswith(PROJECTIONS):
                projections.append(parameter)
            elif path.endswith(OTHER_MATRICES):
                others.append(parameter)
        by_muon = {*projections, *others}
        groups: list[dict[str, Any]] = [
            {"params": projections, "parts": 3},
            {"params": others},
        ]
        optimizers.append(Muon(groups, lr=MATRIX_RATE * learning_rate))
    rest = [parameter for parameter in model.parameters() if parameter not in by_muon]
    adamw = torch.optim.AdamW(
        rest, lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    return [*optimizers, adamw]


def choose_device(device: object = "auto") -> torch.device:
    """The torch device of that name; "auto" is CUDA if available.

    Raises ValueError if the name is unknown or the device isn't here.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    name = str(device)
    if device == "auto":
        name = "cuda" if gpus else "cpu"
    try:
        chosen = torch.device(name)
    except RuntimeError as error:
        raise ValueError(
            f"device must be auto, cpu, cuda or another of torch's names, got {device!r}"
        ) from error
    if not _is_here(chosen, gpus):
        raise ValueError(
            f"device {device!r} was requested, but there is no {chosen.type.upper()} device here"
        )
    return chosen


def _is_here(device: torch.device, gpus: int) -> bool:
    """Whether a tensor can be stored on the device."""
    if device.type == "cuda":
        number = 0 if device.index is None else device.index
        return number < gpus
    try:
        return not torch.empty(0, device=device).is_meta
    except (AssertionError, ImportError, RuntimeError):  # each missing kind raises another error
        return False


def _text_batches(text: Text, length: int, batch_size: int, seed: int) -> Iterator[Batch]:
    """Endless batches of the training part. Raises ValueError at the call if it is too short."""
    if len(text.train) <= length:
        raise ValueError(
            f"{text.name} is too short to train on sequences of {length}: its training part, nine "
            f"tenths of it, has {len(text.train):,} bytes and {length + 1:,} are needed"
        )
    sequences = batches(text.train, length, batch_size, seed)
    return ((batch[:, :-1], batch[:, 1:]) for batch in sequences)


def batches(data: Tensor, length: int, batch_size: int, seed: int) -> Iterator[Tensor]:
    """Endless batches of random sequences of `data`, int64 [batch, length + 1].

    The first `length` tokens are the inputs, the last `length` the targets.
    """
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.arange(length + 1, device="cpu")
    while True:
        starts = torch.randint(
            len(data) - length, (batch_size, 1), generator=generator, device="cpu"
        )
        yield data[starts + offsets].long()


def _training_rows(
    model: LanguageModel,
    training_batches: Iterator[Batch],
    optimizers: Sequence[torch.optim.Optimizer],
    *,
    learning_rate: float,
    steps: int,
    row: Row,
) -> Iterator[Row]:
    """Train on inputs and targets, each [batch, length]; `row` has what all rows share."""
    device = next(model.parameters()).device
    is_random = draws_random_numbers(model)
    model.train()
    for step in range(1, steps + 1):
        started = time.perf_counter()
        inputs, targets = (part.to(device) for part in next(training_batches))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = optimizer.defaults["lr"] * _schedule(step, steps)

        # Seeded in each step, so that random numbers drawn elsewhere in between change nothing.
        seeded: AbstractContextManager[None] = nullcontext()
        if is_random:
            seeded = _random_state((row["seed"] * steps + step) % 2**63, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"), seeded:
            logits = model(inputs)
            loss = cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=NOT_ASKED)
        if not loss.requires_grad:
            raise ValueError(
                "training needs gradients: ask for its rows outside of torch.no_grad() and "
                "torch.inference_mode(), and with parameters that require a gradient"
            )
        bits = loss.item() / math.log(2)
        if not math.isfinite(bits):
            raise TrainingDiverged(
                f"the loss became {bits} at step {step} of {steps}; try a learning rate below "
                f"{learning_rate:g}"
            )

        model.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        seconds = time.perf_counter() - started
        yield row | {
            "step": step,
            "x": step,
            "value": bits,
            "count": len(inputs),
            "tokens_per_second": inputs.numel() / seconds,
        }


def draws_random_numbers(model: LanguageModel) -> bool:
    """Whether the training of a model draws from torch's random state, as dropout does."""
    return model.config.dropout > 0 or model.transformer.position.is_random


def _schedule(step: int, steps: int) -> float:
    """The learning rate at a step, counted from 1, as a share of its maximum."""
    warm_up = max(1, steps // 20)
    progress = max(0, step - warm_up) / max(1, steps - warm_up)
    cosine = 0.1 + 0.9 * (1 + math.cos(math.pi * progress)) / 2
    return min(step / warm_up, cosine)


_RANDOM_STATE = threading.Lock()


@contextmanager
def _random_state(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch inside a `with` block, then restore its random state, which all threads share."""
    gpus = [device] if device.type == "cuda" else []
    with _RANDOM_STATE, torch.random.fork_rng(gpus):
        torch.manual_seed(seed)
        yield


@contextmanager
def _default_float32() -> Iterator[None]:
    """Create parameters in float32 inside a `with` block: other dtypes draw other numbers."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def limited_threads(count: int, before: int | None = None) -> Iterator[None]:
    """Use that many threads of torch inside a `with` block, and then `before`.

    By default `before` is the current number. Numbers depend on it, a little. On busy cores one
    thread is much faster for models this small: several wait for the slowest in each step.
    """
    if before is None:
        before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
