"""What a function makes of the content: its factor, and the heads that are read."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from alibi_viz.check.call import Unusable
from alibi_viz.check.detect import Sample, Sweep
from alibi_viz.check.expected import Expected, Group, neighbors
from alibi_viz.check.plan import Call
from alibi_viz.check.probe import AttentionReader
from alibi_viz.check.report import Finding

_FEWEST_KEYS = 3  # for the content of some to be compared with that of others
_MOST_CALLS = 3
_COMPARED_QUERIES = 16  # the last ones tell which heads are read
# Numbers from which the best one is looked for: factors of q . k, and soft caps. Weaker caps can't
# be seen, and stronger ones are not used.
_POSITIVE = [2.0**power for power in range(-8, 9)]
_FACTORS = [*_POSITIVE, *(-factor for factor in _POSITIVE)]
_CAPS = [2.0**power for power in range(1, 10)]
_GOLDEN = (math.sqrt(5) - 1) / 2
_STEPS = 20  # of a search
_TOLERANCE = 4e-3  # of a factor

Factor = Callable[[Group], float]  # of q . k, relative to the correct one


@dataclass
class Content:
    """What is wrong with the content, and what a function with that computes.

    Attributes:
        expected: None if there is no formula for what is wrong.
        findings: the fault, none if the content is right.
    """

    expected: Expected | None
    findings: list[Finding] = field(default_factory=list)


def read_content(
    reader: AttentionReader, sweep: Sweep, calls: Sequence[Call], expected: Expected
) -> Content:
    """Fit a factor of q . k, and a soft cap, to the outputs of some wrong calls."""
    readable = _readable(calls)
    moved = _moves_with_position(reader, readable[0]) if readable else None
    if moved is not None:
        return Content(None, [Finding("content depends on position", moved)])
    factors = {}
    for call in readable:
        sample = sweep.answers[call]
        assert isinstance(sample, Sample)
        factors[call] = 1.0
        if sample.is_right(expected):
            continue
        # Half precision would hide the difference between a cap and other faults.
        if expected.softcap is None and reader.precision.is_of_float32:
            cap = _fitted(sample, _CAPS, lambda cap: replace(expected, softcap=cap))
            capped = replace(expected, softcap=cap)
            if sample.is_explained(capped, expected):
                evidence = f"with {call}, q . k / sqrt(head_dim) has a cap of about {cap:.3g}"
                return Content(capped, [Finding("soft cap", evidence)])
        factors[call] = _fitted_factor(sample, expected)
    tolerance = max(reader.precision.absolute, _TOLERANCE)
    if all(abs(factor - 1) <= tolerance for factor in factors.values()):
        return Content(expected)
    call, factor = max(factors.items(), key=lambda item: abs(item[1] - 1))
    fault, law = _name_factors(factors, tolerance)
    scale = factor * expected.scaling(Group(call.probe.num_heads, call.head_dim))
    evidence = (
        f"with {call} and head_dim {call.head_dim}, q . k counts {factor:.4g} times, as with a "
        f"scale of {scale:.4g}"
    )
    return Content(replace(expected, content=law), [Finding(fault, evidence)])


def _readable(calls: Sequence[Call]) -> list[Call]:
    """The smallest calls of each size of a head."""
    readable = [call for call in calls if call.probe.key_length >= _FEWEST_KEYS and not call.large]
    readable.sort(key=lambda call: call.probe.key_length)
    first_of_size = {call.head_dim: call for call in reversed(readable)}
    return list(dict.fromkeys([*first_of_size.values(), *readable]))[:_MOST_CALLS]


def _moves_with_position(reader: AttentionReader, call: Call) -> str | None:
    """By how much equal queries and keys change the weights, which they should not; None if they
    don't."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(call.head_dim, generator=generator)
    keys = query.expand(call.probe.key_length, -1)
    try:
        without_content = reader.weights(call)
        with_content = reader.weights(call, query, keys)
    except Unusable:
        return None
    change = float((with_content - without_content).abs().nan_to_num(0.0).max())
    if change <= 8 * reader.precision.absolute:
        return None
    return f"{call}: equal queries and keys change the weights by up to {change:.3g}"


def _fitted_factor(sample: Sample, expected: Expected) -> float:
    """The factor of q . k with which an output is explained best, relative to the correct one."""
    return _fitted(sample, _FACTORS, lambda factor: replace(expected, content=lambda _: factor))


