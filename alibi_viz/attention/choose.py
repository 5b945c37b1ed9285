"""Choose the fastest exact implementation of ALiBi attention for a call, and run it."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from alibi_viz.attention.eager import EAGER
from alibi_viz.attention.flex import FLEX
from alibi_viz.attention.folded import FOLDED
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.attention.mask import CACHED_BELOW, MASK
from alibi_viz.attention.strip import STRIP

__all__ = ["BACKENDS", "Choice", "alibi_attention", "choose_backend"]

_BACKENDS = {backend.name: backend for backend in (EAGER, MASK, STRIP, FOLDED, FLEX)}
BACKENDS = ("auto", *_BACKENDS)

# Measured on the CPU (benchmarks/attention.py):
MIN_FOLDED_QUERIES = CACHED_BELOW  # with fewer, a cached mask is faster than "folded"
MAX_STRIP_KEYS = 2048  # up to here "strip" is the fastest


class Choice(NamedTuple):
    """The backend that "auto" selects, by name, and the reason."""

    name: str
    reason: str


def alibi_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    slopes: Tensor | None,
    *,
    causal: bool = True,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    positions: Tensor | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
) -> Tensor:
    """Compute attention with linear biases: [batch, heads, query, head_dim].

    Args:
        query: [batch, heads, query, head_dim].
        key, value: [batch, key_heads, key, head_dim], key >= query; the queries are the last positions. With fewer key
            heads than heads, neighboring heads share a key head (grouped-query attention).
        slopes: [heads], or None for no bias. They may require a gradient (reverse mode).
        causal: mask the keys after each query. If False, the bias is the symmetric form, -m |i - j|.
        key_padding_mask: bool [batch, key], True for a real token.
        attn_mask: bool, broadcastable to [batch, heads, query, key], True where a query may attend; for packed
            documents, for example.
        positions: integers [key] or [batch, key], for sequences with gaps; 0, 1, 2, ... by default. Left padding needs
            none, because only differences matter. `causal` uses the order of the keys, not their positions.
        scale: factor of q . k; 1 / sqrt(head_dim) by default.
        dropout: probability of dropping an attention weight.
        backend: "auto" selects the fastest implementation that is exact for the call; `choose_backend` returns which
            one and why. The others select one by name:

            - "eager": every step written out; the reference
            - "mask": torch's fused attention with the bias as a float mask
            - "strip": the same in blocks of queries, which share one block of bias
            - "folded": plain causal attention with the bias as two more coordinates of query and key
            - "flex": FlexAttention, compiled

    A query without any visible key returns zeros, never NaN.

    Raises TypeError and ValueError that name the tensor, its shape and the expected axes, and ValueError if the
    requested backend does not support the call.

    >>> q, k, v = torch.randn(3, 2, 8, 16, 32)
    >>> alibi_attention(q, k, v, alibi_slopes(8)).shape
    torch.Size([2, 8, 16, 32])
    """
    inputs = AttentionInputs(query, key, value, slopes, causal, key_padding_mask, attn_mask, positions, scale, dropout)
    inputs = inputs.check().autocast()
    if backend == "auto":
        return _BACKENDS[_choose(inputs).name].attend(inputs)
    if backend not in _BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    selected = _BACKENDS[backend]
    if (reason := selected.unsupported_reason(inputs)) is not None:
        raise ValueError(f"backend {backend!r} does not support this call: {reason}")
    return selected.attend(inputs)


def choose_backend(query: Tensor, key: Tensor, slopes: Tensor | None, **options: Any) -> Choice:
    """Return the backend that "auto" selects for these arguments of `alibi_attention`, and the reason.

    `options` are other keyword arguments of `alibi_attention`: `causal`, `positions` and so on. Raises as it does.

    >>> q = k = torch.zeros(1, 8, 1024, 32)
    >>> choose_backend(q, k, alibi_slopes(8))
    Choice(name='strip', reason='with up to 2048 keys on the CPU, blocks of queries that share one bias are fastest')
    >>> choose_backend(q[:, :, :1], k, alibi_slopes(8)).name
    'mask'
    """
    return _choose(AttentionInputs(query, key, key, slopes, **options).check().autocast())


def _choose(inputs: AttentionInputs) -> Choice:
    """Return the fastest backend. Never FlexAttention, because its first call compiles for seconds."""
    learned = inputs.slopes is not None and inputs.slopes.requires_grad
    if inputs.query_length == 1:
        return Choice("mask", "a single query needs only a single row of bias")
    # The strip is never the fastest on a GPU, whose fastest kernel accepts no mask; with learned slopes, because no
    # fast kernel computes the gradient of a mask; or under torch.compile, where each length would need its own graph.
    strip_is_fast = inputs.query.is_cpu and not learned and not torch.compiler.is_compiling()
    strip_is_fast = strip_is_fast and STRIP.unsupported_reason(inputs) is None
    if strip_is_fast and inputs.key_length <= MAX_STRIP_KEYS:
        reason = f"with up to {MAX_STRIP_KEYS} keys on the CPU, blocks of queries that share one bias are fastest"
        return Choice("strip", reason)
    if (unsupported := FOLDED.unsupported_reason(inputs)) is not None:
        return Choice("strip" if strip_is_fast else "mask", f"'folded' does not support this call: {unsupported}")
    if learned and inputs.needs_gradients and inputs.query.dtype in (torch.float16, torch.bfloat16):
        return Choice("mask", "'folded' would round the gradient of the slopes to half precision")
    if inputs.query_length < MIN_FOLDED_QUERIES:
        return Choice("mask", f"with fewer than {MIN_FOLDED_QUERIES} queries, a mask is faster than 'folded'")
    reason = f"with {MIN_FOLDED_QUERIES} queries or more, attention without a [query, key] tensor of biases is fastest"
    return Choice("folded", reason)
