"""Sentences about the rows of one question and one variant: what holds in every seed."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from statistics import fmean
from typing import Any

import pandas as pd

# Bits per byte: a method whose loss rises by no more than this beyond its training length holds
MAX_RISE_HOLDING = 0.1
MIN_RISE_FAILING = (
    0.5  # bits per byte: one whose loss rises by at least this fails; in between it degrades
)
TIE = 0.02  # bits per byte, or share of many answers: a smaller lead doesn't make a method the best
SOLVED = 0.9  # share of answers: a task counts as solved at this accuracy


def every_seed(
    rows: pd.DataFrame, statistic: Callable[[pd.Series], float]
) -> dict[str, list[float]]:
    """A number for each seed of each label, from the defined values of its curve, for labels with
    one in every seed."""
    numbers: dict[str, list[float]] = {}
    for (label, _), own in rows.groupby(["label", "seed"], sort=False):
        numbers.setdefault(label, []).append(
            statistic(own.set_index("x")["value"].sort_index().dropna())
        )
    return {label: each for label, each in numbers.items() if not any(map(math.isnan, each))}


def rises(rows: pd.DataFrame) -> dict[str, list[float]]:
    """The largest rise of the loss above its value at the training length; only where there are
    both."""
    trained = (rows["x"] == rows["length"]).groupby([rows["label"], rows["seed"]]).transform("any")
    rows = rows[trained & ~(rows["x"] < rows["length"])]
    return every_seed(
        rows, lambda line: line.iloc[1:].max() - line.iloc[0] if len(line) > 1 else math.nan
    )


def outcome(rises: Sequence[float]) -> str:
    """Classify rises in loss, one per seed: "holds", "degrades", "fails", "mixed", or "undefined"
    for a NaN or none."""
    if not rises or not all(map(math.isfinite, rises)):
        return "undefined"
    kinds = {
        "holds" if x <= MAX_RISE_HOLDING else "fails" if x >= MIN_RISE_FAILING else "degrades"
        for x in rises
    }
    return kinds.pop() if len(kinds) == 1 else "mixed"


def outcomes(rises: Mapping[str, Sequence[float]], most: str = " at most") -> list[str]:
    """Clauses on which methods hold, degrade and fail, such as "alibi holds (+0.01 at most)", from
    each seed's rise."""
    clauses = []
    for singular, plural, more in (
        ("holds", "hold", most),
        ("degrades", "degrade", ""),
        ("fails", "fail", ""),
    ):
        chosen = {quoted(label): each for label, each in rises.items() if outcome(each) == singular}
        found = {
            label: f"({(max if more else fmean)(each):+z.2f}{more})"
            for label, each in chosen.items()
        }
        if len(found) == 1:
            clauses += [f"{label} {singular} {rise}" for label, rise in found.items()]
        elif found:
            clauses.append(f"{join([f'{label} {rise}' for label, rise in found.items()])} {plural}")
    return clauses


def best_at(
    rows: pd.DataFrame, x: int, where: str, *, lowest: bool = True, tie: float = TIE
) -> list[str]:
    """Which labels are best at x, or within `tie` of the best, in every seed; nothing for fewer
    than two labels."""
    values = rows[rows["x"] == x].set_index(["seed", "label"])["value"].unstack("label", sort=False)
    values = values.dropna(axis="columns", how="all").dropna() * (1 if lowest else -1)
    if len(values.columns) < 2 or values.empty:
        return []
    near = values.le(values.min(axis="columns") + tie, axis="index").all()
    leaders, seeds = (
        list(map(quoted, near.index[near])),
        " in every seed" if len(values) > 1 else "",
    )
    if len(values) < (drawn := rows["seed"].nunique()):
        seeds = f" in the seeds that all have ({len(values)} of {drawn})"
    behind = bool(values.min(axis="columns").lt(values.loc[:, near].min(axis="columns")).any())
    if len(leaders) == len(near) or (behind and len(leaders) > 1):
        who = "all" if len(leaders) == len(near) else join(leaders)
        return [f"{where} {who} are within {tie:.2g} of the best{seeds}."]
    if len(leaders) > 1:
        return [f"{where} {join(leaders)} are best{seeds}, within {tie:.2g} of each other."]
    return [
        f"{where} {(leaders or ['no method'])[0]} is "
        f"best{seeds}{f', or within {tie:.2g} of the best' * behind}."
    ]


