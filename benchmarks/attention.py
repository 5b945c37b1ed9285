"""The cost of the bias: attention with ALiBi, ours and others', compared with torch's fused attention without a bias.

All implementations take turns on the same float32 tensors, batch 4 and 8 heads. Memory is measured in a new process.
"""

import subprocess
import sys
from collections.abc import Callable, Collection
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
from benchmarks.timing import relative_times

BATCH, HEADS = 4, 8
SLOPES = alibi_slopes(HEADS)
LONG_PEERS = ("mask rebuilt", "flex, compiled", "x-transformers flash")  # at 4096 the other peers take gigabytes
PEERS = (*LONG_PEERS, "eager", "x-transformers")
Implementation = Callable[[], Tensor]


def qkv(length: int, head_dim: int, *, gradients: bool = False, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Standard normal query, key and value, each [batch, heads, length, head_dim]."""
    torch.manual_seed(0)
    return [torch.randn(BATCH, HEADS, length, head_dim, dtype=dtype, requires_grad=gradients) for _ in range(3)]


def our_implementations(q: Tensor, k: Tensor, v: Tensor) -> dict[str, Implementation]:
    """No bias, as the baseline, and our implementations."""
    bias = AlibiBias(HEADS, causal=True)
    return {
        "no bias": lambda: scaled_dot_product_attention(q, k, v, is_causal=True),
        "auto": lambda: alibi_attention(q, k, v, SLOPES),
        "auto, no bias": lambda: alibi_attention(q, k, v, None),  # how much of the gain has nothing to do with ALiBi
        "mask cached": lambda: scaled_dot_product_attention(q, k, v, attn_mask=bias(q.shape[2])[None]),
    }


def peer_implementations(q: Tensor, k: Tensor, v: Tensor) -> dict[str, Implementation]:
    """Slower implementations, which store [query, key] tensors or have to be compiled."""
    length = q.shape[2]
    hidden, positions = ~causal_mask(length), AlibiPositionalBias(HEADS)
    flash, eager = Attend(causal=True, flash=True), Attend(causal=True, flash=False)

    def mask_rebuilt() -> Tensor:
        mask = alibi_bias(SLOPES, length).masked_fill(hidden, float("-inf"))
        return scaled_dot_product_attention(q, k, v, attn_mask=mask[None])

    return {
        "mask rebuilt": mask_rebuilt,
        "eager": lambda: alibi_attention(q, k, v, SLOPES, backend="eager"),
        "flex, compiled": lambda: alibi_attention(q, k, v, SLOPES, backend="flex"),
        "x-transformers flash": lambda: flash(q, k, v, attn_bias=positions(length, length)),
        "x-transformers": lambda: eager(q, k, v, attn_bias=positions(length, length)),
    }


def rows(measured: dict[str, float], what: str, target: float) -> list[Row]:
    """A row per implementation; only `auto` has a target."""
    return [
        Row(name=f"{what}: {name}", figure=ratio, target=target if name == "auto" else None, unit="x no bias")
        for name, ratio in measured.items()
    ]


@torch.no_grad()
def forward(length: int, head_dim: int, target: float, peers: Collection[str] = ()) -> list[Row]:
    """A forward pass."""
    q, k, v = qkv(length, head_dim)
    chosen = {name: implementation for name, implementation in peer_implementations(q, k, v).items() if name in peers}
    return rows(
        relative_times(our_implementations(q, k, v) | chosen, "no bias"), f"forward, L={length} d={head_dim}", target
    )


def forward_and_backward(length: int, head_dim: int, target: float) -> list[Row]:
    """A training step of attention alone."""
    tensors = qkv(length, head_dim, gradients=True)
    ones = torch.ones_like(tensors[0])

    def step(implementation: Implementation) -> Callable[[], object]:
        return lambda: torch.autograd.grad(implementation(), tensors, ones)

    implementations = our_implementations(*tensors)
    del implementations["auto, no bias"]
    measured = relative_times(
        {name: step(implementation) for name, implementation in implementations.items()}, "no bias"
    )
    return rows(measured, f"forward and backward, L={length} d={head_dim}", target)


@torch.no_grad()
def short() -> list[Row]:
    """Below 256 tokens a cached mask is fastest, and choosing it must cost next to nothing."""
    result = []
    for length in (64, 128, 255):
        implementations = our_implementations(*qkv(length, 32))
        ratio = relative_times({name: implementations[name] for name in ("auto", "mask cached")}, "mask cached")["auto"]
        result.append(Row(name=f"forward, L={length} d=32: auto", figure=ratio, target=1.1, unit="x mask cached"))
    return result


@torch.no_grad()
def layer(length: int) -> Row:
    """A layer with its projections: ours, compared with BLOOM's in transformers."""
    d_model = HEADS * 32
    x = qkv(length, 32)[0].transpose(1, 2).flatten(2)
    bloom = BloomAttention(BloomConfig(hidden_size=d_model, n_head=HEADS), layer_idx=0).eval()
    alibi = huggingface_alibi(SLOPES, torch.ones(BATCH, length, dtype=torch.long))
    hidden = torch.zeros(1, 1, length, length).masked_fill(~causal_mask(length), torch.finfo(torch.float32).min)
    ours = AlibiSelfAttention(d_model, HEADS, bias=True)
    implementations: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(x),
        "bloom": lambda: bloom(x, x, alibi, hidden),
    }
    ratio = relative_times(implementations, "bloom")["ours"]
    return Row(name=f"layer, L={length} d=32: AlibiSelfAttention", figure=ratio, target=1, unit="x BloomAttention")


