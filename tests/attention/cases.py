"""Random calls of `alibi_attention`, and what they must return."""

import math
from typing import Any

import torch
from torch import Tensor

from alibi_viz import alibi_attention
from tests.reference import reference_attention

MASKING = (
    "auto",
    "eager",
    "mask",
    "folded",
)  # these support any padding and positions if attention is causal
HALF = (torch.bfloat16, torch.float16)
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 2e-1}


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(
        shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).to(dtype)


def qkv(
    length: int,
    heads: int = 4,
    dim: int = 16,
    *,
    batch: int = 1,
    dtype: torch.dtype = torch.float64,
) -> Any:
    """Query, key and value, each [batch, heads, length, dim]."""
    return normal(3, batch, heads, length, dim, seed=length, dtype=dtype).unbind()


def expected(
    query: Tensor, key: Tensor, value: Tensor, slopes: Tensor | None, **options: Any
) -> Tensor:
    """The output in float64, by `alibi_viz.minimal`, for the arguments of `alibi_attention`."""
    causal = options.get("causal", True)
    mask, positions, is_real, scale = map(
        options.get, ("attn_mask", "positions", "key_padding_mask", "scale")
    )
    keys = (torch.arange(key.shape[2]) if positions is None else positions.long()).expand(
        len(key), -1
    )
    distance = (keys[:, key.shape[2] - query.shape[2] :, None] - keys[:, None])[
        :, None
    ]  # [batch, 1, query, key]
    slopes = torch.zeros(query.shape[1]) if slopes is None else slopes
    bias = -slopes.double()[:, None, None] * (distance if causal else distance.abs())
    bias = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    return reference_attention(
        query, key, value, bias, causal=causal, is_real=is_real, scale=scale
    )[0]


def largest_error(*tensors: Any, **options: Any) -> float:
    """The largest difference from the oracle."""
    exact = expected(*(t if t is None else t.detach() for t in tensors), **options)
    output = alibi_attention(*tensors, **options).detach()
    assert bool(output.isfinite().all())
    return float((output - exact).abs().max()) if output.numel() else 0.0


def output_and_gradients(
    tensors: Any, backend: str, *, learned: bool = True, **options: Any
) -> list[Tensor]:
    """The output, and the gradients of query, key, value and, if learned, slopes."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors[:3]]
    slopes = tensors[3].detach().clone().requires_grad_(learned)
    output = alibi_attention(*leaves, slopes, backend=backend, **options)
    weight = normal(*output.shape, seed=99).to(output.dtype)
    return [output.detach(), *torch.autograd.grad(output, [*leaves, slopes][: 3 + learned], weight)]


def assert_equal(results: Any, others: Any, *, tolerance: float) -> None:
    """Equal relative to the largest element of each tensor."""
    for name, result, other in zip(
        ("output", "query", "key", "value", "slopes"), results, others, strict=False
    ):
        largest = max(float(other.abs().max()), 1e-3) if other.numel() else 1.0
        difference = float((result.double() - other.double()).abs().max()) if other.numel() else 0.0
        assert difference <= tolerance * largest, (name, difference, largest)
    assert len(results) == len(others)
