"""Explain observed attention weights: find the fewest known faults that together reproduce them.

A faulty bias has three independent parts: the slopes (with a factor), how it depends on the
positions, and which keys after the query are visible. Every combination of the last two is tried,
simplest first, with fitted slopes.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.check.gallery.published_slopes import first_slope_is_one
from alibi_viz.check.probe import SHORT, Observation, Probe
from alibi_viz.check.report import Comparison, Finding
from alibi_viz.slopes import alibi_slopes

Names = tuple[str, ...]
Rows = slice | list[int]
Slopes = Callable[[int], Tensor]  # num_heads -> float64 [heads]
ByHeads = Mapping[int, Tensor]  # {num_heads: [heads]}

_HEAD_DIMS = (
    8,
    12,
    16,
    20,
    24,
    32,
    40,
    48,
    64,
    80,
    96,
    112,
    128,
    160,
    192,
    256,
)  # tried if it is unknown
_COARSE = ("imprecise slopes",)
_ROUNDINGS: list[tuple[Names, torch.dtype]] = [
    ((), torch.float64),
    (_COARSE, torch.float16),
    (_COARSE, torch.bfloat16),
]
_COSTS = {
    "bias multiplied": 2
}  # a factor without a name counts as so many faults more: it explains too much


class Rule(NamedTuple):
    """A bias of -slope * distance, where visible. `faults` is empty for the correct rule."""

    faults: tuple[str, ...]
    distance: Tensor  # float64 [query, key] or [heads, query, key]
    visible: Tensor  # bool [query, key] or [heads, query, key]

    def bias(self, slopes: Tensor, rows: Rows = slice(None)) -> Tensor:
        """The bias for slopes [heads] in these rows, float64 [heads, rows, key]."""
        bias = -slopes.double()[:, None, None] * self.distance[..., rows, :]
        return bias.masked_fill(~self.visible[..., rows, :], -math.inf)


@dataclass(frozen=True)
class Expectation:
    """What the function should compute, and what helps to explain why it doesn't."""

    slopes: Slopes
    causal: bool = (
        True  # keys after the query should be masked; otherwise the bias should be symmetric
    )
    head_dim: int | None = (
        None  # of one head, if known: it identifies a bias that was divided by its square root
    )

    def bias(self, probe: Probe) -> Tensor:
        """The correct bias with the causal mask, float64 [heads, query, key]."""
        return next(rules(probe, self)).bias(self.slopes(probe.num_heads))


def diagnose(
    observations: Sequence[Observation], expected: Expectation
) -> tuple[list[Finding], Comparison | None]:
    """Name the faults behind the observations of one function, and find the call whose weights
    differ most."""
    wrong = [
        observation
        for observation in observations
        if not observation.agrees(expected.bias(observation.probe))
    ]
    if not wrong:
        return [], None
    comparison = _worst(wrong, expected)
    findings = _explain(observations, expected, str(comparison))
    return _explain_each(
        wrong, len(observations), expected
    ) if findings is None else findings, comparison


def _explain_each(wrong: Sequence[Observation], calls: int, expected: Expectation) -> list[Finding]:
    """No rule explains all calls: explain each wrong one by itself, and say for which sizes each
    fault appears."""
    found: dict[str, list[tuple[Probe, str]]] = {}  # {fault: [(sizes, evidence)]}
    for observation in wrong:
        probe, evidence = observation.probe, str(_worst([observation], expected))
        if (findings := _explain([observation], expected, evidence)) is None:
            future = float(
                observation.weights.triu(1 + probe.key_length - probe.query_length).max()
            )
            name = (
                "future not masked" if expected.causal and future > 1e-3 else "length cap"
            )  # too weak a mask
            is_long = probe.key_length > SHORT and {*found} <= {"length cap", "future not masked"}
            findings = [Finding(name if is_long else "unknown fault", evidence)]
        for finding in findings:
            found.setdefault(finding.name, []).append((probe, finding.evidence))
    if "bias multiplied" in found:  # by 1 / length, which is 1 / sqrt(head_dim) for some length
        found["bias multiplied"] += found.pop("bias before scaling", [])
    findings = []
    for fault, places in found.items():
        name, evidence, sizes = fault, places[0][1], [probe for probe, _ in places]
        if fault == "bias multiplied" and (
            other := next((place for place in places if place[1] != evidence), None)
        ):
            evidence += f" with {sizes[0]}, but {other[1]} with {other[0]}"
        if len(sizes) < calls:
            evidence += f" (only with {'; '.join(map(str, sizes))})"
            few_queries = expected.causal and all(
                probe.query_length < probe.key_length for probe in sizes
            )
            if fault == "sign reversed":
                name = "sign reversed in one branch"
            elif (
                fault == "no bias"
                and few_queries
                and any(probe.key_length <= SHORT for probe in sizes)
            ):
                name = "no bias while decoding"  # a long call has few queries, too
        findings.append(Finding(name, evidence))
    return findings


