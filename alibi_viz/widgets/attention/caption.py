"""The caption of the attention figure: which tokens the selected query attends to, and how the bias changes that.

Each function returns sentences. The app shows the first two, and the others as details.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from alibi_viz.figures.attention import bin_size
from alibi_viz.figures.tokens import quoted
from alibi_viz.lab.attention_sources import ShuffleChanges
from alibi_viz.widgets.core.formatting import format_percent

NEAR = 3  # tokens at most this far away count as the nearest
_SAME = 5e-4  # a change below is rounding, and prints as 0.000


def describe(tokens: Sequence[str], query: int, visible: Tensor, shares: Tensor, *, switched: str) -> list[str]:
    """Describe the weights of one query.

    Args:
        tokens: [key].
        query: its position.
        visible: bool [key], the keys that it sees.
        shares: [2, key], its weights as shown, and in the comparison.
        switched: names the comparison, such as "without the bias".

    >>> shares = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]])
    >>> print(*describe(list("abca"), 3, torch.ones(4).bool(), shares, switched="without the bias"), sep="\\n")
    Query 3 “a” gives 40% of its weight to itself; without the bias 25%.
    The farthest other “a”, 3 away, gets 10%; without the bias 25%.
    """
    name = f"Query {query:,} {quoted(tokens[query])}"
    if int(visible.sum()) == 1:
        return [f"{name} sees only itself and gives itself all its weight."]
    distance = (torch.arange(len(tokens)) - query).abs()
    near = visible & (distance <= NEAR)
    if bool((near == visible).all()):  # then the query itself
        near = distance == 0
    neighbors = int(near.sum()) - 1
    receivers = f"itself and the {neighbors} nearest tokens" if neighbors else "itself"
    here, there = (format_percent(share[near].sum()) for share in shares)
    sentences = [f"{name} gives {here} of its weight to {receivers}; {switched} {there}."]
    equal = [key for key, token in enumerate(tokens) if visible[key] and key != query and token == tokens[query]]
    if equal:
        far = max(equal, key=lambda key: abs(key - query))
        here, there = (format_percent(share[far]) for share in shares)
        farthest = f"The farthest other {quoted(tokens[far])}, {abs(far - query):,} away"
        sentences.append(f"{farthest}, gets {here}; {switched} {there}.")
    return sentences


def describe_part(rows: range, length: int) -> list[str]:
    """Say which part of a long text the matrices show, and that the right column shows all of it.

    >>> describe_part(range(10, 58), 4096)[0]
    'The matrices show tokens 10 to 57 of 4,096, around the query; the right column shows all keys, 64 in each bar.'
    """
    if len(rows) == length:
        return []
    bars = f", {bin_size(length)} in each bar" * (bin_size(length) > 1)
    part = f"tokens {rows.start:,} to {rows.stop - 1:,} of {length:,}, around the query"
    return [f"The matrices show {part}; the right column shows all keys{bars}."]


def describe_shuffle(changes: ShuffleChanges | None, *, causal: bool) -> list[str]:
    """Say whether the weights have only moved with the shuffled words, and by how much they have changed if not.

    >>> describe_shuffle(ShuffleChanges(content=0.0, weight=0.0, any_weight=0.0), causal=False)  # doctest: +ELLIPSIS
    ['With the words before the last one shuffled, every query shown gives each token the same weight as in the...']
    """
    start = "With the words before the last one shuffled,"
    if changes is None:
        return [f"{start} the tokens are others, so the weights cannot be compared with those of the original order."]
    content, weight, any_weight = changes
    if max(content, weight) > _SAME:
        cause = "its content is the same, but the bias depends on the distance"
        if content > _SAME:
            cause = f"in this layer, queries and keys depend on the order, and content changes by up to {content:.2f}"
        moved = "and followed to their new places, weights of the last query change by up to"
        return [f"{start} {moved} {weight:.2f}; {cause}."]
    only_last = any_weight > _SAME
    who, difference = ("the last query", weight) if only_last else ("every query shown", any_weight)
    same = f"{who} gives each token the same weight as in the original order, only at another place"
    cause = ", because the mask now hides other words from them" * causal
    others = f"Those of other queries change by up to {any_weight:.2f}{cause}."
    return [f"{start} {same}: the largest difference is {difference:.3f}.", *[others] * only_last]
