"""Name the faults of slopes: find the rule that gives them, with the fewest faults.

A rule has three parts, and each may have a fault: a scheme gives the slopes, they may be rounded,
and they may be multiplied by a factor. To add a scheme, add a line to `_schemes`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from alibi_viz.check.gallery.published_slopes import first_slope_is_one
from alibi_viz.check.report import Finding
from alibi_viz.check.rules import Expectation, Slopes
from alibi_viz.slopes import alibi_slopes

Names = tuple[str, ...]
ByHeads = Mapping[int, Tensor]  # {num_heads: [heads]}

# Sizes of a head that are tried if it is unknown
_HEAD_DIMS = (8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256)
# The dtypes to which slopes may have been rounded, by their faults
_ROUNDINGS: list[tuple[Names, torch.dtype]] = [
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
        return torch.allclose(slopes, expected, rtol=self.relative, atol=self.absolute)


def name_slopes(
    slopes: ByHeads, expected: Expectation, tolerance: Tolerance, *, factors: bool = True
) -> list[Finding]:
    """Name the faults of slopes: those of the rule with the fewest. Empty if they are correct.

    Without `factors`, a function returned the slopes; otherwise they were read from a bias, with
    its sign and size.
    """
    observed = torch.cat(list(slopes.values()))
    correct = torch.cat([expected.slopes(heads) for heads in slopes])
    evidence = _worst_slope(slopes, expected)
    if tolerance.allows(observed, torch.zeros_like(observed)):
        has_bias = bool(correct.any())
        return [Finding("no bias", evidence)] if has_bias else []

    explanations = []
    for faults, predicted in _explanations(slopes, expected, tolerance.absolute):
        if tolerance.allows(observed, predicted):
            explanations.append(faults)
    if explanations:
        fewest = min(explanations, key=lambda faults: _cost(faults, factors))
        return [Finding(_name_in_report(fault, factors), evidence) for fault in fewest]

    # No rule explains all head counts: perhaps one explains those that are wrong.
    wrong = {}
    for heads, values in slopes.items():
        if not tolerance.allows(values, expected.slopes(heads)):
            wrong[heads] = values
    if len(wrong) == len(slopes):
        return [Finding("other slopes", evidence)]
    return name_slopes(wrong, expected, tolerance, factors=factors)


def _worst_slope(slopes: ByHeads, expected: Expectation) -> str:
    """The slope with the largest relative error, in words."""
    largest_error = -1.0
    words = ""
    for heads, values in slopes.items():
        correct_values = expected.slopes(heads).tolist()
        pairs = zip(values.tolist(), correct_values, strict=True)
        for head, (slope, correct) in enumerate(pairs, start=1):
            divisor = 1e-9 if correct == 0 else correct
            error = round(abs(slope / divisor - 1), 4)
            if error > largest_error:  # the first of equal ones
                largest_error = error
                words = f"head {head} of {heads} has slope {slope:.6g}, expected {correct:.6g}"
    return words


def _cost(faults: Names, factors: bool) -> float:
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
    slopes: ByHeads, expected: Expectation, smallest: float
) -> Iterator[tuple[Names, Tensor]]:
    """Names of faults and the slopes that they give, for all head counts one after another.

    The likeliest come first. Slopes up to `smallest` count as none.
    """
    observed = torch.cat(list(slopes.values()))
    head_dims = [expected.head_dim] if expected.head_dim else list(_HEAD_DIMS)
    named_factors = list(_factors(head_dims))
    for scheme_faults, scheme in _schemes(slopes, expected.slopes, head_dims, smallest):
        try:
            exact = [scheme(heads) for heads in slopes]
        except Exception:  # the caller's own slopes may be known for these numbers of heads only
            continue
        for rounding_faults, dtype in _ROUNDINGS:
            rounded = torch.cat([values.to(dtype).double() for values in exact])
            faults = (*scheme_faults, *rounding_faults)
            for factor_faults, factor in named_factors:
                if not set(faults) & set(factor_faults):
                    yield (*faults, *factor_faults), factor * rounded

            fitted = float(observed @ rounded / (rounded @ rounded))  # by least squares
            if not math.isfinite(fitted):  # all slopes of this scheme are 0
                continue
            sign = ("sign reversed",) if fitted < 0 else ()
            yield (*faults, *sign, "bias multiplied"), fitted * rounded


def _factors(head_dims: list[int]) -> Iterator[tuple[Names, float]]:
    """Factors of a bias with the names of their faults, first the positive ones."""
    positive: list[tuple[Names, float]] = [((), 1.0)]
    for head_dim in head_dims:
        positive.append((("bias before scaling",), head_dim**-0.5))
    for faults, factor in list(positive):
        # With guessed sizes, twice the factor of one is that of another.
        is_ambiguous = len(head_dims) > 1 and faults
        if not is_ambiguous:
            positive.append((("added twice", *faults), 2 * factor))
    yield from positive
    for faults, factor in positive:
        yield ("sign reversed", *faults), -factor


def _schemes(
    slopes: ByHeads, correct: Slopes, head_dims: list[int], smallest: float
) -> Iterator[tuple[Names, Slopes]]:
    """Schemes that give slopes, without a factor, by the names of their faults.

    The likeliest come first. The order of the heads and heads without a bias are taken from the
    observed `slopes`.
    """

    def reordered(heads: int) -> Tensor:
        """The correct slopes in the observed order: the steepest where the steepest is."""
        from_flat_to_steep = correct(heads)[correct(heads).abs().argsort()]
        rank = slopes[heads].abs().argsort().argsort()  # 0 for the flattest head
        return from_flat_to_steep[rank]

    def partly_zero(heads: int) -> Tensor:
        has_bias = slopes[heads].abs() > smallest
        return correct(heads) * has_bias

    yield (), correct
    yield ("geometric slopes",), _geometric
    yield ("halving slopes",), _halving
    yield ("first slope is 1",), _first_is_one
    yield ("halving slopes", "first slope is 1"), _halving_from_one
    yield ("first slope is 1",), _first_is_one_in_both_parts
    yield ("first slope is 1",), _geometric_from_one
    for devices in range(2, min(slopes)):
        if all(heads % devices == 0 for heads in slopes):
            yield ("slopes of a head slice",), _SlopesOfASlice(correct, devices, of_few_heads=True)
            yield ("slopes of a head slice",), _SlopesOfASlice(correct, devices, of_few_heads=False)
    for head_dim in head_dims:
        yield ("bias before scaling",), _DividedByModelWidth(correct, head_dim)
    yield ("heads in another order",), reordered
    yield ("heads without a bias",), partly_zero


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


@dataclass(frozen=True)
class _SlopesOfASlice:
    """Each of several devices has a slice of the heads, and they all use the same slopes."""

    correct: Slopes
    devices: int
    of_few_heads: bool  # each computes the slopes for its own number of heads, or takes the first

    def __call__(self, heads: int) -> Tensor:
        heads_per_device = heads // self.devices
        if self.of_few_heads:
            slopes = self.correct(heads_per_device)
        else:
            slopes = self.correct(heads)[:heads_per_device]
        return slopes.repeat(self.devices)


@dataclass(frozen=True)
class _DividedByModelWidth:
    """The bias was divided by the square root of d_model, the width of all heads together."""

    correct: Slopes
    head_dim: int

    def __call__(self, heads: int) -> Tensor:
        return self.correct(heads) * (self.head_dim * heads) ** -0.5
