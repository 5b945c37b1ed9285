"""What the bias costs: attention with ALiBi, ours and others', against torch's fused attention without any bias.

All ways to compute the same thing take turns in one process, on the same tensors, and are given as ratios of medians.
One thread, and its CPU seconds, so that a busy machine disturbs little. Memory is taken from processes of their own.
Batch 4, 8 heads.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import BloomConfig
from transformers.models.bloom.modeling_bloom import BloomAttention
from x_transformers.attend import Attend
from x_transformers.x_transformers import AlibiPositionalBias

from alibi_viz import AlibiBias, AlibiSelfAttention, alibi_attention, alibi_bias, alibi_slopes, causal_mask
from alibi_viz.adapters import huggingface_alibi
from benchmarks.row import Row

BATCH, HEADS = 4, 8
SLOPES = alibi_slopes(HEADS)
QUICK = ("mask rebuilt", "flex, compiled", "x-transformers flash")  # at 4096 the others take gigabytes
OTHERS = (*QUICK, "eager", "x-transformers")
Way = Callable[[], Tensor]


def qkv(length: int, head_dim: int, *, gradients: bool = False, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Unit normal query, key and value, [batch, heads, length, head_dim]."""
    torch.manual_seed(0)
    return [torch.randn(BATCH, HEADS, length, head_dim, dtype=dtype, requires_grad=gradients) for _ in range(3)]


