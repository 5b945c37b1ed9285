"""How far back a head has to look: beyond its window, all keys together weigh less than rounding.

The weight of a key falls by exp(-m) with each step back, while its content q . k is at most |q| |k| (Cauchy-Schwarz).
For a query, let c be that upper bound of the content of any key, and s the mean content of the n keys before a group of
neighboring queries. Relative to all weights of the query, the keys more than w steps back weigh at most

    far    exp(c - m w) / (1 - exp(-m))                a geometric series, whatever the length
    near   n exp(s - m (mean distance of the n keys))  at most the sum of all weights (Jensen's inequality)

so far / near <= tolerance gives w. It depends on the slope and on the call's own queries and keys, and costs time
proportional to the length. In the symmetric form, the keys on each side may weigh half the tolerance. There the first
queries, which have no n keys before them, are compared with the keys of their own group.

Adding a vector to all keys does not change attention. Measuring keys from their mean makes c smaller.
"""

import math
from itertools import groupby

import torch
from torch import Tensor
from torch.nn.functional import pad

from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.attention.key_statistics import ROUNDING, KeyStatistics
from alibi_viz.attention.tiles import blocks

__all__ = ["key_windows", "needed_windows", "share_left_out", "window_tensor"]

_MOST_NEAR_KEYS = 256  # n is about 1 / m, at most this


def key_windows(inputs: AttentionInputs) -> tuple[int, ...]:
    """The window of each head: how many steps away its queries have to look, at most the key length.

    For each query, the keys beyond it weigh less than the tolerance of the inputs, as a share of all weights.
    """
    return tuple(window_tensor(inputs).tolist())


