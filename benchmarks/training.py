"""How fast the lab trains compared with a bare loop, and with attention as it is usually written.

The training loops take turns, a few steps each, so that other work on the machine slows down all of
them alike.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from alibi_viz import LanguageModel, alibi_slopes, lab
from alibi_viz.train.training import BATCH_SIZE, batches
from alibi_viz.widgets import SlopeSurgery
from benchmarks.row import Row
from benchmarks.timing import relative_times, seconds

STEPS = 4  # of each training loop per turn
BATCH = BATCH_SIZE


class PlainAttention(nn.Module):
    """nanoGPT's attention without the fused kernel. The ALiBi mask is built again in every call."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.slopes = heads, alibi_slopes(heads)
        self.qkv, self.output = (
            nn.Linear(width, 3 * width, bias=False),
            nn.Linear(width, width, bias=False),
        )

    def forward(self, x: Tensor, cache: object = None, *, last: object = None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            t.view(batch, length, self.heads, -1).transpose(1, 2)
            for t in self.qkv(x).split(width, dim=2)
        )
        position = torch.arange(length)
        bias = -self.slopes[:, None, None] * (position[:, None] - position)
        bias = bias.masked_fill(torch.ones(length, length).tril() == 0, float("-inf"))
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + bias).softmax(-1)
        return self.output((weights @ v).transpose(1, 2).reshape(batch, length, width))


class NoAttention(nn.Module):
    """The two projections with nothing in between: a step if attention cost no time at all."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.qkv, self.output = (
            nn.Linear(width, 3 * width, bias=False),
            nn.Linear(width, width, bias=False),
        )

    def forward(self, x: Tensor, cache: object = None, *, last: object = None) -> Tensor:
        return self.output(self.qkv(x)[..., : x.shape[-1]])


def model_with(attention: type[PlainAttention] | type[NoAttention]) -> LanguageModel:
    """The default model with another attention module in each block."""
    model = lab.make_model("alibi")
    for block in model.transformer.blocks:
        block.attention = attention(model.config.d_model, model.config.num_heads)
    return model


def bare_loop(
    model: LanguageModel, text: lab.Text, length: int, *, fused: bool = True
) -> Iterator[None]:
    """A training loop without records, checks or clocks."""
    fusion = fused or None  # None lets torch choose, as a loop without the option does
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=fusion
    )
    for window in batches(text.train, length, BATCH, 0):
        logits = model(window[:, :-1])
        loss = cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield


def training_speed(length: int) -> list[Row]:
    """Time per training step of `lab.train`, of a bare loop, and of loops with other attention."""
    text = lab.load_text()
    settings = {
        "length": length,
        "steps": 10_000,
        "batch_size": BATCH,
    }  # more steps than anybody takes
    loops: dict[str, Iterator[object]] = {
        "lab.train": lab.train(lab.make_model("alibi"), text, **settings, device="cpu"),
        "bare loop": bare_loop(lab.make_model("alibi"), text, length),
        "plain attention": bare_loop(model_with(PlainAttention), text, length, fused=False),
        "no attention": bare_loop(model_with(NoAttention), text, length),
    }
    functions = {name: turn(loop) for name, loop in loops.items()}
    to_bare = relative_times(
        {name: functions[name] for name in ("lab.train", "bare loop")}, "bare loop", budget=3
    )
    to_plain = relative_times(
        {name: functions[name] for name in functions if name != "bare loop"},
        "plain attention",
        budget=3,
    )
    name = f"a training step at L={length}"
    return [
        Row(
            name=f"{name}: lab.train", figure=to_bare["lab.train"], target=1.05, unit="x bare loop"
        ),
        Row(
            name=f"{name}: lab.train",
            figure=to_plain["lab.train"],
            target=0.77,
            unit="x plain attention",
        ),
        Row(
            name=f"{name}: no attention",
            figure=to_plain["no attention"],
            target=None,
            unit="x plain attention",
        ),
    ]


def turn(loop: Iterator[object]) -> Callable[[], object]:
    """A function that takes the next few steps of a training loop."""
    return lambda: [next(loop) for _ in range(STEPS)]


def sweep_speed() -> Row:
    """A sweep in two processes compared with the same sweep in one. Each run has one thread."""
    runs = [lab.Run("alibi", length=32, steps=150, longest=2, seed=seed) for seed in range(4)]
    warm_up = [lab.Run("alibi", length=16, steps=1, longest=1, seed=seed) for seed in range(4)]

    def sweep_seconds(workers: int) -> float:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            list(
                lab.sweep(warm_up, pool, progress=False)
            )  # starting a process, which imports torch, doesn't count
            return seconds(lambda: list(lab.sweep(runs, pool, progress=False)))

    ratio = sweep_seconds(2) / sweep_seconds(1)
    return Row(name="a sweep in two processes", figure=ratio, target=0.59, unit="x one process")


def evaluation_time() -> Row:
    """Bits per byte of the default model at all lengths up to 512, as the app measures them after
    each change."""
    text, model = lab.load_text(), lab.make_model("alibi")

    def evaluate(factor: float) -> float:
        changed = lab.modify(model, factor)
        return seconds(
            lambda: lab.loss_by_length(changed, text, lab.evaluation_lengths(32), targets=4096)
        )

    times = [evaluate(factor) for factor in (1.0, 2.0, 0.5, 3.0, 0.25, 1.5)]
    name = "loss at all lengths up to 512 after a change"
    return Row(name=name, figure=1000 * median(times[1:]), target=None, unit="ms")


def surgery_time() -> Row:
    """The same in SlopeSurgery, from a changed control to the new figure and caption."""
    app = SlopeSurgery(lab.make_model("alibi", max_length=32))

    def change(factor: float) -> float:
        return seconds(lambda: app.set_trait("factor", factor))

    times = [change(factor) for factor in (2.0, 0.5, 4.0, 0.25, 1.5)]
    name = "the same in SlopeSurgery, with figure and caption"
    return Row(name=name, figure=1000 * median(times), target=None, unit="ms")


def main() -> list[Row]:
    return [
        *training_speed(64),
        *training_speed(256),
        evaluation_time(),
        surgery_time(),
        sweep_speed(),
    ]
