"""How fast the lab trains compared with a bare loop, and with attention as it is usually written.

The training loops take turns, a few steps each, so that other work on the machine slows down all of
them alike.
"""

import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from alibi_viz import AlibiSelfAttention, LanguageModel, lab
from alibi_viz.measure.table import TRAINING_LOSS
from alibi_viz.train.training import BATCH_SIZE, LENGTH, batches, limited_threads
from alibi_viz.widgets import SlopeSurgery
from alibi_viz.widgets.race.state import CHECKPOINT_TARGETS
from benchmarks.row import Row
from benchmarks.timing import relative_times, seconds

STEPS = 4  # of each training loop per turn
RACE_STEPS = 120
BATCH = BATCH_SIZE


class PlainAttention(AlibiSelfAttention):
    """nanoGPT's attention without the fused kernel. The ALiBi mask is built again in every call."""

    def forward(self, x: Tensor, *_: object, **options: object) -> Tensor:
        batch, length, width = x.shape
        projected = self.qkv(x).view(batch, length, 3, -1, self.head_dim)
        q, k, v = projected.transpose(1, 3).unbind(2)  # each [batch, heads, length, head_dim]
        position = torch.arange(length)
        bias = -self.slopes[:, None, None] * (position[:, None] - position)
        bias = bias.masked_fill(torch.ones(length, length).tril() == 0, float("-inf"))
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + bias).softmax(-1)
        return self.output((weights @ v).transpose(1, 2).reshape(batch, length, width))


class NoAttention(AlibiSelfAttention):
    """The two projections with nothing in between: a step if attention cost no time at all."""

    def forward(self, x: Tensor, *_: object, **options: object) -> Tensor:
        return self.output(self.qkv(x)[..., : self.d_model])


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
    loops: dict[str, Iterator[object]] = {
        "lab.train": lab_loop("adamw", text, length),
        "Muon": lab_loop("muon", text, length),
        "bare loop": bare_loop(lab.make_model("alibi"), text, length),
        "plain attention": bare_loop(model_with(PlainAttention), text, length, fused=False),
        "no attention": bare_loop(model_with(NoAttention), text, length),
    }
    turns = {name: partial(take_steps, loop) for name, loop in loops.items()}
    ours = {name: turns[name] for name in ("lab.train", "Muon", "bare loop")}
    to_bare = relative_times(ours, "bare loop", budget=3)
    others = {name: turns[name] for name in ("lab.train", "plain attention", "no attention")}
    to_plain = relative_times(others, "plain attention", budget=3)
    name = f"a training step at L={length}"
    return [
        Row(
            name=f"{name}: lab.train",
            figure=to_bare["lab.train"],
            target=1.05,
            unit="x bare loop",
        ),
        Row(
            name=f"{name}: lab.train with Muon",
            figure=to_bare["Muon"],
            target=1.2 if length == LENGTH else None,
            unit="x bare loop",
        ),
        Row(
            name=f"{name}: lab.train",
            figure=to_plain["lab.train"],
            # In short sequences of few heads, the fused kernel has little to save.
            target=1.05 if length == LENGTH else 0.77,
            unit="x plain attention",
        ),
        Row(
            name=f"{name}: no attention",
            figure=to_plain["no attention"],
            unit="x plain attention",
        ),
    ]


def lab_loop(optimizer: str, text: lab.Text, length: int) -> Iterator[object]:
    """`lab.train` for more steps than anybody takes here."""
    return lab.train(
        lab.make_model("alibi"),
        text,
        length=length,
        steps=10_000,
        batch_size=BATCH,
        optimizer=optimizer,
        device="cpu",
    )


