"""Name slopes: which scheme computes them, and by which factor they are multiplied."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from alibi_viz.check.report import Finding
from alibi_viz.gallery.slopes import first_slope_is_one
from alibi_viz.slopes import SCHEMES, alibi_slopes

__all__ = ["Content", "Slopes", "Tolerance", "name_slopes", "reference_slopes"]

Slopes = Callable[[int], Tensor]  # num_heads -> float64 [heads]
Content = Mapping[int, float] | None  # num_heads -> measured factor of q . k, relative to the correct one


class Tolerance(NamedTuple):
    """How exactly slopes are known."""

    relative: float
    absolute: float = 0.0

    def close(self, got: Tensor, wanted: Tensor) -> bool:
        """Whether two tensors are equal within this tolerance."""
        return torch.allclose(got, wanted, rtol=self.relative, atol=self.absolute)


_HEAD_DIMS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256)  # tried if the size of a head is unknown


def reference_slopes(slopes: str | Callable[[int], Any]) -> Slopes:
    """The slopes to compare with: those of a scheme, or of the caller's function.

    Raises TypeError or ValueError if it is neither, or if the function doesn't return one number per head.
    """
    if isinstance(slopes, str):
        if slopes not in SCHEMES:
            raise ValueError(f"slopes must be one of {', '.join(SCHEMES)} or a function of num_heads, got {slopes!r}")
        return lambda num_heads: alibi_slopes(num_heads, slopes).double()
    if not callable(slopes):
        raise TypeError(f"slopes must be a scheme or a function of num_heads, got {slopes!r}")

    def reference(num_heads: int) -> Tensor:
        value = torch.as_tensor(slopes(num_heads)).detach().double().cpu()
        if value.shape != (num_heads,):
            raise ValueError(f"slopes({num_heads}) must return [{num_heads}], got shape {list(value.shape)}")
        return value

    return reference


def name_slopes(
    slopes: Mapping[int, Tensor],
    reference: Slopes,
    *,
    tolerance: Tolerance,
    head_dim: int | None = None,
    content: Content = None,
) -> list[Finding]:
    """Name the faults of slopes [heads], given for one or more head counts; an empty list if they are correct.

    `tolerance` is the precision of the slopes. For `head_dim` and `content` see `Expectation`.
    """
    wanted = {heads: reference(heads) for heads in slopes}
    evidence = _evidence(slopes, wanted)
    if all(tolerance.close(got, 0 * got) for got in slopes.values()):
        is_expected = all(float(want.abs().max()) == 0 for want in wanted.values())
        return [] if is_expected else [Finding("no bias", evidence)]
    pairs = [(got, wanted[heads]) for heads, got in slopes.items()]
    for dtype in (torch.float16, torch.bfloat16):
        is_rounded = all(Tolerance(2e-6).close(got, want.to(dtype).double()) for got, want in pairs)
        if is_rounded and not all(tolerance.close(got, want) for got, want in pairs):
            return [Finding("imprecise slopes", evidence)]
    # A wrong factor of the content may also apply to the bias.
    divided = {heads: got / content[heads] for heads, got in slopes.items()} if content else slopes
    explanations = [
        [*scheme, *factor]
        for candidate in (slopes, divided)
        for scheme, rule in _schemes(candidate, reference)
        for factor in _factors(candidate, rule, tolerance, head_dim)
    ]
    if not explanations:  # each head by itself, with one of the known factors
        for factor, names in _known_factors(head_dim):
            name = _name_head_by_head([(got / factor, want) for got, want in pairs], tolerance)
            explanations += [[name, *names]] if name else []
    if explanations:
        best = min(explanations, key=len)
        others = [" and ".join(names) for names in explanations if len(names) == len(best) and names != best]
        if others:
            evidence += f"; '{others[0]}' gives the same slopes, and another head count would tell them apart"
        return [Finding(name, evidence) for name in best]
    # No rule explains all head counts: perhaps one explains those that are wrong.
    wrong = {heads: got for heads, got in slopes.items() if not tolerance.close(got, wanted[heads])}
    if len(wrong) == len(slopes):
        return [Finding("other slopes", evidence)]
    return name_slopes(wrong, reference, tolerance=tolerance, head_dim=head_dim, content=content)


def _name_head_by_head(pairs: Sequence[tuple[Tensor, Tensor]], tolerance: Tolerance) -> str:
    """The fault of slopes whose heads are right one by one, given as (got, wanted); empty if there is none."""
    if all(tolerance.close(got.sort().values, want.sort().values) for got, want in pairs):
        return "heads in another order"
    if all(tolerance.close(got.where(got != 0, want), want) for got, want in pairs):
        return "heads without a bias"
    return ""


def _schemes(slopes: Mapping[int, Tensor], reference: Slopes) -> Iterator[tuple[list[str], Slopes]]:
    yield [], reference
    yield ["geometric slopes"], lambda heads: alibi_slopes(heads, "geometric").double()
    yield ["halving slopes"], lambda heads: alibi_slopes(heads, "halving").double()
    yield ["first slope is 1"], lambda heads: torch.tensor(first_slope_is_one(heads), dtype=torch.float64)
    yield ["first slope is 1"], lambda heads: 2 ** (-8 * torch.arange(heads, dtype=torch.float64) / heads)
    for devices in range(2, max(slopes) + 1):
        if all(heads % devices == 0 for heads in slopes):
            yield ["slopes of a head slice"], partial(_local_slopes, reference, devices)
            yield ["slopes of a head slice"], partial(_first_slice, reference, devices)


def _local_slopes(reference: Slopes, devices: int, num_heads: int) -> Tensor:
    """Every device computes the slopes for its own number of heads."""
    return reference(num_heads // devices).repeat(devices)


def _first_slice(reference: Slopes, devices: int, num_heads: int) -> Tensor:
    """Every device uses the slopes of the first device's heads."""
    return reference(num_heads)[: num_heads // devices].repeat(devices)


def _factors(
    slopes: Mapping[int, Tensor], rule: Slopes, tolerance: Tolerance, head_dim: int | None
) -> Iterator[list[str]]:
    """The factors, by name, that turn the slopes of `rule` into `slopes`."""
    unknown = _constant_factor(slopes, rule, tolerance)
    if unknown is None:
        return
    for factor, names in _known_factors(head_dim):
        if math.isclose(unknown, factor, rel_tol=max(tolerance.relative, 1e-5)):
            yield names
            return
    yield ["bias multiplied"] if unknown > 0 else ["sign reversed", "bias multiplied"]


def _known_factors(head_dim: int | None) -> list[tuple[float, list[str]]]:
    """Factors of the bias that have a name, with the names; the first is 1, without any."""
    before = [1 / math.sqrt(dim) for dim in ([head_dim] if head_dim else _HEAD_DIMS)]
    known: list[tuple[float, list[str]]] = [(1.0, []), *((factor, ["bias before scaling"]) for factor in before)]
    known += [(2 * factor, ["added twice", *names]) for factor, names in known]
    return known + [(-factor, ["sign reversed", *names]) for factor, names in known]


def _constant_factor(slopes: Mapping[int, Tensor], rule: Slopes, tolerance: Tolerance) -> float | None:
    """The factor between `slopes` and those of `rule`, if it is the same for all heads."""
    got, wanted = torch.cat(list(slopes.values())), torch.cat([rule(heads) for heads in slopes])
    if got.shape != wanted.shape or not bool((wanted != 0).any()):
        return None
    factor = float(got @ wanted / (wanted @ wanted))
    return factor if math.isfinite(factor) and tolerance.close(got, factor * wanted) else None


def _evidence(slopes: Mapping[int, Tensor], wanted: Mapping[int, Tensor]) -> str:
    """The first of the slopes that are off by the largest factor."""
    places = [(heads, head) for heads, got in slopes.items() for head in range(len(got))]
    pairs = [(float(slopes[heads][head]), float(wanted[heads][head])) for heads, head in places]
    errors = [round(abs(got / (want or 1e-9) - 1), 4) for got, want in pairs]
    worst = errors.index(max(errors))
    (heads, head), (got, want) = places[worst], pairs[worst]
    return f"head {head + 1} of {heads} has slope {got:.6g}, expected {want:.6g}"
