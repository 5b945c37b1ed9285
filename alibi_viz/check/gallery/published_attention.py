"""Faulty attention functions of other systems: where the bias is added, how often, and to which
heads.

Every function takes query, key and value [batch, heads, length, head_dim] and returns the output in
that shape.
"""

import math

import torch
from torch import Tensor

from alibi_viz.attention import alibi_attention
from alibi_viz.bias import alibi_bias, causal_mask
from alibi_viz.slopes import alibi_slopes


def labml_2021(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax((q . k + m j) / sqrt(head_dim)) v. Fixed in commit 72669d05."""
    query_length, key_length = query.shape[2], key.shape[2]
    bias = alibi_bias(alibi_slopes(query.shape[1]), query_length, key_length)
    logits = (query @ key.mT + bias) / math.sqrt(query.shape[-1])
    visible = causal_mask(query_length, key_length)
    return logits.masked_fill(~visible, -math.inf).softmax(-1) @ value


def jaketae_content(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax(q . k / sqrt(d_model) + m j) v, in the decoder and the encoder."""
    heads, query_length, head_dim = query.shape[1:]
    logits = query @ key.mT / math.sqrt(heads * head_dim)
    logits = logits + alibi_bias(alibi_slopes(heads), query_length, key.shape[2])
    visible = causal_mask(query_length, key.shape[2])
    return logits.masked_fill(~visible, -math.inf).softmax(-1) @ value


def jaketae_encoder(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """m (j - i) without a causal mask (`causal=False`), here with the content scaled correctly."""
    key_position = torch.arange(key.shape[2])
    query_position = key_position[-query.shape[2] :, None]
    bias = -alibi_slopes(query.shape[1])[:, None, None] * (query_position - key_position)
    logits = query @ key.mT / math.sqrt(query.shape[-1]) + bias
    return logits.softmax(-1) @ value


def falcon_eager(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax((q . k + 2 m j) / sqrt(head_dim)) v. `sdpa` adds it once: requesting the weights
    changes them."""
    query_length, key_length = query.shape[2], key.shape[2]
    bias = alibi_bias(alibi_slopes(query.shape[1]), query_length, key_length) / math.sqrt(
        query.shape[-1]
    )
    mask = bias.masked_fill(~causal_mask(query_length, key_length), -math.inf)
    logits = query @ key.mT / math.sqrt(query.shape[-1]) + bias
    return (logits + mask).softmax(-1) @ value


def megatron_2022(query: Tensor, key: Tensor, value: Tensor, devices: int = 2) -> Tensor:
    """Local head l of sequence b gets slope (b * local_heads + l) mod heads, on every device."""
    batch, heads, query_length = query.shape[:3]
    local = heads // devices
    rows = (
        torch.arange(batch * local).view(batch, local).repeat(1, devices) % heads
    )  # [batch, heads]
    bias = alibi_bias(alibi_slopes(heads), query_length, key.shape[2])[
        rows
    ]  # [batch, heads, query, key]
    logits = query @ key.mT / math.sqrt(query.shape[-1]) + bias
    return (
        logits.masked_fill(~causal_mask(query_length, key.shape[2]), -math.inf).softmax(-1) @ value
    )


def falcon(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax((q . k + m j) / sqrt(head_dim)) v, which is right for Falcon's weights: they were
    trained with it."""
    return labml_2021(query, key, value)


def leet_gpu_2026(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax(q . k / sqrt(head_dim) + a (i - j)) v without a causal mask, here with the slope of
    each head as a."""
    distance = torch.arange(query.shape[2])[:, None] - torch.arange(key.shape[2])
    bias = alibi_slopes(query.shape[1])[:, None, None] * distance
    return (query @ key.mT / math.sqrt(query.shape[-1]) + bias).softmax(-1) @ value


def flash_attention_hd256_2026(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Correct attention on tensors whose memory is read as if they were contiguous."""
    read_query, read_key, read_value = (
        torch.as_strided(tensor, tensor.shape, torch.empty(tensor.shape).stride())
        for tensor in (query, key, value)
    )
    return alibi_attention(read_query, read_key, read_value, alibi_slopes(query.shape[1]))


def jax_js_2026(query: Tensor, key: Tensor, value: Tensor, group_size: int = 4) -> Tensor:
    """Correct attention, but the heads take turns on the key heads: 0 1 0 1 instead of 0 0 1 1."""
    in_turn = (1, group_size, 1, 1)
    keys = key[:, ::group_size].repeat(in_turn)
    values = value[:, ::group_size].repeat(in_turn)
    return alibi_attention(query, keys, values, alibi_slopes(query.shape[1]))


def flash_attention_grouped_2023(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """With one query, the four heads of a group are computed as rows of one head."""
    _, heads, queries, _ = query.shape
    slopes = alibi_slopes(heads)
    if queries == 1:
        slopes = slopes[: heads // 4].repeat_interleave(4)
    return alibi_attention(query, key, value, slopes)


def optimum_habana_2024(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The bias of the first head is that of all."""
    heads = query.shape[1]
    slopes = alibi_slopes(heads)[:1].expand(heads)
    return alibi_attention(query, key, value, slopes)
