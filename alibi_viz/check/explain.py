"""Explain observed attention weights: find the fewest known faults that reproduce all of them.

Every rule of `rules` is tried, simplest first, with fitted slopes, which `slope_rules` then names.
If no rule explains all calls together, each wrong call is explained by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from alibi_viz.check.probe import SHORT, Observation, Probe
from alibi_viz.check.report import Comparison, Finding
from alibi_viz.check.rules import ALL_ROWS, Expectation, Limits, Rows, Rule, rules
from alibi_viz.check.slope_rules import ByHeads, Tolerance, name_slopes

_FEW_ROWS = 8  # compared before all rows: they reject most rules in less time


def diagnose(
    observations: Sequence[Observation], expected: Expectation
) -> tuple[list[Finding], Comparison | None]:
    """Name the faults behind the observations of one function.

    Returns the findings and the call whose weights differ most, or None if all are right.
    """
    wrong = []
    for observation in observations:
        if not observation.agrees(expected.bias(observation.probe)):
            wrong.append(observation)
    if not wrong:
        return [], None

    comparison = _worst(wrong, expected)
    findings = _explain_together(observations, expected, evidence=str(comparison))
    if findings is None:
        findings = _explain_each(wrong, num_calls=len(observations), expected=expected)
    return findings, comparison


def _explain_together(
    observations: Sequence[Observation], expected: Expectation, evidence: str
) -> list[Finding] | None:
    """The fewest faults that reproduce all observations, of which at least one is wrong.

    None if no rule does.
    """
    longest = max(observations, key=lambda observation: observation.probe.key_length)
    precision = longest.precision
    # An error of a slope moves the farthest log weight of a short call by SHORT times as much.
    tolerance = Tolerance(precision.relative, precision.absolute / (2 * SHORT))
    rules_of_calls = []
    for observation in observations:
        limits = Limits.seen_in(longest, observation)
        rules_of_calls.append(rules(observation.probe, expected, limits))

    explanations = []
    # `rules` lists the same rules for every call, so each column is one rule at all sizes.
    for versions_of_rule in zip(*rules_of_calls, strict=True):
        slopes = _fit(observations, versions_of_rule)
        if not _agree(observations, versions_of_rule, slopes):
            continue
        rule_faults = versions_of_rule[0].faults
        slope_findings = name_slopes(slopes, expected, tolerance)
        if not slope_findings and not rule_faults:
            # The rule fits but the weights are wrong, so the slopes must be slightly wrong: look
            # closer.
            slope_findings = name_slopes(slopes, expected, _quarter(tolerance))
        explanation = slope_findings + [Finding(fault, evidence) for fault in rule_faults]
        if len(explanation) == 1:  # there is none with fewer faults
            return explanation
        if explanation:
            explanations.append(explanation)
    return min(explanations, key=len, default=None)


def _quarter(tolerance: Tolerance) -> Tolerance:
    return Tolerance(tolerance.relative / 4, tolerance.absolute / 4)


def _fit(
    observations: Sequence[Observation], versions_of_rule: Sequence[Rule]
) -> dict[int, Tensor]:
    """The slopes [heads] with which the rules fit the last query of each call best.

    They are fitted by least squares, for every head count.
    """
    covariance: dict[int, Tensor] = {}
    variance: dict[int, Tensor] = {}
    for observation, rule in zip(observations, versions_of_rule, strict=True):
        heads = observation.probe.num_heads
        unit_bias = rule.bias(torch.ones(heads), rows=[-1])[:, 0]  # [heads, key]
        log_weights = observation.log_weights[:, -1]  # [heads, key]
        readable = observation.visible & unit_bias.isfinite()
        x = _centered(unit_bias, readable)
        y = _centered(log_weights, readable)
        covariance[heads] = covariance.get(heads, 0) + (x * y).sum(-1)
        variance[heads] = variance.get(heads, 0) + (x * x).sum(-1)
    return {heads: covariance[heads] / variance[heads].clamp(min=1e-12) for heads in covariance}


def _centered(values: Tensor, readable: Tensor) -> Tensor:
    """Values [heads, key] minus the mean of the readable ones, and 0 for the others."""
    values = values.where(readable, 0.0)
    mean = values.sum(-1, keepdim=True) / readable.sum(-1, keepdim=True)
    return (values - mean).where(readable, 0.0)


def _agree(
    observations: Sequence[Observation], versions_of_rule: Sequence[Rule], slopes: ByHeads
) -> bool:
    """Whether all observed weights are those of the rules' biases."""

    def agrees(observation: Observation, rule: Rule, rows: Rows) -> bool:
        bias = rule.bias(slopes[observation.probe.num_heads], rows)
        return observation.agrees(bias, rows)

    calls = list(zip(observations, versions_of_rule, strict=True))
    for observation, rule in calls:
        if not agrees(observation, rule, _few_rows(observation.probe)):
            return False
    return all(agrees(observation, rule, ALL_ROWS) for observation, rule in calls)


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


