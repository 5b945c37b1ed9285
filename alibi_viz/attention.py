"""Content plus bias gives logits, softmax gives weights, weights give the output.

    logits[i, j] = q_i . k_j / sqrt(head_dim) + bias[i, j]

The bias is *not* divided by sqrt(head_dim). `attention_trace` computes these four matrices one by one, to be looked
at; `alibi_attention` computes the output only, and faster.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz.bias import alibi_bias, check_slopes
from alibi_viz.distance import causal_mask

__all__ = ["BACKENDS", "AttentionTrace", "alibi_attention", "attention_trace"]

BACKENDS = ("auto", "eager", "mask")


@dataclass(frozen=True)
class AttentionTrace:
    """The steps of attention, each [batch, heads, query, key] in the dtype of the query.

    Attributes:
        content: q . k / sqrt(head_dim), for every pair, masked or not.
        bias: what ALiBi adds.
        logits: content + bias, -inf where a key is hidden.
        weights: softmax of the logits over the keys; a row that sees no key at all is zeros.
    """

    content: Tensor
    bias: Tensor
    logits: Tensor
    weights: Tensor


def attention_trace(
    query: Tensor,
    key: Tensor,
    slopes: Tensor | None,
    *,
    causal: bool = True,
    key_padding_mask: Tensor | None = None,
    scale: float | None = None,
) -> AttentionTrace:
    """Every step from content to weights, to be looked at.

    Args:
        query: [batch, heads, query, head_dim].
        key: [batch, heads, key, head_dim], key >= query; the queries are the last positions.
        slopes: [heads], or None for no bias.
        causal: hide the keys after each query. Without it the bias is the symmetric form, -m |i - j|.
        key_padding_mask: bool [batch, key], True for a real token.
        scale: multiplies q . k; 1 / sqrt(head_dim) by default.

    Raises TypeError and ValueError that name the tensor, its shape and the expected axes.

    >>> q = k = torch.zeros(1, 1, 3, 4)  # equal content: the weights show the bias alone
    >>> attention_trace(q, k, torch.tensor([1.0])).weights[0, 0]
    tensor([[1.0000, 0.0000, 0.0000],
            [0.2689, 0.7311, 0.0000],
            [0.0900, 0.2447, 0.6652]])
    """
    _check(query, key, key, slopes, key_padding_mask)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    content = (query * scale) @ key.transpose(-2, -1)
    bias = _bias(query, key, slopes, causal).expand_as(content)
    visible = _visible(query, key, causal, key_padding_mask)
    logits = content + bias
    if visible is not None:
        logits = logits.masked_fill(~visible, float("-inf"))
    return AttentionTrace(content, bias, logits, _softmax(logits))


def alibi_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    slopes: Tensor | None,
    *,
    causal: bool = True,
    key_padding_mask: Tensor | None = None,
    scale: float | None = None,
    backend: str = "auto",
) -> Tensor:
    """Attention with linear biases: [batch, heads, query, head_dim].

    Args:
        query: [batch, heads, query, head_dim].
        key, value: [batch, heads, key, head_dim], key >= query; the queries are the last positions.
        slopes: [heads], or None for no bias. Gradients flow to them.
        causal, key_padding_mask, scale: as in `attention_trace`.
        backend: "eager" writes softmax(QK + B)V out; "mask" gives torch's fused attention the bias as a float mask;
            "auto" takes the faster of them that fits.

    A query that sees no key gives zeros, never NaN.
    Raises TypeError and ValueError that name the tensor, its shape and the expected axes.

    >>> q, k, v = torch.randn(3, 2, 8, 16, 32)
    >>> alibi_attention(q, k, v, alibi_slopes(8)).shape
    torch.Size([2, 8, 16, 32])
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    _check(query, key, value, slopes, key_padding_mask)
    if backend == "eager":
        trace = attention_trace(query, key, slopes, causal=causal, key_padding_mask=key_padding_mask, scale=scale)
        return trace.weights @ value
    mask = _bias(query, key, slopes, causal)
    visible = _visible(query, key, causal, key_padding_mask)
    if visible is not None:
        mask = mask.masked_fill(~visible, float("-inf"))
    output = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    if visible is not None:  # a row without keys: the fused kernels disagree on it, so say what it is
        output = output.masked_fill(~visible.any(-1, keepdim=True), 0.0)
    return output


def _bias(query: Tensor, key: Tensor, slopes: Tensor | None, causal: bool) -> Tensor:
    """[1, heads, query, key] in the dtype of the query; computed in float32 from integers, cast last."""
    shape = query.shape[-2], key.shape[-2]
    if slopes is None:
        return query.new_zeros(1, 1, *shape)
    return alibi_bias(slopes, *shape, form="relative" if causal else "symmetric", dtype=query.dtype)[None]


def _visible(query: Tensor, key: Tensor, causal: bool, key_padding_mask: Tensor | None) -> Tensor | None:
    """Which keys a query may see: bool, broadcast to [batch, heads, query, key]; None when all."""
    visible = causal_mask(query.shape[-2], key.shape[-2], device=query.device) if causal else None
    if key_padding_mask is not None:
        real = key_padding_mask[:, None, None, :]
        visible = real if visible is None else visible & real
    return visible


def _softmax(logits: Tensor) -> Tensor:
    """Softmax over the keys, zeros for a row of -inf only (a plain softmax gives NaN there)."""
    empty = (logits == float("-inf")).all(-1, keepdim=True)
    return logits.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)


def _check(query: Tensor, key: Tensor, value: Tensor, slopes: Tensor | None, key_padding_mask: Tensor | None) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            got = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
            raise TypeError(f"{name} must be a floating-point tensor [batch, heads, length, head_dim], got {got}")
        if tensor.ndim != 4:
            raise ValueError(f"{name} must be [batch, heads, length, head_dim], got shape {list(tensor.shape)}")
        if tensor.dtype != query.dtype or tensor.device != query.device:
            raise TypeError(
                f"{name} must have the dtype and device of query, {query.dtype} on {query.device}, "
                f"got {tensor.dtype} on {tensor.device}"
            )
    batch, heads, query_length, head_dim = query.shape
    expected = [batch, heads, key.shape[2], head_dim]
    if list(key.shape) != expected:
        raise ValueError(f"key must be [batch, heads, key, head_dim] = {expected} to fit query, got {list(key.shape)}")
    if list(value.shape[:3]) != expected[:3]:
        raise ValueError(
            f"value must be [batch, heads, key, head_dim] = {expected} to fit key, got {list(value.shape)}"
        )
    if query_length > key.shape[2]:
        raise ValueError(f"query length {query_length} must be at most the key length {key.shape[2]}")
    if slopes is not None:
        check_slopes("slopes", slopes)
        if len(slopes) != heads:
            raise ValueError(f"slopes must be [heads] = [{heads}] to fit query, got shape {list(slopes.shape)}")
    if key_padding_mask is not None:
        if key_padding_mask.dtype != torch.bool:
            raise TypeError(f"key_padding_mask must be bool, True for a real token, got {key_padding_mask.dtype}")
        if list(key_padding_mask.shape) != [batch, key.shape[2]]:
            raise ValueError(
                f"key_padding_mask must be [batch, key] = {[batch, key.shape[2]]}, got {list(key_padding_mask.shape)}"
            )