def _explain(
    observations: Sequence[Observation], expected: Expectation, evidence: str
) -> list[Finding] | None:
    """The fewest faults that reproduce all observations, of which at least one is wrong, or
    None."""
    longest = max(observations, key=lambda o: o.probe.key_length)
    window, limits = int(longest.visible.sum(-1).max()), longest.precision
    limited = window if window < longest.probe.key_length else None
    candidates = (rules(o.probe, expected, longest.cap, limited, o.last_key) for o in observations)
    explanations = []
    for rule in zip(*candidates, strict=True):
        slopes = _fit(observations, rule)
        if _agree(observations, rule, slopes):
            tolerances = limits.relative, limits.absolute / (2 * SHORT)
            faults = name_slopes(slopes, expected, *tolerances)
            if not rule[0].faults:  # the weights were wrong, so the slopes are, however little
                faults = faults or name_slopes(slopes, expected, *(each / 4 for each in tolerances))
            explanations.append(faults + [Finding(fault, evidence) for fault in rule[0].faults])
            if len(explanations[-1]) == 1:
                break
    return min(filter(None, explanations), key=len, default=None)


def _agree(
    observations: Sequence[Observation], candidates: Sequence[Rule], slopes: ByHeads
) -> bool:
    """Whether all observed weights are those of the candidates' biases."""
    # A few rows, from the first to the last, are compared before all: they reject most candidates
    # in less time.
    some = [
        torch.linspace(0, o.probe.query_length - 1, 8).round().int().unique().tolist()
        for o in observations
    ]
    return all(
        o.agrees(candidate.bias(slopes[o.probe.num_heads], each), each)
        for rows in (some, [slice(None)] * len(some))
        for o, candidate, each in zip(observations, candidates, rows, strict=True)
    )


def _fit(observations: Sequence[Observation], candidates: Sequence[Rule]) -> dict[int, Tensor]:
    """For every head count, the factors [heads] of the biases that fit the last query best, by
    least squares."""
    covariance: dict[int, Tensor] = {}
    variance: dict[int, Tensor] = {}
    for observation, candidate in zip(observations, candidates, strict=True):
        heads = observation.probe.num_heads
        y, x = (
            observation.log_weights[:, -1],
            candidate.bias(torch.ones(heads), [-1])[:, 0],
        )  # [heads, key]
        readable = observation.visible & x.isfinite()
        count = readable.sum(-1, keepdim=True)
        x, y = (v.where(readable, 0.0) for v in (x, y))
        x, y = ((v - v.sum(-1, keepdim=True) / count).where(readable, 0.0) for v in (x, y))
        covariance[heads] = covariance.get(heads, 0) + (x * y).sum(-1)
        variance[heads] = variance.get(heads, 0) + (x * x).sum(-1)
    return {heads: covariance[heads] / variance[heads].clamp(min=1e-12) for heads in covariance}


def _worst(observations: Sequence[Observation], expected: Expectation) -> Comparison:
    """The call whose weights differ most from the correct ones; a small one if it shows half of
    that difference."""
    differences = [(*o.largest_difference(expected.bias(o.probe)), o) for o in observations]
    largest = max(difference for difference, _, _ in differences)
    shown = (entry for entry in differences if entry[0] >= largest / 2)
    _, place, worst = min(
        shown, key=lambda entry: (entry[2].probe.key_length, -entry[2].probe.query_length)
    )
    return Comparison(
        str(worst.probe), worst.normalize(expected.bias(worst.probe)).exp(), worst.weights, place
    )


