"""Say in words what the calls that show a fault have in common.

To name a further condition of `plan`, add a line to `PROPERTIES`.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from alibi_viz.check.plan import NO_PADDING, PADDING_WORDS, Call
from alibi_viz.check.words import count

# What the calls that show a fault may have in common: a property of a call, and its values in words


def _sides(values: Sequence[Any]) -> str:
    words = {NO_PADDING: "no padding", **PADDING_WORDS}
    return _alternatives([words[value] for value in values])


def _inputs(values: Sequence[Any]) -> str:
    return "transposed inputs" if values == [True] else "contiguous inputs"


def _histories(values: Sequence[Any]) -> str:
    return "calls after longer ones" if values == [True] else "first calls"


def _batches(values: Sequence[Any]) -> str:
    return "a batch of one" if values == [1] else "a batch of several"


def _numbers(unit: str) -> Callable[[Sequence[Any]], str]:
    def words(values: Sequence[Any]) -> str:
        last = count(values[-1], unit)
        return _alternatives([*map(str, values[:-1]), last])

    return words


def _fewer(values: Sequence[Any]) -> str:
    return "fewer queries than keys" if values == [True] else "as many queries as keys"


def _head_dim_words(values: Sequence[Any]) -> str:
    return f"head_dim {_alternatives(list(map(str, values)))}"


def _alternatives(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} or {words[-1]}"


class Property(NamedTuple):
    """Something that the calls with a fault may have in common."""

    value: Callable[[Call], Any]
    words: Callable[[Sequence[Any]], str]  # for one or several values


PROPERTIES = [
    Property(lambda call: call.padding, _sides),
    Property(lambda call: call.transposed, _inputs),
    Property(lambda call: call.after_longer, _histories),
    Property(lambda call: call.batch, _batches),
    Property(lambda call: call.head_dim, _head_dim_words),
    Property(lambda call: call.probe.num_heads, _numbers("head")),
    Property(lambda call: call.probe.query_length < call.probe.key_length, _fewer),
    Property(lambda call: call.probe.query_length, _numbers("query")),
    Property(lambda call: call.probe.key_length, _numbers("key")),
]
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

    One property is tried before two, and without any the calls are listed.

    >>> from alibi_viz.check.common_condition import only_condition
    >>> from alibi_viz.check.plan import Call, Probe
    >>> one = Call(Probe(8, 16, 16), batch=1)
    >>> several = Call(Probe(8, 16, 16), batch=3)
    >>> only_condition([one], [one, several])
    'a batch of one'
    """
    right = [call for call in calls if call not in wrong]
    for properties in [*combinations(PROPERTIES, 1), *combinations(PROPERTIES, 2)]:
        of_wrong = {tuple(prop.value(call) for prop in properties) for call in wrong}
        of_right = {tuple(prop.value(call) for prop in properties) for call in right}
        if of_wrong & of_right:
            continue
        values_by_property = [
            sorted({values[n] for values in of_wrong}) for n in range(len(properties))
        ]
        is_product = len(of_wrong) == math.prod(len(values) for values in values_by_property)
        if is_product and max(map(len, values_by_property)) <= _MOST_VALUES:
            words = [
                prop.words(values)
                for prop, values in zip(properties, values_by_property, strict=True)
            ]
            return " and ".join(words)
    listed = "; ".join(map(str, dict.fromkeys(wrong[:_MOST_CALLS])))
    further = len(set(wrong)) - len(set(wrong[:_MOST_CALLS]))
    return f"{listed}; and {further} more" if further else listed


def fault_of_condition(wrong: Sequence[Call], calls: Sequence[Call]) -> str | None:
    """The name of the fault if only calls with padding, or with transposed inputs, are wrong.

    None if others are, too, or if all calls are like that.
    """
    right = [call for call in calls if call not in wrong]
    if all(call.transposed for call in wrong) and not all(call.transposed for call in right):
        return "strides ignored"
    if all(_is_padded(call) for call in wrong) and not all(_is_padded(call) for call in right):
        return "padding changes the bias"
    return None


def _is_padded(call: Call) -> bool:
    return call.padding != NO_PADDING
