"""Name the faults of slopes: find the rule that gives them, with the fewest faults.

A rule has three parts, and each may have a fault: a scheme gives the slopes, they may be rounded,
and they may be multiplied by a factor. To add a scheme, add a line to `_schemes`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.check.expected import Expected, Group, Slopes
from alibi_viz.check.gallery.published_slopes import first_slope_is_one
from alibi_viz.check.plan import NO_HEAD_DIM
from alibi_viz.check.report import Finding
from alibi_viz.slopes import alibi_slopes

FaultNames = tuple[str, ...]


ByGroup = Mapping[Group, Tensor]  # {group: [heads]}

# The dtypes to which slopes may have been rounded, by their faults
_ROUNDINGS: list[tuple[FaultNames, torch.dtype]] = [
    ((), torch.float64),
    (("imprecise slopes",), torch.float16),
    (("imprecise slopes",), torch.bfloat16),
]


@dataclass(frozen=True)
class Tolerance:
    """How far slopes may be from those of a rule: `absolute + relative * slope`."""

    relative: float
    absolute: float = 0.0

    def allows(self, slopes: Tensor, expected: Tensor) -> bool:
        return bool(self.allows_each(slopes, expected))

    def allows_each(self, slopes: Tensor, expected: Tensor) -> Tensor:
        """Whether the slopes [heads] may be those of a rule, for one rule or several.

        `expected` is [..., heads]; returns bool [...].
        """
        return self.are_close(slopes, expected).all(-1)

    def are_close(self, slopes: Tensor, expected: Tensor) -> Tensor:
        """Whether each slope may be that of a rule, elementwise."""
        return (slopes - expected).abs() <= self.absolute + self.relative * expected.abs()


class NamedSlopes(NamedTuple):
    """The faults of slopes, none if they are correct, and the slopes of a group of calls.

    `slopes` raises KeyError for a group whose slopes are unknown.
    """

    findings: list[Finding]
    slopes: "Scheme"


def name_slopes(
    slopes: ByGroup, expected: Expected, tolerance: Tolerance, *, factors: bool = True
) -> NamedSlopes:
    """Name the faults of slopes: those of the rule with the fewest.

    Without `factors`, a function returned the slopes; otherwise they were read from a bias, with
    its sign and size.
    """
    observed = torch.cat(list(slopes.values()))
    correct = torch.cat([expected.slopes(group.num_heads) for group in slopes])
    evidence = _worst_slope(slopes, expected)
    if tolerance.allows(observed, torch.zeros_like(observed)):
        findings = [Finding("no bias", evidence)] if bool(correct.any()) else []
        return NamedSlopes(findings, lambda group: torch.zeros(group.num_heads).double())

    explanations = list(_explanations(slopes, expected, tolerance))
    if explanations:
        fewest, rule = min(explanations, key=lambda explained: _cost(explained[0], factors))
        findings = [Finding(_name_in_report(fault, factors), evidence) for fault in fewest]
        return NamedSlopes(findings, partial(_where_known, rule))

    # No rule explains all head counts: perhaps one explains those that are wrong.
    wrong = {}
    for group, values in slopes.items():
        if not tolerance.allows(values, expected.slopes(group.num_heads)):
            wrong[group] = values
    heads_of_wrong = {group.num_heads for group in wrong}
    heads_of_right = {group.num_heads for group in slopes if group not in wrong}
    # The same heads have the same slopes with any head_dim.
    if heads_of_wrong & heads_of_right or not heads_of_right:
        shared = _shared_slope(slopes, expected, tolerance)
        finding = Finding("other slopes", evidence)
        if shared is not None:
            finding = Finding("heads share a slope", shared)
        return NamedSlopes([finding], slopes.__getitem__)
    named = name_slopes(wrong, expected, tolerance, factors=factors)
    correct_of_group = _of_heads(expected.slopes)
    rights = set(slopes) - set(wrong)
    return NamedSlopes(
        named.findings,
        lambda group: correct_of_group(group) if group in rights else named.slopes(group),
    )


def _where_known(rule: "Scheme", group: Group) -> Tensor:
    """The slopes of a rule. Raises KeyError for a number of heads for which it has none."""
    try:
        slopes = rule(group)
    except Exception:  # the caller's own slopes may be known for some numbers of heads only
        slopes = torch.empty(0)
    if slopes.shape != (group.num_heads,):
        raise KeyError(group)
    return slopes


def _shared_slope(slopes: ByGroup, expected: Expected, tolerance: Tolerance) -> str | None:
    """Two heads with the same slope, in words; None if the heads of some group all differ."""
    shared = []
    for group, values in slopes.items():
        correct = expected.slopes(group.num_heads)
        is_same = tolerance.are_close(values[:, None], values)
        should_be = tolerance.are_close(correct[:, None], correct)
        has_bias = values.abs() > tolerance.absolute
        pairs = (is_same & ~should_be & has_bias).triu(1).nonzero()
        if len(pairs) == 0:
            return None
        head, other = pairs[0].tolist()
        words = f"heads {head + 1} and {other + 1} of {group.num_heads} both have slope"
        shared.append(f"{words} {float(values[head]):.6g}")
    return shared[0]


def _worst_slope(slopes: ByGroup, expected: Expected) -> str:
    """The slope with the largest relative error, in words."""
    largest_error = -1.0
    words = ""
    for group, values in slopes.items():
        heads = group.num_heads
        correct_values = expected.slopes(heads).tolist()
        pairs = zip(values.tolist(), correct_values, strict=True)
        for head, (slope, correct) in enumerate(pairs, start=1):
            divisor = 1e-9 if correct == 0 else correct
            error = round(abs(slope / divisor - 1), 4)
            if error > largest_error:  # the first of equal ones
                largest_error = error
                words = f"head {head} of {heads} has slope {slope:.6g}, expected {correct:.6g}"
    return words


def _cost(faults: FaultNames, factors: bool) -> float:
    """How many faults it takes; what explains too much, or is unlikely, costs more."""
    cost = float(len(faults))
    if "bias multiplied" in faults:
        cost += 2  # a factor without a name explains too much
    if not factors:
        # A function that returns slopes seldom has the faults of a bias.
        cost += 0.5 * len({"added twice", "bias before scaling"} & set(faults))
    return cost


def _name_in_report(fault: str, factors: bool) -> str:
    """The name of a fault in a report: slopes alone have no sign of a bias."""
    if fault == "sign reversed" and not factors:
        return "negative slopes"
    return fault


def _explanations(
    slopes: ByGroup, expected: Expected, tolerance: Tolerance
) -> Iterator[tuple[FaultNames, "Scheme"]]:
    """The rules that give the slopes of all groups, with their faults. The likeliest come first."""
    observed = torch.cat(list(slopes.values()))
    factors = list(_factors(slopes))
    of_groups = [torch.cat([factor.of(group) for group in slopes]) for factor in factors]
    stacked = torch.stack(of_groups)
    for scheme_faults, scheme in _schemes(slopes, expected.slopes, tolerance.absolute):
        try:
            exact = torch.cat([scheme(group) for group in slopes])
        except Exception:  # the caller's own slopes may be known for these numbers of heads only
            continue
        for rounding_faults, dtype in _ROUNDINGS:
            rounded = exact.to(dtype).double()
            faults = (*scheme_faults, *rounding_faults)
            fits = tolerance.allows_each(observed, stacked * rounded)
            for factor, is_right in zip(factors, fits.tolist(), strict=True):
                if is_right and not set(faults) & set(factor.faults):
                    yield (*faults, *factor.faults), partial(_multiplied, scheme, dtype, factor)

            fitted = float(observed @ rounded / (rounded @ rounded))  # by least squares
            if not math.isfinite(fitted):  # all slopes of this scheme are 0
                continue
            if tolerance.allows(observed, fitted * rounded):
                sign = ("sign reversed",) if fitted < 0 else ()
                by_fitted = _Factor((*sign, "bias multiplied"), fitted)
                yield (*faults, *by_fitted.faults), partial(_multiplied, scheme, dtype, by_fitted)


class _Factor(NamedTuple):
    """What multiplies a bias: a number, and perhaps 1 / sqrt(head_dim)."""

    faults: FaultNames
    number: float
    is_scaled: bool = False

    def of(self, group: Group) -> Tensor:
        """The factor of each head of a group, [heads]."""
        scaling = group.head_dim**-0.5 if self.is_scaled else 1.0
        return torch.full((group.num_heads,), self.number * scaling, dtype=torch.float64)


def _multiplied(scheme: "Scheme", dtype: torch.dtype, factor: _Factor, group: Group) -> Tensor:
    return factor.of(group) * scheme(group).to(dtype).double()


def _factors(slopes: ByGroup) -> Iterator[_Factor]:
    """The factors with a name, the positive ones first."""
    is_known = all(group.head_dim != NO_HEAD_DIM for group in slopes)
    scaled = ("bias before scaling",)
    for sign, negative in ((1, ()), (-1, ("sign reversed",))):
        yield _Factor(negative, sign)
        yield _Factor((*negative, "added twice"), 2 * sign)
        if is_known:
            yield _Factor((*negative, *scaled), sign, is_scaled=True)
            yield _Factor((*negative, "added twice", *scaled), 2 * sign, is_scaled=True)


Scheme = Callable[[Group], Tensor]  # the slopes of a group, float64 [heads]


def _schemes(
    slopes: ByGroup, correct: Slopes, smallest: float
) -> Iterator[tuple[FaultNames, Scheme]]:
    """Schemes that give slopes, without a factor, by the names of their faults.

    The likeliest come first. The order of the heads and heads without a bias are taken from the
    observed `slopes`.
    """

    def reordered(group: Group) -> Tensor:
        """The correct slopes in the observed order: the steepest where the steepest is."""
        of_group = correct(group.num_heads)
        from_flat_to_steep = of_group[of_group.abs().argsort()]
        rank = slopes[group].abs().argsort().argsort()  # 0 for the flattest head
        return from_flat_to_steep[rank]

    def partly_zero(group: Group) -> Tensor:
        has_bias = slopes[group].abs() > smallest
        return correct(group.num_heads) * has_bias

    yield (), _of_heads(correct)
    yield ("geometric slopes",), _of_heads(_geometric)
    yield ("halving slopes",), _of_heads(_halving)
    yield ("first slope is 1",), _of_heads(_first_is_one)
    yield ("halving slopes", "first slope is 1"), _of_heads(_halving_from_one)
    yield ("first slope is 1",), _of_heads(_first_is_one_in_both_parts)
    yield ("first slope is 1",), _of_heads(_geometric_from_one)
    yield ("slopes of another number of heads",), partial(_first_of_next_power, correct)
    yield ("slopes of another number of heads",), partial(_power_below_repeated, correct)
    for parts in range(2, min(group.num_heads for group in slopes)):
        if all(group.num_heads % parts == 0 for group in slopes):
            yield ("slopes of a head slice",), partial(_slice_of_few_heads, correct, parts)
            yield ("slopes of a head slice",), partial(_first_slice, correct, parts)
            yield ("heads share a slope",), partial(_of_key_heads, correct, parts)
            yield ("heads share a slope",), partial(_first_of_key_heads, correct, parts)
    if all(group.head_dim != NO_HEAD_DIM for group in slopes):
        yield ("bias before scaling",), partial(_divided_by_model_width, correct)
    yield ("heads in another order",), reordered
    have_bias = [bool((values.abs() > smallest).any()) for values in slopes.values()]
    if all(have_bias):
        yield ("heads without a bias",), partly_zero


def _of_heads(slopes: Slopes) -> Scheme:
    return lambda group: slopes(group.num_heads)


def _geometric(heads: int) -> Tensor:
    return alibi_slopes(heads, "geometric").double()


def _halving(heads: int) -> Tensor:
    return alibi_slopes(heads, "halving").double()


def _first_is_one(heads: int) -> Tensor:
    return torch.tensor(first_slope_is_one(heads), dtype=torch.float64)


def _halving_from_one(heads: int) -> Tensor:
    return 2.0 ** -torch.arange(heads, dtype=torch.float64)


def _first_is_one_in_both_parts(heads: int) -> Tensor:
    """Both parts of the official scheme, for the power of two and for the rest, begin with 1."""
    power = 2 ** int(math.log2(heads))
    exponents = -8 * torch.arange(heads) / power % -8
    return exponents.double().exp2()


def _geometric_from_one(heads: int) -> Tensor:
    return 2 ** (-8 * torch.arange(heads, dtype=torch.float64) / heads)


def _first_of_next_power(correct: Slopes, group: Group) -> Tensor:
    """The first slopes for the next power of two heads."""
    next_power = 2 ** math.ceil(math.log2(group.num_heads))
    return correct(next_power)[: group.num_heads]


def _power_below_repeated(correct: Slopes, group: Group) -> Tensor:
    """The slopes for the power of two below, again from the first one for the other heads."""
    power_below = 2 ** int(math.log2(group.num_heads))
    return correct(power_below).repeat(2)[: group.num_heads]


def _slice_of_few_heads(correct: Slopes, devices: int, group: Group) -> Tensor:
    """Each of several devices computes the slopes for its own number of heads."""
    heads_per_device = group.num_heads // devices
    return correct(heads_per_device).repeat(devices)


def _first_slice(correct: Slopes, devices: int, group: Group) -> Tensor:
    """Each of several devices takes the first slopes."""
    heads_per_device = group.num_heads // devices
    return correct(group.num_heads)[:heads_per_device].repeat(devices)


def _of_key_heads(correct: Slopes, group_size: int, group: Group) -> Tensor:
    """Neighboring heads, which share a key head, also share its slope."""
    key_heads = group.num_heads // group_size
    return correct(key_heads).repeat_interleave(group_size)


def _first_of_key_heads(correct: Slopes, group_size: int, group: Group) -> Tensor:
    """The same, but the key heads have the first slopes of all heads."""
    key_heads = group.num_heads // group_size
    return correct(group.num_heads)[:key_heads].repeat_interleave(group_size)


def _divided_by_model_width(correct: Slopes, group: Group) -> Tensor:
    """The bias was divided by the square root of d_model, the width of all heads together."""
    return correct(group.num_heads) * (group.head_dim * group.num_heads) ** -0.5