def rules(
    probe: Probe,
    expected: Expectation,
    cap: int | None = None,
    window: int | None = None,
    last_key: Tensor | None = None,
) -> Iterator[Rule]:
    """All rules, the simplest first. Biases may end at a distance `cap`, keys at a `window` or a
    `last_key` [heads]."""
    row = torch.arange(probe.query_length, dtype=torch.float64)[:, None]
    key = torch.arange(probe.key_length, dtype=torch.float64)
    query = row + probe.key_length - probe.query_length
    offset = query - key  # [query, key], negative for keys after the query
    everything, past = torch.ones_like(offset, dtype=torch.bool), key <= query
    visible = past if expected.causal else everything
    yield Rule((), offset.abs(), visible)
    distances = {
        "": offset,
        "wrong corner of the cache": (row - key).abs(),
        "square root of the distance": offset.sign() * offset.abs().sqrt(),
    }
    if cap is not None:
        distances["length cap"] = offset.clamp(-cap, cap)
    # which keys are visible, and whether the distance to later ones counts as positive, zero or
    # negative
    futures: list[tuple[str, Tensor, Callable[[Tensor], Tensor]]] = [("", visible, torch.abs)]
    if expected.causal:
        futures += [
            ("future not masked", everything, torch.abs),
            ("future not masked", everything, torch.relu),
            ("causal mask in the wrong corner", key <= row, torch.abs),
            ("query can't see itself", key < query, torch.abs),
            *(
                ("one key ahead", key <= query + 1, sign)
                for sign in (torch.abs, torch.relu, torch.clone)
            ),
        ]
    else:
        futures.append(("only earlier keys", past, torch.abs))
        futures += [("one direction only", everything, torch.relu)]
        futures += [("one direction only", everything, lambda offset: torch.relu(-offset))]
    futures += [
        ("rewarded future", everything, torch.clone),
        ("rewarded past", everything, torch.neg),
    ]
    if window is not None and last_key is not None:
        futures.append(("window", visible & (offset.abs() < window), torch.abs))
        futures.append(("first keys only", visible & (key < last_key[:, None, None]), torch.abs))
    combinations = [
        Rule(tuple(filter(None, (name, future))), sign(distance), shown)
        for (name, distance), (future, shown, sign) in product(distances.items(), futures)
    ]
    yield from sorted(combinations[1:], key=lambda rule: len(rule.faults))
    slopes = expected.slopes(probe.num_heads)[:, None, None]
    for distance in _rounded_distances(query, key, slopes.where(slopes != 0, 1.0)):
        yield Rule(("colliding positions",), distance.expand(probe), visible)


def _rounded_distances(query: Tensor, key: Tensor, slopes: Tensor) -> Iterator[Tensor]:
    """Distances, up to a constant per row, of positions or products with slopes that were rounded
    to half precision."""
    for dtype in (torch.bfloat16, torch.float16):
        yield -(slopes * key).to(dtype).double() / slopes
        yield -(slopes.to(dtype) * key.to(dtype)).double() / slopes
        yield -(slopes * (key - key[-1])).to(dtype).double() / slopes
        yield (query.to(dtype).double() - key.to(dtype).double()).abs()
        yield (query.to(dtype) - key.to(dtype)).double().abs()


def name_slopes(
    slopes: ByHeads,
    expected: Expectation,
    relative: float,
    absolute: float = 0.0,
    *,
    factors: bool = True,
) -> list[Finding]:
    """Name the faults of slopes, {num_heads: [heads]}: those of the hypothesis with the fewest.
    Empty if correct.

    Without `factors`, a function returned the slopes; else they were read from a bias, with its
    sign and size.
    """
    close = partial(torch.allclose, rtol=relative, atol=absolute)
    got, wanted = (
        torch.cat(list(each)) for each in (slopes.values(), map(expected.slopes, slopes))
    )
    errors = [
        round(abs(g / (w or 1e-9) - 1), 4)
        for g, w in zip(got.tolist(), wanted.tolist(), strict=True)
    ]
    worst = errors.index(max(errors))
    heads, head = [(heads, head + 1) for heads in slopes for head in range(heads)][worst]
    evidence = f"head {head} of {heads} has slope {got[worst]:.6g}, expected {wanted[worst]:.6g}"
    if close(got, 0 * got):
        return [Finding("no bias", evidence)] if bool(wanted.any()) else []
    if possible := [
        names for names, each in _hypotheses(slopes, expected, absolute) if close(got, each)
    ]:
        unlikely = [] if factors else ["added twice", "bias before scaling"]  # of slopes alone
        costs = [
            len(names) + sum(_COSTS.get(name, 0.5 * (name in unlikely)) for name in names)
            for names in possible
        ]
        fewest = possible[costs.index(min(costs))]
        signed = {} if factors else {"sign reversed": "negative slopes"}
        return [Finding(signed.get(name, name), evidence) for name in fewest]
    # No hypothesis explains all head counts: perhaps one explains those that are wrong.
    wrong = {
        heads: each for heads, each in slopes.items() if not close(each, expected.slopes(heads))
    }
    if len(wrong) == len(slopes):
        return [Finding("other slopes", evidence)]
    return name_slopes(wrong, expected, relative, absolute, factors=factors)


