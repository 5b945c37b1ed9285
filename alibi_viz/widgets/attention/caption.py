"""The caption of the attention figure: which tokens the selected query attends to, and how the bias changes that."""

from collections.abc import Sequence

import torch
from torch import Tensor

from alibi_viz.figures.attention_row import Bins
from alibi_viz.figures.tokens import quoted
from alibi_viz.lab.shuffle import ShuffleChanges
from alibi_viz.widgets.core.formatting import format_percent

__all__ = ["describe", "describe_part", "describe_shuffle"]

NEAR = 3  # tokens at most this far away count as the nearest
_SAME = 5e-4  # a change below is rounding, and prints as 0.000


def describe(tokens: Sequence[str], query: int, visible: Tensor, shares: Tensor, *, switched: str) -> str:
    """Describe the weights of one query.

    Args:
        tokens: [key].
        query: its position.
        visible: bool [key], the keys that it sees.
        shares: [2, key], its weights as shown, and in the comparison.
        switched: names the comparison, such as "without the bias".

    >>> shares = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]])
    >>> describe(list("abca"), 3, torch.ones(4).bool(), shares, switched="without the bias")  # doctest: +ELLIPSIS
    'Query 3 “a” gives 40% of its weight to itself; without the bias 25%. The farthest other “a”, 3 away, gets 10%; ...'
    """
    if int(visible.sum()) == 1:
        return f"Query {query:,} {quoted(tokens[query])} sees only itself and gives itself all its weight."
    nearest = _nearest(tokens, query, visible, shares, switched)
    return " ".join([nearest, *_equal_token(tokens, query, visible, shares, switched)])


def describe_part(rows: range, length: int) -> list[str]:
    """Say which part of a long text the matrices show, and that the right column shows all of it.

    >>> describe_part(range(10, 58), 4096)[0]
    'The matrices show tokens 10 to 57 of 4,096, around the query; the right column shows all keys, 64 in each bar.'
    """
    if len(rows) == length:
        return []
    size = Bins(length).size
    bars = f", {size} in each bar" * (size > 1)
    part = f"tokens {rows.start:,} to {rows.stop - 1:,} of {length:,}, around the query"
    return [f"The matrices show {part}; the right column shows all keys{bars}."]


def describe_shuffle(changes: ShuffleChanges | None, *, causal: bool) -> str:
    """Say whether the weights have only moved with the shuffled words, and by how much they have changed if not.

    >>> describe_shuffle(ShuffleChanges(content=0.0, weight=0.0, any_weight=0.0), causal=False)  # doctest: +ELLIPSIS
    'The words before the last one are shuffled. Every query shown gives each token the same weight as in the...'
    """
    start = "The words before the last one are shuffled."
    if changes is None:
        return f"{start} This gives other tokens, so the weights cannot be compared with those of the original order."
    content, weight, any_weight = changes
    if max(content, weight) > _SAME:
        cause = "; its content is the same, but the bias depends on the distance."
        if content > _SAME:
            cause = (
                f"; in this layer, queries and keys depend on the order, and content changes by up to {content:.2f}."
            )
        return f"{start} Followed to their new places, weights of the last query change by up to {weight:.2f}{cause}"
    if any_weight <= _SAME:
        who, rest = "Every query shown", ""
    else:
        cause = ", because the mask now hides other words from them" * causal
        who, rest = "The last query", f" Those of other queries change by up to {any_weight:.2f}{cause}."
    same = "gives each token the same weight as in the original order, only at another place"
    return f"{start} {who} {same}: the largest difference is {weight if rest else any_weight:.3f}.{rest}"


def _nearest(tokens: Sequence[str], query: int, visible: Tensor, shares: Tensor, switched: str) -> str:
    """The weight of the nearest tokens, or of the query itself if it sees no others."""
    distance = (torch.arange(len(tokens)) - query).abs()
    near = visible & (distance <= NEAR)
    if bool((near == visible).all()):
        near = distance == 0
    neighbors = int(near.sum()) - 1
    receivers = f"itself and the {neighbors} nearest tokens" if neighbors else "itself"
    here, there = (format_percent(share[near].sum()) for share in shares)
    return f"Query {query:,} {quoted(tokens[query])} gives {here} of its weight to {receivers}; {switched} {there}."


def _equal_token(tokens: Sequence[str], query: int, visible: Tensor, shares: Tensor, switched: str) -> list[str]:
    """The weight of the farthest token that equals the query's, if there is one."""
    equal = [key for key, token in enumerate(tokens) if visible[key] and key != query and token == tokens[query]]
    if not equal:
        return []
    far = max(equal, key=lambda key: abs(key - query))
    here, there = (format_percent(share[far]) for share in shares)
    return [f"The farthest other {quoted(tokens[far])}, {abs(far - query):,} away, gets {here}; {switched} {there}."]
