"""Explain observed attention weights: find the fewest known faults that together reproduce them.

A faulty bias has three independent parts: the slopes (with a factor), how it depends on the positions, and which keys
after the query are visible. Every combination of the last two is tried, simplest first, with slopes fitted to the
observations; then the fitted slopes are named.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.check.call import try_each
from alibi_viz.check.naming import Content, Slopes, Tolerance, name_slopes
from alibi_viz.check.observation import SHORT, Observation, Probe, precision
from alibi_viz.check.report import Comparison, Finding
from alibi_viz.check.rules import ROUNDINGS, Rounding, Rule, correct_bias, rules

__all__ = ["Diagnosis", "Expectation", "diagnose", "observe_all"]


@dataclass(frozen=True)
class Expectation:
    """What the function should compute, and what helps to explain why it doesn't.

    Attributes:
        slopes: the correct slopes, a function of the number of heads.
        causal: whether keys after the query should be masked; otherwise the bias should be symmetric.
        head_dim: the size of one head, if known: it identifies a bias that was divided by its square root.
        content: for every head count, the factor of q . k that was measured, relative to the correct one.
    """

    slopes: Slopes
    causal: bool
    head_dim: int | None = None
    content: Content = None

    def bias(self, probe: Probe) -> Tensor:
        """The correct bias with the causal mask, float64 [heads, query, key]."""
        return correct_bias(probe, self.slopes, self.causal)

    def name(self, slopes: dict[int, Tensor], dtype: torch.dtype) -> list[Finding]:
        """Name the faults of slopes that were fitted to weights of this dtype."""
        limits = precision(dtype)
        tolerance = Tolerance(limits.relative, limits.absolute / (2 * SHORT))
        return name_slopes(slopes, self.slopes, tolerance=tolerance, head_dim=self.head_dim, content=self.content)


class Diagnosis(NamedTuple):
    """The findings, and the call whose weights differ most from the correct ones."""

    findings: list[Finding]
    comparison: Comparison | None


def observe_all(
    read: Callable[[Probe], Observation], probes: Sequence[Probe]
) -> tuple[dict[Probe, Observation], list[Finding]]:
    """The observations of all calls, and findings for those that failed."""
    results, findings = try_each(read, probes)
    failed = [probe for probe in probes if probe not in results]
    # If only the longest calls fail, the function has a maximum length.
    longest = max(probe.key_length for probe in probes)
    if results and all(probe.key_length == longest > SHORT for probe in failed):
        capped = ("raises an error", "wrong shape")
        findings = [replace(each, name="length cap") if each.name in capped else each for each in findings]
    return results, findings


def diagnose(observations: Sequence[Observation], expected: Expectation) -> Diagnosis:
    """Name the faults behind the observations, which come from calls of one function."""
    wrong = [observation for observation in observations if not observation.agrees(expected.bias(observation.probe))]
    if not wrong:
        return Diagnosis([], None)
    comparison = _worst(wrong, expected)
    joint = _explain(observations, expected, str(comparison))
    if joint is not None:
        return Diagnosis(joint, comparison)
    # No single rule explains all calls: explain each by itself, and say for which sizes each fault appears.
    places: dict[str, list[Probe]] = {}
    evidence: dict[str, str] = {}
    for observation in wrong:
        difference = str(comparison if [observation] == wrong else _worst([observation], expected))
        explanation = _explain([observation], expected, difference)
        if explanation is None:
            is_long = observation.probe.key_length > SHORT
            fault = "length cap" if is_long and not places else "unknown fault"
            explanation = [Finding(fault, difference)]
        for finding in explanation:
            places.setdefault(finding.name, []).append(observation.probe)
            evidence.setdefault(finding.name, finding.evidence)
    findings = []
    for name, probes in places.items():
        only = f" (only with {'; '.join(map(str, probes))})" if len(probes) < len(observations) else ""
        findings.append(Finding(_name_in_branch(name, probes) if only else name, evidence[name] + only))
    return Diagnosis(findings, comparison)


def _explain(observations: Sequence[Observation], expected: Expectation, evidence: str) -> list[Finding] | None:
    """The fewest faults that reproduce all observations, of which at least one is wrong, or None."""
    cap = _cap(observations)
    window = _window(observations)
    explanations = []
    for candidates in zip(*(rules(o.probe, expected.causal, cap, window) for o in observations), strict=True):
        slopes = _fit(observations, candidates)
        if _agree(observations, candidates, slopes):
            faults = [Finding(fault, evidence) for fault in candidates[0].faults]
            explanations.append(expected.name(slopes, observations[0].dtype) + faults)
            if len(explanations[-1]) == 1:
                break
    if not _has_content_factor(expected):
        explanations = [findings for findings in explanations if findings]  # something is wrong, so name a fault
    if explanations:
        return min(explanations, key=len)
    if all(_agrees_in_half_precision(observation, expected) for observation in observations):
        return [Finding("rounded to half precision", evidence)]
    return _explain_by_rounding(observations, expected, evidence)


def _has_content_factor(expected: Expectation) -> bool:
    """Whether q . k has a wrong factor, which may apply to the bias too."""
    return any(abs(factor - 1) > 1e-2 for factor in (expected.content or {}).values())


def _agrees_in_half_precision(observation: Observation, expected: Expectation) -> bool:
    coarse = Observation(observation.probe, observation.logits, torch.bfloat16, precision(torch.bfloat16).floor)
    return coarse.agrees(expected.bias(observation.probe))


def _explain_by_rounding(
    observations: Sequence[Observation], expected: Expectation, evidence: str
) -> list[Finding] | None:
    """As `_explain`, by positions, or slopes times positions, that were rounded to half precision."""
    for dtype, form in ROUNDINGS:
        roundings = [
            Rounding(o.probe, expected.slopes(o.probe.num_heads), expected.causal, dtype, form) for o in observations
        ]
        fitted = _fit(observations, roundings)
        factors = {heads: factor.mean().expand(heads) for heads, factor in fitted.items()}
        if _agree(observations, roundings, factors):
            slopes = {heads: factor * expected.slopes(heads) for heads, factor in factors.items()}
            return [*expected.name(slopes, dtype), Finding("colliding positions", evidence)]
    return None


def _agree(
    observations: Sequence[Observation], candidates: Sequence[Rule | Rounding], slopes: Mapping[int, Tensor]
) -> bool:
    """Whether all observed weights are those of the candidates' biases. Some rows are compared first, to save time."""
    return all(
        o.agrees(candidate.bias(slopes[o.probe.num_heads], rows), rows)
        for all_rows in (False, True)
        for o, candidate in zip(observations, candidates, strict=True)
        for rows in [slice(None) if all_rows else o.some_rows]
    )


