"""Attention sinks: the first tokens of a text stay visible beside a window.

As in StreamingLLM (Xiao et al. 2023, arXiv 2309.17453, section 3.2), distances skip the tokens
between the sinks and the window: the sinks stand where the tokens right before the window are. With
a window of 3 and one sink, the token at position 5 sees

    key        0  1  2  3  4  5
    distance   3  .  .  2  1  0

>>> import torch
>>> import alibi_viz as av
>>> from alibi_viz.surgery.sinks import move_sinks, visible_keys
>>> bias = av.alibi_bias(torch.tensor([1.0]), 1, 6)
>>> query = torch.tensor([5])
>>> keys = torch.arange(6)
>>> visible_keys(query, keys, window=3, sinks=1)[0]
tensor([[ True, False, False,  True,  True,  True]])
>>> moved = move_sinks(bias, query, keys, window=3, sinks=1)
>>> moved[0]
tensor([[-3., -4., -3., -2., -1.,  0.]])
"""

from typing import Any

import torch
from torch import Tensor


def has_sinks(model: Any) -> bool:
    """Whether a window on one of our models can keep the first tokens.

    It can if positions act only through a bias, and that doesn't read the input.
    """
    position = model.transformer.position
    acts_elsewhere = position.uses("embed") or position.uses("rotate")
    return not acts_elsewhere and not position.reads_input


def visible_keys(queries: Tensor, keys: Tensor, window: int, sinks: int) -> Tensor:
    """Which keys are sinks or less than a window away: bool [..., 1, query, key].

    Args:
        queries: their positions, int64 [..., query].
        keys: their positions, int64 [..., key].
        window: how many keys a query sees on each side, including itself.
        sinks: how many tokens at the start stay visible.
    """
    distance = (queries[..., :, None] - keys[..., None, :]).abs()
    is_near = distance < window
    is_sink = (keys < sinks)[..., None, :]
    return (is_near | is_sink).unsqueeze(-3)


def move_sinks(bias: Tensor, queries: Tensor, keys: Tensor, window: int, sinks: int) -> Tensor:
    """The bias in which each sink has that of the token in whose place it stands.

    The sinks stand right before the window. Where they are already there, or in the window, nothing
    changes.

    Args:
        bias: [..., heads, 1 or query, key].
        queries: their positions, int64 [..., query].
        keys: their positions in increasing order, int64 [..., key].
        window: as for `visible_keys`.
        sinks: likewise.

    Returns the bias with a row per query, [..., heads, query, key].
    """
    every_pair = (*queries.shape[:-1], 1, queries.shape[-1], keys.shape[-1])
    bias = bias.expand(torch.broadcast_shapes(bias.shape, every_pair))

    # Tokens between sinks and window
    skipped = (queries - (window + sinks) + 1).clamp(min=0)
    own_place = torch.arange(min(sinks, keys.shape[-1]), device=keys.device)
    new_place = own_place + skipped[..., None]  # [..., query, sink]

    # The same columns in every head
    of_heads = (*bias.shape[:-1], -1)
    source = columns_of(new_place, keys).unsqueeze(-3).expand(of_heads)
    target = columns_of(own_place.expand(new_place.shape), keys).unsqueeze(-3).expand(of_heads)
    return bias.scatter(-1, target, bias.gather(-1, source))


def columns_of(positions: Tensor, keys: Tensor) -> Tensor:
    """The columns of the tokens at these positions [..., query, any]: int64 of the same shape.

    The positions of the keys are int64 [..., key], in increasing order. Padding makes columns and
    positions differ.
    """
    flat = positions.flatten(-2).contiguous()
    columns = torch.searchsorted(keys, flat).view(positions.shape)
    return columns.clamp(max=keys.shape[-1] - 1)
