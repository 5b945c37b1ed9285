"""Explain weights at equal content by a case of the table of faults and by fitted slopes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.check.expected import ALL_ROWS, Expected, Group, Places, Rows
from alibi_viz.check.fault_table import cases
from alibi_viz.check.one_matrix import worst_comparison
from alibi_viz.check.plan import SHORT, Call
from alibi_viz.check.probe import Observation
from alibi_viz.check.report import Finding
from alibi_viz.check.slope_rules import ByGroup, Tolerance, name_slopes

# Slopes of any size, and positions that are read from the weights
_EXPLAINS_TOO_MUCH = {
    "other slopes": 3,
    "queries at other positions": 1,
    "keys in another order": 1,
}
_FEW_ROWS = 8  # compared before all rows: they reject most cases in less time


class Explanation(NamedTuple):
    """Faults that come together, and what a function with them computes.

    Attributes:
        findings: the faults.
        expected: None if there is no formula for them.
        calls: some that they explain, or all if there is no formula.
        says_when: whether the findings say already with which calls they were seen.
    """

    findings: list[Finding]
    expected: Expected | None
    calls: Sequence[Call] = ()
    says_when: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(finding.name for finding in self.findings)


def explain_bias(seen: Sequence[Observation], expected: Expected) -> Explanation | None:
    """The fewest faults that give all observed weights; none if they are right. None if no case of
    the table does."""
    precision = seen[0].precision
    # An error of a slope moves the farthest log weight of a short call by SHORT times as much.
    tolerance = Tolerance(precision.relative, precision.absolute / (2 * SHORT))
    evidence = str(worst_comparison(seen, expected))
    fit = _Fit(seen)
    best: Explanation | None = None
    for case in cases(seen, expected):
        is_worse = best is not None and len(case.faults) >= _cost(best.findings)
        if is_worse:
            break
        slopes = fit.slopes(case.expected)
        if not fit.agrees(case.expected, slopes):
            continue
        named = name_slopes(slopes, expected, tolerance)
        if not named.findings and not fit.agrees_exactly(case.expected):
            # The weights are others, so the slopes must be slightly wrong: look closer.
            closer = Tolerance(tolerance.relative / 4, tolerance.absolute / 4)
            named = name_slopes(slopes, expected, closer)
        findings = list(named.findings)
        for fault, observed in zip(case.faults, case.observed, strict=True):
            findings.append(Finding(fault, f"{observed}: {evidence}" if observed else evidence))
        faulty = case.expected
        if named.findings:
            faulty = replace(faulty, own_slopes=named.slopes)
        if best is None or _cost(findings) < _cost(best.findings):
            best = Explanation(findings, faulty)
        if _cost(findings) <= 1:  # there is none with fewer faults
            return best
    return best


def _cost(findings: Sequence[Finding]) -> int:
    """How many faults these are; what explains too much costs more."""
    return sum(1 + _EXPLAINS_TOO_MUCH.get(finding.name, 0) for finding in findings)


class _Fit:
    """Compares cases of the table with observations."""

    def __init__(self, seen: Sequence[Observation]) -> None:
        self.seen = seen
        self.last_row = [Places(observation.probe, [-1]) for observation in seen]
        self.few_rows = []
        for observation in seen:
            evenly_spaced = torch.linspace(0, observation.probe.query_length - 1, _FEW_ROWS)
            rows = evenly_spaced.round().int().unique().tolist()
            self.few_rows.append((rows, Places(observation.probe, rows)))

    def slopes(self, case: Expected) -> dict[Group, Tensor]:
        """The slopes [heads] with which a case fits the last query of each call best.

        They are fitted by least squares, for each group of calls that should have the same.
        """
        covariance: dict[Group, Tensor] = {}
        variance: dict[Group, Tensor] = {}
        for observation, places in zip(self.seen, self.last_row, strict=True):
            heads = observation.probe.num_heads
            unit_bias = case.bias_of(torch.ones(heads), places)
            unit_bias = unit_bias.expand(heads, -1, -1)[:, 0]  # [heads, key]
            readable = observation.visible & unit_bias.isfinite()
            x = _centered(unit_bias, readable)
            y = _centered(observation.log_weights[:, -1], readable)
            group = _group(observation)
            covariance[group] = covariance.get(group, 0) + (x * y).sum(-1)
            variance[group] = variance.get(group, 0) + (x * x).sum(-1)
        slopes = {}
        for group, of_group in variance.items():
            # Where no query sees keys with different biases, any slope fits: take the correct one.
            correct = case.slopes(group.num_heads)
            fitted = covariance[group] / of_group.clamp(min=1e-12)
            slopes[group] = fitted.where(of_group > 1e-12, correct)
        return slopes

    def agrees(self, case: Expected, slopes: ByGroup) -> bool:
        """Whether all observed weights are those of a case with these slopes."""

        def fits(observation: Observation, rows: Rows, places: Places) -> bool:
            bias = case.bias_of(slopes[_group(observation)], places)
            # Rows without any key agree with everything.
            sees_a_key = bias.isfinite().any(-1).any(-1)
            return bool(sees_a_key.all()) and observation.agrees(bias, rows)

        for observation, (rows, places) in zip(self.seen, self.few_rows, strict=True):
            if not fits(observation, rows, places):
                return False
        for observation in self.seen:
            if not fits(observation, ALL_ROWS, Places(observation.probe)):
                return False
        return True

    def agrees_exactly(self, expected: Expected) -> bool:
        return all(observation.is_right(expected) for observation in self.seen)


def _group(observation: Observation) -> Group:
    return Group(observation.probe.num_heads, observation.call.head_dim)


def _centered(values: Tensor, readable: Tensor) -> Tensor:
    """Values [heads, key] minus the mean of the readable ones, and 0 for the others."""
    values = values.where(readable, 0.0)
    mean = values.sum(-1, keepdim=True) / readable.sum(-1, keepdim=True)
    return (values - mean).where(readable, 0.0)
