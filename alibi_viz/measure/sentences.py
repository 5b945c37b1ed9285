"""Sentences about the rows of one question and one variant: what holds in every seed."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import pandas as pd

from alibi_viz.formatting import format_fixed, true_minus

# All in bits per byte. A method whose loss rises by no more than this beyond its training length
# holds, and one whose loss rises by at least that fails; in between it degrades.
MAX_RISE_HOLDING = 0.1
MIN_RISE_FAILING = 0.5
# In bits per byte. A method has learned a text by heart if, at the training length, it predicts the
# validation part worse than the training part by more than this.
BY_HEART = 1.0
# In bits per byte, or as a share of many answers: a smaller lead doesn't make a method the best.
TIE = 0.02
# Share of answers: a task counts as solved at this accuracy.
SOLVED = 0.9


def every_seed(
    rows: pd.DataFrame, statistic: Callable[[pd.Series], float]
) -> dict[str, list[float]]:
    """A statistic of the curve of each seed of each label.

    The statistic gets the defined values of one curve, indexed by x in ascending order. Labels for
    which it is NaN in any seed are left out.
    """
    statistics: dict[str, list[float]] = {}
    for (label, _), seed_rows in rows.groupby(["label", "seed"], sort=False):
        curve = seed_rows.set_index("x")["value"].sort_index().dropna()
        statistics.setdefault(label, []).append(statistic(curve))
    return {
        label: by_seed
        for label, by_seed in statistics.items()
        if not any(math.isnan(value) for value in by_seed)
    }


def rises(rows: pd.DataFrame) -> dict[str, list[float]]:
    """The largest rise of the loss above its value at the training length, for each seed.

    Only for labels with a loss at the training length and at a longer one.
    """
    curves = [rows["label"], rows["seed"]]
    at_training_length = rows["x"] == rows["length"]
    has_training_length = at_training_length.groupby(curves).transform("any")
    is_shorter = rows["x"] < rows["length"]
    return every_seed(rows[has_training_length & ~is_shorter], _largest_rise)


def _largest_rise(curve: pd.Series) -> float:
    if len(curve) < 2:
        return math.nan
    return float(curve.iloc[1:].max() - curve.iloc[0])


def outcome(rises: Sequence[float]) -> str:
    """Classify the rises in loss of a method, one per seed.

    Returns "holds", "degrades" or "fails" if all seeds agree, "mixed" if they don't, and
    "undefined" if there is no rise or one is not a number.
    """
    if not rises or not all(math.isfinite(rise) for rise in rises):
        return "undefined"
    outcomes_of_seeds = {_outcome_of_seed(rise) for rise in rises}
    return outcomes_of_seeds.pop() if len(outcomes_of_seeds) == 1 else "mixed"


def _outcome_of_seed(rise: float) -> str:
    if rise <= MAX_RISE_HOLDING:
        return "holds"
    if rise >= MIN_RISE_FAILING:
        return "fails"
    return "degrades"


def outcomes(rises: Mapping[str, Sequence[float]], *, worst_seed: bool = True) -> list[str]:
    """Clauses on which methods hold, degrade and fail, from the rises of each.

    For a method that holds, we quote the rise of its worst seed, as in "alibi holds (+0.01 at
    most)", or without `worst_seed` the mean of its seeds. For others, we always quote the mean.
    """
    clauses = []
    for singular, plural in (("holds", "hold"), ("degrades", "degrade"), ("fails", "fail")):
        labels = [label for label, by_seed in rises.items() if outcome(by_seed) == singular]
        methods = []
        for label in labels:
            if singular == "holds" and worst_seed:
                rise = f"{format_fixed(max(rises[label]), 2, plus=True)} at most"
            else:
                rise = format_fixed(fmean(rises[label]), 2, plus=True)
            methods.append((quoted(label), rise))

        if len(methods) == 1:
            label, rise = methods[0]
            clauses.append(f"{label} {singular} ({rise})")
        elif methods:
            subjects = [f"{label} ({rise})" for label, rise in methods]
            clauses.append(f"{join(subjects)} {plural}")
    return clauses


def learned_by_heart(training: pd.DataFrame, longer: pd.DataFrame) -> list[str]:
    """A sentence on the methods that learned their text by heart, if there are any.

    What they do on longer sequences says little, because they predict nothing that they haven't
    read. The source of the case: nanoGPT, pull request 679.

    Args:
        training: rows of the training loss, of which the last tenth of the steps counts.
        longer: the rows of the losses by length of the trained methods.
    """
    last_step = training.groupby("label")["x"].transform("max")
    at_the_end = training[training["x"] > 0.9 * last_step]
    on_training_part = at_the_end.groupby("label", sort=False)["value"].mean()
    at_training_length = longer[longer["x"] == longer["length"]]
    on_validation_part = at_training_length.groupby("label")["value"].mean()

    methods = []
    for label, known in on_training_part.items():
        unseen = on_validation_part.get(label, math.nan)
        if unseen > known + BY_HEART:
            methods.append(
                f"{quoted(label)} ({known:.2f} bits per byte there, {unseen:.2f} on unseen text)"
            )
    if not methods:
        return []
    verb = "has" if len(methods) == 1 else "have"
    return [
        f"{join(methods)} {verb} learned the training text by heart, so losses on longer sequences "
        "say little about length."
    ]


def best_at(
    rows: pd.DataFrame, x: int, where: str, *, lowest: bool = True, tie: float = TIE
) -> list[str]:
    """A sentence on which labels are best at x, or within `tie` of the best, in every seed.

    `where` begins the sentence. `lowest` says whether the lowest value is the best, as for losses,
    or the highest. Nothing is said about fewer than two labels.
    """
    at_x = rows[rows["x"] == x].set_index(["seed", "label"])["value"]
    values = at_x.unstack("label", sort=False)  # a row per seed, a column per label
    values = values.dropna(axis="columns", how="all")  # labels that are not defined at x
    values = values.dropna()  # seeds that some label lacks
    if len(values.columns) < 2 or values.empty:
        return []
    if not lowest:
        values = -values

    best = values.min(axis="columns")  # in each seed
    is_leader = values.le(best + tie, axis="index").all()
    leaders = [quoted(label) for label in values.columns[is_leader]]
    best_leader = values.loc[:, is_leader].min(axis="columns")
    # Whether another label, which doesn't lead in every seed, is better in one of them.
    is_behind = bool((best_leader > best).any())

    number_of_seeds = rows["seed"].nunique()
    if len(values) < number_of_seeds:
        seeds = f" in the seeds that all have ({len(values)} of {number_of_seeds})"
    elif number_of_seeds > 1:
        seeds = " in every seed"
    else:
        seeds = ""

    if len(leaders) == len(values.columns):
        return [f"{where} all are within {tie:.2g} of the best{seeds}."]
    if not leaders:
        return [f"{where} no method is best{seeds}."]
    if len(leaders) == 1:
        unless_behind = f", or within {tie:.2g} of the best" if is_behind else ""
        return [f"{where} {leaders[0]} is best{seeds}{unless_behind}."]
    if is_behind:
        return [f"{where} {join(leaders)} are within {tie:.2g} of the best{seeds}."]
    return [f"{where} {join(leaders)} are best{seeds}, within {tie:.2g} of each other."]


# What a `Question` (whose module imports this one) says about its rows, of which there are some.
# The names of these functions are used in questions.toml.


def losses(question: Any, rows: pd.DataFrame) -> list[str]:
    """Which methods hold with length, and which are best on the longest and shortest sequences."""
    return outcome_sentences(rises(rows)) + best_at_both_ends(question, rows)


def best_at_both_ends(question: Any, rows: pd.DataFrame) -> list[str]:
    """Which labels are best at the largest x, and at the smallest."""
    longest = rows["x"].max()
    shortest = rows["x"].min()
    told = best_at(rows, longest, f"With {question.at(longest)}")
    if shortest != longest:
        told += best_at(rows, shortest, f"With {question.at(shortest)}")
    return told


def compared_with_counting(
    question: Any, rows: pd.DataFrame, yardsticks: Mapping[str, float]
) -> list[str]:
    """What models need that only count, and which labels need more at the largest x.

    A label is named if in every seed it needs more than both of them at the largest x, and less at
    its smallest. `yardsticks` are those of `Text.yardsticks`, or empty.
    """
    if rows.empty or not yardsticks:
        return []
    frequencies = yardsticks["letter frequencies"]
    pairs = yardsticks["letter pairs"]
    highest = max(frequencies, pairs)
    longest = rows["x"].max()

    def becomes_worse(curve: pd.Series) -> float:
        if curve.empty or curve.index[-1] != longest:
            return math.nan
        return float(curve.iloc[0] < highest < curve.iloc[-1])

    sentences = [
        f"A model that knows only letter frequencies needs {frequencies:.2f} {question.unit}, and "
        f"one that knows letter pairs {pairs:.2f}."
    ]
    worse = [
        quoted(label) for label, by_seed in every_seed(rows, becomes_worse).items() if all(by_seed)
    ]
    if worse:
        needs, pronoun = ("needs", "it isn't") if len(worse) == 1 else ("need", "they aren't")
        sentences.append(
            f"With {question.at(longest)} {join(worse)} {needs} more than either: {pronoun} "
            "ignorant, but sure and wrong."
        )
    return sentences


def gaps(question: Any, rows: pd.DataFrame) -> list[str]:
    """Which methods hold, from values that are rises: those at the last x."""
    return outcome_sentences(every_seed(rows, _last_value), worst_seed=False)


def _last_value(curve: pd.Series) -> float:
    return math.nan if curve.empty else float(curve.iloc[-1])


def answers(question: Any, rows: pd.DataFrame) -> list[str]:
    """Up to which length a task is solved in every seed, and the best method at the largest."""
    solved = []
    for label, solved_lengths in every_seed(rows, _solved_length).items():
        length = min(solved_lengths)
        reach = f"up to {length:,}" if length else "not at all"
        solved.append(f"{quoted(label)} {reach}")
    seeds = " in every seed" if rows["seed"].nunique() > 1 else ""
    sentence = f"Solved, with at least {SOLVED:.0%} correct answers{seeds}: {join(solved)}."

    longest = rows["x"].max()
    # Two standard errors of a share of so many answers, at most
    noise = 1 / math.sqrt(rows["count"].min())
    best = best_at(rows, longest, f"With {question.at(longest)}", lowest=False, tie=max(TIE, noise))
    return [sentence, *best]


def _solved_length(curve: pd.Series) -> int:
    """The length up to which all lengths are solved; 0 if the shortest is not."""
    solved = 0
    for length, accuracy in curve.items():
        if accuracy < SOLVED:
            break
        solved = length
    return solved


def ends(question: Any, rows: pd.DataFrame) -> list[str]:
    """The mean values of each label at the first and the last x."""
    first = rows["x"].min()
    last = rows["x"].max()
    means = rows.groupby(["label", "x"], sort=False)["value"].mean().unstack("x", sort=False)
    means = means[[first, last]].dropna()
    if means.empty:
        return []

    number = question.scale.number.replace(".", "z.")  # "z" writes -0.00 as 0.00
    changes = [
        f"{quoted(label)} {true_minus(f'{before:{number}} to {after:{number}}')}"
        for label, before, after in means.itertuples()
    ]
    unit = "" if "%" in number else f" {question.unit}"
    where = f"From {question.at(first)} to {question.at(last)}{_means_of_seeds(rows)}"
    return [f"{where}: {join(changes)}{unit}."]


def _means_of_seeds(rows: pd.DataFrame) -> str:
    """Such as ", means of 3 seeds"; empty for a single seed."""
    seeds = rows.groupby("label")["seed"].nunique()
    fewest = seeds.min()
    most = seeds.max()
    if most == 1:
        return ""
    if fewest == most:
        return f", means of {most} seeds"
    return f", means of {fewest} to {most} seeds"


def undefined(question: Any, rows: pd.DataFrame) -> list[str]:
    """Labels without a value at the last x, so that a curve that ends early isn't a surprise."""
    last = rows["x"].max()
    defined = set(rows[rows["x"] == last].dropna(subset="value")["label"])
    missing = [quoted(label) for label in rows["label"].unique() if label not in defined]
    if not missing:
        return []
    return [f"Not defined or not tested with {question.at(last)}: {join(missing)}."]


