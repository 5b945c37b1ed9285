"""The cost of the bias: attention with ALiBi, ours and others', compared with torch's fused
attention without a bias.

All implementations take turns on the same float32 tensors, standard normal, batch 4 and 8 heads.
"""

from collections.abc import Callable, Collection
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import BloomConfig
from transformers.models.bloom.modeling_bloom import BloomAttention
from x_transformers.attend import Attend
from x_transformers.x_transformers import AlibiPositionalBias

from alibi_viz import (
    AlibiBias,
    AlibiSelfAttention,
    alibi_attention,
    alibi_bias,
    alibi_slopes,
    causal_mask,
)
from benchmarks.row import Row
from benchmarks.timing import relative_times

BATCH, HEADS = 4, 8
SLOPES = alibi_slopes(HEADS)
LONG_PEERS = (
    "mask rebuilt",
    "flex, compiled",
    "x-transformers flash",
)  # at 4096 the other peers take gigabytes
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
    return [
        torch.randn(batch, heads, length, head_dim, dtype=dtype, requires_grad=gradients)
        for _ in range(3)
    ]


def no_bias_and_auto(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> dict[str, Implementation]:
    return {
        "no bias": lambda: scaled_dot_product_attention(q, k, v, is_causal=True),
        "auto": lambda: alibi_attention(q, k, v, slopes),
    }


def our_implementations(q: Tensor, k: Tensor, v: Tensor) -> dict[str, Implementation]:
    """No bias, as the baseline, and our implementations."""
    bias = AlibiBias(HEADS, causal=True)
    return no_bias_and_auto(q, k, v, SLOPES) | {
        "auto, no bias": lambda: alibi_attention(
            q, k, v, None
        ),  # how much of the gain has nothing to do with ALiBi
        "mask cached": lambda: scaled_dot_product_attention(
            q, k, v, attn_mask=bias(q.shape[2])[None]
        ),
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
    """A row for each implementation; only `auto` has a target."""
    return [
        Row(
            name=f"{what}: {name}",
            figure=ratio,
            target=target if name == "auto" else None,
            unit="x no bias",
        )
        for name, ratio in measured.items()
    ]


@torch.no_grad()
def forward(length: int, head_dim: int, target: float, peers: Collection[str] = ()) -> list[Row]:
    """A forward pass."""
    q, k, v = qkv(length, head_dim)
    chosen = {
        name: implementation
        for name, implementation in peer_implementations(q, k, v).items()
        if name in peers
    }
    return rows(
        relative_times(our_implementations(q, k, v) | chosen, "no bias"),
        f"forward, L={length} d={head_dim}",
        target,
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
    """Short inputs, where choosing a backend must cost next to nothing: `auto` compared with a
    cached mask."""
    result = []
    for length in (64, 128, 255):
        implementations = our_implementations(*qkv(length, 32))
        ratio = relative_times(
            {name: implementations[name] for name in ("auto", "mask cached")}, "mask cached"
        )["auto"]
        result.append(
            Row(
                name=f"forward, L={length} d=32: auto",
                figure=ratio,
                target=1.1,
                unit="x mask cached",
            )
        )
    return result


@torch.no_grad()
def padded(length: int) -> list[Row]:
    """A batch with padding, compared with a mask, as most implementations build it: [batch, heads,
    query, key]."""
    q, k, v = qkv(length, 32)
    real = torch.ones(BATCH, length, dtype=torch.bool)
    real[:, : length // 4] = False
    implementations = {
        backend: partial(alibi_attention, q, k, v, SLOPES, key_padding_mask=real, backend=backend)
        for backend in ("auto", "mask")
    }
    measured = relative_times(
        {"no bias": no_bias_and_auto(q, k, v, SLOPES)["no bias"], **implementations}, "no bias"
    )
    return rows(measured, f"forward with padding, L={length} d=32", None)


@torch.no_grad()
def encoder(length: int) -> list[Row]:
    """Attention in both directions, of a single sequence."""
    q, k, v = qkv(length, 32, batch=1)
    implementations: dict[str, Implementation] = {
        backend: partial(alibi_attention, q, k, v, SLOPES, causal=False, backend=backend)
        for backend in ("auto", "mask")
    }
    measured = relative_times(
        {"no bias": lambda: scaled_dot_product_attention(q, k, v), **implementations}, "no bias"
    )
    return rows(measured, f"forward, both directions, B=1 L={length} d=32", None)


@torch.no_grad()
def backends(length: int) -> list[Row]:
    """All ways through causal attention, for a single sequence: the table of lesson 12."""
    q, k, v = qkv(length, 64, batch=1)
    ready = AlibiBias(HEADS, causal=True)(length)[None]
    ways: dict[str, Implementation] = {
        "no bias": lambda: scaled_dot_product_attention(q, k, v, is_causal=True),
        "mask made before": lambda: scaled_dot_product_attention(q, k, v, attn_mask=ready),
    }
    ways |= {
        backend: partial(alibi_attention, q, k, v, SLOPES, backend=backend)
        for backend in ("folded", "mask", "windowed", "auto")
    }
    return rows(relative_times(ways, "no bias"), f"forward, B=1 L={length} d=64", None)


def learned(length: int) -> list[Row]:
    """A training step of attention whose slopes get gradients too."""
    slopes = SLOPES.clone().requires_grad_()
    tensors = (*qkv(length, 32, gradients=True), slopes)
    q, k, v, _ = tensors
    ones = torch.ones_like(q)

    def step(backend: str) -> Callable[[], object]:
        return lambda: torch.autograd.grad(
            alibi_attention(q, k, v, slopes, backend=backend), tensors, ones
        )

    def no_bias() -> object:
        return torch.autograd.grad(
            scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), ones
        )

    measured = relative_times(
        {"no bias": no_bias, "auto": step("auto"), "mask": step("mask")}, "no bias"
    )
    return rows(measured, f"forward and backward with learned slopes, L={length} d=32", None)


@torch.no_grad()
def layer(length: int) -> Row:
    """A layer with its projections: ours, compared with BLOOM's in transformers."""
    d_model = HEADS * 32
    x = qkv(length, 32)[0].transpose(1, 2).flatten(2)
    bloom = BloomAttention(BloomConfig(hidden_size=d_model, n_head=HEADS), layer_idx=0).eval()
    alibi = (SLOPES[:, None, None] * torch.arange(length)).repeat(
        BATCH, 1, 1
    )  # [batch * heads, 1, key]
    hidden = torch.zeros(1, 1, length, length).masked_fill(
        ~causal_mask(length), torch.finfo(torch.float32).min
    )
    ours = AlibiSelfAttention(d_model, HEADS, bias=True)
    implementations: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(x),
        "bloom": lambda: bloom(x, x, alibi, hidden),
    }
    ratio = relative_times(implementations, "bloom")["ours"]
    return Row(
        name=f"layer, L={length} d=32: AlibiSelfAttention",
        figure=ratio,
        target=1,
        unit="x BloomAttention",
    )


@torch.no_grad()
def largest_error(dtype: torch.dtype, backend: str, length: int) -> float:
    """The largest error of the output, compared with float64 on the same rounded input, over every
    31st query."""
    q, k, v = (t[:1] for t in qkv(length, 32, dtype=dtype))
    queries = torch.arange(length - 1, 0, -31)
    ahead = torch.arange(length)[None] - queries[:, None]
    logits = (
        q[:, :, queries].double() @ k.double().mT / 32**0.5 + SLOPES.double()[:, None, None] * ahead
    )
    exact = logits.masked_fill(ahead > 0, float("-inf")).softmax(-1) @ v.double()
    return float(
        (alibi_attention(q, k, v, SLOPES, backend=backend)[:, :, queries] - exact).abs().max()
    )


def accuracy() -> list[Row]:
    """The error of the implementation that `auto` chooses for 4096 tokens, and in half precision
    that of a mask."""
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


def main() -> list[Row]:
    return [
        *(row for length in (512, 1024) for row in forward(length, 32, 1.25, PEERS)),
        *forward(2048, 32, 0.9, PEERS),
        *forward(4096, 32, 0.68, LONG_PEERS),
        *forward(4096, 64, 0.62),
        *forward_and_backward(2048, 32, 1),
        *forward_and_backward(4096, 64, 0.8),
        *short(),
        *padded(512),
        *(row for length in (1000, 2048) for row in encoder(length)),
        *(row for length in (512, 2048, 8192) for row in backends(length)),
        *learned(512),
        *(layer(length) for length in (512, 1024, 2048)),
        *accuracy(),
    ]
