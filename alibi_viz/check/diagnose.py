"""Explain observed attention weights: find the fewest known faults that together reproduce them.

A faulty bias has three independent parts: the slopes (with a factor), how it depends on the positions, and which keys
after the query are visible. Every combination of the last two is tried, simplest first, with slopes fitted to the
observations; then the fitted slopes are named.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from alibi_viz.check.call import try_each
from alibi_viz.check.naming import Tolerance, name_slopes
from alibi_viz.check.probe import SHORT, Observation, Probe, precision
from alibi_viz.check.report import Comparison, Finding
from alibi_viz.check.rules import ROUNDINGS, Expectation, Rounding, Rule, rules


def observe_all(
    read: Callable[[Probe], Observation], probes: Sequence[Probe]
) -> tuple[dict[Probe, Observation], list[Finding]]:
    """The observations of all calls, and findings for those that failed."""
    results, findings = try_each(read, probes)
    # If only the longest calls fail, the function has a maximum length.
    longest = max(probe.key_length for probe in probes)
    if results and all(probe in results or probe.key_length == longest > SHORT for probe in probes):
        capped = ("raises an error", "wrong shape")
        findings = [replace(each, name="length cap") if each.name in capped else each for each in findings]
    return results, findings


def diagnose(observations: Sequence[Observation], expected: Expectation) -> tuple[list[Finding], Comparison | None]:
    """Name the faults behind the observations of one function, and find the call whose weights differ most."""
    wrong = [observation for observation in observations if not observation.agrees(expected.bias(observation.probe))]
    if not wrong:
        return [], None
    comparison = _worst(wrong, expected)
    findings = _explain(observations, expected, str(comparison))
    return _explain_each(wrong, observations, expected) if findings is None else findings, comparison


def _explain_each(
    wrong: Sequence[Observation], observations: Sequence[Observation], expected: Expectation
) -> list[Finding]:
    """No rule explains all calls: explain each by itself, and say for which sizes each fault appears."""
    found: dict[str, list[tuple[Probe, str]]] = {}  # {fault: [(sizes, evidence)]}
    for observation in wrong:
        evidence = str(_worst([observation], expected))
        findings = _explain([observation], expected, evidence)
        if findings is None:
            is_long = observation.probe.key_length > SHORT
            findings = [Finding("length cap" if is_long and not found else "unknown fault", evidence)]
        for finding in findings:
            found.setdefault(finding.name, []).append((observation.probe, finding.evidence))
    return [
        _only_with([probe for probe, _ in places], name, places[0][1])
        if len(places) < len(observations)
        else Finding(name, places[0][1])
        for name, places in found.items()
    ]


def _only_with(probes: list[Probe], name: str, evidence: str) -> Finding:
    """A fault that appears for some sizes only."""
    if name == "sign reversed":
        name = "sign reversed in one branch"
    elif name == "no bias" and all(probe.query_length < probe.key_length for probe in probes):
        name = "no bias while decoding"
    return Finding(name, f"{evidence} (only with {'; '.join(map(str, probes))})")


def _explain(observations: Sequence[Observation], expected: Expectation, evidence: str) -> list[Finding] | None:
    """The fewest faults that reproduce all observations, of which at least one is wrong, or None."""
    for explain in (_explain_by_rules, _explain_by_half_precision, _explain_by_rounding):
        findings = explain(observations, expected, evidence)
        if findings is not None:
            return findings
    return None


def _explain_by_rules(
    observations: Sequence[Observation], expected: Expectation, evidence: str
) -> list[Finding] | None:
    """As `_explain`, by a rule and the slopes that fit it best."""
    cap, window = _cap(observations), _window(observations)
    explanations = []
    for candidates in zip(*(rules(o.probe, expected.causal, cap, window) for o in observations), strict=True):
        slopes = _fit(observations, candidates)
        if _agree(observations, candidates, slopes):
            faults = [Finding(fault, evidence) for fault in candidates[0].faults]
            explanations.append(_name(slopes, expected, observations[0].dtype) + faults)
            if len(explanations[-1]) == 1:
                break
    # Something is wrong, so name a fault; but a wrong factor of q . k that applies to the bias too is named elsewhere.
    is_scaled = any(abs(factor - 1) > 1e-2 for factor in (expected.content or {}).values())
    return min((findings for findings in explanations if findings or is_scaled), key=len, default=None)


def _explain_by_half_precision(
    observations: Sequence[Observation], expected: Expectation, evidence: str
) -> list[Finding] | None:
    """As `_explain`, by weights that are right, but less exactly than their dtype allows."""
    floor = precision(torch.bfloat16).floor
    coarse = [Observation(o.probe, o.logits, torch.bfloat16, floor) for o in observations]
    is_right = all(each.agrees(expected.bias(each.probe)) for each in coarse)
    return [Finding("rounded to half precision", evidence)] if is_right else None


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
            return [*_name(slopes, expected, dtype), Finding("colliding positions", evidence)]
    return None


def _name(slopes: Mapping[int, Tensor], expected: Expectation, dtype: torch.dtype) -> list[Finding]:
    """Name the faults of slopes that were fitted to weights of this dtype."""
    limits = precision(dtype)
    return name_slopes(slopes, expected, Tolerance(limits.relative, limits.absolute / (2 * SHORT)))


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
    covariance: dict[int, Tensor] = {}
    variance: dict[int, Tensor] = {}
    for observation, candidate in zip(observations, candidates, strict=True):
        heads = observation.probe.num_heads
        y, x = observation.log_weights[:, -1], candidate.bias(torch.ones(heads), [-1])[:, 0]  # [heads, key]
        readable = (y > observation.floor) & x.isfinite()
        count = readable.sum(-1, keepdim=True).clamp(min=1)
        x, y = (v.where(readable, 0.0) for v in (x, y))
        x, y = ((v - v.sum(-1, keepdim=True) / count).where(readable, 0.0) for v in (x, y))
        covariance[heads] = covariance.get(heads, 0) + (x * y).sum(-1)
        variance[heads] = variance.get(heads, 0) + (x * x).sum(-1)
    return {heads: covariance[heads] / variance[heads].clamp(min=1e-12) for heads in covariance}


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
    differences = [(*o.largest_difference(expected.bias(o.probe)), o) for o in observations]
    largest = max(difference for difference, _, _ in differences)
    shown = (entry for entry in differences if entry[0] >= largest / 2)
    _, place, worst = min(shown, key=lambda entry: entry[2].probe.key_length)
    return Comparison(str(worst.probe), worst.normalize(expected.bias(worst.probe)).exp(), worst.weights, place)
