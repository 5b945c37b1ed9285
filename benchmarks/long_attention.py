"""Long inputs, where ALiBi skips keys of negligible weight: time and memory, compared with no bias.

Queries, keys and values are standard normal, or those of a trained model and of one with random
weights.
"""

import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz import alibi_attention, alibi_slopes, choose_backend, lab, study
from alibi_viz.attention import KeyBall
from alibi_viz.measure.attention_sources import ByteModel
from benchmarks.attention import HEADS, no_bias_and_auto, qkv, rows
from benchmarks.row import Row
from benchmarks.timing import relative_times
from tests.pretrained_models import ByteTokenizer, small_model


def long(length: int, heads: int, target: float | None, fewest: int = 3) -> list[Row]:
    """A forward pass of one sequence, and the share of pairs that are within the spans."""
    q, k, v = qkv(length, 64, batch=1, heads=heads)
    what = f"forward, B=1 H={heads} L={length} d=64"
    return windowed_rows(what, q, k, v, alibi_slopes(heads), target=target, fewest=fewest)


@torch.no_grad()
def windowed_rows(
    what: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    slopes: Tensor,
    *,
    target: float | None = None,
    fewest: int = 3,
) -> list[Row]:
    """The time of `auto`, and the share of pairs of query and key within its spans.

    The share is about the least time that `auto` could take.
    """
    choice = choose_backend(q, k, slopes)
    if choice.spans is not None:
        print(f"{what}: spans {' '.join(map(str, choice.spans))}")
    ratios = relative_times(no_bias_and_auto(q, k, v, slopes), "no bias", fewest=fewest)
    pairs = Row(
        name=f"{what}: pairs within the spans",
        figure=1 - choice.left_out,
        unit="x all visible pairs",
    )
    return [*rows(ratios, what, target), pairs]


def models(longest: int = 16384) -> list[Row]:
    """Queries and keys of the published model and of a small BLOOM with random weights.

    The values are the keys.
    """
    published = study.published_model("alibi").model
    bloom = lab.PretrainedModel(small_model("bloom", heads=8), ByteTokenizer())
    text = bytes(lab.load_text().validation[:16384].tolist()).decode()
    cases = (
        ("published model", ByteModel(published), longest),
        ("random BLOOM", bloom, min(longest, 4096)),
    )
    result = []
    for name, source, length in cases:
        for layer in source.contents:
            reading = source.read(text, layer, length)
            what = f"forward, {name}, {layer}, L={length}"
            result += windowed_rows(what, reading.query, reading.key, reading.key, reading.slopes)
    return result


@torch.no_grad()
def decoding(batch: int, length: int, heads: int, head_dim: int, target: float) -> Row:
    """One new token for sequences with a cache."""
    q, k, v = qkv(length, head_dim, batch=batch, heads=heads)
    q = q[:, :, -1:]
    slopes = alibi_slopes(heads)
    ball = KeyBall.of(k, v)
    implementations = {
        "no bias": lambda: scaled_dot_product_attention(q, k, v),
        "auto": lambda: alibi_attention(q, k, v, slopes, key_ball=ball),
    }
    ratio = relative_times(implementations, "no bias")["auto"]
    name = f"one decoded token, B={batch} H={heads} d={head_dim}, cache of {length}: auto"
    return Row(name=name, figure=ratio, target=target, unit="x no bias")


def peak_memory() -> float:
    """The most memory that this process has held since the peak was last reset, in MiB."""
    status = Path("/proc/self/status").read_text()
    for line in status.splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system doesn't say how much memory a process has held")


def extra_memory(length: int, head_dim: int, batch: int) -> float:
    """Peak memory of one call beyond query, key, value and output, in MiB.

    Correct only in a new process.
    """
    with torch.no_grad():
        q, k, v = qkv(length, head_dim, batch=batch)
        slopes = alibi_slopes(HEADS)
        # Warm up: threads and the code of libraries take memory, too.
        alibi_attention(q[:, :, :1024], k[:, :, :1024], v[:, :, :1024], slopes)
        Path("/proc/self/clear_refs").write_text("5")  # Linux: reset the peak to what is held now
        before = peak_memory()
        output = alibi_attention(q, k, v, slopes)
        after = peak_memory()
    return after - before - output.numel() * output.element_size() / 2**20


def memory(length: int, head_dim: int, batch: int, target: float) -> Row:
    """A [query, key] tensor of all heads would have 32 GiB at 16384 tokens and batch 4."""
    call = f"long_attention.extra_memory({length}, {head_dim}, {batch})"
    code = f"from benchmarks import long_attention, timing; timing.pin(); print({call})"
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    name = f"peak extra memory, B={batch} L={length} d={head_dim}: auto"
    return Row(name=name, figure=float(result.stdout), target=target, unit="MiB")


def main(*, smallest: bool = False) -> list[Row]:
    if smallest:
        return [
            *long(64, 8, None),
            *models(longest=64),
            decoding(1, 64, 8, 32, 1.1),
            Row(name="peak extra memory: auto", figure=extra_memory(64, 32, 1), unit="MiB"),
        ]
    return [
        *long(4096, 8, None),
        *long(4096, 32, None),
        *long(16384, 8, 0.36),
        *long(65536, 8, 0.15, fewest=1),
        *models(),
        decoding(4, 4096, 8, 32, 1.1),
        decoding(1, 16384, 32, 64, 0.4),
        memory(16384, 32, 4, 64),
        memory(65536, 64, 1, 256),
    ]
