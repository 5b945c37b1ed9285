"""ALiBi in a few lines, for functions that differ from it in one thing."""

import math

import torch

from alibi_viz import alibi_slopes


def steps(queries, keys):
    """Key position minus query position, where the queries are the last positions."""
    query = torch.arange(queries)[:, None] + keys - queries
    return torch.arange(keys) - query


def linear(heads, queries, keys):
    """ALiBi's bias in both directions: [heads, query, key]."""
    return -alibi_slopes(heads)[:, None, None] * steps(queries, keys).abs()


def attend(
    query,
    key,
    value,
    *,
    bias=None,
    scale=None,
    mask=None,
    causal=True,
):
    """Attention with ALiBi, or with another bias or scale."""
    _, heads, queries, head_dim = query.shape
    keys = key.shape[2]
    scores = query @ key.mT * (head_dim**-0.5 if scale is None else scale)
    scores = scores + (linear(heads, queries, keys) if bias is None else bias)
    if causal:
        scores = scores.masked_fill(steps(queries, keys) > 0, -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None], -math.inf)
    return scores.softmax(-1).nan_to_num(0) @ value


def as_if_contiguous(tensor):
    """The tensor as code without strides reads it."""
    _, heads, length, head_dim = tensor.shape
    strides = (heads * length * head_dim, length * head_dim, head_dim, 1)
    return torch.as_strided(tensor, tensor.shape, strides)
