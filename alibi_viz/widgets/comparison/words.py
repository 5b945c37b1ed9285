"""What the published comparison says in words: only what holds in every seed."""

import math
from collections.abc import Mapping, Sequence

from alibi_viz.widgets.core.formatting import BREAKS, HOLDS, join_words

__all__ = ["best", "fates", "listed", "scores"]

Seeds = Mapping[int, Mapping[int, float]]  # {seed: {length, distance or step: number}}
FOUND, MISSED = 0.9, 0.5  # shares of right answers: as in the claims, and more wrong than right


def fates(curves: Mapping[str, Seeds], *, differences: bool) -> list[str]:
    """Who holds, drifts and breaks in every seed, of losses by length, or of `differences` by step.

    >>> from alibi_viz.widgets.comparison.words import fates
    >>> fates({"a": {0: {64: 2.0, 128: 2.0}, 1: {64: 2.0, 128: 3.0}}}, differences=False)
    ['The seeds do not agree on a.']
    """
    groups: dict[str, list[str]] = {}
    for name, seeds in curves.items():
        groups.setdefault(_fate(seeds, differences), []).append(name)
    said = []
    for fate, one, several, limit in (
        ("holds", "does not break", "do not break", f"at most {HOLDS:g} bit worse"),
        ("drifts", "drifts", "drift", f"{HOLDS:g} to {BREAKS:g} bit worse"),
        ("breaks", "breaks", "break", f"at least {BREAKS:g} bit worse"),
    ):
        if fate in groups:
            said.append(f"{listed(groups[fate])} {several if len(groups[fate]) > 1 else one} ({limit})")
    words = [f"In every seed: {'; '.join(said)}."] if said else []
    if "mixed" in groups:
        words.append(f"The seeds do not agree on {listed(groups['mixed'])}.")
    if "undefined" in groups:
        words.append(f"Not defined beyond the training length: {listed(groups['undefined'])}.")
    if "alone" in groups:
        words.append(f"Tested at its training length only: {listed(groups['alone'])}.")
    return words


def scores(curves: Mapping[str, Seeds]) -> list[str]:
    """Who is right nearly always, and who is wrong more often than right, at the furthest test in every seed.

    >>> from alibi_viz.widgets.comparison.words import scores
    >>> scores({"a": {0: {63: 1.0}, 1: {63: 0.95}}, "b": {0: {63: 0.2}, 1: {63: 0.6}}})
    ['Right at least nine times of ten at the furthest test, in every seed: a.', 'Neither in every seed: b.']
    """
    ends = {name: [points[max(points)] for points in seeds.values()] for name, seeds in curves.items()}
    found = [name for name, shares in ends.items() if min(shares) >= FOUND]
    missed = [name for name, shares in ends.items() if max(shares) < MISSED]
    rest = [name for name in ends if name not in (*found, *missed)]
    words = []
    if found:
        words.append(f"Right at least nine times of ten at the furthest test, in every seed: {listed(found)}.")
    if missed:
        words.append(f"Right less than half of the time there, in every seed: {listed(missed)}.")
    return [*words, f"Neither in every seed: {listed(rest)}."] if rest else words


def best(curves: Mapping[str, Seeds], *, lowest: bool) -> str:
    """Who is best at the longest test in every seed; several where they tie. Empty with fewer than two to compare.

    >>> from alibi_viz.widgets.comparison.words import best
    >>> best({"a": {0: {64: 2.0}, 1: {64: 2.5}}, "b": {0: {64: 2.1}, 1: {64: 2.4}}}, lowest=True)
    'At the longest test no method is best in every seed.'
    """
    furthest = max((place for seeds in curves.values() for points in seeds.values() for place in points), default=0)
    ends: dict[int, dict[str, float]] = {}
    for name, seeds in curves.items():
        for seed, points in seeds.items():
            if math.isfinite(points.get(furthest, math.nan)):
                ends.setdefault(seed, {})[name] = points[furthest]
    if max(map(len, ends.values()), default=0) < 2:
        return ""
    choose = min if lowest else max
    winners = [name for name in curves if all(own.get(name) == choose(own.values()) for own in ends.values())]
    if not winners:
        return "At the longest test no method is best in every seed."
    verb = "are" if len(winners) > 1 else "is"
    return f"At the longest test, of those shown, {listed(winners)} {verb} best in every seed."


def listed(names: Sequence[str]) -> str:
    """Labels in a sentence; one that has a comma of its own is quoted.

    >>> from alibi_viz.widgets.comparison.words import listed
    >>> print(listed(["alibi", "alibi, learned slopes", "t5"]))
    alibi, "alibi, learned slopes" and t5
    """
    return join_words([f'"{name}"' if "," in name else name for name in names])


def _fate(seeds: Seeds, differences: bool) -> str:
    if all(len(points) == 1 for points in seeds.values()):
        return "alone"
    worse = [points[max(points)] if differences else _rise(points) for points in seeds.values()]
    if not all(map(math.isfinite, worse)):
        return "undefined"
    if max(worse) <= HOLDS:
        return "holds"
    if min(worse) >= BREAKS:
        return "breaks"
    return "drifts" if min(worse) > HOLDS and max(worse) < BREAKS else "mixed"


def _rise(points: Mapping[int, float]) -> float:
    """From the shortest test, which is of the training length, to the worst of the others; NaN with any of those."""
    shortest = min(points)
    beyond = [value for place, value in points.items() if place != shortest]
    return max(beyond) - points[shortest] if all(map(math.isfinite, beyond)) else math.nan
