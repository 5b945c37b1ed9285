"""Say in words what the calls that show a fault have in common.

To name a further condition of `plan`, add a line to `PROPERTIES`.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from alibi_viz.check.plan import (
    CONTIGUOUS,
    MEMORY_WORDS,
    NO_PADDING,
    NOT_CONTIGUOUS,
    PADDING_WORDS,
    Call,
)
from alibi_viz.check.words import alternatives, count

Words = Callable[[Sequence[Any]], str]  # says one or several values of a property


def _either(value: Any, words: str, other_words: str) -> Words:
    """The words for a property with two values."""

    def say(values: Sequence[Any]) -> str:
        return words if values == [value] else other_words

    return say


def _numbers(unit: str) -> Words:
    def say(values: Sequence[Any]) -> str:
        last = count(values[-1], unit)
        return alternatives([*map(str, values[:-1]), last])

    return say


def _sides(values: Sequence[Any]) -> str:
    words = {NO_PADDING: "no padding", **PADDING_WORDS}
    return alternatives([words[value] for value in values])


def _memories(values: Sequence[Any]) -> str:
    return alternatives([MEMORY_WORDS[value] for value in values])


def _head_dims(values: Sequence[Any]) -> str:
    return f"head_dim {alternatives(list(map(str, values)))}"


def _padding(call: Call) -> str:
    return call.padding


def _memory(call: Call) -> str:
    return call.memory


def _is_view(call: Call) -> bool:
    return call.memory != CONTIGUOUS


def _is_after_longer(call: Call) -> bool:
    return call.after_longer


def _is_large(call: Call) -> bool:
    return call.large


def _batch(call: Call) -> int:
    return call.batch


def _head_dim(call: Call) -> int:
    return call.head_dim


def _num_heads(call: Call) -> int:
    return call.probe.num_heads


def _has_fewer_queries(call: Call) -> bool:
    return call.probe.query_length < call.probe.key_length


def _query_length(call: Call) -> int:
    return call.probe.query_length


def _key_length(call: Call) -> int:
    return call.probe.key_length


class Property(NamedTuple):
    """Something that the calls with a fault may have in common."""

    value: Callable[[Call], Any]
    words: Words


PROPERTIES = [
    Property(_padding, _sides),
    Property(_is_view, _either(True, NOT_CONTIGUOUS, MEMORY_WORDS[CONTIGUOUS])),
    Property(_memory, _memories),
    Property(_is_after_longer, _either(True, "calls after longer ones", "first calls")),
    Property(_is_large, _either(True, "large content", "usual content")),
    Property(_batch, _either(1, "a batch of one", "a batch of several")),
    Property(_head_dim, _head_dims),
    Property(_num_heads, _numbers("head")),
    Property(
        _has_fewer_queries, _either(True, "fewer queries than keys", "as many queries as keys")
    ),
    Property(_query_length, _numbers("query")),
    Property(_key_length, _numbers("key")),
]
_MOST_PROPERTIES = 3  # in words
_MOST_VALUES = 3  # of a property in words
_MOST_CALLS = 3  # listed if there is no common property


def with_condition(evidence: str, wrong: Sequence[Call], calls: Sequence[Call]) -> str:
    """The evidence of a fault, and which calls show it if others don't.

    >>> from alibi_viz.check.common_condition import with_condition
    >>> from alibi_viz.check.plan import Call, Probe
    >>> one = Call(Probe(8, 16, 16), batch=1)
    >>> several = Call(Probe(8, 16, 16), batch=3)
    >>> with_condition("head 1 is off", [one], [one, several])
    'head 1 is off (only with a batch of one)'
    >>> with_condition("head 1 is off", [one, several], [one, several])
    'head 1 is off'
    """
    if set(wrong) == set(calls):
        return evidence
    return f"{evidence} (only with {only_condition(wrong, calls)})"


def only_condition(wrong: Sequence[Call], calls: Sequence[Call]) -> str:
    """What some of the calls have in common, but none of the others, in words.

    One property is tried before two, and two before three. Without any, the calls are listed.

    >>> from alibi_viz.check.common_condition import only_condition
    >>> from alibi_viz.check.plan import Call, Probe
    >>> one = Call(Probe(8, 16, 16), batch=1)
    >>> several = Call(Probe(8, 16, 16), batch=3)
    >>> only_condition([one], [one, several])
    'a batch of one'
    """
    right = [call for call in calls if call not in wrong]
    for number in range(1, _MOST_PROPERTIES + 1):
        for properties in combinations(PROPERTIES, number):
            described = _described(properties, wrong, right)
            if described is not None:
                return described
    return _listed(wrong, right)


def _listed(wrong: Sequence[Call], right: Sequence[Call]) -> str:
    """The first of the wrong calls in words: what they say is as short as tells them apart."""
    for words in (_numbers_of_heads, _sizes_without_heads, _sizes, str):
        of_right = {words(call) for call in right}
        of_wrong = list(dict.fromkeys(words(call) for call in wrong))
        if not of_right.intersection(of_wrong):
            break
    listed = "; ".join(of_wrong[:_MOST_CALLS])
    further = len(of_wrong) - _MOST_CALLS
    return f"{listed}; and {further} more" if further > 0 else listed


def _numbers_of_heads(call: Call) -> str:
    return count(call.probe.num_heads, "head")


def _sizes_without_heads(call: Call) -> str:
    return f"{count(call.probe.query_length, 'query')}, {count(call.probe.key_length, 'key')}"


def _sizes(call: Call) -> str:
    return str(call.probe)


def _described(
    properties: Sequence[Property], wrong: Sequence[Call], right: Sequence[Call]
) -> str | None:
    """The wrong calls in words, by the values that they have of these properties.

    None if the right calls have some of them, too; if there are too many values for words; or if
    the wrong calls aren't all combinations of them. Say that calls are wrong with 1 query and 16
    keys, and with 5 queries and 300 keys: "1 or 5 queries and 16 or 300 keys" would be wrong.
    """
    of_wrong = {tuple(prop.value(call) for prop in properties) for call in wrong}
    of_right = {tuple(prop.value(call) for prop in properties) for call in right}
    if of_wrong & of_right:
        return None

    words = []
    combined = 1
    for prop, with_repeats in zip(properties, zip(*of_wrong, strict=True), strict=True):
        values = sorted(set(with_repeats))
        if len(values) > _MOST_VALUES:
            return None
        words.append(prop.words(values))
        combined *= len(values)
    if len(of_wrong) != combined:
        return None
    *all_but_last, last = words
    return f"{', '.join(all_but_last)} and {last}" if all_but_last else last


def fault_of_condition(wrong: Sequence[Call], calls: Sequence[Call]) -> str | None:
    """The name of the fault if only calls with padding, or with other memory, are wrong.

    None if others are, too, or if all calls are like that.
    """
    if are_only_views(wrong, calls):
        return "strides ignored"
    right = [call for call in calls if call not in wrong]
    if all(_is_padded(call) for call in wrong) and not all(_is_padded(call) for call in right):
        return "padding changes the bias"
    return None


def are_only_views(wrong: Sequence[Call], calls: Sequence[Call]) -> bool:
    """Whether the wrong ones have inputs that are not contiguous, and some others don't."""
    right = [call for call in calls if call not in wrong]
    return all(_is_view(call) for call in wrong) and not all(_is_view(call) for call in right)


def _is_padded(call: Call) -> bool:
    return call.padding != NO_PADDING