@torch.no_grad()
def decoding() -> Row:
    """One new token with a cache of 4096."""
    _, k, v = qkv(4096, 32)
    q = torch.randn(BATCH, HEADS, 1, 32)
    implementations = {
        "no bias": lambda: scaled_dot_product_attention(q, k, v),
        "auto": lambda: alibi_attention(q, k, v, SLOPES),
    }
    ratio = relative_times(implementations, "no bias")["auto"]
    return Row(name="one decoded token, cache of 4096: auto", figure=ratio, target=1.1, unit="x no bias")


@torch.no_grad()
def largest_error(dtype: torch.dtype, backend: str, length: int) -> float:
    """The largest error of the output, compared with float64 on the same rounded input, over every 31st query."""
    q, k, v = (t[:1] for t in qkv(length, 32, dtype=dtype))
    queries = torch.arange(length - 1, 0, -31)
    ahead = torch.arange(length)[None] - queries[:, None]
    logits = q[:, :, queries].double() @ k.double().mT / 32**0.5 + SLOPES.double()[:, None, None] * ahead
    exact = logits.masked_fill(ahead > 0, float("-inf")).softmax(-1) @ v.double()
    return float((alibi_attention(q, k, v, SLOPES, backend=backend)[:, :, queries] - exact).abs().max())


def accuracy() -> list[Row]:
    """The error of the implementation that `auto` chooses for 4096 tokens, compared with a float mask."""
    return [
        Row(
            name=f"largest error, L=4096 {str(dtype).removeprefix('torch.')}: auto",
            figure=largest_error(dtype, "auto", 4096) / largest_error(dtype, "mask", 4096),
            target=1.5,
            unit="x mask",
        )
        for dtype in (torch.float32, torch.bfloat16, torch.float16)
    ]


def peak_memory() -> float:
    """The most memory that this process has held since the peak was last reset, in MiB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def extra_memory(length: int) -> float:
    """Peak memory of one call beyond query, key, value and output, as a multiple of the output.

    Correct only in a new process.
    """
    with torch.no_grad():
        q, k, v = qkv(length, 32)
        short = [t[:, :, :1024] for t in (q, k, v)]
        alibi_attention(short[0], short[1], short[2], SLOPES)  # warm up: threads and library code take memory too
        Path("/proc/self/clear_refs").write_text("5")  # Linux: reset the peak to what is held now
        before = peak_memory()
        output = alibi_attention(q, k, v, SLOPES)
        after = peak_memory()
    output_size = output.numel() * output.element_size() / 2**20
    return (after - before) / output_size - 1


def memory() -> Row:
    """At 16384 tokens, where a [query, key] tensor of all heads would have 512 times the size of the output."""
    code = "from benchmarks import attention, timing; timing.pin(); print(attention.extra_memory(16384))"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    name = "peak extra memory, L=16384 d=32: auto"
    return Row(name=name, figure=float(result.stdout), target=1, unit="x output (64 MiB)")


def main() -> list[Row]:
    return [
        *(row for length in (512, 1024, 2048) for row in forward(length, 32, 1.25, PEERS)),
        *forward(4096, 32, 1.25, LONG_PEERS),
        *(row for length in (2048, 4096) for row in forward(length, 64, 1.15)),
        *(row for length in (2048, 4096) for row in forward_and_backward(length, 32, 1.25)),
        *forward_and_backward(2048, 64, 1.15),
        *short(),
        *(layer(length) for length in (512, 1024, 2048)),
        decoding(),
        *accuracy(),
        memory(),
    ]