def _fit(observations: Sequence[Observation], candidates: Sequence[Rule | Rounding]) -> dict[int, Tensor]:
    """For every head count, the factors [heads] of the biases that fit the last query best, by least squares."""
    numerators: dict[int, Tensor] = {}
    denominators: dict[int, Tensor] = {}
    for observation, candidate in zip(observations, candidates, strict=True):
        unit = torch.ones(observation.probe.num_heads)
        y, x = observation.log_weights[:, -1], candidate.bias(unit, [-1])[:, 0]  # [heads, key]
        readable = (y > observation.floor) & x.isfinite()
        count = readable.sum(-1, keepdim=True).clamp(min=1)
        x, y = (v.where(readable, 0.0) for v in (x, y))
        x, y = ((v - v.sum(-1, keepdim=True) / count).where(readable, 0.0) for v in (x, y))
        heads = observation.probe.num_heads
        numerators[heads] = numerators.get(heads, 0) + (x * y).sum(-1)
        denominators[heads] = denominators.get(heads, 0) + (x * x).sum(-1)
    return {heads: numerators[heads] / denominators[heads].clamp(min=1e-12) for heads in numerators}


def _cap(observations: Sequence[Observation]) -> int | None:
    """The distance from which on the bias of the last query is constant in the longest call, if there is one."""
    longest = max(observations, key=lambda o: o.probe.key_length)
    step = longest.log_weights[:, -1].flip(-1).diff(dim=-1).abs().amax(0)
    moving = (step > precision(longest.dtype).absolute / 10).nonzero()
    cap = int(moving.max()) + 1 if len(moving) else 0
    return cap if 0 < cap < longest.probe.key_length - 1 else None


def _window(observations: Sequence[Observation]) -> int | None:
    """The number of keys that the last query sees in the longest call, if it is not all of them."""
    longest = max(observations, key=lambda o: o.probe.key_length)
    window = int((longest.log_weights[:, -1] > longest.floor).sum(-1).max())
    return window if window < longest.probe.key_length else None


def _worst(observations: Sequence[Observation], expected: Expectation) -> Comparison:
    """The call whose weights differ most from the correct ones; a small one if it shows half of that difference."""
    differences = [
        (*observation.largest_difference(expected.bias(observation.probe)), observation) for observation in observations
    ]
    largest = max(difference for difference, _, _ in differences)
    _, place, worst = min(
        (entry for entry in differences if entry[0] >= largest / 2), key=lambda entry: entry[2].probe.key_length
    )
    return Comparison(str(worst.probe), worst.normalize(expected.bias(worst.probe)).exp(), worst.weights, place)


def _name_in_branch(name: str, probes: list[Probe]) -> str:
    if name == "sign reversed":
        return "sign reversed in one branch"
    if name == "no bias" and all(probe.query_length < probe.key_length for probe in probes):
        return "no bias while decoding"
    return name