def outcome_sentences(
    rises: Mapping[str, Sequence[float]], *, worst_seed: bool = True, up_to: str = ""
) -> list[str]:
    """Sentences with the `outcomes`, and on labels about which the seeds disagree.

    `up_to` is the length of the longest sequences in words, if the sentence should give it.
    """
    sentences = []
    clauses = outcomes(rises, worst_seed=worst_seed)
    if clauses:
        told = "; ".join(clauses)
        has_seeds = any(len(by_seed) > 1 for by_seed in rises.values())
        if up_to:
            seeds = "in every seed " if has_seeds else ""
            sentences.append(f"Up to {up_to}, {seeds}{told}, in bits per byte.")
        else:
            seeds = "In every seed " if has_seeds else ""
            sentences.append(f"{seeds}{told}.")
    mixed = [quoted(label) for label, by_seed in rises.items() if outcome(by_seed) == "mixed"]
    if mixed:
        sentences.append(f"The seeds disagree about {join(mixed)}.")
    return sentences


def sentences(parts: Sequence[str]) -> list[str]:
    """Single sentences, because captions have at most two."""
    if not parts:
        return []
    return re.split(r"(?<=\.) (?=[A-Z])", " ".join(parts))


def quoted(label: str) -> str:
    """A label in a sentence: in quotation marks if it contains a comma."""
    return f'"{label}"' if "," in label else label


def join(parts: Sequence[str]) -> str:
    """Join words with commas and "and"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
