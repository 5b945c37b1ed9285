"""The cost of the bias: attention with ALiBi, ours and others', compared with torch's fused attention without a bias.

All implementations take turns on the same float32 tensors: standard normal ones, batch 4 and 8 heads where nothing else
is said, or those of trained and random models. Memory is measured in a new process.
"""

import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import BloomConfig, BloomModel
from transformers.models.bloom.modeling_bloom import BloomAttention
from x_transformers.attend import Attend
from x_transformers.x_transformers import AlibiPositionalBias

from alibi_viz import (
    AlibiBias,
    AlibiSelfAttention,
    KeyStatistics,
    alibi_attention,
    alibi_bias,
    alibi_slopes,
    causal_mask,
    choose_backend,
    lab,
)
from alibi_viz.adapters import huggingface_alibi
from benchmarks.row import Row
from benchmarks.timing import relative_times

BATCH, HEADS = 4, 8
SLOPES = alibi_slopes(HEADS)
LONG_PEERS = ("mask rebuilt", "flex, compiled", "x-transformers flash")  # at 4096 the other peers take gigabytes
PEERS = (*LONG_PEERS, "eager", "x-transformers")
Implementation = Callable[[], Tensor]


def qkv(
    length: int,
    head_dim: int,
    *,
    batch: int = BATCH,
    heads: int = HEADS,
    gradients: bool = False,
    dtype: torch.dtype = torch.float32,
) -> list[Tensor]:
    """Standard normal query, key and value, each [batch, heads, length, head_dim]."""
    torch.manual_seed(0)
    return [torch.randn(batch, heads, length, head_dim, dtype=dtype, requires_grad=gradients) for _ in range(3)]


