"""Summaries that hold in every seed: which methods hold, degrade or fail with length, and which is best."""

import math
from collections.abc import Mapping, Sequence

__all__ = ["FAILS", "FOUND", "HOLDS", "TIE", "best", "join", "outcome", "outcomes", "quoted"]

HOLDS = 0.1  # bits per byte: a method whose loss rises by no more than this beyond its training length holds
FAILS = 0.5  # bits per byte: a method whose loss rises by at least this fails; in between it degrades
TIE = 0.02  # bits per byte, or share of answers: a smaller lead doesn't make a method the best
FOUND = 0.9  # share of answers: a task counts as solved at this accuracy

SeedCurves = Mapping[str, Mapping[int, Mapping[int, float]]]  # {label: {seed: {x: value}}}
VERBS = {"holds": ("holds", "hold"), "degrades": ("degrades", "degrade"), "fails": ("fails", "fail")}


def outcome(rises: Sequence[float]) -> str:
    """Classify rises in loss, one per seed: "holds", "degrades", "fails", or "mixed" if seeds differ.

    "undefined" if a rise is NaN, or there is none.

    >>> from alibi_viz.lab.questions.outcomes import outcome
    >>> outcome([0.01, 0.02]), outcome([0.2]), outcome([0.01, 2.0])
    ('holds', 'degrades', 'mixed')
    """
    if not rises or not all(map(math.isfinite, rises)):
        return "undefined"
    kinds = {"holds" if rise <= HOLDS else "fails" if rise >= FAILS else "degrades" for rise in rises}
    return kinds.pop() if len(kinds) == 1 else "mixed"


def outcomes(rises: Mapping[str, Sequence[float]]) -> list[str]:
    """Sentences on which methods hold, degrade and fail, from the rise of each label's loss in each seed.

    >>> from alibi_viz.lab.questions.outcomes import outcomes
    >>> outcomes({"alibi": [0.01], "rotary": [1.9], "sinusoidal": [2.0]})
    ['alibi holds (+0.01); rotary (+1.90) and sinusoidal (+2.00) fail.']
    >>> outcomes({"alibi": [0.01, 0.03], "none": [0.05, 0.6]})
    ['In every seed alibi holds (+0.02).', 'The seeds disagree about none (+0.05 to +0.60).']
    """
    groups: dict[str, list[str]] = {}
    for label, each in rises.items():
        groups.setdefault(outcome(each), []).append(label)
    clauses = []
    for kind, (singular, plural) in VERBS.items():
        if labels := groups.get(kind):
            numbers = [f"{quoted(label)} ({sum(rises[label]) / len(rises[label]):+z.2f})" for label in labels]
            if len(labels) == 1:
                clauses.append(f"{quoted(labels[0])} {singular} {numbers[0].removeprefix(quoted(labels[0]) + ' ')}")
            else:
                clauses.append(f"{join(numbers)} {plural}")
    several = any(len(each) > 1 for each in rises.values())
    sentences = [f"{'In every seed ' if several else ''}{'; '.join(clauses)}."] if clauses else []
    if mixed := groups.get("mixed"):
        ranges = [f"{quoted(label)} ({min(rises[label]):+z.2f} to {max(rises[label]):+z.2f})" for label in mixed]
        sentences.append(f"The seeds disagree about {join(ranges)}.")
    return sentences


def best(curves: SeedCurves, x: int, *, lowest: bool) -> list[str]:
    """The labels that are best at x in every seed, or within `TIE` of the best. Empty if no label is, or for fewer
    than two labels.

    >>> from alibi_viz.lab.questions.outcomes import best
    >>> best({"a": {0: {64: 2.0}}, "b": {0: {64: 2.01}}, "c": {0: {64: 3.0}}}, 64, lowest=True)
    ['a', 'b']
    """
    by_seed: dict[int, dict[str, float]] = {}
    for label, seeds in curves.items():
        for seed, points in seeds.items():
            if math.isfinite(points.get(x, math.nan)):
                by_seed.setdefault(seed, {})[label] = points[x]
    if max(map(len, by_seed.values()), default=0) < 2:
        return []
    sign = 1 if lowest else -1
    return [
        label
        for label in curves
        if all(
            label in values and sign * values[label] <= min(sign * value for value in values.values()) + TIE
            for values in by_seed.values()
        )
    ]


def quoted(label: str) -> str:
    """A label in a sentence: in quotation marks if it contains a comma."""
    return f'"{label}"' if "," in label else label


def join(parts: Sequence[str]) -> str:
    """Join words with commas and "and".

    >>> from alibi_viz.lab.questions.outcomes import join
    >>> join(["a"]), join(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
