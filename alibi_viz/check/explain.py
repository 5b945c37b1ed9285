"""Explain observed attention weights: find the fewest known faults that reproduce all of them.

Every rule of `rules` is tried, simplest first, with fitted slopes, which `slope_rules` then names.
One explanation of all calls is preferred to one of all wrong calls, and that to one for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.check.beyond import EXACT_DESCRIPTIONS, describe, name_unexplained
from alibi_viz.check.common_condition import fault_of_condition, with_condition
from alibi_viz.check.plan import (
    NO_HEAD_DIM,
    SHORT,
    Call,
    Probe,
)
from alibi_viz.check.probe import Observation
from alibi_viz.check.report import Comparison, Finding
from alibi_viz.check.rules import ALL_ROWS, Clues, Expectation, Places, Rows, Rule
from alibi_viz.check.slope_rules import ByGroup, Group, Tolerance, name_slopes

_FEW_ROWS = 8  # compared before all rows: they reject most rules in less time


def wrong_observations(
    observations: Sequence[Observation], expected: Expectation
) -> list[Observation]:
    """Those of the observations that are not as expected."""
    wrong = []
    for observation in observations:
        if not observation.agrees(expected.bias(observation.probe)):
            wrong.append(observation)
    return wrong


def diagnose(
    observations: Sequence[Observation], wrong: Sequence[Observation], expected: Expectation
) -> tuple[list[Finding], Comparison | None]:
    """Name the faults behind the observations of one function, of which some are wrong.

    Returns the findings and the call whose weights differ most, or None if all are right.
    """
    if not wrong:
        return [], None

    comparison = _worst(wrong, expected)
    evidence = str(comparison)
    findings = _explain_together(observations, expected, evidence)
    if findings is None:
        findings = _explain_wrong_calls(observations, wrong, expected, evidence)
    return findings, comparison


def _explain_wrong_calls(
    observations: Sequence[Observation],
    wrong: Sequence[Observation],
    expected: Expectation,
    evidence: str,
) -> list[Finding]:
    """Explain the wrong calls, all at once if one explanation does, and say which they are."""
    together = _explain_together(wrong, expected, evidence)
    calls = [observation.call for observation in observations]
    wrong_calls = [observation.call for observation in wrong]
    if together is None:
        fault = fault_of_condition(wrong_calls, calls)
        if fault is not None:
            together = [Finding(fault, evidence)]
    if together is None:
        described = describe(wrong, expected, EXACT_DESCRIPTIONS)
        if described is None:
            return _explain_each(observations, wrong, expected)
        together = [described]
    return [_with_wrong_calls(finding, wrong_calls, calls, expected) for finding in together]


@dataclass(frozen=True)
class _Evidence:
    """Observations, and the clues of each."""

    observations: Sequence[Observation]
    clues: Sequence[Clues]
    expected: Expectation

    @classmethod
    def of(cls, observations: Sequence[Observation], expected: Expectation) -> "_Evidence":
        longest = max(observations, key=lambda observation: observation.probe.key_length)
        clues = [
            Clues.seen_in(longest, observation, expected.slopes) for observation in observations
        ]
        return cls(observations, clues, expected)

    # The places that all rules are tried at, of each observation

    @cached_property
    def last_row(self) -> list[Places]:
        return [Places.of(observation.probe, [-1]) for observation in self.observations]

    @cached_property
    def few_rows(self) -> list[tuple[list[int], Places]]:
        """A few rows, and their places."""
        few_rows = []
        for observation in self.observations:
            rows = _few_rows(observation.probe)
            few_rows.append((rows, Places.of(observation.probe, rows)))
        return few_rows

    def bias(self, n: int, rule: Rule, slopes: Tensor, places: Places) -> Tensor:
        """The bias of a rule at some places of observation n, float64 [heads, query, key]."""
        return self.expected.bias_of(rule, slopes, places, self.clues[n])

    def fit(self, rule: Rule) -> dict[Group, Tensor]:
        """The slopes [heads] with which a rule fits the last query of each call best.

        They are fitted by least squares, for each group of calls that should have the same.
        """
        covariance: dict[Group, Tensor] = {}
        variance: dict[Group, Tensor] = {}
        for n, observation in enumerate(self.observations):
            heads = observation.probe.num_heads
            unit_bias = self.bias(n, rule, torch.ones(heads), self.last_row[n])
            unit_bias = unit_bias.expand(heads, -1, -1)[:, 0]  # [heads, key]
            log_weights = observation.log_weights[:, -1]  # [heads, key]
            readable = observation.visible & unit_bias.isfinite()
            x = _centered(unit_bias, readable)
            y = _centered(log_weights, readable)
            group = _group(observation)
            covariance[group] = covariance.get(group, 0) + (x * y).sum(-1)
            variance[group] = variance.get(group, 0) + (x * x).sum(-1)
        slopes = {}
        for group, of_group in variance.items():
            # Where no query sees keys with different biases, any slope fits: take the correct one.
            correct = self.expected.slopes(group.num_heads)
            fitted = covariance[group] / of_group.clamp(min=1e-12)
            slopes[group] = fitted.where(of_group > 1e-12, correct)
        return slopes

    def agrees(self, rule: Rule, slopes: ByGroup) -> bool:
        """Whether all observed weights are those of the rule's biases."""

        def fits(n: int, rows: Rows, places: Places) -> bool:
            observation = self.observations[n]
            bias = self.bias(n, rule, slopes[_group(observation)], places)
            # Rows without any key agree with everything.
            sees_a_key = bias.isfinite().any(-1).any(-1)
            return bool(sees_a_key.all()) and observation.agrees(bias, rows)

        for n, (rows, places) in enumerate(self.few_rows):
            if not fits(n, rows, places):
                return False
        for n, observation in enumerate(self.observations):
            if not fits(n, ALL_ROWS, Places.of(observation.probe)):
                return False
        return True


