"""Shuffle the words of a text, and measure what that changes for attention.

A dot product doesn't know where a token stands. So without a bias and without a mask, shuffling the words moves the
weights of the first layer together with the words, and changes none of them.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

import regex
from torch import Tensor

from alibi_viz.lab.attention_sources import Reading
from alibi_viz.lab.law_trace import trace_queries

_WORD = regex.compile(r"[^\s\x1c-\x1f]+")  # the words of str.split: \x1c-\x1f are not white space for regex


class ShuffleChanges(NamedTuple):
    """The largest absolute changes that a shuffle causes in one head, once every token is followed to its new place."""

    content: float  # of the last query's content, q . k / sqrt(d)
    weight: float  # of the last query's weights
    any_weight: float  # of the weights of all queries compared


def shuffle_words(text: str, seed: int) -> str:
    """Shuffle all words of a text before the last one; spaces and line breaks stay where they are.

    Words are separated by white space, so punctuation moves with its word. The result differs from `text` unless all
    these words are equal or there is at most one.

    >>> from alibi_viz.lab.shuffle import shuffle_words
    >>> shuffle_words("the cat sat on the mat", seed=1)
    'sat on the the cat mat'
    """
    *words, _ = [match.group() for match in _WORD.finditer(text)] or [""]
    shuffled, generator = list(words), random.Random(seed)
    while shuffled == words and len(set(words)) > 1:
        generator.shuffle(shuffled)
    order = iter(shuffled)
    return _WORD.sub(lambda match: next(order, match.group()), text)


def match_tokens(tokens: Sequence[str], others: Sequence[str]) -> list[int] | None:
    """For each token the position of an equal one among `others`; None if one is not a permutation of the other.

    The first "cat" is matched with the first "cat", the second with the second.

    >>> from alibi_viz.lab.shuffle import match_tokens
    >>> match_tokens(["cat", "the", "cat"], ["the", "cat", "cat"])
    [1, 0, 2]
    """
    if sorted(tokens) != sorted(others):
        return None
    # Stable sorts of two permutations list equal tokens in the same order.
    places = dict(zip(_sorted_places(tokens), _sorted_places(others), strict=True))
    return [places[place] for place in range(len(tokens))]


def _sorted_places(tokens: Sequence[str]) -> list[int]:
    return sorted(range(len(tokens)), key=tokens.__getitem__)


def compare_orders(
    shuffled: Reading, original: Reading, curve: Tensor | None, head: int, queries: Sequence[int], *, causal: bool
) -> ShuffleChanges | None:
    """Compare the weights of a shuffled text with those of the original order; None if their tokens differ.

    Args:
        shuffled, original: the two readings.
        curve: the bias by distance, [heads, tokens] from `law_curve`; None for no bias.
        head: counted from 0.
        queries: positions in the shuffled text to compare, in addition to the last one.
        causal: whether keys after a query are masked.
    """
    source = match_tokens(shuffled.tokens, original.tokens)
    if source is None:
        return None
    positions, bias = [*queries, len(source) - 1], None if curve is None else curve[head : head + 1]
    here, there = (
        trace_queries(reading.query[:, [head]], reading.key[:, [head]], bias, places, causal=causal)
        for reading, places in ((shuffled, positions), (original, [source[at] for at in positions]))
    )
    content, weight = (  # of each query
        (a[0, 0] - b[0, 0][:, source]).abs().amax(-1)
        for a, b in ((here.content, there.content), (here.weights, there.weights))
    )
    return ShuffleChanges(content[-1].item(), weight[-1].item(), weight.max().item())
