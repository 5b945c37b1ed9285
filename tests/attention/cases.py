"""Random calls of `alibi_attention`, and what they must return."""

import math

import torch

from alibi_viz import alibi_attention
from tests.reference import reference_attention

BACKENDS = ("auto", "eager", "mask", "windowed", "folded")
# These support any padding and positions if attention is causal.
MASKING = ("auto", "eager", "mask", "folded")
HALF = (torch.bfloat16, torch.float16)
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 2e-1}


def normal(*shape, seed=0, dtype=torch.float64):
    """Standard normal numbers, the same for every dtype but for rounding."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def qkv(
    length,
    heads=4,
    dim=16,
    *,
    batch=1,
    dtype=torch.float64,
):
    """Query, key and value, each [batch, heads, length, dim]."""
    return normal(3, batch, heads, length, dim, seed=length, dtype=dtype).unbind()


def expected(
    query,
    key,
    value,
    slopes,
    *,
    causal=True,
    key_padding_mask=None,
    attn_mask=None,
    positions=None,
    scale=None,
):
    """The output in float64, by `alibi_viz.minimal`, for the arguments of `alibi_attention`.

    The channels are added in reverse, so that no test relies on a common order of sums.
    """
    query = query.flip(-1)
    key = key.flip(-1)
    key_length = key.shape[2]
    if positions is None:
        positions = torch.arange(key_length)
    if slopes is None:
        slopes = torch.zeros(query.shape[1])

    key_positions = positions.long().expand(len(key), -1)  # [batch, key]
    query_positions = key_positions[:, key_length - query.shape[2] :]  # [batch, query]
    distance = query_positions[:, None, :, None] - key_positions[:, None, None, :]
    if not causal:
        distance = distance.abs()
    bias = -slopes.double()[:, None, None] * distance  # [batch, heads, query, key]
    if attn_mask is not None:
        bias = bias.masked_fill(~attn_mask, -math.inf)

    output, _ = reference_attention(
        query, key, value, bias, causal=causal, is_real=key_padding_mask, scale=scale
    )
    return output


def largest_error(
    query,
    key,
    value,
    slopes,
    *,
    backend="auto",
    **options,
):
    """The largest difference of the output from `expected`."""
    with torch.no_grad():
        output = alibi_attention(query, key, value, slopes, backend=backend, **options)
        exact = expected(query, key, value, slopes, **options)
    assert bool(output.isfinite().all())
    if not output.numel():
        return 0.0
    return float((output - exact).abs().max())


def output_and_gradients(tensors, backend, *, learned=True, **options):
    """The output, and the gradients of query, key, value and, if learned, slopes."""
    query, key, value, slopes = (tensor.detach().clone() for tensor in tensors)
    trained = [query, key, value]
    if learned:
        trained.append(slopes)
    for tensor in trained:
        tensor.requires_grad_()
    output = alibi_attention(query, key, value, slopes, backend=backend, **options)
    gradient_of_output = normal(*output.shape, seed=99).to(output.dtype)
    return [output.detach(), *torch.autograd.grad(output, trained, gradient_of_output)]


def assert_equal(results, others, *, tolerance):
    """Equal relative to the largest element of each tensor.

    The tensors are as those of `output_and_gradients`, or some of them.
    """
    assert len(results) == len(others)
    for index, (result, other) in enumerate(zip(results, others, strict=True)):
        assert result.shape == other.shape, f"tensor {index}"
        if not other.numel():
            continue
        largest = max(float(other.abs().max()), 1e-3)
        difference = float((result.double() - other.double()).abs().max())
        assert difference <= tolerance * largest, f"tensor {index} differs by {difference}"