def _group(observation: Observation) -> Group:
    head_dim = observation.call.head_dim
    return Group(observation.probe.num_heads, None if head_dim == NO_HEAD_DIM else head_dim)


def _explain_together(
    observations: Sequence[Observation], expected: Expectation, evidence: str
) -> list[Finding] | None:
    """The fewest faults that reproduce all observations, of which at least one is wrong.

    None if no rule does.
    """
    precision = observations[0].precision
    # An error of a slope moves the farthest log weight of a short call by SHORT times as much.
    tolerance = Tolerance(precision.relative, precision.absolute / (2 * SHORT))
    seen = _Evidence.of(observations, expected)
    explanations = []
    for rule in expected.rules():
        if not all(rule.makes_sense(clues) for clues in seen.clues):
            continue
        slopes = seen.fit(rule)
        if not seen.agrees(rule, slopes):
            continue
        slope_findings = name_slopes(slopes, expected, tolerance)
        if not slope_findings and not rule.faults:
            # The rule fits but the weights are wrong, so the slopes must be slightly wrong: look
            # closer.
            slope_findings = name_slopes(slopes, expected, _quarter(tolerance))
        explanation = slope_findings + _findings_of(rule, seen.clues[0], evidence)
        if len(explanation) == 1:  # there is none with fewer faults
            return explanation
        if explanation:
            explanations.append(explanation)
    return min(explanations, key=len, default=None)


def _findings_of(rule: Rule, clues: Clues, evidence: str) -> list[Finding]:
    """A finding for each fault of a rule, which says what the clues show, too."""
    findings = []
    for part in (rule.law, rule.view):
        if not part.fault:
            continue
        if part.observed:
            observed = part.observed.format(**vars(clues))
            findings.append(Finding(part.fault, f"{observed}: {evidence}"))
        else:
            findings.append(Finding(part.fault, evidence))
    return findings


def _quarter(tolerance: Tolerance) -> Tolerance:
    return Tolerance(tolerance.relative / 4, tolerance.absolute / 4)


def _centered(values: Tensor, readable: Tensor) -> Tensor:
    """Values [heads, key] minus the mean of the readable ones, and 0 for the others."""
    values = values.where(readable, 0.0)
    mean = values.sum(-1, keepdim=True) / readable.sum(-1, keepdim=True)
    return (values - mean).where(readable, 0.0)


def _few_rows(probe: Probe) -> list[int]:
    """A few rows of a call, from the first to the last."""
    evenly_spaced = torch.linspace(0, probe.query_length - 1, _FEW_ROWS)
    return evenly_spaced.round().int().unique().tolist()