def parts_of_a_race(race_steps: int = RACE_STEPS) -> list[Row]:
    """Where the time of a race of one model goes, on one thread, and what its limit is.

    The limit is the time of the multiplications of all steps at the speed of a large product.
    """
    text = lab.load_text()
    model = lab.make_model("alibi")
    with limited_threads(1):
        race = lab.race(
            ["alibi"],
            text,
            steps=race_steps,
            checkpoints=math.ceil(race_steps / 40),  # as in LengthLab
            targets=CHECKPOINT_TARGETS,
        )
        times = dict.fromkeys(("training", "tests"), 0.0)
        before = time.perf_counter()
        for row in race:
            now = time.perf_counter()
            part = "training" if row["question"] == TRAINING_LOSS else "tests"
            times[part] += now - before
            before = now

        loops = {
            "with Muon": lab_loop("muon", text, LENGTH),
            "with AdamW": lab_loop("adamw", text, LENGTH),
            "no attention": bare_loop(model_with(NoAttention), text, LENGTH),
        }
        turns = {name: partial(take_steps, loop) for name, loop in loops.items()}
        steps = relative_times(turns, "with Muon", budget=3)

        a = torch.randn(1024, 64)
        b = torch.randn(64, 256)
        products = [seconds(lambda: a @ b) for _ in range(200)]
        numbers_per_second = a.numel() * b.shape[1] / median(products)

    total = times["training"] + times["tests"]
    share = times["training"] / total
    # Forward, and backward to the inputs and to the weights: three products for each weight
    weights = (
        sum(p.numel() for p in model.parameters() if p.ndim == 2) - model.embedding.weight.numel()
    )
    width = model.config.d_model
    pairs = 2 * model.config.num_layers * LENGTH * width  # q . k and the sum of values, per token
    multiplications = 3 * (weights + pairs) * BATCH * LENGTH
    limit = race_steps * multiplications / numbers_per_second
    shares = {
        "optimizer beyond AdamW": share * (1 - steps["with AdamW"]),
        "attention": share * (steps["with AdamW"] - steps["no attention"]),
        "everything else in a step": share * steps["no attention"],
        "tests": times["tests"] / total,
        "the multiplications at the speed of a large product": limit / total,
    }
    return [
        Row(name=f"a race of one model: {name}", figure=figure, unit="of the time")
        for name, figure in shares.items()
    ]


def take_steps(loop: Iterator[object]) -> None:
    """Take the next few steps of a training loop."""
    for _ in range(STEPS):
        next(loop)


def evaluation_time(longest: int = 16) -> Row:
    """Losses at all lengths up to 512, as the app measures them after each change."""
    text = lab.load_text()
    model = lab.make_model("alibi")
    lengths = lab.evaluation_lengths(32, longest)

    def evaluate(factor: float) -> float:
        changed = lab.modify(model, factor)
        return seconds(lambda: lab.loss_by_length(changed, text, lengths, targets=4096))

    evaluate(1.0)  # warm up
    times = [evaluate(factor) for factor in (2.0, 0.5, 3.0, 0.25, 1.5)]
    name = "loss at all lengths up to 512 after a change"
    return Row(name=name, figure=1000 * median(times), unit="ms")


def surgery_time(factors: Sequence[float] = (2.0, 0.5, 4.0, 0.25, 1.5)) -> Row:
    """The same in SlopeSurgery, from a changed control to the new figure and caption."""
    app = SlopeSurgery(lab.make_model("alibi", max_length=32))

    def change(factor: float) -> float:
        return seconds(lambda: app.set_trait("factor", factor))

    times = [change(factor) for factor in factors]
    name = "the same in SlopeSurgery, with figure and caption"
    return Row(name=name, figure=1000 * median(times), unit="ms")


def main(*, smallest: bool = False) -> list[Row]:
    if smallest:
        return [
            *parts_of_a_race(race_steps=2),
            *training_speed(16),
            evaluation_time(longest=1),
            surgery_time(factors=[2.0]),
        ]
    return [
        *parts_of_a_race(),
        *training_speed(64),
        *training_speed(256),
        evaluation_time(),
        surgery_time(),
    ]