def _hypotheses(
    slopes: ByHeads, expected: Expectation, smallest: float
) -> Iterator[tuple[Names, Tensor]]:
    """Names of faults and the slopes that they give, for all head counts one after another, the
    likeliest first."""
    got = torch.cat(list(slopes.values()))
    dims = [expected.head_dim] if expected.head_dim else _HEAD_DIMS
    factors: list[tuple[Names, float]] = [
        ((), 1.0),
        *((("bias before scaling",), dim**-0.5) for dim in dims),
    ]
    # With guessed sizes, twice a factor is that of another size.
    factors += [
        (("added twice", *names), 2 * each)
        for names, each in factors
        if expected.head_dim or not names
    ]
    factors += [(("sign reversed", *names), -factor) for names, factor in factors]
    for (scheme, rule), (rounding, dtype) in product(
        _schemes(slopes, expected.slopes, dims, smallest), _ROUNDINGS
    ):
        try:
            unit = torch.cat([rule(heads).to(dtype).double() for heads in slopes])
        except Exception:  # the caller's own slopes may be known for these numbers of heads only
            continue
        common = (*scheme, *rounding)
        yield from (
            ((*common, *names), factor * unit)
            for names, factor in factors
            if not {*common} & {*names}
        )
        fitted = float(got @ unit / (unit @ unit))  # by least squares; NaN if all are 0
        if math.isfinite(fitted):
            yield (*common, *["sign reversed"] * (fitted < 0), "bias multiplied"), fitted * unit


def _schemes(
    slopes: ByHeads, reference: Slopes, dims: Sequence[int], least: float
) -> Iterator[tuple[Names, Slopes]]:
    """Rules that give the slopes, without a factor, the most likely first."""
    yield (), reference
    yield ("geometric slopes",), lambda heads: alibi_slopes(heads, "geometric").double()
    yield ("halving slopes",), lambda heads: alibi_slopes(heads, "halving").double()
    first = ("first slope is 1",)
    yield first, lambda heads: torch.tensor(first_slope_is_one(heads), dtype=torch.float64)
    yield ("halving slopes", *first), lambda heads: 2.0 ** -torch.arange(heads, dtype=torch.float64)
    yield (
        first,
        lambda heads: (-8 * torch.arange(heads) / 2 ** int(math.log2(heads)) % -8).double().exp2(),
    )
    yield first, lambda heads: 2 ** (-8 * torch.arange(heads, dtype=torch.float64) / heads)
    for devices in range(
        2, min(slopes)
    ):  # each computes those of its own heads, or takes the first
        if all(heads % devices == 0 for heads in slopes):
            slices = ("slopes of a head slice",)
            yield slices, partial(lambda n, heads: reference(heads // n).repeat(n), devices)
            yield (
                slices,
                partial(lambda n, heads: reference(heads)[: heads // n].repeat(n), devices),
            )
    for dim in dims:  # divided by sqrt(d_model)
        yield (
            ("bias before scaling",),
            partial(lambda dim, heads: reference(heads) * (dim * heads) ** -0.5, dim),
        )
    yield (  # the steepest of the correct slopes where the steepest is, and so on
        ("heads in another order",),
        lambda heads: (wanted := reference(heads))[wanted.abs().argsort()][
            slopes[heads].abs().argsort().argsort()
        ],
    )
    yield ("heads without a bias",), lambda heads: reference(heads) * (slopes[heads].abs() > least)
