"""Train small models. Training is a generator that yields one row per step; to stop it, stop iterating."""

import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from alibi_viz.arguments import check_instance, check_known, check_learning_rate, check_positive_integers, check_seed
from alibi_viz.lab.evaluation import reuse_freed_memory
from alibi_viz.lab.tasks import NOT_ASKED, Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel, TransformerConfig, register_method
from alibi_viz.models.positions.custom import Method, custom_method
from alibi_viz.table import AS_TRAINED, TRAINING_LOSS, Row

# The fields of `TransformerConfig` in which the lab's small models differ from its defaults.
DEFAULT_MODEL: dict[str, int | float | str | bool] = {"num_layers": 2, "d_model": 64, "num_heads": 8, "dropout": 0.0}
# Two models learn to write mostly real words in 20 seconds on two cores, with each of the seeds 0 to 4.
LENGTH, STEPS, BATCH_SIZE, LEARNING_RATE = 64, 800, 16, 1.2e-2


class TrainingDiverged(ArithmeticError):
    """The loss became NaN or infinite. The steps yielded before are valid."""


def make_model(position: Method = "alibi", *, seed: int = 0, **sizes: int | float | str | bool) -> LanguageModel:
    """Create a byte-level model that trains in seconds: 2 layers, width 64, 8 heads, no dropout, about 130,000 weights.

    Models with equal `seed` and sizes start from the same weights, whatever their position method, so that a comparison
    of methods is paired. `position` is a name, or your own function or class (see `alibi_viz.models.register_method`).
    `sizes` are other fields of `TransformerConfig`, except `causal`. The global random state is left unchanged.

    Raises TypeError or ValueError for sizes that don't fit, and ValueError for your own method that looks ahead.

    >>> alibi, rotary = lab.make_model("alibi"), lab.make_model("rotary")
    >>> bool((alibi.head.weight == rotary.head.weight).all())
    True
    """
    position = register_method(position)
    check_seed(seed)
    with _random_state(seed, torch.device("cpu")):
        common, model = (LanguageModel(model_config(name, sizes)) for name in ("none", position))
    model.load_state_dict(common.state_dict(), strict=False)
    if custom_method(position) is not None:
        _check_causal(model)
    return model


def model_config(position: str, sizes: Mapping[str, int | float | str | bool]) -> TransformerConfig:
    """The configuration of a small model. Raises ValueError for an unknown field and for sizes that don't fit."""
    fields = [name for name in TransformerConfig.__dataclass_fields__ if name not in {"position", "causal"}]
    check_known("fields of a model", sizes, fields)
    return TransformerConfig(position=position, **{**DEFAULT_MODEL, **sizes})  # type: ignore[arg-type]


