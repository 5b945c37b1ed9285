"""Faulty implementations that are not in the gallery."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, causal_mask, check
from alibi_viz.bias import mask_future


def attend(
    query: Tensor, key: Tensor, value: Tensor, factor: float = 1.0, content: float | None = None, causal: bool = True
) -> Tensor:
    """Attention with a factor of the bias, and another factor of q . k."""
    bias = factor * alibi_bias(alibi_slopes(query.shape[1]), query.shape[2], key.shape[2], form="key")
    logits = query @ key.mT * (query.shape[-1] ** -0.5 if content is None else content) + bias
    return (mask_future(logits) if causal else logits).softmax(-1).to(value.dtype) @ value


def names(report: check.Report) -> set[str]:
    return {finding.name for finding in report.findings}


def bias_of(slopes: Callable[[int], Tensor]) -> Callable[[int, int, int], Tensor]:
    return lambda heads, queries, keys: alibi_bias(slopes(heads), queries, keys)


def reversed_while_decoding(heads: int, queries: int, keys: int) -> Tensor:
    bias = alibi_bias(alibi_slopes(heads), queries, keys)
    return bias if queries == keys else -bias


def capped(heads: int, queries: int, keys: int) -> Tensor:
    slopes = alibi_slopes(heads)[:, None, None]
    return slopes * (alibi_bias(torch.ones(heads), queries, keys)).clamp(min=-100)


def aligned_with_the_first_keys(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    bias = alibi_bias(alibi_slopes(query.shape[1]), query.shape[2], key.shape[2])
    visible = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
    logits = query @ key.mT / query.shape[-1] ** 0.5 + bias
    return logits.masked_fill(~visible, -math.inf).softmax(-1) @ value


def rotated(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    positions = torch.arange(key.shape[2])
    angle = positions[-query.shape[2] :, None] - positions
    return mask_future(query @ key.mT / query.shape[-1] ** 0.5 * angle.cos()).softmax(-1) @ value


def not_masked(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return alibi_attention(query, key, value, alibi_slopes(query.shape[1]), causal=False)


def lower_triangle_without_a_mask(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    bias = alibi_bias(alibi_slopes(query.shape[1]), key.shape[2]).tril()[:, -query.shape[2] :]  # 0 for later keys
    return (query @ key.mT / query.shape[-1] ** 0.5 + bias).softmax(-1) @ value


def padded(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """A symmetric bias whose query positions count the padding, but whose key positions don't."""
    if mask is None:
        return not_masked(query, key, value)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, None, None, :]
    distance = (torch.arange(query.shape[2])[:, None] - positions).abs()
    logits = query @ key.mT / query.shape[-1] ** 0.5 - alibi_slopes(query.shape[1])[:, None, None] * distance
    return logits.masked_fill(~mask[:, None, None, :], -1e9).softmax(-1) @ value


def ignores_padding(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    return attend(query, key, value)


def inverts_padding(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Takes True for padding, so that it masks the real tokens."""
    bias = alibi_bias(alibi_slopes(query.shape[1]), query.shape[2], key.shape[2])
    logits = mask_future(query @ key.mT / query.shape[-1] ** 0.5 + bias)
    return (logits if mask is None else logits.masked_fill(mask[:, None, None, :], -1e9)).softmax(-1) @ value


def shifted_mask(diagonal: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """ALiBi with a causal mask that is off by `diagonal` keys."""

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        bias = alibi_bias(alibi_slopes(query.shape[1]), query.shape[2], key.shape[2])
        visible = torch.ones(bias.shape[1:], dtype=torch.bool).tril(key.shape[2] - query.shape[2] + diagonal)
        logits = (query @ key.mT / query.shape[-1] ** 0.5 - bias.abs()).masked_fill(~visible, -1e9)
        return logits.softmax(-1) @ value

    return attention


def windowed(size: int) -> Callable[[int, int, int], Tensor]:
    return lambda h, q, k: alibi_bias(alibi_slopes(h), q, k).masked_fill(
        causal_mask(q, k).tril(k - q - size), -math.inf
    )


def in_half_precision(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    query, key, value = query.bfloat16(), key.bfloat16(), value.bfloat16()
    return alibi_attention(query, key, value, alibi_slopes(query.shape[1])).float()


def first_slice(heads: int) -> Tensor:
    return alibi_slopes(heads)[: heads // 2].repeat(2)


def wrapped(heads: int, queries: int, keys: int) -> Tensor:
    """A table of 128 positions whose index wraps around."""
    positions = torch.arange(keys) % 128
    distance = positions[keys - queries :, None] - positions
    return -alibi_slopes(heads)[:, None, None] * distance


def raises(*_: object) -> None:
    raise KeyError("no such head")


class Nothing:
    """Not an array."""