# What a `Question` (whose module imports this one) says about its rows, of which there are some.


def losses(question: Any, rows: pd.DataFrame) -> list[str]:
    """Which methods hold with length, and which is best on the longest and the shortest
    sequences."""
    xs = dict.fromkeys((rows["x"].max(), rows["x"].min()))
    return [
        *_held(rises(rows)),
        *(sentence for x in xs for sentence in best_at(rows, x, f"With {question.at(x)}")),
    ]


def gaps(question: Any, rows: pd.DataFrame) -> list[str]:
    """Which methods hold, from values that are rises: those at the last x."""
    return _held(every_seed(rows, lambda line: line.iloc[-1] if len(line) else math.nan), "")


def answers(question: Any, rows: pd.DataFrame) -> list[str]:
    """Up to which length a task is solved in every seed, and which method is best at the
    largest."""
    reached = every_seed(
        rows, lambda line: max(takewhile(lambda x: line[x] >= SOLVED, line.index), default=0)
    )
    solved = [
        f"{quoted(label)} {f'up to {min(xs):,}' if min(xs) else 'not at all'}"
        for label, xs in reached.items()
    ]
    seeds, last = " in every seed" if rows["seed"].nunique() > 1 else "", rows["x"].max()
    noise = 1 / math.sqrt(
        rows["count"].min()
    )  # two standard errors of a share of so many answers, at most
    best = best_at(rows, last, f"With {question.at(last)}", lowest=False, tie=max(TIE, noise))
    return [f"Solved, with at least {SOLVED:.0%} correct answers{seeds}: {join(solved)}.", *best]


def ends(question: Any, rows: pd.DataFrame) -> list[str]:
    """The mean values of each label at the first and the last x."""
    (first, last), number = (
        rows["x"].agg(["min", "max"]),
        question.scale.number.replace(".", "z."),
    )  # no -0.00
    means = (
        rows.groupby(["label", "x"], sort=False)["value"]
        .mean()
        .unstack("x", sort=False)[[first, last]]
        .dropna()
    )
    values = [
        f"{quoted(label)} {before:{number}} to {after:{number}}"
        for label, before, after in means.itertuples()
    ]
    low, high = rows.groupby("label")["seed"].nunique().agg(["min", "max"])
    seeds = f", means of {high if low == high else f'{low} to {high}'} seeds" if high > 1 else ""
    where = f"From {question.at(first)} to {question.at(last)}{seeds}"
    return (
        [f"{where}: {join(values)}{'' if '%' in number else f' {question.unit}'}."]
        if values
        else []
    )


def undefined(question: Any, rows: pd.DataFrame) -> list[str]:
    """Labels without a value at the last x, so that a curve that ends early isn't a surprise."""
    last = rows["x"].max()
    defined = set(rows[rows["x"] == last].dropna(subset="value")["label"])
    missing = [quoted(label) for label in rows["label"].unique() if label not in defined]
    return (
        [f"Not defined or not tested with {question.at(last)}: {join(missing)}."] if missing else []
    )


def _held(rises: Mapping[str, Sequence[float]], *most: str) -> list[str]:
    """Sentences with the `outcomes`, and on labels about which the seeds disagree."""
    seeds = "In every seed " if any(len(each) > 1 for each in rises.values()) else ""
    mixed = [quoted(label) for label, each in rises.items() if outcome(each) == "mixed"]
    sentences = [f"{seeds}{'; '.join(outcomes(rises, *most))}."] if len(mixed) < len(rises) else []
    return [*sentences, *([f"The seeds disagree about {join(mixed)}."] if mixed else [])]


def sentences(parts: Sequence[str]) -> list[str]:
    """Single sentences, because captions have at most two."""
    return re.split(r"(?<=\.) (?=[A-Z])", " ".join(parts)) if parts else []


def quoted(label: str) -> str:
    """A label in a sentence: in quotation marks if it contains a comma."""
    return f'"{label}"' if "," in label else label


def join(parts: Sequence[str]) -> str:
    """Join words with commas and "and"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