@torch.no_grad()
def _check_causal(model: LanguageModel) -> None:
    """Raise ValueError if the last token changes an earlier prediction."""
    length = min(16, model.transformer.position.max_length or 16)
    tokens = torch.arange(length).repeat(2, 1) % model.config.vocabulary
    tokens[1, -1] = (tokens[1, -1] + 1) % model.config.vocabulary
    model.eval()
    first, second = (model(each[None])[0, :-1] for each in tokens)
    model.train()
    difference = (first - second).abs().amax(-1)
    if float(difference.max()) > 1e-6:
        raise ValueError(
            f"position method {model.config.position!r} looks ahead: another token at position {length - 1} changes "
            f"the prediction at position {int(difference.argmax())}"
        )


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
    """Train a model to predict the next byte of a text, or the answers of a task, yielding a row after each step.

    A row has the columns of `lab.COLUMNS`, and "tokens_per_second": its "value" is the loss on the batch of this step
    before the update, in bits per byte or per answer, its "count" the examples in the batch.

    The optimizer is AdamW with weight decay 0.1. The learning rate rises linearly over the first twentieth of the
    steps, then falls along a cosine to a tenth. Gradients are clipped at norm 1. Equal seeds, thread counts and torch
    versions give equal numbers, and the batches don't depend on the model, so runs with equal seeds are paired.

    Args:
        model: is trained in place; its `vocabulary` must be that of the source.
        source: a text, whose training part is used, or a task.
        length: bytes in a training window, L; for a task, the maximum length of an example.
        steps, batch_size: how many updates of the weights, and windows or examples in each batch.
        learning_rate: the highest one of the schedule.
        seed: of the batches, and of dropout and random positions.
        device: "auto" is CUDA if available, else the CPU. On CUDA, training uses bfloat16 (autocast).

    Raises TypeError or ValueError at the call for wrong arguments, a text that is too short for one window, and a
    device that isn't there, and TrainingDiverged when the loss becomes NaN or infinite.

    >>> rows = list(lab.train(lab.make_model(), lab.load_text(), steps=20))
    >>> rows[-1]["step"], rows[-1]["value"] < rows[0]["value"]
    (20, True)
    """
    check_instance("model", model, LanguageModel)
    check_instance("source", source, Text, Task)
    check_positive_integers(length=length, steps=steps, batch_size=batch_size)
    check_learning_rate(learning_rate)
    check_seed(seed)
    if isinstance(source, Task):
        source.max_distance(length)  # raises ValueError if no example fits
        pairs = source.batches(length, batch_size, seed)
    elif len(source.train) > length:
        pairs = ((window[:, :-1], window[:, 1:]) for window in batches(source.train, length, batch_size, seed))
    else:
        raise ValueError(
            f"{source.name} is too short to train on windows of {length}: its training part has "
            f"{len(source.train):,} bytes, at least {length + 1} are needed"
        )
    task, unit = (source.name, "bits per answer") if isinstance(source, Task) else ("text", "bits per byte")
    row: Row = {"origin": "live", "task": task, "method": model.config.position, "label": model.config.position}
    row |= {"variant": AS_TRAINED, "question": TRAINING_LOSS, "unit": unit, "seed": seed, "length": length}
    row["text"] = getattr(source, "fingerprint", "")
    reuse_freed_memory()
    model.to(choose_device(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    return _training_rows(model, pairs, optimizer, steps, row)


def choose_device(device: object = "auto") -> torch.device:
    """The torch device of that name; "auto" is CUDA if available. Raises ValueError if it is unknown or not here."""
    try:
        chosen = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else str(device))
    except RuntimeError as error:
        raise ValueError(f"device must be auto, cpu, cuda or another of torch's names, got {device!r}") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} was requested, but there is no CUDA device here")
    return chosen


def batches(data: Tensor, length: int, batch_size: int, seed: int) -> Iterator[Tensor]:
    """Endless batches of random windows of `data`, int64 [batch, length + 1]: inputs, and targets shifted by one."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(data) - length, (batch_size, 1), generator=generator)
        yield data[starts + torch.arange(length + 1)].long()


def _training_rows(
    model: LanguageModel, pairs: Iterator[tuple[Tensor, Tensor]], optimizer: torch.optim.Optimizer, steps: int, row: Row
) -> Iterator[Row]:
    """Train on pairs of inputs and targets, each [batch, length]; `row` has what all rows share."""
    device, learning_rate = next(model.parameters()).device, optimizer.defaults["lr"]
    is_random = model.config.dropout > 0 or model.transformer.position.is_random
    model.train()
    for index in range(1, steps + 1):
        started = time.perf_counter()
        inputs, targets = (part.to(device) for part in next(pairs))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _schedule(index, steps)
        # seeded in each step, so that random numbers drawn elsewhere in between change nothing
        seeded = _random_state((row["seed"] * steps + index) % 2**63, device) if is_random else nullcontext()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"), seeded:
            logits = model(inputs)
            loss = cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=NOT_ASKED)
        bits = loss.item() / math.log(2)
        if not math.isfinite(bits):
            raise TrainingDiverged(
                f"the loss became {bits} at step {index} of {steps}; try a learning rate below {learning_rate:g}"
            )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        speed = inputs.numel() / (time.perf_counter() - started)
        yield row | {"step": index, "x": index, "value": bits, "count": len(inputs), "tokens_per_second": speed}


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
def limited_threads(count: int) -> Iterator[None]:
    """Use that many threads of torch inside a `with` block. The numbers depend on it, a little.

    On busy cores one thread is much faster for models this small: several wait for the slowest in each step.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