@torch.no_grad()
def window_tensor(inputs: AttentionInputs) -> Tensor:
    """`key_windows` as int64 [heads] on the device of the query. A GPU is waited for once, to read the slopes."""
    query, key, length = inputs.query, inputs.key, inputs.key_length
    full = torch.full((query.shape[1],), length, device=query.device)
    if inputs.slopes is None or not query.numel() or not key.numel():
        return full
    statistics = inputs.statistics()
    log_tolerance = math.log(torch.finfo(query.dtype).eps / 2 if inputs.tolerance is None else inputs.tolerance)
    log_tolerance -= 0 if inputs.causal else math.log(2)  # keys on both sides
    slopes, group_size = inputs.slopes.tolist(), inputs.group_size

    def similar(head: int) -> tuple[int, int, int]:
        """Heads with equal results share a call; with more than one query, that would take too much memory."""
        slope = slopes[head]
        if not slope * length > -log_tolerance:  # the content can only widen the window
            return 0, 0, 0
        near = min(2 ** max(0, round(-math.log2(slope))), _MOST_NEAR_KEYS)  # within 1 / m the bias is still small
        return near, head // group_size if group_size > 1 else 0, head if inputs.query_length > 1 else 0

    for (near, _, _), group in groupby(range(len(slopes)), key=similar):
        if not near:
            continue
        chosen = list(group)
        heads, key_heads = (slice(chosen[0] // size, chosen[-1] // size + 1) for size in (1, group_size))
        ball = KeyStatistics(statistics.center[:, key_heads], statistics.radius[:, key_heads])
        slope = inputs.slopes[heads].double()
        tensors = query[:, heads], key[:, key_heads], ball, slope
        bound = _bound(*tensors, near=near, scale=inputs.scaling, causal=inputs.causal)
        if bound is not None:
            least, log_share = bound
            found = ((log_share - log_tolerance) / slope).clamp(min=least).ceil()
            full[heads] = torch.where(found < length, found, length).long()  # also for NaN
    return full


def _bound(
    query: Tensor, key: Tensor, ball: KeyStatistics, slope: Tensor, *, near: int, scale: float, causal: bool
) -> tuple[int, Tensor] | None:
    """(least, log_share): beyond a window w >= least, each side has at most exp(log_share - slope w) of the weight.

    For heads with positive slopes, float64 [heads], which are compared with `near` keys. The query is [batch, heads,
    length, head_dim], the key has as many heads or one, and log_share is [heads]. None if there are too few keys.
    """
    query_length, key_length = query.shape[2], key.shape[2]
    before = key_length - query_length  # keys before the first query
    skipped = 0 if before >= near else near  # queries without enough keys before them
    if skipped >= query_length:
        return None
    groups = -(-(query_length - skipped) // near)
    padded = query
    if missing := skipped + groups * near - query_length:
        padded = pad(query, (0, 0, 0, missing))  # zeros have the smallest bound of all
    steps = torch.arange(near, dtype=ball.center.dtype, device=query.device)  # from the group's first query
    far = _excess(padded, key, ball, scale, (skipped, before + skipped - near, near, groups))
    far += slope.to(far.dtype) * steps[:, None]
    # The mean distance of the keys from the first query of their group is (near + 1) / 2.
    log_share = far.amax((0, 1, 2)).double() + slope * (near + 1) / 2
    if skipped and not causal:  # compare the first queries with the keys of their own group, on average nearer
        far = _excess(query, key, ball, scale, (0, before, near, 1))
        log_share = log_share.maximum(far.amax((0, 1, 2)).double() + slope * (near - 1) / 2)
    least = before + skipped if skipped else 0
    return least, log_share - math.log(near) - (-torch.expm1(-slope)).log()


def _excess(query: Tensor, key: Tensor, ball: KeyStatistics, scale: float, groups: tuple[int, int, int, int]) -> Tensor:
    """How much more content any key can have than the mean of the near keys: [batch, groups, near, heads].

    `groups` holds the first query, the first near key, the size of a group of either, and the number of groups.
    """
    first_query, first_key, near, count = groups
    dtype = ball.center.dtype
    center = ball.center.transpose(1, 2)[:, None]  # [batch, 1, 1, heads, head_dim], as the next two
    grouped = blocks(query.transpose(1, 2), first_query, near, near, count).to(dtype)
    mean = blocks(key.transpose(1, 2), first_key, near, near, count).mean(2, keepdim=True, dtype=dtype)
    largest = grouped.norm(dim=-1) * ball.radius[:, None, None] * (abs(scale) * (1 + ROUNDING))
    mean_content = (grouped * (mean - center)).sum(-1) * scale  # autocast would round a dot product
    return largest - mean_content


def share_left_out(inputs: AttentionInputs, windows: tuple[int, ...]) -> float:
    """The share of the visible pairs of query and key that lie outside the windows."""
    last = torch.arange(inputs.key_length - inputs.query_length, inputs.key_length)[:, None]  # position of each query
    window = torch.tensor(windows)
    seen = torch.minimum(last, window) + 1
    visible = (last + 1).expand_as(seen)
    if not inputs.causal:
        after = inputs.key_length - 1 - last
        seen, visible = seen + torch.minimum(after, window), visible + after
    return 1 - float(seen.sum()) / max(float(visible.sum()), 1.0)


def needed_windows(weights: Tensor, tolerance: float) -> tuple[int, ...]:
    """The smallest window of each head beyond which every query has at most `tolerance` of its weight.

    weights: [batch, heads, query, key]; the queries are the last of the keys.
    """
    if not weights.numel():
        return (0,) * weights.shape[1]
    query_length, key_length = weights.shape[-2:]
    sums = pad(weights.double().cumsum(-1), (1, 0))  # [..., k] is the weight of the first k keys
    position = torch.arange(key_length - query_length, key_length, device=weights.device)

    def beyond(window: Tensor) -> Tensor:
        """[heads]: the largest weight of a query more than `window` [heads] steps away."""
        first = (position - window[:, None]).clamp(min=0)  # [heads, query]
        end = (position + window[:, None] + 1).clamp(max=key_length)
        index = torch.stack((first, end), -1).expand(*weights.shape[:3], 2)
        before, until = sums.gather(-1, index).unbind(-1)
        return (before + sums[..., -1] - until).amax((0, 2))

    low = torch.zeros(weights.shape[1], dtype=torch.long, device=weights.device)
    high = low + key_length
    while bool((low < high).any()):
        middle = (low + high) // 2
        fits = (beyond(middle) <= tolerance) | (low == high)  # NaN never fits
        low, high = torch.where(fits, low, middle + 1), torch.where(fits, middle, high)
    return tuple(low.tolist())