def no_bias_and_auto(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> dict[str, Implementation]:
    return {
        "no bias": lambda: scaled_dot_product_attention(q, k, v, is_causal=True),
        "auto": lambda: alibi_attention(q, k, v, slopes),
    }


def our_implementations(q: Tensor, k: Tensor, v: Tensor) -> dict[str, Implementation]:
    """No bias, as the baseline, and our implementations."""
    bias = AlibiBias(HEADS, causal=True)
    return no_bias_and_auto(q, k, v, SLOPES) | {
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


def rows(measured: dict[str, float], what: str, target: float | None) -> list[Row]:
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
def long(length: int, heads: int, target: float | None) -> list[Row]:
    """A forward pass of one sequence, and the share of the pairs of query and key that the windows leave."""
    q, k, v = qkv(length, 64, batch=1, heads=heads)
    what = f"forward, B=1 H={heads} L={length} d=64"
    return windowed_rows(what, q, k, v, alibi_slopes(heads), target=target)


def windowed_rows(what: str, *call: Tensor, target: float | None = None) -> list[Row]:
    """The time of `auto`, and the pairs that its windows leave: a lower limit of the time."""
    q, k, v, slopes = call
    choice = choose_backend(q, k, slopes)
    if choice.windows is not None:
        print(f"{what}: windows {' '.join(map(str, choice.windows))}")
    ratios = relative_times(no_bias_and_auto(q, k, v, slopes), "no bias")
    left = Row(name=f"{what}: pairs within the windows", figure=1 - choice.left_out, unit="x all visible pairs")
    return [*rows(ratios, what, target), left]


@torch.no_grad()
def models() -> list[Row]:
    """Queries and keys of the published model on its text, and of a small BLOOM with random weights."""
    calls: dict[str, list[tuple[Tensor, ...]]] = {"published model": [], "random BLOOM": []}
    published = lab.published_model("alibi").model.eval()
    tokens = lab.load_text().validation[None, :16384].long()
    hidden = published.transformer.position.embed(published.embedding(tokens))
    for block in published.transformer.blocks:
        calls["published model"].append(
            (*block.attention.heads(block.norm_attention(hidden)), block.attention.position.slopes)
        )
        hidden = block(hidden)
    config = BloomConfig(hidden_size=256, n_head=8, n_layer=1, vocab_size=256)
    bloom = BloomModel(config).eval()
    normed = bloom.h[0].input_layernorm(bloom.word_embeddings_layernorm(bloom.word_embeddings(tokens[:, :4096])))
    fused = bloom.h[0].self_attention.query_key_value(normed).view(1, 4096, 8, 3, 32).permute(3, 0, 2, 1, 4)
    calls["random BLOOM"].append((*fused, alibi_slopes(8)))
    return [
        row
        for name, layers in calls.items()
        for number, call in enumerate(layers, 1)
        for row in windowed_rows(f"forward, {name} layer {number}, L={call[0].shape[2]}", *call)
    ]


@torch.no_grad()
def decoding(length: int, heads: int, head_dim: int, target: float) -> Row:
    """One new token for a sequence with a cache."""
    q, k, v = qkv(length, head_dim, batch=1, heads=heads)
    q, slopes, statistics = q[:, :, -1:], alibi_slopes(heads), KeyStatistics.of(k, v)
    implementations = {
        "no bias": lambda: scaled_dot_product_attention(q, k, v),
        "auto": lambda: alibi_attention(q, k, v, slopes, key_statistics=statistics),
    }
    ratio = relative_times(implementations, "no bias")["auto"]
    name = f"one decoded token, H={heads} d={head_dim}, cache of {length}: auto"
    return Row(name=name, figure=ratio, target=target, unit="x no bias")


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
    """The error of the implementation that `auto` chooses for 4096 tokens, and in half precision that of a mask."""
    exact = largest_error(torch.float32, "auto", 4096)
    halves = (torch.bfloat16, torch.float16)
    return [
        Row(name="largest error, L=4096 float32: auto", figure=exact, target=5e-6, unit="absolute"),
        *(
            Row(
                name=f"largest error, L=4096 {str(dtype).removeprefix('torch.')}: auto",
                figure=largest_error(dtype, "auto", 4096) / largest_error(dtype, "mask", 4096),
                target=1.5,
                unit="x mask",
            )
            for dtype in halves
        ),
    ]


def peak_memory() -> float:
    """The most memory that this process has held since the peak was last reset, in MiB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def extra_memory(length: int, head_dim: int, batch: int) -> float:
    """Peak memory of one call beyond query, key, value and output, in MiB. Correct only in a new process."""
    with torch.no_grad():
        q, k, v = qkv(length, head_dim, batch=batch)
        short = [t[:, :, :1024] for t in (q, k, v)]
        alibi_attention(short[0], short[1], short[2], SLOPES)  # warm up: threads and library code take memory too
        Path("/proc/self/clear_refs").write_text("5")  # Linux: reset the peak to what is held now
        before = peak_memory()
        output = alibi_attention(q, k, v, SLOPES)
        after = peak_memory()
    return after - before - output.numel() * output.element_size() / 2**20


def memory(length: int, head_dim: int, batch: int, target: float) -> Row:
    """A [query, key] tensor of all heads would have 32 GiB at 16384 tokens and batch 4."""
    call = f"attention.extra_memory({length}, {head_dim}, {batch})"
    code = f"from benchmarks import attention, timing; timing.pin(); print({call})"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    name = f"peak extra memory, B={batch} L={length} d={head_dim}: auto"
    return Row(name=name, figure=float(result.stdout), target=target, unit="MiB")


def main() -> list[Row]:
    return [
        *(row for length in (512, 1024) for row in forward(length, 32, 1.25, PEERS)),
        *forward(2048, 32, 0.9, PEERS),
        *forward(4096, 32, 0.68, LONG_PEERS),
        *forward(4096, 64, 0.62),
        *long(4096, 8, None),
        *long(4096, 32, None),
        *long(16384, 8, 0.36),
        *long(65536, 8, 0.15),
        *models(),
        *forward_and_backward(2048, 32, 1),
        *forward_and_backward(4096, 64, 0.8),
        *short(),
        *(layer(length) for length in (512, 1024, 2048)),
        decoding(4096, 8, 32, 1.1),
        decoding(16384, 32, 64, 0.4),
        *accuracy(),
        memory(16384, 32, 4, 64),
        memory(65536, 64, 1, 256),
    ]
