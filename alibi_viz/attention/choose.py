"""Choose the fastest exact implementation of ALiBi attention for a call, and run it."""

from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.attention.backend import Backend
from alibi_viz.attention.eager import EAGER
from alibi_viz.attention.flex import FLEX
from alibi_viz.attention.folded import FOLDED
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.attention.mask import CACHE_BELOW, MASK
from alibi_viz.attention.strip import STRIP

__all__ = ["BACKENDS", "Choice", "alibi_attention", "choose_backend"]

_BACKENDS = {backend.name: backend for backend in (EAGER, MASK, STRIP, FOLDED, FLEX)}
BACKENDS = ("auto", *_BACKENDS)

FOLD_FROM = CACHE_BELOW  # queries from which folding is faster than a cached mask, measured on the CPU
STRIP_UP_TO = 2048  # keys up to which a strip is the fastest, measured on the CPU (benchmarks/attention.py)


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
        key, value: [batch, key_heads, key, head_dim], key >= query; the queries are the last positions.
        slopes: [heads], or None for no bias. They may require a gradient (reverse mode).
        causal, key_padding_mask, attn_mask, positions, scale: as in `attention_trace`.
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
        return _choose(inputs)[0].attend(inputs)
    if backend not in _BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    selected = _BACKENDS[backend]
    if (reason := selected.unsupported_reason(inputs)) is not None:
        raise ValueError(f"backend {backend!r} does not support this call: {reason}")
    return selected.attend(inputs)


def choose_backend(
    query: Tensor,
    key: Tensor,
    slopes: Tensor | None,
    *,
    causal: bool = True,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    positions: Tensor | None = None,
) -> Choice:
    """Return the backend that "auto" selects for these arguments of `alibi_attention`, and the reason.

    >>> q = k = torch.zeros(1, 8, 1024, 32)
    >>> choose_backend(q, k, alibi_slopes(8))
    Choice(name='strip', reason='on the CPU, up to 2048 tokens, one strip of bias for all queries is fastest')
    >>> choose_backend(q[:, :, :1], k, alibi_slopes(8)).name
    'mask'
    """
    inputs = AttentionInputs(query, key, key, slopes, causal, key_padding_mask, attn_mask, positions)
    backend, reason = _choose(inputs.check().autocast())
    return Choice(backend.name, reason)


def _choose(inputs: AttentionInputs) -> tuple[Backend, str]:
    """Return the fastest backend and the reason. Never FlexAttention, because its first call compiles for seconds."""
    slopes = inputs.slopes
    learned = slopes is not None and slopes.requires_grad
    if inputs.query_length == 1:
        return MASK, "for a single query the bias is a single row"
    # The strip is never the fastest on a GPU, whose fastest kernel accepts no mask; with learned slopes, because no
    # fast kernel computes the gradient of a mask; or under torch.compile, where each length would need its own graph.
    strip_is_fast = inputs.query.is_cpu and not learned and not torch.compiler.is_compiling()
    strip_is_fast = strip_is_fast and STRIP.unsupported_reason(inputs) is None
    if strip_is_fast and inputs.key_length <= STRIP_UP_TO:
        return STRIP, f"on the CPU, up to {STRIP_UP_TO} tokens, one strip of bias for all queries is fastest"
    if (reason := FOLDED.unsupported_reason(inputs)) is not None:
        return STRIP if strip_is_fast else MASK, f"folding is not possible: {reason}"
    if learned and inputs.needs_gradients and inputs.query.dtype in (torch.float16, torch.bfloat16):
        return MASK, "folding would round the gradient of the slopes to half precision"
    if inputs.query_length < FOLD_FROM:
        return MASK, f"below {FOLD_FROM} tokens a mask is faster than folding"
    return FOLDED, f"causal attention from {FOLD_FROM} tokens on needs no [query, key] tensor"
