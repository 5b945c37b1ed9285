"""Compare attention with ALiBi, ours and others', with torch's fused attention without a bias.

All implementations take turns on the same float32 tensors, standard normal, batch 4 and 8 heads.
"""

from collections.abc import Callable, Collection
from functools import partial

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
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

BATCH = 4
HEADS = 8
SLOPES = alibi_slopes(HEADS)
# At 4,096 tokens the other peers take gigabytes.
LONG_PEERS = ("mask rebuilt", "flex, compiled", "x-transformers flash")
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
    shape = (batch, heads, length, head_dim)
    return [torch.randn(shape, dtype=dtype, requires_grad=gradients) for _ in range(3)]


def no_bias_and_auto(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> dict[str, Implementation]:
    """Causal attention without a bias, and with ALiBi as `alibi_attention` chooses it."""
    return {
        "no bias": lambda: scaled_dot_product_attention(q, k, v, is_causal=True),
        "auto": lambda: alibi_attention(q, k, v, slopes),
    }


def our_implementations(q: Tensor, k: Tensor, v: Tensor) -> dict[str, Implementation]:
    """No bias, as the baseline, and our implementations."""
    bias = AlibiBias(HEADS, causal=True)
    return no_bias_and_auto(q, k, v, SLOPES) | {
        # How much of the gain has nothing to do with ALiBi
        "auto, no bias": lambda: alibi_attention(q, k, v, None),
        "mask cached": lambda: scaled_dot_product_attention(
            q, k, v, attn_mask=bias(q.shape[2])[None]
        ),
    }


def peer_implementations(q: Tensor, k: Tensor, v: Tensor) -> dict[str, Implementation]:
    """Slower implementations, which store [query, key] tensors or have to be compiled."""
    length = q.shape[2]
    hidden = ~causal_mask(length)
    positions = AlibiPositionalBias(HEADS)
    flash = Attend(causal=True, flash=True)
    eager = Attend(causal=True, flash=False)
    flex = torch.compile(flex_attention, dynamic=False)
    past = create_block_mask(lambda b, h, i, j: j <= i, None, None, length, length, device="cpu")

    def alibi(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return score - SLOPES[head] * (query - key)

    def mask_rebuilt() -> Tensor:
        mask = alibi_bias(SLOPES, length).masked_fill(hidden, float("-inf"))
        return scaled_dot_product_attention(q, k, v, attn_mask=mask[None])

    return {
        "mask rebuilt": mask_rebuilt,
        "eager": lambda: alibi_attention(q, k, v, SLOPES, backend="eager"),
        "flex, compiled": lambda: flex(q, k, v, score_mod=alibi, block_mask=past),
        "x-transformers flash": lambda: flash(q, k, v, attn_bias=positions(length, length)),
        "x-transformers": lambda: eager(q, k, v, attn_bias=positions(length, length)),
    }


def rows(measured: dict[str, float], what: str, target: float | None) -> list[Row]:
    """A row for each implementation; only `auto` has a target."""
    result = []
    for name, ratio in measured.items():
        limit = target if name == "auto" else None
        result.append(Row(name=f"{what}: {name}", figure=ratio, target=limit, unit="x no bias"))
    return result


@torch.no_grad()
def forward(length: int, head_dim: int, target: float, peers: Collection[str] = ()) -> list[Row]:
    """A forward pass."""
    q, k, v = qkv(length, head_dim)
    implementations = our_implementations(q, k, v)
    for name, implementation in peer_implementations(q, k, v).items():
        if name in peers:
            implementations[name] = implementation
    measured = relative_times(implementations, "no bias")
    return rows(measured, f"forward, L={length} d={head_dim}", target)


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
def short(*lengths: int) -> list[Row]:
    """Short inputs, where choosing a backend must cost next to nothing.

    `auto` is compared with a cached mask.
    """
    result = []
    for length in lengths:
        implementations = our_implementations(*qkv(length, 32))
        compared = {name: implementations[name] for name in ("auto", "mask cached")}
        row = Row(
            name=f"forward, L={length} d=32: auto",
            figure=relative_times(compared, "mask cached")["auto"],
            target=1.1,
            unit="x mask cached",
        )
        result.append(row)
    return result


@torch.no_grad()
def padded(length: int) -> list[Row]:
    """A batch with padding.

    It is compared with a mask [batch, heads, query, key], as most implementations build it.
    """
    q, k, v = qkv(length, 32)
    real = torch.ones(BATCH, length, dtype=torch.bool)
    real[:, : length // 4] = False
    attend = partial(alibi_attention, q, k, v, SLOPES, key_padding_mask=real)
    implementations: dict[str, Implementation] = {
        "no bias": no_bias_and_auto(q, k, v, SLOPES)["no bias"],
        "auto": partial(attend, backend="auto"),
        "mask": partial(attend, backend="mask"),
    }
    measured = relative_times(implementations, "no bias")
    return rows(measured, f"forward with padding, L={length} d=32", None)


@torch.no_grad()
def encoder(length: int) -> list[Row]:
    """Attention in both directions, of a single sequence."""
    q, k, v = qkv(length, 32, batch=1)
    attend = partial(alibi_attention, q, k, v, SLOPES, causal=False)
    implementations: dict[str, Implementation] = {
        "no bias": lambda: scaled_dot_product_attention(q, k, v),
        "auto": partial(attend, backend="auto"),
        "mask": partial(attend, backend="mask"),
    }
    measured = relative_times(implementations, "no bias")
    return rows(measured, f"forward, both directions, B=1 L={length} d=32", None)


@torch.no_grad()
def backends(length: int) -> list[Row]:
    """All backends of causal attention, for a single sequence: the table of lesson 10."""
    q, k, v = qkv(length, 64, batch=1)
    mask = AlibiBias(HEADS, causal=True)(length)[None]
    implementations: dict[str, Implementation] = {
        "no bias": lambda: scaled_dot_product_attention(q, k, v, is_causal=True),
        "mask made before": lambda: scaled_dot_product_attention(q, k, v, attn_mask=mask),
    }
    for backend in ("folded", "mask", "windowed", "auto"):
        implementations[backend] = partial(alibi_attention, q, k, v, SLOPES, backend=backend)
    measured = relative_times(implementations, "no bias")
    return rows(measured, f"forward, B=1 L={length} d=64", None)


def learned(length: int) -> list[Row]:
    """A training step of attention whose slopes get gradients too."""
    slopes = SLOPES.clone().requires_grad_()
    tensors = (*qkv(length, 32, gradients=True), slopes)
    q, k, v, _ = tensors
    ones = torch.ones_like(q)

    def step(backend: str) -> object:
        output = alibi_attention(q, k, v, slopes, backend=backend)
        return torch.autograd.grad(output, tensors, ones)

    def no_bias() -> object:
        output = scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.autograd.grad(output, (q, k, v), ones)

    steps: dict[str, Callable[[], object]] = {
        "no bias": no_bias,
        "auto": partial(step, "auto"),
        "mask": partial(step, "mask"),
    }
    measured = relative_times(steps, "no bias")
    return rows(measured, f"forward and backward with learned slopes, L={length} d=32", None)


@torch.no_grad()
def layer(length: int) -> Row:
    """A layer with its projections: ours, compared with BLOOM's in transformers."""
    d_model = HEADS * 32
    x = qkv(length, 32)[0].transpose(1, 2).flatten(2)
    bloom = BloomAttention(BloomConfig(hidden_size=d_model, n_head=HEADS), layer_idx=0).eval()
    bias = SLOPES[:, None, None] * torch.arange(length)
    alibi = bias.repeat(BATCH, 1, 1)  # [batch * heads, 1, key]
    lowest = torch.finfo(torch.float32).min
    hidden = torch.zeros(1, 1, length, length).masked_fill(~causal_mask(length), lowest)
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
    """The largest error of the output over every 31st query.

    It is compared with float64 on the same rounded input.
    """
    head_dim = 32
    q, k, v = (tensor[:1] for tensor in qkv(length, head_dim, dtype=dtype))
    queries = torch.arange(length - 1, 0, -31)
    steps_ahead = torch.arange(length)[None] - queries[:, None]  # negative for earlier keys
    content = q[:, :, queries].double() @ k.double().mT / head_dim**0.5
    logits = content + SLOPES.double()[:, None, None] * steps_ahead
    weights = logits.masked_fill(steps_ahead > 0, float("-inf")).softmax(-1)
    exact = weights @ v.double()
    output = alibi_attention(q, k, v, SLOPES, backend=backend)[:, :, queries]
    return float((output - exact).abs().max())


def accuracy(length: int) -> list[Row]:
    """The error of `auto`; in half precision compared with that of a mask."""
    result = [
        Row(
            name=f"largest error, L={length} float32: auto",
            figure=largest_error(torch.float32, "auto", length),
            target=5e-6,
            unit="absolute",
        )
    ]
    for dtype in (torch.bfloat16, torch.float16):
        auto = largest_error(dtype, "auto", length)
        mask = largest_error(dtype, "mask", length)
        name = f"largest error, L={length} {str(dtype).removeprefix('torch.')}: auto"
        result.append(Row(name=name, figure=auto / mask, target=1.5, unit="x mask"))
    return result


def main(*, smallest: bool = False) -> list[Row]:
    if smallest:
        without_compiling = [name for name in PEERS if name != "flex, compiled"]
        return [
            *forward(64, 32, 1.25, without_compiling),
            *forward_and_backward(64, 32, 1),
            *short(64),
            *padded(64),
            *encoder(64),
            *backends(64),
            *learned(64),
            layer(64),
            *accuracy(64),
        ]
    return [
        *forward(512, 32, 1.25, PEERS),
        *forward(1024, 32, 1.25, PEERS),
        *forward(2048, 32, 0.9, PEERS),
        *forward(4096, 32, 0.68, LONG_PEERS),
        *forward(4096, 64, 0.62),
        *forward_and_backward(2048, 32, 1),
        *forward_and_backward(4096, 64, 0.8),
        *short(64, 128, 255),
        *padded(512),
        *encoder(1000),
        *encoder(2048),
        *backends(512),
        *backends(2048),
        *backends(8192),
        *learned(512),
        layer(512),
        layer(1024),
        layer(2048),
        *accuracy(4096),
    ]
