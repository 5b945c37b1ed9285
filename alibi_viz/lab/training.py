"""Training as a stream: each step is a small record, and whoever asks for the next one drives it.

A widget, a test, a sweep and a command line all consume the same generator. It prints nothing, starts no thread and
knows no screen. To stop it, stop asking.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from alibi_viz.lab.tasks import NOT_ASKED, Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel, TransformerConfig

__all__ = ["Step", "TrainingDiverged", "choose_device", "make_model", "preset", "train"]


class TrainingDiverged(ArithmeticError):
    """The loss became NaN or infinite; the steps before it are all good."""


@dataclass(frozen=True)
class Step:
    """One step of training.

    Attributes:
        index: 1 for the first step, up to `steps`.
        steps: how many there will be.
        loss: bits per byte (or per answer of a task) on this step's batch, before the step.
        tokens_per_second: bytes, or tokens of a task, read in this step, a second.
    """

    index: int
    steps: int
    loss: float
    tokens_per_second: float


def make_model(position: str = "alibi", *, seed: int = 0, **sizes: int | float | str | bool) -> LanguageModel:
    """A byte model small enough to train in seconds: 2 layers, width 64, 4 heads, no dropout, about 130,000 weights.

    Models made with equal `seed` and sizes start from the same weights, whatever their position method, so that a
    comparison of methods is paired. `sizes` are any fields of `TransformerConfig`.

    >>> alibi, rotary = lab.make_model("alibi"), lab.make_model("rotary")
    >>> bool((alibi.head.weight == rotary.head.weight).all())
    True
    """
    defaults: dict[str, int | float | str | bool] = {"num_layers": 2, "d_model": 64, "num_heads": 4, "dropout": 0.0}
    settings = {**defaults, **sizes}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        common = LanguageModel(TransformerConfig(**settings, position="none"))  # type: ignore[arg-type]
        model = LanguageModel(TransformerConfig(**settings, position=position))  # type: ignore[arg-type]
    model.load_state_dict(common.state_dict(), strict=False)
    return model


def train(
    model: LanguageModel,
    text: Text | Task,
    *,
    length: int = 32,
    steps: int = 300,
    batch_size: int = 32,
    learning_rate: float = 8e-3,
    seed: int = 0,
    device: str = "auto",
) -> Iterator[Step]:
    """Train a model to predict the next byte of a text, or the answers of a task, yielding a `Step` after each step.

    AdamW with weight decay 0.1, a linear warm-up over the first twentieth, then a cosine down to a tenth of the rate;
    gradients clipped at norm 1. Equal seed, thread count and torch version give equal numbers. The batches depend on
    `seed`, `length`, `batch_size` and the text only, never on the model: runs with equal seeds are paired.

    Args:
        model: trained in place.
        text: its first nine tenths are used. Or a `Task`, whose model needs `vocabulary=task.vocabulary`.
        length: bytes in a training window, L.
        steps, batch_size, learning_rate: what they say.
        seed: of the batches.
        device: where the model is moved to, as in `choose_device`. On CUDA the arithmetic is bfloat16 (autocast).

    Raises:
        ValueError: a number out of range, or a text too short for one window (at the call, before any step).
        TrainingDiverged: the loss became NaN or infinite (at the step where it did).

    >>> steps = list(lab.train(lab.make_model(), lab.load_text(), steps=20))
    >>> steps[-1].index, steps[-1].loss < steps[0].loss
    (20, True)
    """
    for name, value in (("length", length), ("steps", steps), ("batch_size", batch_size)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number from 1 up, got {value!r}")
    if not (math.isfinite(learning_rate) and learning_rate > 0):
        raise ValueError(f"learning_rate must be a positive number, got {learning_rate!r}")
    if isinstance(text, Task):
        pairs = text.batches(length, batch_size, seed)
    elif len(text.train) > length:
        pairs = ((window[:, :-1], window[:, 1:]) for window in batches(text.train, length, batch_size, seed))
    else:
        raise ValueError(
            f"{text.name} is too short to train on windows of {length}: nine tenths of it are "
            f"{len(text.train):,} bytes, and at least {length + 1} are needed"
        )
    if next(model.parameters()).device != (chosen := choose_device(device)):
        model.to(chosen)
    return _steps(model, pairs, steps, learning_rate, seed)


def choose_device(device: str = "auto") -> torch.device:
    """The CUDA device for "auto" where there is one, else the CPU; any other name is torch's.

    Raises ValueError for a name that torch does not know, and for CUDA where there is none.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device must be auto, cpu, cuda or another of torch's names, got {device!r}") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} was asked for, and there is no CUDA device here")
    return chosen


def preset(device: str = "auto") -> dict[str, Any]:
    """Settings of a `Run` that suit the device: the defaults on a CPU, a larger model and longer windows on CUDA.

    The larger ones have not been tried on a GPU by this project.

    >>> lab.preset("cpu")
    {}
    """
    if choose_device(device).type != "cuda":
        return {}
    sizes = {"num_layers": 6, "d_model": 384, "num_heads": 8}
    return {"length": 256, "steps": 3000, "batch_size": 64, "learning_rate": 1e-3, "model": sizes}


def batches(data: Tensor, length: int, batch_size: int, seed: int) -> Iterator[Tensor]:
    """Random windows of `data` without end: int64 [batch, length + 1], the inputs and, one further, the targets."""
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.arange(length + 1)
    while True:
        starts = torch.randint(len(data) - length, (batch_size, 1), generator=generator)
        yield data[starts + offsets].long()


def _steps(
    model: LanguageModel, pairs: Iterator[tuple[Tensor, Tensor]], steps: int, learning_rate: float, seed: int
) -> Iterator[Step]:
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    warm_up = max(1, steps // 20)
    model.train()
    for index in range(1, steps + 1):
        started = time.perf_counter()
        inputs, targets = (part.to(device) for part in next(pairs))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _schedule(index, steps, warm_up)
        bfloat16 = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
        with bfloat16, _dropping(model, (seed * steps + index) % 2**63, device):
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
        seconds = time.perf_counter() - started
        yield Step(index, steps, bits, inputs.numel() / seconds)


@contextmanager
def _dropping(model: LanguageModel, seed: int, device: torch.device) -> Iterator[None]:
    """Dropout draws from a generator of this step, so that whatever else is drawn meanwhile changes nothing."""
    if not model.config.dropout:
        yield
        return
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _schedule(index: int, steps: int, warm_up: int) -> float:
    """Share of the full learning rate at step `index`."""
    if index <= warm_up:
        return index / warm_up
    progress = (index - warm_up) / max(1, steps - warm_up)
    return 0.1 + 0.9 * (1 + math.cos(math.pi * progress)) / 2
