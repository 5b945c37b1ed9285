"""How fast the laboratory trains: against a bare loop over the same model, and against the way it is usually written.

Ratios of tokens a second. The sides take turns, a few steps each, so that other work of the machine meets all alike.
"""

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from alibi_viz import LanguageModel, alibi_slopes, lab
from alibi_viz.lab.training import batches
from alibi_viz.widgets import SlopeSurgery
from benchmarks.row import Row

TURNS, STEPS = 15, 4
BATCH = 32


class PlainAttention(nn.Module):
    """nanoGPT's attention without the fused kernel, the ALiBi mask built anew in every call; no cache."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.slopes = heads, alibi_slopes(heads)
        self.qkv, self.output = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cache: object = None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(width, dim=2))
        place = torch.arange(length)
        bias = -self.slopes[:, None, None] * (place[:, None] - place)
        bias = bias.masked_fill(torch.ones(length, length).tril() == 0, float("-inf"))
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + bias).softmax(-1)
        return self.output((weights @ v).transpose(1, 2).reshape(batch, length, width))


class NoAttention(nn.Module):
    """The two projections and nothing between them: what is left of a step when attention costs no time at all."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.qkv, self.output = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cache: object = None) -> Tensor:
        return self.output(self.qkv(x)[..., : x.shape[-1]])


def model_with(attention: type[PlainAttention] | type[NoAttention]) -> LanguageModel:
    """The default model with other attention in each block."""
    model = lab.make_model("alibi")
    for block in model.transformer.blocks:
        block.attention = attention(model.config.d_model, model.config.num_heads)
    return model


def bare(model: LanguageModel, text: lab.Text, length: int, *, fused: bool = True) -> Iterator[None]:
    """The loop and nothing around it: no record, no check, no clock."""
    kind = fused or None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=kind)
    for window in batches(text.train, length, BATCH, 0):
        logits = model(window[:, :-1])
        loss = cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield


def speeds(length: int) -> dict[str, list[float]]:
    """Seconds of each turn, of each side."""
    text, steps = lab.load_text(), TURNS * STEPS + STEPS
    sides: dict[str, Iterator[object]] = {
        "ours": lab.train(lab.make_model("alibi"), text, length=length, steps=steps, batch_size=BATCH, device="cpu"),
        "bare": bare(lab.make_model("alibi"), text, length),
        "plain": bare(model_with(PlainAttention), text, length, fused=False),
        "none": bare(model_with(NoAttention), text, length),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(TURNS + 1):
        for name, stream in sides.items():
            began = time.perf_counter()
            for _ in range(STEPS):
                next(stream)
            if turn:  # the first warms caches
                seconds[name].append(time.perf_counter() - began)
    return seconds


def ratio(seconds: dict[str, list[float]], slow: str, fast: str) -> float:
    """How many times faster one side is, the median over the turns."""
    return median(one / other for one, other in zip(seconds[slow], seconds[fast], strict=True))


def sweep_gain() -> float:
    """How much faster a pool of two does a sweep than one process of it, both with one thread a run."""
    runs = [lab.Run("alibi", length=32, steps=250, longest=2, seed=seed) for seed in range(6)]
    warm = [lab.Run("alibi", length=16, steps=1, longest=1, seed=seed) for seed in range(4)]

    def seconds(workers: int) -> float:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            list(lab.sweep(warm, pool, progress=False))  # starting a process, which imports torch, is not counted
            began = time.perf_counter()
            list(lab.sweep(runs, pool, progress=False))
            return time.perf_counter() - began

    return seconds(1) / seconds(2)


def curve_milliseconds() -> float:
    """The curve of the default model up to 512, as the app asks for it after each change to a trained model."""
    text, model = lab.load_text(), lab.make_model("alibi")
    times = []
    for factor in (1.0, 2.0, 0.5, 3.0, 0.25, 1.5):
        began = time.perf_counter()
        lab.loss_by_length(lab.multiply_slopes(model, factor), text, lab.test_lengths(32), targets=4096)
        times.append(1000 * (time.perf_counter() - began))
    return median(times[1:])


def app_milliseconds() -> float:
    """The same from the control of the app to its new picture and words, with all that the app measures besides."""
    app = SlopeSurgery(lab.make_model("alibi", max_length=32))
    times = []
    for factor in (2.0, 0.5, 4.0, 0.25, 1.5):
        began = time.perf_counter()
        app.factor = factor
        times.append(1000 * (time.perf_counter() - began))
    return median(times)


def main() -> list[Row]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    rows: list[Row] = []
    for length in (32, 256):
        seconds = speeds(length)
        name = f"training at L={length}, tokens a second"
        over_bare, over_plain = ratio(seconds, "bare", "ours"), ratio(seconds, "plain", "ours")
        most = ratio(seconds, "plain", "none")
        rows += [
            {"name": f"{name}, over a bare loop", "figure": over_bare, "target": "min 0.95", "unit": "x"},
            {"name": f"{name}, over plain attention", "figure": over_plain, "target": "min 1.3", "unit": "x"},
            {"name": f"{name}, were attention free", "figure": most, "target": None, "unit": "x"},
        ]
    rows.append({"name": "curve to 512 after a change", "figure": curve_milliseconds(), "target": 300.0, "unit": "ms"})
    name = "the same in SlopeSurgery, picture and words included, two threads"
    rows.append({"name": name, "figure": app_milliseconds(), "target": 300.0, "unit": "ms"})
    torch.set_num_threads(threads)
    rows.append({"name": "sweep, pool of two over one", "figure": sweep_gain(), "target": "min 1.7", "unit": "x"})
    return rows
