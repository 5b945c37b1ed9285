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

Adaptive computation pruning (Lin et al. 2025, arXiv 2504.06949, COLM 2025) does the same for the learned decays of the
forgetting transformer. It skips a pair whose bias is below -(2U + ln L) + ln(tolerance), where L is the length and
U = max |q| max |k| scale. New here, for constant slopes: the series, which replaces ln L; the mean content of the near
keys, which replaces the lower bound -U; and keys measured from their mean. On standard normal queries and keys (8 heads
of 64 channels, 16384 tokens, tolerance 2^-24), the windows by that threshold are 1.6 to 1.7 times as wide as ours.
"""

import math

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
    log_tolerance = math.log(torch.finfo(query.dtype).eps / 2 if inputs.tolerance is None else inputs.tolerance)
    log_tolerance -= 0 if inputs.causal else math.log(2)  # keys on both sides
    near = {
        head: min(2 ** max(0, round(-math.log2(slope))), _MOST_NEAR_KEYS)  # within 1 / m the bias is still small
        for head, slope in enumerate(inputs.slopes.tolist())
        if slope * length > -log_tolerance  # otherwise the content can only widen the window
    }
    if inputs.query_length == 1:
        near = {head: count for head, count in near.items() if count < length}
    if not near:
        return full
    heads, counts = list(near), torch.tensor(list(near.values()), device=query.device)
    statistics, slopes = inputs.statistics(), inputs.slopes[heads].double()
    if inputs.query_length == 1:
        least, excess = torch.zeros_like(counts), _bounds_of_one_query(inputs, statistics, heads, counts)
    else:
        bounds = [_bound(inputs, statistics, head, count) for head, count in near.items()]
        least = torch.tensor([each[0] for each in bounds], device=query.device)
        excess = torch.stack([each[1] for each in bounds])
    log_share = excess - counts.log() - (-torch.expm1(-slopes)).log()  # far / near without the factor exp(-m w)
    found = ((log_share - log_tolerance) / slopes).maximum(least).ceil()
    full[heads] = torch.where(found < length, found, length).long()  # also for NaN
    return full


def _bound(inputs: AttentionInputs, statistics: KeyStatistics, head: int, near: int) -> tuple[int, Tensor]:
    """(least, excess) for a head with a positive slope m: each query is compared with `near` keys.

    For a window w >= least, c - s + m (mean distance) is at most the excess, a number in float64. It is inf if there
    are too few keys.
    """
    assert inputs.slopes is not None
    slope, query = inputs.slopes[head].double(), inputs.query[:, head]
    before = inputs.key_length - inputs.query_length  # keys before the first query
    skipped = 0 if before >= near else near  # queries without enough keys before them
    if skipped >= inputs.query_length:
        return 0, torch.full_like(slope, math.inf)
    groups = -(-(inputs.query_length - skipped) // near)
    padded = query
    if missing := skipped + groups * near - inputs.query_length:
        padded = pad(query, (0, 0, 0, missing))  # zeros have the smallest bound of all
    key_head = head // inputs.group_size
    key, ball = inputs.key[:, key_head], KeyStatistics(*(each[:, key_head] for each in statistics))  # of one head
    far = _excess(padded, key, ball, inputs.scaling, (skipped, before + skipped - near, near, groups))
    far += slope.to(far.dtype) * torch.arange(near, dtype=far.dtype, device=far.device)  # from the group's first query
    # The mean distance of the keys from the first query of their group is (near + 1) / 2.
    excess = far.amax().double() + slope * (near + 1) / 2
    if skipped and not inputs.causal:  # compare the first queries with the keys of their own group, on average nearer
        far = _excess(query, key, ball, inputs.scaling, (0, before, near, 1))
        excess = excess.maximum(far.amax().double() + slope * (near - 1) / 2)
    return before + skipped if skipped else 0, excess


def _excess(query: Tensor, key: Tensor, ball: KeyStatistics, scale: float, groups: tuple[int, int, int, int]) -> Tensor:
    """How much more content any key of a head can have than the mean of the near keys: [batch, groups, near].

    `groups` holds the first query, the first near key, the size of a group of either, and the number of groups.
    """
    first_query, first_key, near, count = groups
    dtype = ball.center.dtype
    grouped = blocks(query, first_query, near, near, count).to(dtype)
    mean = blocks(key, first_key, near, near, count).mean(2, keepdim=True, dtype=dtype)
    largest = grouped.norm(dim=-1) * ball.radius[:, None, None] * (abs(scale) * (1 + ROUNDING))
    mean_content = (grouped * (mean - ball.center[:, None])).sum(-1) * scale  # autocast would round a dot product
    return largest - mean_content


def _bounds_of_one_query(inputs: AttentionInputs, ball: KeyStatistics, heads: list[int], counts: Tensor) -> Tensor:
    """The excess of `_bound` for a single query, float64 [heads], where `counts` tells how many keys are near.

    All heads are bounded together, because a call of `_bound` for each would take longer than reading their keys.
    """
    assert inputs.slopes is not None
    # queries [batch, key_heads, group, 1, head_dim], keys [batch, key_heads, key, head_dim]
    query = inputs.query.to(ball.center.dtype).unflatten(1, (-1, inputs.group_size))
    key = inputs.key[:, :, -1 - _MOST_NEAR_KEYS : -1] - ball.center
    content = (query * key[:, :, None]).sum(-1).flatten(1, 2) * inputs.scaling  # autocast would round a dot product
    sums = content.flip(-1).cumsum(-1)  # of the last 1, 2, ... keys before the query: [batch, heads, key]
    largest = query.norm(dim=-1) * ball.radius[:, :, None, None] * (abs(inputs.scaling) * (1 + ROUNDING))
    far = (largest.flatten(1)[:, heads] - sums[:, heads, counts - 1] / counts).amax(0)
    return far.double() + inputs.slopes[heads].double() * (counts + 1) / 2


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
