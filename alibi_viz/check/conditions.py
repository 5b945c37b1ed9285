"""Say in words what the calls that show a fault have in common, but no other."""

import sys
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

from alibi_viz.check.plan import MEMORY_WORDS, NO_PADDING, NOT_CONTIGUOUS, PADDING_WORDS, Call
from alibi_viz.check.words import alternatives, count

# What calls may have in common: a value, and the words of each value; the likeliest come first
Kind = tuple[Callable[[Call], Any], dict[Any, str]]
KINDS: list[Kind] = [
    (lambda call: call.padding, {NO_PADDING: "no padding", **PADDING_WORDS}),
    (
        lambda call: call.has_cache,
        {True: "fewer queries than keys", False: "as many queries as keys"},
    ),
    (lambda call: call.batch > 1, {True: "several sequences", False: "a batch of one"}),
    (lambda call: call.large, {True: "large content", False: "usual content"}),
    (lambda call: call.after_longer, {True: "calls after longer ones", False: "first calls"}),
]
# ... a number, with its unit and that of several
NUMBERS: list[tuple[Callable[[Call], int], str, str]] = [
    (lambda call: call.probe.query_length, "query", "queries"),
    (lambda call: call.probe.key_length, "key", "keys"),
    (lambda call: call.probe.num_heads, "head", "heads"),
]
# ... and kinds of memory, which change with every call, so that they often differ by chance
MEMORY: list[Kind] = [
    (lambda call: call.is_view, {True: NOT_CONTIGUOUS, False: "contiguous inputs"}),
    (lambda call: call.memory, MEMORY_WORDS),
]
_MOST_COMBINED = 3
_OF_A_RANGE = 1.5  # the cost of a range of numbers
_MOST_NUMBERS = 3  # in words


def with_condition(evidence: str, wrong: Sequence[Call], right: Collection[Call]) -> str:
    """The evidence of a fault, and which calls show it if others don't.

    >>> from alibi_viz.check.conditions import with_condition
    >>> from alibi_viz.check.plan import Call, Probe
    >>> one = Call(Probe(8, 16, 16), batch=1)
    >>> several = Call(Probe(8, 16, 16), batch=3)
    >>> with_condition("head 1 is off", [one], [several])
    'head 1 is off (only with a batch of one)'
    >>> with_condition("head 1 is off", [one, several], [])
    'head 1 is off'
    """
    if not right:
        return evidence
    words = condition(wrong, right)
    if words is None:
        number = f"{len(wrong)} of {len(wrong) + len(right)} calls"
        return f"{evidence} (only in {number}, such as {wrong[0]})"
    return f"{evidence} (only with {words})"


class _Shared(NamedTuple):
    """Something that all wrong calls have in common."""

    words: str
    cost: float  # how many values it names; a range tells less than a value
    includes: Callable[[Call], bool]


def condition(wrong: Sequence[Call], right: Collection[Call]) -> str | None:
    """What the wrong calls have in common, but none of the right ones; None if there is nothing.

    One condition is preferred to two together, and then the fewest values.
    """
    shared = []
    for one in _shared(wrong):
        included = {call for call in right if one.includes(call)}
        if len(included) < len(right):
            shared.append((one, included))
    for number in range(1, _MOST_COMBINED + 1):
        telling = [
            [one for one, _ in some]
            for some in combinations(shared, number)
            if not set.intersection(*(included for _, included in some))
        ]
        if telling:
            cheapest = min(telling, key=lambda some: sum(one.cost for one in some))
            return alternatives([one.words for one in cheapest], "and")
    return None


def _shared(wrong: Sequence[Call]) -> Iterator[_Shared]:
    yield from _shared_kinds(KINDS, wrong)
    for value, unit, units in NUMBERS:
        numbers = sorted({value(call) for call in wrong})
        least, most = numbers[0], numbers[-1]
        if len(numbers) <= _MOST_NUMBERS:
            words = alternatives([*map(str, numbers[:-1]), count(most, unit)])
            yield _Shared(words, len(numbers), partial(_is_among, value, numbers))
        more = range(least, sys.maxsize)
        yield _Shared(f"{least} or more {units}", _OF_A_RANGE, partial(_is_among, value, more))
        fewer = range(most + 1)
        words = f"at most {count(most, unit)}"
        yield _Shared(words, _OF_A_RANGE, partial(_is_among, value, fewer))
    sizes = sorted({call.head_dim for call in wrong})
    words = f"head_dim {alternatives([str(size) for size in sizes])}"
    yield _Shared(words, len(sizes), lambda call: call.head_dim in sizes)
    yield from _shared_kinds(MEMORY, wrong)


def _shared_kinds(table: Sequence[Kind], wrong: Sequence[Call]) -> Iterator[_Shared]:
    for value, words_of in table:
        kinds = {value(call) for call in wrong}
        words = alternatives([words for kind, words in words_of.items() if kind in kinds])
        yield _Shared(words, len(kinds), partial(_is_among, value, kinds))


def _is_among(value: Callable[[Call], Any], values: Container[Any], call: Call) -> bool:
    return value(call) in values
