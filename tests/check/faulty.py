"""Faulty implementations that are not in the gallery, and any combination of faults."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes
from alibi_viz.bias import mask_future
from alibi_viz.check.gallery.published_slopes import first_slope_is_one

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def names(report):
    return {finding.name for finding in report.findings}


# {part of an implementation: {its faults: what they compute}}; "" is the correct one
PARTS = {
    "slopes": {
        "": alibi_slopes,
        "geometric slopes": lambda heads: alibi_slopes(heads, "geometric"),
        "halving slopes": lambda heads: alibi_slopes(heads, "halving"),
        "first slope is 1": lambda heads: torch.tensor(first_slope_is_one(heads)),
        "slopes of a head slice": lambda heads: alibi_slopes(heads // 2).repeat(2),
        "heads in another order": lambda heads: alibi_slopes(heads).flip(0),
        "heads without a bias": lambda heads: (
            alibi_slopes(heads) * (torch.arange(heads) < heads - 2)
        ),
        "imprecise slopes": lambda heads: alibi_slopes(heads).half().float(),
    },
    "factor": {
        "": lambda width: 1,
        "sign reversed": lambda width: -1,
        "added twice": lambda width: 2,
        "bias before scaling": lambda width: width**-0.5,
        "bias multiplied": lambda width: 0.4,
    },
    "distance": {  # of row, query position and key
        "": lambda row, query, key: (query - key).abs(),
        "square root of the distance": lambda row, query, key: (query - key).abs().sqrt(),
        "wrong corner of the cache": lambda row, query, key: (row - key).abs(),
        "length cap": lambda row, query, key: (query - key).abs().clamp(max=20),
    },
    "visible": {
        "": lambda row, query, key: key <= query,
        "query can't see itself": lambda row, query, key: key < query,
        "one key ahead": lambda row, query, key: key <= query + 1,
        "causal mask in the wrong corner": lambda row, query, key: key <= row,
        "future not masked": lambda row, query, key: key >= 0,
        "first keys only": lambda row, query, key: (key <= query) & (key < 50),
        "window": lambda row, query, key: (key <= query) & (key > query - 11),
    },
    "content": {
        "": lambda heads, width: 1,
        "content too weak": lambda heads, width: heads**-0.5,
        "content not scaled": lambda heads, width: width**0.5,
        "content multiplied": lambda heads, width: -1,  # a positive factor may be by design
    },
}


def with_faults(*faults):
    """Attention with these faults, at most one of each part."""
    chosen = [
        next((rules[name] for name in faults if name and name in rules), rules[""])
        for rules in PARTS.values()
    ]
    slopes, factor, distance, visible, scale = chosen

    def attention(query, key, value):
        heads, queries, keys, width = *query.shape[1:3], *key.shape[2:]
        row, keys_at = torch.arange(float(queries))[:, None], torch.arange(float(keys))
        positions = row, row + keys - queries, keys_at
        bias = -factor(width) * slopes(heads)[:, None, None] * distance(*positions)
        logits = query @ key.mT / width**0.5 * scale(heads, width) + bias
        return logits.masked_fill(~visible(*positions), -1e9).softmax(-1) @ value

    return attention


def attend(
    query,
    key,
    value,
    factor=1.0,
    hidden=-math.inf,
    first=1,
):
    """Attention with a factor of the bias, and what is added to keys from the `first` after the
    query on."""
    bias = factor * alibi_bias(
        alibi_slopes(query.shape[1]), query.shape[2], key.shape[2], form="key"
    )
    logits = query @ key.mT * query.shape[-1] ** -0.5 + bias
    mask = torch.full_like(logits, hidden).triu(first + key.shape[2] - query.shape[2])
    return (logits + mask).softmax(-1).to(value.dtype) @ value


def bias_of(slopes, cap=math.inf):
    return lambda h, q, k: alibi_bias(slopes(h), q, k).maximum(
        -cap * alibi_slopes(h)[:, None, None]
    )


def colliding(form, dtype, heads, queries, keys, of=alibi_slopes):
    """A bias in one of the forms that round positions, or their products with slopes, to a
    dtype."""
    slopes, key = of(heads)[:, None, None], torch.arange(float(keys))
    rounded = key.to(dtype)
    return [
        -slopes * (rounded[keys - queries :, None] - rounded).abs(),
        -slopes * (rounded[keys - queries :, None].float() - rounded.float()).abs(),
        (slopes * key).to(dtype),
        (slopes * key).to(dtype).float(),
        (slopes.to(dtype) * rounded).float(),
        (slopes * (key - key[-1])).to(dtype).float(),
    ][form]


def rotated(query, key, value):
    positions = torch.arange(key.shape[2])
    angle = positions[-query.shape[2] :, None] - positions
    return mask_future(query @ key.mT / query.shape[-1] ** 0.5 * angle.cos()).softmax(-1) @ value


def lower_triangle_without_a_mask(query, key, value):
    bias = alibi_bias(alibi_slopes(query.shape[1]), key.shape[2]).tril()[
        :, -query.shape[2] :
    ]  # 0 for later keys
    return (query @ key.mT / query.shape[-1] ** 0.5 + bias).softmax(-1) @ value


def padded(query, key, value, mask=None):
    """A symmetric bias whose query positions count the padding, but whose key positions don't."""
    if mask is None:
        return alibi_attention(query, key, value, alibi_slopes(query.shape[1]), causal=False)
    distance = (
        torch.arange(query.shape[2])[:, None] - (mask.cumsum(-1) - 1).clamp(min=0)[:, None, None, :]
    ).abs()
    logits = (
        query @ key.mT / query.shape[-1] ** 0.5
        - alibi_slopes(query.shape[1])[:, None, None] * distance
    )
    return logits.masked_fill(~mask[:, None, None, :], -1e9).softmax(-1) @ value


def in_half_precision(*qkv):
    return alibi_attention(
        *(each.bfloat16() for each in qkv), alibi_slopes(qkv[0].shape[1])
    ).float()


def raises(*_):
    raise KeyError("no such head")
