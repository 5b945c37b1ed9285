"""Attention under any law of the distance, step by step, for some of the queries of a text."""

from collections.abc import Sequence

import torch
from torch import Tensor

from alibi_viz.attention import AttentionTrace
from alibi_viz.models.positions.custom import LawFunction, law_class


def law_curve(law: LawFunction, num_heads: int, length: int) -> Tensor:
    """The bias of a law for the distances 0 to length - 1: float32 [heads, length].

    Raises ValueError, naming the law and the value, if the law fails, returns another shape, NaN or inf, or gives
    different values when it is called again.

    >>> from alibi_viz import laws
    >>> law_curve(laws.square_root, num_heads=1, length=5)
    tensor([[ 0.0000, -0.0039, -0.0055, -0.0068, -0.0078]])
    """
    curve = law_class(law.__name__, law)(num_heads).curve(torch.arange(length))
    return curve + 0.0  # -0.0 becomes 0.0


def trace_queries(
    query: Tensor, key: Tensor, curve: Tensor | None, queries: Sequence[int], *, causal: bool
) -> AttentionTrace:
    """Every step of attention for some queries: an `AttentionTrace` of tensors [1, heads, len(queries), tokens].

    A long text needs only the rows that are shown: all of them, for 4,096 tokens and 8 heads, would take 2 GB.

    Args:
        query, key: of the whole text, [1, heads, tokens, head_dim].
        curve: the bias by distance, [heads, tokens] from `law_curve`; None for no bias.
        queries: positions of the queries.
        causal: whether keys after a query are masked. Without a mask, keys on both sides get the bias of |i - j|.

    >>> q = k = torch.zeros(1, 1, 4, 2)
    >>> trace_queries(q, k, -torch.arange(4.0)[None], range(2, 3), causal=True).weights
    tensor([[[[0.0900, 0.2447, 0.6652, 0.0000]]]])
    """
    length, positions = key.shape[2], torch.tensor(queries)
    content = (query[:, :, positions] / query.shape[-1] ** 0.5) @ key.transpose(-2, -1)
    bias = content.new_zeros(1).expand_as(content)
    if curve is not None:  # the bias of a query is a slice of one row of distances length - 1, ..., 0, ..., length - 1
        row = torch.cat((curve.flip(1), curve[:, 1:]), dim=1).to(content.dtype)
        bias = row.unfold(1, length, 1)[None, :, length - 1 - positions]
    logits = content + bias
    if causal:
        after = torch.arange(length) > positions[:, None]  # [query, key]
        logits.masked_fill_(after, float("-inf"))
    return AttentionTrace(content, bias, logits, logits.softmax(-1))
