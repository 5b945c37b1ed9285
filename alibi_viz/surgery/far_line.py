"""A line of your own slope in place of the bias beyond the training length L.

Keys at a distance of L or more were never seen in training. Their bias continues from that of
distance L - 1 by a line, which says how much they can take part:

    bias'(d) = bias(L - 1) - slope * (d - (L - 1))    for d >= L

A slope of 0 makes ALiBi's line flat there. A positive one acts as a brake on methods without a
bias, such as rotary positions.

>>> import torch
>>> import alibi_viz as av
>>> from alibi_viz.surgery.far_line import draw_far_line
>>> bias = av.alibi_bias(torch.tensor([1.0]), 1, 6)
>>> bias[0].int()
tensor([[-5, -4, -3, -2, -1,  0]], dtype=torch.int32)
>>> query = torch.tensor([5])
>>> keys = torch.arange(6)
>>> draw_far_line(bias, query, keys, slopes=(0.0,), trained_length=3)[0].int()
tensor([[-2, -2, -2, -2, -1,  0]], dtype=torch.int32)
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from alibi_viz.surgery.sinks import columns_of


def draw_far_line(
    bias: Tensor, queries: Tensor, keys: Tensor, slopes: Sequence[float], trained_length: int
) -> Tensor:
    """The bias with a line from distance L - 1 on, which is at L - 1 where the bias was.

    Keys that the bias hides stay hidden.

    Args:
        bias: [..., heads, 1 or query, key]. With a head axis of 1, it is that of every head.
        queries: their positions, int64 [..., query].
        keys: their positions in increasing order, int64 [..., key].
        slopes: how much the line falls per token, one number per head or one for all.
        trained_length: the training length L.

    Returns [..., heads, query, key].
    """
    distance = queries[..., :, None] - keys[..., None, :]  # negative for later keys
    farthest = trained_length - 1
    # Each key reads its bias at its own place, and beyond L - 1 at the last place on its side.
    read_distance = distance.clamp(-farthest, farthest)
    columns = columns_of(queries[..., :, None] - read_distance, keys).unsqueeze(-3)

    shape = torch.broadcast_shapes(bias.shape, columns.shape)
    read = bias.expand(shape).gather(-1, columns.expand(shape))
    tokens_beyond = (distance - read_distance).abs().unsqueeze(-3)
    slope = torch.tensor(slopes, dtype=bias.dtype, device=bias.device)[:, None, None]
    return torch.where(bias.isinf(), bias, read - slope * tokens_beyond)
