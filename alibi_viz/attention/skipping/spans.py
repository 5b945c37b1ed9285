"""How far back a head has to look so that all keys beyond weigh less than rounding.

A key d steps back has the weight exp(content - m d), and its content q . k is at most |q| |k|
(Cauchy-Schwarz). Take n neighboring queries, and the n keys before them. For the query r steps
after the first of them, let

    c    the largest content that any key can have
    s    the mean content of the n keys, whose mean distance is r + (n + 1) / 2
    far  all keys over w steps back  <=  exp(c - m w) / (1 - exp(-m))   geometric series, any length
    all  the sum of all weights  >=  n exp(s - m (r + (n + 1) / 2))     Jensen, the n keys alone

The share of the far keys is far / all, and with excess = c - s + m (r + (n + 1) / 2) it is at most
t for every query if

    w  >=  (max(excess) - ln n - ln(1 - exp(-m)) - ln t) / m

This w, the head's attention span, depends on the slope and on the call's own queries and keys, and
takes time proportional to the length. In the symmetric form, the keys on each side may weigh t / 2.
Adding a vector to all keys does not change attention, so keys are measured from the center of a
ball around them, which makes c smaller.

Adaptive computation pruning (Lin et al. 2025, arXiv 2504.06949, COLM 2025) does the same for
learned decays. It skips a pair whose bias is below -(2U + ln L) + ln(tolerance), where L is the
length and U = max |q| max |k| scale. New here, for constant slopes: the series, which replaces ln
L; the mean content of the near keys, which replaces the lower bound -U; and keys measured from
their mean. On standard normal queries and keys (8 heads of 64 channels, 16384 tokens, tolerance
2^-24), the spans by that threshold are 1.6 to 1.7 times as wide as ours.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from alibi_viz.attention.inputs import ROUNDING, AttentionInputs, KeyBall
from alibi_viz.attention.skipping.tiles import blocks

# n, the number of near keys, is about 1 / m, and at most this. Any n gives a valid span.
_MOST_NEAR_KEYS = 256


@torch.no_grad()
def attention_spans(inputs: AttentionInputs) -> Tensor:
    """How many steps away the queries of each head have to look: int64 [heads].

    A span is at most the key length, which means that the head reads all keys.
    """
    query = inputs.query
    length = inputs.key_length
    spans = torch.full((query.shape[1],), length, device=query.device)
    if inputs.slopes is None or not query.numel():
        return spans

    tolerance = inputs.tolerance
    if tolerance is None:
        tolerance = torch.finfo(query.dtype).eps / 2
    log_t = math.log(tolerance)
    if not inputs.causal:  # keys on both sides share the tolerance
        log_t -= math.log(2)

    near_keys = _near_keys(inputs.slopes, length, log_t)
    if not near_keys:
        return spans
    heads = list(near_keys)
    m = inputs.slopes[heads].double()
    n = torch.tensor(list(near_keys.values()), device=query.device)
    ball = inputs.ball()
    if inputs.query_length == 1:
        # All heads at once: one by one would be slower than attention.
        excess = _excess_of_one_query(inputs, ball, near_keys)
    else:
        # One by one, because the groups of each have another size.
        by_head = [_excess_of_groups(inputs, ball, head, n) for head, n in near_keys.items()]
        excess = torch.cat(by_head)
    w = (excess - n.log() - (-torch.expm1(-m)).log() - log_t) / m

    # The bound is for queries with n keys before them. The first queries, which have fewer, see
    # all of theirs.
    before = length - inputs.query_length  # keys before the first query
    w = w.maximum(torch.where(n > before, before + n, 0)).ceil()
    # NaN is not below the length, so a head whose bound is NaN reads all keys.
    spans[heads] = torch.where(w < length, w, length).long()
    return spans


def _near_keys(slopes: Tensor, length: int, log_t: float) -> dict[int, int]:
    """The number n of near keys for each head that may leave out keys: {head: n}."""
    near_keys = {}
    for head, m in enumerate(slopes.tolist()):  # a GPU waits here, once
        # For a flatter head, even keys of equal content need the whole length.
        if m * length > -log_t:
            power_of_two = 2 ** max(0, round(-math.log2(m)))  # within 1 / m the bias is small
            near_keys[head] = min(power_of_two, _MOST_NEAR_KEYS)
    return near_keys


def _excess_of_groups(inputs: AttentionInputs, ball: KeyBall, head: int, n: int) -> Tensor:
    """max(excess) of a head's queries with n keys before them, float64 [1]; inf if none has.

    The queries are in groups of n. All queries of a group have the same near keys, those before it.
    """
    assert inputs.slopes is not None
    m = inputs.slopes[[head]].double()
    before = inputs.key_length - inputs.query_length  # keys before the first query
    first = 0 if before >= n else n  # a query with n keys before it
    if first >= inputs.query_length:
        return torch.full_like(m, math.inf)

    query = inputs.query[:, head]
    key = inputs.key[:, head // inputs.group_size]
    ball = _ball_of(inputs, ball, [head])
    dtype = ball.center.dtype
    r = torch.arange(n, dtype=dtype, device=query.device)

    def near_keys(first_key: int, groups: int) -> Tensor:
        """The mean of the near keys of each group, [batch, 1, groups, 1, head_dim]."""
        return blocks(key, first_key, n, n, groups).mean(2, keepdim=True, dtype=dtype)[:, None]

    groups = -(-(inputs.query_length - first) // n)  # rounded up
    missing = first + groups * n - inputs.query_length
    padded = query
    if missing:  # a query of zeros has c - s = 0, the least possible
        padded = pad(query, (0, 0, 0, missing))
    excess = _largest_excess(
        queries=blocks(padded, first, n, n, groups)[:, None],
        near=near_keys(before + first - n, groups),
        ball=ball,
        m=m,
        r=r,
        distance_at_0=(n + 1) / 2,
        scale=inputs.scaling,
    )
    if first == 0 or inputs.causal:
        return excess

    # The first queries look ahead, to the keys of their own group, which are nearer on average.
    ahead = _largest_excess(
        queries=blocks(query, 0, n, n, 1)[:, None],
        near=near_keys(before, 1),
        ball=ball,
        m=m,
        r=r,
        distance_at_0=(n - 1) / 2,
        scale=inputs.scaling,
    )
    return excess.maximum(ahead)


def _excess_of_one_query(
    inputs: AttentionInputs, ball: KeyBall, near_keys: dict[int, int]
) -> Tensor:
    """max(excess) of a single query, which is a group of one: float64 [heads]."""
    assert inputs.slopes is not None
    heads = list(near_keys)
    counts = list(near_keys.values())
    m = inputs.slopes[heads].double()
    n = torch.tensor(counts, device=m.device)
    dtype = ball.center.dtype

    # The means of the last 1, 2, 4, ... keys before the query, as needed
    means = {}
    for count in set(counts):
        means[count] = inputs.key[:, :, -1 - count : -1].mean(2, dtype=dtype)
    near = []
    for head, count in near_keys.items():
        near.append(means[count][:, head // inputs.group_size])
    near_of_heads = torch.stack(near, dim=1)  # [batch, heads, head_dim]

    query = inputs.query[:, heads]  # [batch, heads, 1, head_dim]
    r = torch.zeros(1, dtype=dtype, device=query.device)
    return _largest_excess(
        queries=query[:, :, None],
        near=near_of_heads[:, :, None, None],
        ball=_ball_of(inputs, ball, heads),
        m=m,
        r=r,
        distance_at_0=(n + 1) / 2,
        scale=inputs.scaling,
    )


def _ball_of(inputs: AttentionInputs, ball: KeyBall, heads: list[int]) -> KeyBall:
    """The ball around the keys that each of some heads reads."""
    key_heads = [head // inputs.group_size for head in heads]
    return KeyBall(ball.center[:, key_heads], ball.radius[:, key_heads])


def _largest_excess(
    *,
    queries: Tensor,
    near: Tensor,
    ball: KeyBall,
    m: Tensor,
    r: Tensor,
    distance_at_0: Tensor | float,
    scale: float,
) -> Tensor:
    """max(c - s + m (r + distance_at_0)) of each head, float64 [heads].

    Args:
        queries: [batch, heads, groups, row, head_dim].
        near: the mean of the near keys of each group, [batch, heads, groups, 1, head_dim].
        ball: around the keys of each head.
        m: the slopes, float64 [heads].
        r: how many steps each query is after the first of its group, [row].
        distance_at_0: the mean distance of the near keys for r = 0, of each head or of all.
        scale: the factor of q . k.
    """
    center = ball.center[:, :, None]  # [batch, heads, 1, 1, head_dim]
    radius = ball.radius[:, :, None, None]  # [batch, heads, 1, 1]
    queries = queries.to(center.dtype)
    c = queries.norm(dim=-1) * radius * (abs(scale) * (1 + ROUNDING))
    # Autocast would round a dot product.
    s = (queries * (near - center)).sum(-1) * scale
    m_times_r = m.to(center.dtype)[:, None, None] * r
    largest = (c - s + m_times_r).amax((0, 2, 3)).double()
    return largest + m * distance_at_0


def share_left_out(inputs: AttentionInputs, spans: Sequence[int]) -> float:
    """The share of the visible pairs of query and key that lie outside the spans."""
    queries = inputs.query_length
    before = inputs.key_length - queries  # keys before the first query
    # Each query has so many keys before it and, if it sees them, after it.
    sides = [range(before, inputs.key_length)]
    if not inputs.causal:
        sides.append(range(queries))

    own_tokens = queries * len(spans)
    visible = own_tokens
    within_spans = own_tokens
    for side in sides:
        visible += len(spans) * _sum_up_to(side, inputs.key_length)
        within_spans += sum(_sum_up_to(side, span) for span in spans)
    return 1 - within_spans / max(visible, 1)


def _sum_up_to(numbers: range, most: int) -> int:
    """The sum of min(number, most) over consecutive numbers."""
    # Those up to `most`, in pairs of the first and the last, and the rest
    small = range(numbers.start, max(numbers.start, min(numbers.stop, most)))
    sum_of_small = (small.start + small.stop - 1) * len(small) // 2
    return sum_of_small + most * (len(numbers) - len(small))
