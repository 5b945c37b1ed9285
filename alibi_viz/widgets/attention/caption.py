"""The caption of the attention figure: which tokens the selected query attends to, and how the bias changes that."""

import torch
from torch import Tensor

from alibi_viz.attention import AttentionTrace
from alibi_viz.figures.tokens import quoted
from alibi_viz.lab.attention_sources import Reading
from alibi_viz.widgets.core.formatting import format_percent, format_slope

__all__ = ["describe"]

NEAR = 3  # tokens at most this far away count as the nearest


def describe(
    reading: Reading, trace: AttentionTrace, other: AttentionTrace, *, head: int, query: int, biased: bool
) -> str:
    """Describe one query in one head, both counted from 0.

    `biased` says whether `trace`, which the figure shows, has the bias; `other` is the same text without it or with it.

    >>> from alibi_viz.lab.attention_sources import Words
    >>> reading = Words().read("a b c a", "equal", num_heads=1, longest=4)
    >>> on, off = (attention_trace(reading.query, reading.key, slopes) for slopes in (torch.ones(1), None))
    >>> describe(reading, on, off, head=0, query=3, biased=True)
    'Head 1 of 1, slope 1/256, bias on. Query 3 “a” gives 64% of its weight to itself; without the bias 25%. The ...'
    """
    name = f"Head {head + 1} of {len(reading.slopes)}, slope {format_slope(reading.slopes[head])}"
    visible = trace.logits[0, head, query].isfinite()  # [key]
    shares = torch.stack([trace.weights[0, head, query], other.weights[0, head, query]])  # [2, key]
    switched = "without the bias" if biased else "with the bias"
    sentences = [f"{name}, bias {'on' if biased else 'off'}."]
    if int(visible.sum()) == 1:
        token = quoted(reading.tokens[query])
        sentences.append(f"Query {query} {token} sees only itself and gives itself all its weight.")
    else:
        sentences.append(_nearest(reading.tokens, query, visible, shares, switched))
        sentences += _equal_token(reading.tokens, query, visible, shares, switched)
    return " ".join([*sentences, reading.note])


def _nearest(tokens: list[str], query: int, visible: Tensor, shares: Tensor, switched: str) -> str:
    """The weight of the nearest tokens, or of the query itself if it sees no others."""
    distance = (torch.arange(len(tokens)) - query).abs()
    near = visible & (distance <= NEAR)
    if bool((near == visible).all()):
        near = distance == 0
    neighbors = int(near.sum()) - 1
    receivers = f"itself and the {neighbors} nearest tokens" if neighbors else "itself"
    here, there = (format_percent(share[near].sum()) for share in shares)
    return f"Query {query} {quoted(tokens[query])} gives {here} of its weight to {receivers}; {switched} {there}."


def _equal_token(tokens: list[str], query: int, visible: Tensor, shares: Tensor, switched: str) -> list[str]:
    """The weight of the farthest token that equals the query's, if there is one."""
    equal = [key for key, token in enumerate(tokens) if visible[key] and key != query and token == tokens[query]]
    if not equal:
        return []
    far = max(equal, key=lambda key: abs(key - query))
    here, there = (format_percent(share[far]) for share in shares)
    return [f"The farthest other {quoted(tokens[far])}, {abs(far - query)} away, gets {here}; {switched} {there}."]
