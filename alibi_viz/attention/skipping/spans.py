"""How far back a head has to look: beyond its attention span, all keys together weigh less than
rounding.

A key d steps back has the weight exp(content - m d), and its content q . k is at most |q| |k|
(Cauchy-Schwarz). Take n neighboring queries, and the n keys before them. For the query r steps
after the first of them, let

    c    the largest content that any key can have
    s    the mean content of the n keys, whose mean distance is r + (n + 1) / 2
    far  all keys more than w steps back  <=  exp(c - m w) / (1 - exp(-m))      a geometric series, at any length
    all  the sum of all weights  >=  n exp(s - m (r + (n + 1) / 2))             Jensen's inequality, the n keys alone

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

_MOST_NEAR_KEYS = 256  # n is about 1 / m, at most this; speed only


@torch.no_grad()
def attention_spans(inputs: AttentionInputs) -> Tensor:
    """How many steps away the queries of each head have to look, at most the key length: int64
    [heads]."""
    query, length = inputs.query, inputs.key_length
    spans = torch.full((query.shape[1],), length, device=query.device)
    if inputs.slopes is None or not query.numel():
        return spans
    tolerance = torch.finfo(query.dtype).eps / 2 if inputs.tolerance is None else inputs.tolerance
    log_t = math.log(tolerance) - (0 if inputs.causal else math.log(2))  # keys on both sides
    near_keys = {
        head: min(
            2 ** max(0, round(-math.log2(m))), _MOST_NEAR_KEYS
        )  # within 1 / m the bias is still small
        for head, m in enumerate(inputs.slopes.tolist())  # a GPU waits here, once
        if m * length > -log_t  # otherwise the content can only widen the span
    }
    if not near_keys:
        return spans
    heads, ball = [*near_keys], inputs.ball()
    m, n = inputs.slopes[heads].double(), torch.tensor([*near_keys.values()], device=query.device)
    if inputs.query_length == 1:
        excess = _excess_of_one_query(inputs, ball, heads, m, n)
    else:
        excess = torch.stack(
            [_excess(inputs, ball, head, count) for head, count in near_keys.items()]
        )
    before = length - inputs.query_length  # keys before the first query
    least = torch.where(
        n > before, before + n, 0
    )  # the first queries, with fewer than n keys before them, see all
    w = ((excess - n.log() - (-torch.expm1(-m)).log() - log_t) / m).maximum(least).ceil()
    spans[heads] = torch.where(w < length, w, length).long()  # also for NaN
    return spans


def _excess(inputs: AttentionInputs, ball: KeyBall, head: int, n: int) -> Tensor:
    """max(excess) of the queries with n keys before them, in float64; inf if there are none."""
    assert inputs.slopes is not None
    m, query = inputs.slopes[head].double(), inputs.query[:, head]
    key, center, radius = (t[:, head // inputs.group_size] for t in (inputs.key, *ball))
    before = inputs.key_length - inputs.query_length
    first = 0 if before >= n else n  # the first query with n keys before it, or a later one
    if first >= inputs.query_length:
        return torch.full_like(m, math.inf)
    groups = -(-(inputs.query_length - first) // n)
    r = torch.arange(n, dtype=center.dtype, device=center.device)

    def largest(query: Tensor, first_query: int, first_key: int, groups: int) -> Tensor:
        """max(c - s + m r) for groups of n queries, and n keys for each."""
        grouped = blocks(query, first_query, n, n, groups).to(
            center.dtype
        )  # [batch, groups, n, head_dim]
        near = blocks(key, first_key, n, n, groups).mean(2, keepdim=True, dtype=center.dtype)
        c_minus_s = _c_minus_s(
            grouped, near, center[:, None], radius[:, None, None], inputs.scaling
        )
        return (c_minus_s + m.to(r.dtype) * r).amax().double()

    missing = first + groups * n - inputs.query_length
    padded = (
        pad(query, (0, 0, 0, missing)) if missing else query
    )  # for a query of zeros, c - s is 0, the least
    excess = largest(padded, first, before + first - n, groups) + m * (n + 1) / 2
    if (
        first and not inputs.causal
    ):  # compare the first queries with the keys of their own group, on average nearer
        excess = excess.maximum(largest(query, 0, before, 1) + m * (n - 1) / 2)
    return excess


def _excess_of_one_query(
    inputs: AttentionInputs, ball: KeyBall, heads: list[int], m: Tensor, n: Tensor
) -> Tensor:
    """max(excess) for a single query, float64 [heads]; a call of `_excess` per head would be slower
    than attention."""
    dtype, counts = ball.center.dtype, n.tolist()
    key_heads = [head // inputs.group_size for head in heads]
    means = {count: inputs.key[:, :, -1 - count : -1].mean(2, dtype=dtype) for count in {*counts}}
    near = torch.stack(
        [means[count][:, head] for count, head in zip(counts, key_heads, strict=True)], dim=1
    )
    query, center = (
        inputs.query[:, heads, 0].to(dtype),
        ball.center[:, key_heads, 0],
    )  # [batch, heads, head_dim]
    c_minus_s = _c_minus_s(query, near, center, ball.radius[:, key_heads], inputs.scaling)
    return c_minus_s.amax(0).double() + m * (n + 1) / 2  # r is 0


def _c_minus_s(query: Tensor, near: Tensor, center: Tensor, radius: Tensor, scale: float) -> Tensor:
    """c - s [...] for queries [..., head_dim], the mean of their near keys, and a ball around all
    keys."""
    c = query.norm(dim=-1) * radius * (abs(scale) * (1 + ROUNDING))
    s = (query * (near - center)).sum(-1) * scale  # autocast would round a dot product
    return c - s


def share_left_out(inputs: AttentionInputs, spans: Sequence[int]) -> float:
    """The share of the visible pairs of query and key that lie outside the spans."""
    position = torch.arange(inputs.key_length - inputs.query_length, inputs.key_length)[:, None]
    sides = torch.stack(
        (position, inputs.key_length - 1 - position)[: 1 if inputs.causal else 2]
    )  # keys on each side
    own = len(position) * len(spans)
    seen = own + int(torch.minimum(sides, torch.tensor(spans)).sum())
    return 1 - seen / max(own + len(spans) * int(sides.sum()), 1)
