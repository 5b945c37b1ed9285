"""Name the faults of slopes: which scheme computes them, and by which factor they are multiplied."""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.check.report import Finding
from alibi_viz.check.rules import Expectation, Slopes
from alibi_viz.gallery.slopes import first_slope_is_one
from alibi_viz.slopes import alibi_slopes

Names = tuple[str, ...]

_HEAD_DIMS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256)  # tried if the size of a head is unknown
_VAGUE = 2  # a factor without a name counts as so many faults more: it explains too much


class Tolerance(NamedTuple):
    """How exactly slopes are known."""

    relative: float
    absolute: float = 0.0

    def close(self, got: Tensor, wanted: Tensor) -> bool:
        """Whether two tensors are equal within this tolerance."""
        return torch.allclose(got, wanted, rtol=self.relative, atol=self.absolute)


def name_slopes(slopes: Mapping[int, Tensor], expected: Expectation, tolerance: Tolerance) -> list[Finding]:
    """Name the faults of slopes [heads], given for one or more head counts; an empty list if they are correct.

    Of all hypotheses that give these slopes, the one with the fewest faults wins.
    """
    got, wanted = (torch.cat(list(each)) for each in (slopes.values(), map(expected.slopes, slopes)))
    evidence = _evidence([(heads, head + 1) for heads in slopes for head in range(heads)], got, wanted)
    if tolerance.close(got, 0 * got):
        return [Finding("no bias", evidence)] if bool(wanted.any()) else []
    hypotheses = _hypotheses(slopes, expected, tolerance)
    possible = [names for names, predicted in hypotheses if tolerance.close(got, predicted)]
    if possible:
        best = min(possible, key=_cost)
        others = [" and ".join(names) for names in possible if _cost(names) == _cost(best) and names != best]
        if others:
            evidence += f"; '{others[0]}' gives the same slopes, and another head count would tell them apart"
        return [Finding(name, evidence) for name in best]
    # No hypothesis explains all head counts: perhaps one explains those that are wrong.
    wrong = {heads: each for heads, each in slopes.items() if not tolerance.close(each, expected.slopes(heads))}
    return name_slopes(wrong, expected, tolerance) if len(wrong) < len(slopes) else [Finding("other slopes", evidence)]


def _cost(names: Names) -> int:
    return len(names) + _VAGUE * ("bias multiplied" in names)


def _hypotheses(
    slopes: Mapping[int, Tensor], expected: Expectation, tolerance: Tolerance
) -> Iterator[tuple[Names, Tensor]]:
    """Names of faults, and the slopes that they give, for all head counts one after another.

    Each combines a scheme with a factor of the bias. A wrong factor of the content may apply to the bias too.
    """
    got = torch.cat(list(slopes.values()))
    known = _known_factors(expected.head_dim)
    for content in filter(None, (dict.fromkeys(slopes, 1.0), expected.content)):
        for scheme, rule in _schemes(slopes, expected.slopes, tolerance):
            unit = torch.cat([content[heads] * rule(heads) for heads in slopes])
            for names, factor in known:
                yield (*scheme, *names), factor * unit
            fitted = float(got @ unit / (unit @ unit))  # by least squares; NaN if all are 0
            if math.isfinite(fitted):
                yield (*scheme, *["sign reversed"] * (fitted < 0), "bias multiplied"), fitted * unit


def _schemes(slopes: Mapping[int, Tensor], reference: Slopes, tolerance: Tolerance) -> Iterator[tuple[Names, Slopes]]:
    """Rules that give the slopes, without a factor, the most likely first."""
    yield (), reference
    yield ("geometric slopes",), lambda heads: alibi_slopes(heads, "geometric").double()
    yield ("halving slopes",), lambda heads: alibi_slopes(heads, "halving").double()
    yield ("first slope is 1",), lambda heads: torch.tensor(first_slope_is_one(heads), dtype=torch.float64)
    yield ("first slope is 1",), lambda heads: 2 ** (-8 * torch.arange(heads, dtype=torch.float64) / heads)
    for dtype in (torch.float16, torch.bfloat16):
        yield ("imprecise slopes",), lambda heads, dtype=dtype: reference(heads).to(dtype).double()
    for devices in range(2, max(slopes) + 1):
        if all(heads % devices == 0 for heads in slopes):
            yield ("slopes of a head slice",), partial(_local_slopes, reference, devices)
            yield ("slopes of a head slice",), partial(_first_slice, reference, devices)
    yield ("heads in another order",), lambda heads: _in_order_of(slopes[heads], reference(heads))
    yield ("heads without a bias",), lambda heads: reference(heads) * (slopes[heads].abs() > tolerance.absolute)


def _local_slopes(reference: Slopes, devices: int, num_heads: int) -> Tensor:
    """Every device computes the slopes for its own number of heads."""
    return reference(num_heads // devices).repeat(devices)


def _first_slice(reference: Slopes, devices: int, num_heads: int) -> Tensor:
    """Every device uses the slopes of the first device's heads."""
    return reference(num_heads)[: num_heads // devices].repeat(devices)


def _in_order_of(got: Tensor, wanted: Tensor) -> Tensor:
    """The wanted slopes, the steepest where the steepest of `got` is, and so on."""
    return wanted[wanted.abs().argsort()][got.abs().argsort().argsort()]


def _known_factors(head_dim: int | None) -> list[tuple[Names, float]]:
    """Factors of the bias that have a name; the first is 1, without any."""
    dims = [head_dim] if head_dim else _HEAD_DIMS
    known: list[tuple[Names, float]] = [((), 1.0), *((("bias before scaling",), dim**-0.5) for dim in dims)]
    known += [(("added twice", *names), 2 * factor) for names, factor in known]
    return known + [(("sign reversed", *names), -factor) for names, factor in known]


def _evidence(places: list[tuple[int, int]], got: Tensor, wanted: Tensor) -> str:
    """The first of the slopes that are off by the largest factor; `places` has their (num_heads, head)."""
    errors = [round(abs(g / (w or 1e-9) - 1), 4) for g, w in zip(got.tolist(), wanted.tolist(), strict=True)]
    worst = errors.index(max(errors))
    heads, head = places[worst]
    return f"head {head} of {heads} has slope {got[worst]:.6g}, expected {wanted[worst]:.6g}"