def _fitted(
    sample: Sample, candidates: Sequence[float], expected: Callable[[float], Expected]
) -> float:
    """The number with which an output is explained best, near one of the candidates.

    These are powers of 2, so the best lies between half and twice the best of them.
    """
    if not sample.call.is_padded:  # one sequence tells enough
        sample = replace(
            sample,
            query=sample.query[:1],
            key=sample.key[:1],
            value=sample.value[:1],
            output=sample.output[:1],
        )

    def error(number: float) -> float:
        return sample.total_error(expected(number))

    start = min(candidates, key=error)
    # A golden-section search
    low = start / 2
    high = start * 2
    left = high - _GOLDEN * (high - low)
    right = low + _GOLDEN * (high - low)
    of_left = error(left)
    of_right = error(right)
    for _ in range(_STEPS):
        if of_left < of_right:
            high, right, of_right = right, left, of_left
            left = high - _GOLDEN * (high - low)
            of_left = error(left)
        else:
            low, left, of_left = left, right, of_right
            right = low + _GOLDEN * (high - low)
            of_right = error(right)
    return min(start, (low + high) / 2, key=error)


def _name_factors(factors: Mapping[Call, float], tolerance: float) -> tuple[str, Factor]:
    """The name of the fault that gives these factors, and its law."""

    def is_law(law: Factor) -> bool:
        for call, factor in factors.items():
            group = Group(call.probe.num_heads, call.head_dim)
            if not abs(factor / law(group) - 1) <= tolerance:
                return False
        return True

    laws: list[tuple[str, Factor]] = [
        ("content too weak", lambda group: group.num_heads**-0.5),
        ("content not scaled", lambda group: group.head_dim**0.5),
        ("content scaled twice", lambda group: group.head_dim**-0.5),
    ]
    of_head_dim = {call.head_dim: factor for call, factor in factors.items()}
    for fault, law in laws:
        # With one size of a head, a division by head_dim could be any factor.
        is_told = fault != "content scaled twice" or len(of_head_dim) > 1
        if is_told and is_law(law):
            return fault, law
    first = next(iter(factors.values()))
    return "content multiplied", lambda group: of_head_dim.get(group.head_dim, first)


Heads = Callable[[int], tuple[Tensor, Tensor]]


def heads_read(sample: Sample, expected: Expected) -> Heads | None:
    """The heads whose keys, and those whose values, explain the output of each head.

    None if the output of a head is not explained, or if these are the right ones.
    """
    query, key, value, output = (tensor[:1] for tensor in next(sample.sequences()))
    heads = sample.call.probe.num_heads
    last_queries = slice(-_COMPARED_QUERIES, None)
    query = query[:, :, last_queries]
    output = output[:, :, last_queries]
    errors = torch.empty(heads, heads, heads, dtype=torch.float64)  # [key, value, head]
    for key_head in range(heads):
        weights = expected.weights(query, key[:, [key_head] * heads])
        for value_head in range(heads):
            error = (output - weights @ value[:, [value_head] * heads]).abs()
            errors[key_head, value_head] = error.amax((0, 2, 3))
    smallest, pair = errors.flatten(0, 1).min(0)
    if not bool((smallest <= 4 * sample.bound(expected)).all()):
        return None
    read = pair // heads, pair % heads
    if all(
        torch.equal(*both) for both in zip(read, expected.heads_that_are_read(heads), strict=True)
    ):
        return None
    return {heads: read}.__getitem__


def name_heads(key_heads: Tensor, value_heads: Tensor, group_size: int) -> tuple[str, str]:
    """The fault, and in words what heads read, if each reads these heads' keys and values."""
    heads = len(key_heads)
    different = (key_heads != value_heads).nonzero()
    if len(different) > 0:
        head = int(different[0])
        keys = f"the keys of head {int(key_heads[head]) + 1}"
        values = f"the values of head {int(value_heads[head]) + 1}"
        return "wrong keys", f"head {head + 1} reads {keys}, but {values}"
    for size in range(1, heads + 1):
        if heads % size:
            continue
        if torch.equal(key_heads, neighbors(heads, size)):
            return "wrong keys", f"heads share a key in groups of {size}"
        if torch.equal(key_heads, _in_turn(heads, size)):
            turns = f"heads take turns on {heads // size} key heads"
            return "key heads in another order", turns
    numbers = key_heads // group_size + 1
    listed = " ".join(str(number) for number in numbers.tolist())
    return "key heads in another order", f"heads read the key heads {listed}"


def _in_turn(heads: int, size: int) -> Tensor:
    """The key head of each head if they take turns: 0 3 0 3 0 3 for six heads in threes."""
    return torch.arange(0, heads, size).repeat(size)
