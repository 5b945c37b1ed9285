"""The oracle of the tests: `alibi_viz.minimal` in float64, with the masks and the other forms of
the bias."""

import math

import torch

from alibi_viz import minimal


def _bias_of_pair(form, slope, query, key, last):
    """The bias of one query and one key in a form that is the same for all heads."""
    if form == "relative":
        return -slope * (query - key)
    if form == "key":
        return slope * key
    if form == "end":
        return slope * (key - last)
    assert form == "symmetric"
    return -slope * abs(query - key)


def _bias_of_split_pair(slope, query, key, *, looks_back):
    """The bias of one query and one key in a head that looks only back, or only ahead."""
    is_masked = key > query if looks_back else key < query
    return -math.inf if is_masked else -slope * abs(query - key)


def reference_bias(slopes, queries, keys, form):
    """float64 [heads, query, key] for positions of queries and keys, pair by pair from the
    definition of each form."""
    bias = torch.empty(len(slopes), len(queries), len(keys), dtype=torch.float64)
    heads_that_look_back = math.ceil(len(slopes) / 2)
    for head, slope in enumerate(slopes.double().tolist()):
        for row, query in enumerate(queries):
            for column, key in enumerate(keys):
                if form == "split":
                    looks_back = head < heads_that_look_back
                    value = _bias_of_split_pair(slope, query, key, looks_back=looks_back)
                else:
                    value = _bias_of_pair(form, slope, query, key, last=max(keys))
                bias[head, row, column] = value
    return bias


def reference_attention(
    query,
    key,
    value,
    bias,
    *,
    causal=True,
    is_real=None,
    scale=None,
):
    """Output [batch, heads, query, head_dim] and weights [batch, heads, query, key] of
    `minimal.attention`, float64.

    The queries are the last positions of the keys. `bias` broadcasts to the weights, and `is_real`
    is a padding mask [batch, key]. Neighboring heads may share a key head.
    """
    query_length = query.shape[2]
    key_length = key.shape[2]
    group_size = query.shape[1] // key.shape[1]
    query = query.double()
    key = key.double().repeat_interleave(group_size, dim=1)
    value = value.double().repeat_interleave(group_size, dim=1)
    bias = bias.double()
    if bias.ndim == 3:
        bias = bias[None]  # [1, heads, query, key]

    if causal:
        query_positions = torch.arange(key_length - query_length, key_length)
        is_future = torch.arange(key_length) > query_positions[:, None]
        bias = bias.masked_fill(is_future, -math.inf)
    if is_real is not None:
        bias = bias.masked_fill(~is_real[:, None, None], -math.inf)
    if scale is not None:  # in place of 1 / sqrt(head_dim)
        query = query * scale * math.sqrt(query.shape[-1])
    return minimal.attention(query, key, value, bias)