@dataclass
class _Sightings:
    """The calls in which one fault was seen, with the evidence of each."""

    probes: list[Probe] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)

    def add(self, probe: Probe, evidence: str) -> None:
        self.probes.append(probe)
        self.evidence.append(evidence)

    def extend(self, other: "_Sightings") -> None:
        self.probes += other.probes
        self.evidence += other.evidence


def _explain_each(
    wrong: Sequence[Observation], num_calls: int, expected: Expectation
) -> list[Finding]:
    """Explain each wrong call by itself, and say for which sizes each fault appears."""
    sightings: dict[str, _Sightings] = {}
    for observation in wrong:
        evidence = str(_worst([observation], expected))
        findings = _explain_together([observation], expected, evidence)
        if findings is None:
            name = _name_unexplained(observation, expected, faults_so_far=set(sightings))
            findings = [Finding(name, evidence)]
        for finding in findings:
            sightings.setdefault(finding.name, _Sightings()).add(
                observation.probe, finding.evidence
            )

    # A factor of 1 / length is 1 / sqrt(head_dim) for some length.
    if "bias multiplied" in sightings and "bias before scaling" in sightings:
        sightings["bias multiplied"].extend(sightings.pop("bias before scaling"))

    findings = []
    for fault, seen in sightings.items():
        finding = Finding(fault, seen.evidence[0])
        if fault == "bias multiplied":
            finding = _with_second_factor(finding, seen)
        if len(seen.probes) < num_calls:
            finding = _with_condition(finding, seen.probes, expected)
        findings.append(finding)
    return findings


def _name_unexplained(
    observation: Observation, expected: Expectation, faults_so_far: set[str]
) -> str:
    """The name for a call that no rule explains.

    In a long call, if nothing else was wrong before, it is too weak a mask or a maximum length.
    """
    probe = observation.probe
    is_long = probe.key_length > SHORT
    if not is_long or not faults_so_far <= {"length cap", "future not masked"}:
        return "unknown fault"
    first_future_key = 1 + probe.key_length - probe.query_length
    weight_of_future = float(observation.weights.triu(first_future_key).max())
    if expected.causal and weight_of_future > 1e-3:
        return "future not masked"
    return "length cap"


def _with_second_factor(finding: Finding, seen: _Sightings) -> Finding:
    """Add a call with another factor to the evidence, if there is one."""
    for probe, evidence in zip(seen.probes, seen.evidence, strict=True):
        if evidence != finding.evidence:
            both = f"{finding.evidence} with {seen.probes[0]}, but {evidence} with {probe}"
            return replace(finding, evidence=both)
    return finding


def _with_condition(finding: Finding, probes: list[Probe], expected: Expectation) -> Finding:
    """Say that a fault appears only in these calls; in some cases that gives it another name."""
    sizes = "; ".join(str(probe) for probe in probes)
    name = finding.name
    has_few_queries = all(probe.query_length < probe.key_length for probe in probes)
    has_short_call = any(probe.key_length <= SHORT for probe in probes)
    if name == "sign reversed":
        name = "sign reversed in one branch"
    elif name == "no bias" and expected.causal and has_few_queries and has_short_call:
        # A long call has few queries, too, so it alone would not say that.
        name = "no bias while decoding"
    return Finding(name, f"{finding.evidence} (only with {sizes})")
