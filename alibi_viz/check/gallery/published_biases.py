"""Faulty biases of other systems, reproduced in a few lines each.

A wrong bias raises no error: the model still trains, only worse. Every function takes a number of
heads, queries and keys, and returns a bias that is added to the logits, broadcastable to [heads,
query, key]. See `exhibits.toml`.
"""

import math

import torch
from torch import Tensor

from alibi_viz.bias import alibi_bias, mask_future
from alibi_viz.check.gallery.published_slopes import mlx_2023
from alibi_viz.slopes import alibi_slopes


def ggml_2023(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """m (i + 1), the same for all keys, [heads, query, 1]."""
    slopes = alibi_slopes(num_heads)[:, None, None]
    position = torch.arange(1, query_length + 1)[:, None]
    return slopes * position


def attention_gym_2024(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """m (i - j), [heads, query, key]."""
    slopes = alibi_slopes(num_heads)[:, None, None]
    query = torch.arange(key_length - query_length, key_length)[:, None]
    key = torch.arange(key_length)
    return slopes * (query - key)


def zeta(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """-m j, [heads, 1, key]. The minus sign belongs to a distance, but j counts from the start."""
    return -alibi_bias(alibi_slopes(num_heads), query_length, key_length, form="key")


def megatron_layer_scaling(
    num_heads: int, query_length: int, key_length: int, layer: int = 24
) -> Tensor:
    """layer * m j, [heads, 1, key]: content was divided by the layer's number, and the sum
    multiplied by it again."""
    return layer * alibi_bias(alibi_slopes(num_heads), query_length, key_length, form="key")


def fairseq_mask(
    num_heads: int, query_length: int, key_length: int, tokens_per_sample: int = 256
) -> Tensor:
    """m j plus the causal mask, built once for `tokens_per_sample` tokens and sliced: up to [heads,
    query, key]."""
    bias = alibi_bias(alibi_slopes(num_heads), tokens_per_sample, form="key").expand(
        -1, tokens_per_sample, -1
    )
    return mask_future(bias)[:, :query_length, :key_length]


def bloom_in_bfloat16(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """m j rounded to the eight significant bits of bfloat16, [heads, 1, key].

    In the form -m (i - j), the keys with the largest weights would have small biases, which are
    exact.
    """
    slopes = alibi_slopes(num_heads)[:, None, None]
    position = torch.arange(key_length)
    return (slopes * position).bfloat16()


def x_transformers_2022(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """A cached -m |i - j| sliced [:i, :j], [heads, query, key].

    For one query that is 0, -m, -2m, ...: the newest key gets the largest penalty. Fixed by slicing
    [-i:, -j:].
    """
    position = torch.arange(key_length)
    distance = (position[:, None] - position).abs()
    cached = -alibi_slopes(num_heads)[:, None, None] * distance
    return cached[:, :query_length, :key_length]


def keras_hub_falcon(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """m j for as many positions as there are queries, broadcast over the keys: [heads, query, key].

    With a cache, every step of `generate` added slope * 0 to all keys. Query lengths other than 1
    and the key length raise RuntimeError, as in keras-hub.
    """
    bias = alibi_bias(alibi_slopes(num_heads), query_length, form="key")
    return bias.expand(num_heads, query_length, key_length)


def step_audio(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """-m sqrt(i - j), [heads, query, key]; its authors set the future to -inf."""
    slopes = alibi_slopes(num_heads)[:, None, None]
    query = torch.arange(key_length - query_length, key_length)[:, None]
    distance = (query - torch.arange(key_length)).clamp(min=0)
    return -slopes * distance.sqrt()


def flash_bias_2025(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """m i - m j as a product of two factors in float16, [heads, query, key].

    The slopes m are 256^(-h/H). From 2048 on, float16 has no odd numbers, so neighboring keys share
    a bias.
    """
    slopes = torch.tensor(mlx_2023(num_heads))[:, None]
    query = torch.arange(key_length - query_length, key_length).expand(num_heads, -1)
    key = torch.arange(float(key_length))
    query_factor = torch.stack([slopes.expand_as(query), slopes * query], dim=-1).half()
    key_factor = torch.stack([-key, torch.ones_like(key)]).half()
    return query_factor.float() @ key_factor.float()


def transformer_lens(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """A cached -m (i - j) with slopes m of 256^(-h/H), sliced [-i:, :j]: [heads, query, key].

    After a longer text, here of twice the length, the slice has the rows of later queries. Under
    the causal mask that changes each row by a constant only, so the cache does no harm.
    """
    position = torch.arange(2 * key_length)
    distance = (position[:, None] - position).clamp(min=0)
    cached = -torch.tensor(mlx_2023(num_heads))[:, None, None] * distance
    return cached[:, -query_length:, :key_length]


def xformers_pattern(
    num_heads: int, query_length: int, key_length: int, threshold: float = 1.0
) -> Tensor:
    """0 where m j < threshold, otherwise -inf: [heads, 1, key]. m j counts from the start of the
    text."""
    bias = alibi_bias(alibi_slopes(num_heads), query_length, key_length, form="key")
    return torch.zeros_like(bias).masked_fill(bias >= threshold, -math.inf)


def faceformer(num_heads: int, query_length: int, key_length: int, period: int = 25) -> Tensor:
    """-m floor((i - j) / period): one step of the bias for each period of the video."""
    query = torch.arange(key_length - query_length, key_length)[:, None]
    periods = (query - torch.arange(key_length)).abs() // period
    return -alibi_slopes(num_heads)[:, None, None] * periods