def medians(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """CPU seconds a way, the median over rounds in which each has its turn."""
    for way in ways.values():
        way()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            begin = time.process_time()
            way()
            seconds[name].append(time.process_time() - begin)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def our_ways(q: Tensor, k: Tensor, v: Tensor) -> dict[str, Way]:
    """Without a bias, and by our own backends."""
    bias = AlibiBias(HEADS, causal=True)
    return {
        "no bias": lambda: scaled_dot_product_attention(q, k, v, is_causal=True),
        "no bias, our way": lambda: alibi_attention(q, k, v, None),  # what the same cutting gains without ALiBi
        "auto": lambda: alibi_attention(q, k, v, SLOPES),
        "mask cached": lambda: scaled_dot_product_attention(q, k, v, attn_mask=bias(q.shape[2])[None]),
    }


def other_ways(q: Tensor, k: Tensor, v: Tensor) -> dict[str, Way]:
    """The slower ones, which keep [query, key] tensors or must be compiled."""
    length = q.shape[2]
    hidden, positions = ~causal_mask(length), AlibiPositionalBias(HEADS)
    flash, slow = Attend(causal=True, flash=True), Attend(causal=True, flash=False)

    def rebuilt() -> Tensor:
        mask = alibi_bias(SLOPES, length).masked_fill(hidden, float("-inf"))
        return scaled_dot_product_attention(q, k, v, attn_mask=mask[None])

    return {
        "mask rebuilt": rebuilt,
        "eager": lambda: alibi_attention(q, k, v, SLOPES, backend="eager"),
        "flex, compiled": lambda: alibi_attention(q, k, v, SLOPES, backend="flex"),
        "x-transformers flash": lambda: flash(q, k, v, attn_bias=positions(length, length)),
        "x-transformers": lambda: slow(q, k, v, attn_bias=positions(length, length)),
    }


@torch.no_grad()
def forward(length: int, head_dim: int, target: float, others: Collection[str] = (), rounds: int = 9) -> list[Row]:
    """A forward pass of each way over one without bias."""
    q, k, v = qkv(length, head_dim)
    asked = {name: way for name, way in other_ways(q, k, v).items() if name in others}
    taken = medians(our_ways(q, k, v) | asked, rounds)
    return [
        Row(
            name=f"forward, L={length} d={head_dim}: {name}",
            figure=seconds / taken["no bias"],
            target=target if name == "auto" else None,
            unit="x no bias",
        )
        for name, seconds in taken.items()
        if name != "no bias"
    ]


def training(length: int, head_dim: int, target: float, rounds: int = 7) -> list[Row]:
    """Forward and backward."""
    tensors = qkv(length, head_dim, gradients=True)
    ones = torch.ones_like(tensors[0])

    def step(way: Way) -> Callable[[], object]:
        return lambda: torch.autograd.grad(way(), tensors, ones)

    taken = medians({name: step(way) for name, way in our_ways(*tensors).items()}, rounds)
    return [
        Row(
            name=f"forward and backward, L={length} d={head_dim}: {name}",
            figure=taken[name] / taken["no bias"],
            target=target if name == "auto" else None,
            unit="x no bias",
        )
        for name in ("auto", "mask cached")
    ]


@torch.no_grad()
def short() -> list[Row]:
    """Below 256 tokens the mask is the way; choosing it must cost next to nothing."""
    rows = []
    for length in (64, 128, 255):
        taken = medians(our_ways(*qkv(length, 32)), rounds=101)
        ratio = taken["auto"] / taken["mask cached"]
        rows.append(Row(name=f"forward, L={length} d=32: auto", figure=ratio, target=1.1, unit="x mask cached"))
    return rows


@torch.no_grad()
def module(length: int) -> Row:
    """Whole layers with their projections: BLOOM's of transformers over ours."""
    d_model = HEADS * 32
    x = qkv(length, 32)[0].transpose(1, 2).flatten(2)
    bloom = BloomAttention(BloomConfig(hidden_size=d_model, n_head=HEADS), layer_idx=0).eval()
    alibi = huggingface_alibi(SLOPES, torch.ones(BATCH, length, dtype=torch.long))
    hidden = torch.zeros(1, 1, length, length).masked_fill(~causal_mask(length), torch.finfo(torch.float32).min)
    ours = AlibiSelfAttention(d_model, HEADS, bias=True)
    taken = medians({"ours": lambda: ours(x), "bloom": lambda: bloom(x, x, alibi, hidden)}, rounds=7)
    name = f"layer, L={length} d=32: BLOOM of transformers"
    return Row(name=name, figure=taken["bloom"] / taken["ours"], target="min 1", unit="x AlibiSelfAttention")


@torch.no_grad()
def decoding() -> list[Row]:
    """One new token against a cache of 4096."""
    _, k, v = qkv(4096, 32)
    q = torch.randn(BATCH, HEADS, 1, 32)
    ways = {"no bias": lambda: scaled_dot_product_attention(q, k, v), "auto": lambda: alibi_attention(q, k, v, SLOPES)}
    taken = medians(ways, rounds=401)
    name = "one decoded token, cache of 4096: auto"
    return [Row(name=name, figure=taken["auto"] / taken["no bias"], target=1.1, unit="x no bias")]


@torch.no_grad()
def largest_error(dtype: torch.dtype, backend: str, length: int) -> float:
    """Of some rows of the output, against float64 on the same (rounded) input."""
    q, k, v = (t[:1] for t in qkv(length, 32, dtype=dtype))
    rows = torch.arange(length - 1, 0, -31)
    ahead = torch.arange(length)[None] - rows[:, None]
    logits = q[:, :, rows].double() @ k.double().mT / 32**0.5 + SLOPES.double()[:, None, None] * ahead
    exact = logits.masked_fill(ahead > 0, float("-inf")).softmax(-1) @ v.double()
    return float((alibi_attention(q, k, v, SLOPES, backend=backend)[:, :, rows] - exact).abs().max())


def accuracy() -> list[Row]:
    """How exact the way is that `auto` takes at 4096 tokens."""
    single = largest_error(torch.float32, "auto", 4096)
    rows = [Row(name="largest error, L=4096 float32: auto", figure=single, target=5e-6, unit="of the output")]
    for dtype in (torch.bfloat16, torch.float16):
        ratio = largest_error(dtype, "auto", 4096) / largest_error(dtype, "mask", 4096)
        name = f"largest error, L=4096 {str(dtype).removeprefix('torch.')}: auto"
        rows.append(Row(name=name, figure=ratio, target=1.5, unit="x relative mask"))
    return rows


def peak() -> float:
    """The most memory that this process has held, in MiB, since it was last reset."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def extra_mebibytes(length: int) -> float:
    """Peak memory of one call beyond query, key, value and output, in this process, which must be fresh."""
    with torch.no_grad():
        q, k, v = qkv(length, 32)
        few = q[:, :, :1024]
        alibi_attention(few, few, few, SLOPES)
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts anew from what is held now
        before = peak()
        output = alibi_attention(q, k, v, SLOPES)
        after = peak()
    return after - before - output.numel() * output.element_size() / 2**20


def memory() -> list[Row]:
    """At 16384 tokens, where one [query, key] tensor of all heads would be 32 GiB."""
    code = "import torch; torch.set_num_threads(1); import benchmarks.attention as b; print(b.extra_mebibytes(16384))"
    found = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    name = "peak extra memory, L=16384 d=32: auto"
    return [Row(name=name, figure=statistics.median(found), target=64, unit="MiB")]


def main() -> list[Row]:
    """All of it, in a few minutes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [
            *(row for length in (512, 1024, 2048) for row in forward(length, 32, 1.25, OTHERS, rounds=5)),
            *forward(4096, 32, 1.25, QUICK),
            *(row for length in (2048, 4096) for row in forward(length, 64, 1.15)),
            *(row for length in (2048, 4096) for row in training(length, 32, 1.25)),
            *training(2048, 64, 1.15),
            *short(),
            *(module(length) for length in (512, 1024, 2048)),
            *decoding(),
            *accuracy(),
            *memory(),
        ]
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    from benchmarks.__main__ import table

    print(table(main()))
