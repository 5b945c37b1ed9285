"""Sentences about the rows of one question and one variant: what holds in every seed.

Each is one sentence, because captions have at most two.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import pandas as pd

from alibi_viz.formatting import format_fixed, true_minus
from alibi_viz.measure.questions import Question

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


def findings(question: Question, rows: pd.DataFrame, up_to: str = "") -> list[str]:
    """What rows of this question and one variant say.

    `up_to` is the length of the longest sequences in words, if the sentences should give it.
    """
    told = []
    if not rows.empty:
        # Positions inside a sequence are no lengths at which a method could hold.
        if question.is_loss and question.name != "by position":
            told += outcome_sentences(rises(rows), up_to, question.unit)
            for x in dict.fromkeys([rows["x"].max(), rows["x"].min()]):
                told += best_at(question, rows, x)
        elif question.task != "text":
            told.append(solved(rows))
            # Two standard errors of a share of so many answers, at most
            noise = 1 / math.sqrt(rows["count"].min())
            told += best_at(question, rows, rows["x"].max(), tie=max(TIE, noise))
        else:
            told += ends(question, rows)
        told += undefined(question, rows)
    if question.note:
        told.append(question.note)
    return told


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
    if all(rise <= MAX_RISE_HOLDING for rise in rises):
        return "holds"
    if all(rise >= MIN_RISE_FAILING for rise in rises):
        return "fails"
    if all(MAX_RISE_HOLDING < rise < MIN_RISE_FAILING for rise in rises):
        return "degrades"
    return "mixed"


def outcome_sentences(
    rises: Mapping[str, Sequence[float]], up_to: str = "", unit: str = "bits per byte"
) -> list[str]:
    """Which labels hold, degrade and fail, and on which the seeds disagree.

    For what holds we quote the rise of its worst seed, as in "alibi holds (+0.01 at most)", and for
    all else the mean. `up_to` is the length of the longest sequences in words.
    """
    clauses = []
    for verb, plural in (("holds", "hold"), ("degrades", "degrade"), ("fails", "fail")):
        labels = [label for label, by_seed in rises.items() if outcome(by_seed) == verb]
        told = []
        for label in labels:
            if verb == "holds":
                told.append(f"({format_fixed(max(rises[label]), 2, plus=True)} at most)")
            else:
                told.append(f"({format_fixed(fmean(rises[label]), 2, plus=True)})")

        if len(labels) == 1:
            clauses.append(f"{quoted(labels[0])} {verb} {told[0]}")
        elif labels:
            subjects = [f"{quoted(label)} {rise}" for label, rise in zip(labels, told, strict=True)]
            clauses.append(f"{join(subjects)} {plural}")

    sentences = []
    if clauses:
        seeds = "in every seed " if any(len(by_seed) > 1 for by_seed in rises.values()) else ""
        if up_to:
            sentences.append(f"Up to {up_to}, {seeds}{'; '.join(clauses)}, in {unit}.")
        else:
            sentences.append(f"{seeds.capitalize()}{'; '.join(clauses)}.")
    mixed = [quoted(label) for label, by_seed in rises.items() if outcome(by_seed) == "mixed"]
    if mixed:
        sentences.append(f"The seeds disagree about {join(mixed)}.")
    return sentences


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
            methods.append(f"{quoted(label)} ({known:.2f} bits there, {unseen:.2f} on unseen text)")
    if not methods:
        return []
    verb = "has" if len(methods) == 1 else "have"
    return [
        f"{join(methods)} {verb} learned the training text by heart, so losses on longer sequences "
        "say little about length."
    ]


def best_at(question: Question, rows: pd.DataFrame, x: int, tie: float = TIE) -> list[str]:
    """A sentence on which labels are best at x, or within `tie` of the best, in every seed.

    The lowest loss is the best, and the highest of all other values. Nothing is said about fewer
    than two labels.
    """
    at_x = rows[rows["x"] == x].set_index(["seed", "label"])["value"]
    values = at_x.unstack("label", sort=False)  # a row per seed, a column per label
    values = values.dropna(axis="columns", how="all")  # labels that are not defined at x
    values = values.dropna()  # seeds that some label lacks
    if len(values.columns) < 2 or values.empty:
        return []

    losses = values if question.is_loss else -values
    best = losses.min(axis="columns")  # in each seed
    leaders = losses.loc[:, losses.le(best + tie, axis="index").all()]
    is_behind = leaders.gt(best, axis="index").any(axis=None)  # one of them, in one of the seeds

    names = join([quoted(label) for label in leaders.columns]) or "no method"
    verb = "are" if len(leaders.columns) > 1 else "is"
    number_of_seeds = rows["seed"].nunique()
    if len(values) < number_of_seeds:
        seeds = f" in the seeds that all have ({len(values)} of {number_of_seeds})"
    else:
        seeds = " in every seed" if number_of_seeds > 1 else ""
    unless_behind = f", or within {tie:.2g} of the best" if is_behind else ""
    return [f"With {question.at(x)} {names} {verb} best{seeds}{unless_behind}."]


def compared_with_counting(
    question: Question, rows: pd.DataFrame, yardsticks: Mapping[str, float]
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


def solved(rows: pd.DataFrame) -> str:
    """Up to which length each label solves a task in every seed."""
    told = []
    for label, solved_lengths in every_seed(rows, _solved_length).items():
        length = min(solved_lengths)
        reach = f"up to {length:,}" if length else "not at all"
        told.append(f"{quoted(label)} {reach}")
    seeds = " in every seed" if rows["seed"].nunique() > 1 else ""
    return f"Solved, with at least {SOLVED:.0%} correct answers{seeds}: {join(told)}."


def _solved_length(curve: pd.Series) -> int:
    """The length up to which all lengths are solved; 0 if the shortest is not."""
    solved = 0
    for length, accuracy in curve.items():
        if accuracy < SOLVED:
            break
        solved = length
    return solved


def ends(question: Question, rows: pd.DataFrame) -> list[str]:
    """The mean values of each label at the first and the last x."""
    first = rows["x"].min()
    last = rows["x"].max()
    means = rows.groupby(["label", "x"], sort=False)["value"].mean().unstack("x", sort=False)
    means = means[[first, last]].dropna()
    if means.empty:
        return []

    number = question.figure.number.replace(".", "z.")  # "z" writes -0.00 as 0.00
    changes = [
        f"{quoted(label)} {true_minus(f'{before:{number}} to {after:{number}}')}"
        for label, before, after in means.itertuples()
    ]
    unit = "" if "%" in number else f" {question.unit}"
    seeds = ", means over seeds" if rows["seed"].nunique() > 1 else ""
    where = f"From {question.at(first)} to {question.at(last)}{seeds}"
    return [f"{where}: {join(changes)}{unit}."]


def undefined(question: Question, rows: pd.DataFrame) -> list[str]:
    """Labels without a value at the last x, so that a curve that ends early isn't a surprise."""
    last = rows["x"].max()
    defined = set(rows[rows["x"] == last].dropna(subset="value")["label"])
    missing = [quoted(label) for label in rows["label"].unique() if label not in defined]
    if not missing:
        return []
    return [f"Not defined or not tested with {question.at(last)}: {join(missing)}."]


def quoted(label: str) -> str:
    """A label in a sentence: in quotation marks if it contains a comma."""
    return f'"{label}"' if "," in label else label


def join(parts: Sequence[str]) -> str:
    """Join words with commas and "and"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
