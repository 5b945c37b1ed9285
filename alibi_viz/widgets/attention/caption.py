"""What an attention picture shows, in words: whom the chosen query looks at, and how the bias changes that."""

from fractions import Fraction

import torch
from torch import Tensor

from alibi_viz.attention import AttentionTrace
from alibi_viz.figures.tokens import quoted
from alibi_viz.lab.attention_sources import Reading

__all__ = ["describe", "in_percent", "slope_in_words"]

NEAR = 3  # "the nearest tokens" are at most this far away


def describe(
    reading: Reading, trace: AttentionTrace, other: AttentionTrace, *, head: int, query: int, biased: bool
) -> str:
    """The caption of one query in one head.

    Args:
        reading: the tokens, the slopes and where the content comes from.
        trace: what is shown, batch 1.
        other: the same with the bias switched the other way.
        head, query: counted from 0.
        biased: whether `trace` is the one with the bias.

    >>> from alibi_viz.lab.attention_sources import Words
    >>> reading = Words().read("a b c a", "equal", num_heads=1, longest=4)
    >>> on, off = (attention_trace(reading.query, reading.key, slopes) for slopes in (torch.ones(1), None))
    >>> describe(reading, on, off, head=0, query=3, biased=True)
    'Head 1 of 1, slope 1/256, bias on. Query 3 “a” gives 64% of its weight to itself; without the bias 25%. The ...'
    """
    name = f"Head {head + 1} of {len(reading.slopes)}, slope {slope_in_words(float(reading.slopes[head]))}"
    seen = trace.logits[0, head, query].isfinite()  # [key]
    shares = torch.stack([trace.weights[0, head, query], other.weights[0, head, query]])  # [2, key]
    switched = "without the bias" if biased else "with the bias"
    words = [f"{name}, bias {'on' if biased else 'off'}."]
    if int(seen.sum()) == 1:
        words.append(f"Query {query} {quoted(reading.tokens[query])} sees only itself and gives itself all its weight.")
    else:
        words.append(_near(reading.tokens, query, seen, shares, switched))
        words += _same(reading.tokens, query, seen, shares, switched)
    words.append(reading.note)
    if reading.total > len(reading.tokens):
        words.append(f"The text has {reading.total:,} tokens; the first {len(reading.tokens)} are shown.")
    return " ".join(words)


def _near(tokens: list[str], query: int, seen: Tensor, shares: Tensor, switched: str) -> str:
    """How much of the weight stays near; of the query alone where it sees nothing farther away."""
    distance = (torch.arange(len(tokens)) - query).abs()
    near = seen & (distance <= NEAR)
    if bool((near == seen).all()):
        near = distance == 0
    neighbours = int(near.sum()) - 1
    whom = f"itself and the {neighbours} nearest tokens" if neighbours else "itself"
    now, then = (in_percent(share[near].sum()) for share in shares)
    return f"Query {query} {quoted(tokens[query])} gives {now} of its weight to {whom}; {switched} {then}."


def _same(tokens: list[str], query: int, seen: Tensor, shares: Tensor, switched: str) -> list[str]:
    """What is left for the farthest equal token, if there is one."""
    same = [key for key, token in enumerate(tokens) if seen[key] and key != query and token == tokens[query]]
    if not same:
        return []
    far = max(same, key=lambda key: abs(key - query))
    now, then = (in_percent(share[far]) for share in shares)
    return [
        f"The other {quoted(tokens[far])} farthest from it, {abs(far - query)} away, gets {now}; {switched} {then}."
    ]


def in_percent(share: Tensor) -> str:
    """Two digits, which is what the eye can compare.

    >>> in_percent(torch.tensor(0.0312)), in_percent(torch.tensor(0.625)), in_percent(torch.tensor(1e-9))
    ('3.1%', '62%', 'under 0.1%')
    """
    value = 100 * float(share)
    if value < 0.1:
        return "0%" if value == 0 else "under 0.1%"
    return f"{value:.0f}%" if value >= 9.95 else f"{value:.1f}%"


def slope_in_words(slope: float) -> str:
    """A power of two as a fraction, as the paper writes it; three digits otherwise.

    >>> slope_in_words(0.125), slope_in_words(2**-0.5)
    ('1/8', '0.707')
    """
    fraction = Fraction(slope)
    return str(fraction) if fraction.numerator == 1 else f"{slope:.3g}"