def _worst(observations: Sequence[Observation], expected: Expectation) -> Comparison:
    """The call whose weights differ most from the correct ones.

    A small call is preferred if it shows half of that difference.
    """
    differences = []
    for observation in observations:
        difference, place = observation.largest_difference(expected.bias(observation.probe))
        differences.append((difference, place, observation))
    largest = max(difference for difference, _, _ in differences)
    telling = [entry for entry in differences if entry[0] >= largest / 2]

    def size(entry: tuple[float, tuple[int, int, int], Observation]) -> tuple[int, int]:
        probe = entry[2].probe
        return probe.key_length, -probe.query_length

    _, place, worst = min(telling, key=size)
    correct = worst.normalize(expected.bias(worst.probe)).exp()
    return Comparison(str(worst.probe), correct, worst.weights, place)


class _Sighting(NamedTuple):
    """A call in which a fault was seen."""

    call: Call
    evidence: str


def _explain_each(
    observations: Sequence[Observation], wrong: Sequence[Observation], expected: Expectation
) -> list[Finding]:
    """Explain each wrong call by itself, and say for which calls each fault appears."""
    calls = [observation.call for observation in observations]
    findings = []
    for fault, sightings in _sightings_by_fault(wrong, expected).items():
        evidence = sightings[0].evidence
        if fault == "bias multiplied":
            evidence = _with_second_factor(sightings)
        of_fault = [sighting.call for sighting in sightings]
        findings.append(_with_wrong_calls(Finding(fault, evidence), of_fault, calls, expected))
    return findings


def _sightings_by_fault(
    wrong: Sequence[Observation], expected: Expectation
) -> dict[str, list[_Sighting]]:
    """The faults of the wrong calls, each call explained by itself, and where each was seen."""
    by_fault: dict[str, list[_Sighting]] = {}
    unexplained = []
    for observation in wrong:
        evidence = str(_worst([observation], expected))
        findings = _explain_together([observation], expected, evidence)
        if findings is None:
            unexplained.append(observation)
            continue
        for finding in findings:
            sighting = _Sighting(observation.call, finding.evidence)
            by_fault.setdefault(finding.name, []).append(sighting)
    if unexplained:
        finding = name_unexplained(unexplained, set(by_fault), expected)
        sightings = by_fault.setdefault(finding.name, [])
        for observation in unexplained:
            sightings.append(_Sighting(observation.call, finding.evidence))

    # A factor of 1 / length is 1 / sqrt(head_dim) for some length.
    if "bias multiplied" in by_fault and "bias before scaling" in by_fault:
        by_fault["bias multiplied"] += by_fault.pop("bias before scaling")
    return by_fault


def _with_second_factor(sightings: Sequence[_Sighting]) -> str:
    """The evidence of the first call, and that of one with another factor if there is one."""
    first = sightings[0]
    for other in sightings:
        if other.evidence != first.evidence:
            return f"{first.evidence} with {first.call}, but {other.evidence} with {other.call}"
    return first.evidence


# Faults with a name of their own where only calls with fewer queries than keys have them
_WHILE_DECODING = {
    "no bias": "no bias while decoding",
    "heads share a slope": "slopes of the key heads while decoding",
}


def _with_wrong_calls(
    finding: Finding, wrong: Sequence[Call], calls: Sequence[Call], expected: Expectation
) -> Finding:
    """Say that a fault appears only in these calls; in some cases that gives it another name."""
    name = finding.name
    if set(wrong) != set(calls):
        name = _name_in_some_calls(finding.name, wrong, expected)
    return Finding(name, with_condition(finding.evidence, wrong, calls))


def _name_in_some_calls(fault: str, wrong: Sequence[Call], expected: Expectation) -> str:
    """The name of a fault that only these calls have."""
    if fault == "sign reversed":
        return "sign reversed in one branch"
    has_few_queries = all(call.probe.query_length < call.probe.key_length for call in wrong)
    # A long call may have few queries, too, so it alone would not say that the model decodes.
    has_short_call = any(call.is_short for call in wrong)
    if expected.causal and has_few_queries and has_short_call:
        return _WHILE_DECODING.get(fault, fault)
    return fault
