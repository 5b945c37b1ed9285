"""Read what a function makes of the content: its factor, a soft cap, the heads that are read."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from alibi_viz.check.call import Failures, try_each
from alibi_viz.check.detect import Sample, Sweep
from alibi_viz.check.expected import Expected, Group, neighbors
from alibi_viz.check.plan import Call
from alibi_viz.check.probe import AttentionReader
from alibi_viz.check.report import Finding

_FEWEST_KEYS = 3  # for the content of some to be compared with that of others
_MOST_CALLS = 3
_COMPARED_QUERIES = 16  # the last ones tell which heads are read
# Soft caps between which one is looked for: weaker ones can't be seen, stronger ones are not used
_CAPS = (2.0, 1000.0)
_GOLDEN = (math.sqrt(5) - 1) / 2
_STEPS = 28  # of a search
_NEAR = 0.01  # how far a factor may be from what was read
_EXACT = 2e-5  # how exactly an output shows a factor


@dataclass
class Content:
    """What is wrong with the content, and what a function with that computes.

    Attributes:
        expected: None if there is no formula for what is wrong.
        findings: faults, none if the content is right or may be by design.
        note: what may be by design, in words.
    """

    expected: Expected | None
    findings: list[Finding] = field(default_factory=list)
    note: str = ""


def read_content(
    reader: AttentionReader,
    sweep: Sweep,
    calls: Sequence[Call],
    right: Sequence[Call],
    expected: Expected,
) -> Content:
    """Read the factor of q . k in some wrong calls, and in right ones if it may be by design."""
    factors, failures = _relative_factors(reader, _readable(calls), expected)
    if failures.by_fault:
        return Content(None, failures.findings([]))
    tolerance = max(reader.precision.absolute, 4e-3)
    if all(abs(factor - 1) <= tolerance for factor in factors.values()):
        return Content(expected)
    call, factor = max(factors.items(), key=lambda item: abs(item[1] - 1))
    sample = sweep.answers[call]
    assert isinstance(sample, Sample)
    law = _Law(factors, tolerance)
    fault, content = law.named()
    if fault == "content multiplied" and expected.has_usual_scale and factor > 0:
        of_right, _ = _relative_factors(reader, _readable(right), expected)
        is_usual_for_some = any(abs(factor - 1) <= tolerance for factor in of_right.values())
        law = _Law({**of_right, **factors}, tolerance)
        designed = _by_design(law, sample, expected, is_usual_for_some)
        if designed is not None:
            return designed
    evidence = f"with {call} and head_dim {call.head_dim}, q . k counts {factor:.4g} times"
    faulty = None if content is None else _refined(content, sample, expected)
    return Content(faulty, [Finding(fault, evidence)])


def _readable(calls: Sequence[Call]) -> list[Call]:
    """The smallest calls of each size of a head."""
    readable = [call for call in calls if call.probe.key_length >= _FEWEST_KEYS and not call.large]
    readable.sort(key=lambda call: call.probe.key_length)
    first_of_size = {call.head_dim: call for call in reversed(readable)}
    return list(dict.fromkeys([*first_of_size.values(), *readable]))[:_MOST_CALLS]


def _relative_factors(
    reader: AttentionReader, calls: Sequence[Call], expected: Expected
) -> tuple[dict[Call, float], Failures]:
    """The factors of q . k relative to the correct ones, and the calls that failed."""
    factors, failures = try_each(reader.content_factor, calls)
    relative = {}
    for call, factor in factors.items():
        if math.isnan(factor):  # no query sees two keys, so content changes nothing
            continue
        group = Group(call.probe.num_heads, call.head_dim)
        score = expected.scaling(group) * math.sqrt(call.head_dim)
        correct = float(expected.capped(torch.tensor(score, dtype=torch.float64)))
        relative[call] = factor / correct
    return relative, failures


@dataclass(frozen=True)
class _Law:
    """What the factors of q . k of some calls have in common, relative to the correct ones."""

    factors: Mapping[Call, float]
    tolerance: float

    def is_law(self, content: Callable[[Group], float]) -> bool:
        for call, factor in self.factors.items():
            group = Group(call.probe.num_heads, call.head_dim)
            if not abs(factor / content(group) - 1) <= self.tolerance:
                return False
        return True

    def named(self) -> tuple[str, Callable[[Group], float] | None]:
        """The name of the fault that gives these factors, and its law if there is one."""
        if self.is_law(lambda group: group.num_heads**-0.5):
            return "content too weak", lambda group: group.num_heads**-0.5
        if self.is_law(lambda group: group.head_dim**0.5):
            return "content not scaled", lambda group: group.head_dim**0.5
        has_several_sizes = len({call.head_dim for call in self.factors}) > 1
        if has_several_sizes and self.is_law(lambda group: group.head_dim**-0.5):
            return "content scaled twice", lambda group: group.head_dim**-0.5
        first = next(iter(self.factors.values()))
        if self.is_law(lambda group: first):
            return "content multiplied", lambda group: first
        by_group = {
            Group(call.probe.num_heads, call.head_dim): factor
            for call, factor in self.factors.items()
        }
        if self.is_law(by_group.__getitem__):
            return "content multiplied", by_group.__getitem__
        return "content multiplied", None


def _by_design(
    law: _Law, sample: Sample, expected: Expected, is_usual_for_some: bool
) -> Content | None:
    """A scale that all calls have and that may be by design, and how to tell the checker."""
    call = sample.call
    of_one_size = "`scale` and one `head_dim`"
    # As muP does; with one size of a head it would be a constant. It is usual for one size.
    kinds = [(-1.0, "{} / head_dim", of_one_size)]
    if not is_usual_for_some:
        kinds = [(0.0, "{}", "scale={}"), (-0.5, "{} / sqrt(head_dim)", of_one_size), *kinds]
    for exponent, words, argument in kinds:
        number = law.factors[call] * call.head_dim ** (-0.5 - exponent)
        content = _power(number, exponent)
        if not law.is_law(content):
            continue
        refined = _refined(content, sample, expected)
        group = Group(call.probe.num_heads, call.head_dim)
        number = _shortest(refined.content(group) * call.head_dim ** (-0.5 - exponent))
        observed = words.format(f"{number:g}")
        note = (
            f"Observed: q . k is multiplied by {observed}, where 1 / sqrt(head_dim) is usual. If "
            f"that is by design, as with muP, pass {argument.format(f'{number:g}')}; all else was "
            "checked with it."
        )
        return Content(replace(expected, content=_power(number, exponent)), note=note)
    return None


def _power(number: float, exponent: float) -> Callable[[Group], float]:
    """A scale of number * head_dim^exponent, relative to the usual one."""
    return lambda group: number * group.head_dim ** (exponent + 0.5)


def _refined(content: Callable[[Group], float], sample: Sample, expected: Expected) -> Expected:
    """What to expect with this factor, as exactly as an output shows it."""

    def with_factor(factor: float) -> Expected:
        return replace(expected, content=lambda group: factor * content(group))

    best = _smallest_error(lambda factor: sample.error(with_factor(factor)), 1 - _NEAR, 1 + _NEAR)
    return with_factor(best)


def _smallest_error(error: Callable[[float], float], low: float, high: float) -> float:
    """Where an error is smallest that grows on both sides: a golden-section search."""
    low = math.log(low)
    high = math.log(high)
    left = high - _GOLDEN * (high - low)
    right = low + _GOLDEN * (high - low)
    of_left = error(math.exp(left))
    of_right = error(math.exp(right))
    for _ in range(_STEPS):
        if of_left < of_right:
            high = right
            right = left
            of_right = of_left
            left = high - _GOLDEN * (high - low)
            of_left = error(math.exp(left))
        else:
            low = left
            left = right
            of_left = of_right
            right = low + _GOLDEN * (high - low)
            of_right = error(math.exp(right))
    return math.exp((low + high) / 2)


def _shortest(number: float) -> float:
    """The number of the fewest digits that an output cannot tell from this one."""
    for digits in range(1, 7):
        rounded = float(f"{number:.{digits}g}")
        if abs(rounded / number - 1) <= _EXACT:
            return rounded
    return number


def fit_cap(sample: Sample, expected: Expected) -> Expected | None:
    """What to expect with the soft cap that explains an output best; None if it doesn't."""

    def capped(cap: float) -> Expected:
        return replace(expected, softcap=cap)

    best = _smallest_error(lambda cap: sample.error(capped(cap)), *_CAPS)
    best = _shortest(best)
    is_explained = sample.is_explained(capped(best), expected)
    return capped(best) if is_explained and best < _CAPS[1] / 2 else None


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
