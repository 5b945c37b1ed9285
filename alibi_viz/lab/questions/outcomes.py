"""Summaries that hold in every seed: which methods hold, degrade or fail with length, and which is best."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

__all__ = ["FAILS", "FOUND", "HOLDS", "TIE", "best_at", "join", "outcome", "outcomes", "quoted", "rises", "undefined"]

HOLDS = 0.1  # bits per byte: a method whose loss rises by no more than this beyond its training length holds
FAILS = 0.5  # bits per byte: a method whose loss rises by at least this fails; in between it degrades
TIE = 0.02  # bits per byte, or share of answers: a smaller lead doesn't make a method the best
FOUND = 0.9  # share of answers: a task counts as solved at this accuracy

SeedCurves = Mapping[str, Mapping[int, Mapping[int, float]]]  # {label: {seed: {x: value}}}
VERBS = {"holds": ("holds", "hold"), "degrades": ("degrades", "degrade"), "fails": ("fails", "fail")}


def outcome(rises: Sequence[float]) -> str:
    """Classify rises in loss, one per seed: "holds", "degrades", "fails", "mixed", or "undefined" for a NaN or none.

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
        means = {quoted(label): f"({sum(rises[label]) / len(rises[label]):+z.2f})" for label in groups.get(kind, ())}
        if len(means) == 1:
            clauses += [f"{label} {singular} {mean}" for label, mean in means.items()]
        elif means:
            clauses.append(f"{join([f'{label} {mean}' for label, mean in means.items()])} {plural}")
    several = any(len(each) > 1 for each in rises.values())
    sentences = [f"{'In every seed ' if several else ''}{'; '.join(clauses)}."] if clauses else []
    if mixed := groups.get("mixed"):
        ranges = [f"{quoted(label)} ({min(rises[label]):+z.2f} to {max(rises[label]):+z.2f})" for label in mixed]
        sentences.append(f"The seeds disagree about {join(ranges)}.")
    return sentences


def rises(curves: SeedCurves) -> dict[str, list[float]]:
    """The largest rise of the loss above its value at the shortest length: {label: one rise per seed}.

    Labels with one length only, or that are not defined beyond their first, are left out.
    """
    all_rises = {label: [_rise(points) for points in seeds.values()] for label, seeds in curves.items()}
    return {label: each for label, each in all_rises.items() if all(map(math.isfinite, each))}


def _rise(points: Mapping[int, float]) -> float:
    first, *beyond = (points[x] for x in sorted(points))
    return max(filter(math.isfinite, beyond), default=math.nan) - first


def undefined(curves: SeedCurves, length: int) -> list[str]:
    """Sentences on labels without a value beyond their training length, so that a missing line isn't a surprise."""
    single = [label for label, seeds in curves.items() if all(len(points) == 1 for points in seeds.values())]
    ends = [
        quoted(label)
        for label, seeds in curves.items()
        if label not in single and any(math.isnan(points[max(points)]) for points in seeds.values())
    ]
    sentences = [f"Not defined beyond {length:,}: {join(ends)}."] if ends else []
    if single:
        sentences.append(f"Tested at its training length only: {join([quoted(label) for label in single])}.")
    return sentences


def values_at(curves: SeedCurves, x: int) -> pd.DataFrame:
    """The values at x, one row per seed and one column per label that has any."""
    columns = {
        label: {seed: points.get(x, math.nan) for seed, points in seeds.items()} for label, seeds in curves.items()
    }
    return pd.DataFrame(columns, dtype=float).dropna(axis="columns", how="all").dropna(how="all")


def best_at(curves: SeedCurves, x: int, where: str, *, lowest: bool = True) -> list[str]:
    """A sentence on which labels are best at x, or within `TIE` of the best, in every seed; none for fewer than two.

    >>> from alibi_viz.lab.questions.outcomes import best_at
    >>> best_at({"a": {0: {64: 2.0}}, "b": {0: {64: 2.01}}, "c": {0: {64: 3.0}}}, 64, "At 64")
    ['At 64 a and b are best, within 0.02 of each other.']
    """
    values = values_at(curves, x) * (1 if lowest else -1)
    if len(values.columns) < 2:
        return []
    near = values.le(values.min(axis="columns") + TIE, axis="index").all()
    leaders = [quoted(label) for label in near.index[near]]
    suffix = " in every seed" if len(values) > 1 else ""
    if not leaders:
        return [f"{where} no method is best{suffix}."]
    if len(leaders) == len(near):
        return [f"{where} all are within {TIE:g} of the best{suffix}."]
    verb = "are" if len(leaders) > 1 else "is"
    if not set(values.idxmin(axis="columns")) <= set(near.index[near]):  # in some seeds another one is ahead of them
        return [f"{where} {join(leaders)} {verb} within {TIE:g} of the best{suffix}."]
    margin = f", within {TIE:g} of each other" if len(leaders) > 1 else ""
    return [f"{where} {join(leaders)} {verb} best{suffix}{margin}."]


def quoted(label: str) -> str:
    """A label in a sentence: in quotation marks if it contains a comma."""
    return f'"{label}"' if "," in label else label


def join(parts: Sequence[str]) -> str:
    """Join words with commas and "and"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
