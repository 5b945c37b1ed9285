"""What can be said over seeds: means with intervals, and differences that are decided or undecided.

The intervals are those of `confidence.mean_interval`.
"""

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from alibi_viz.lab.confidence import LEVEL, SEEDS, t_quantile
from alibi_viz.lab.questions.outcomes import join, quoted

__all__ = ["differences", "differences_in_words", "over_seeds"]

LOWER, HIGHER, UNDECIDED = "lower", "higher", "undecided"
CLAUSES = {LOWER: "lower at", HIGHER: "higher at", UNDECIDED: "undecided at"}


def over_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean and interval of each curve over the seeds.

    Args:
        rows: a table with the columns "curve", "seed", "x" and "value".

    Returns a table indexed by curve and x, in the order of the rows, with the columns "mean", "half_width" (of the
    interval, NaN for a single seed) and "seeds" (how many have a value).

    >>> import pandas
    >>> from alibi_viz.lab.intervals import over_seeds
    >>> rows = pandas.DataFrame({"curve": "alibi", "seed": [0, 1, 2], "x": 64, "value": [2.0, 2.1, 2.2]})
    >>> over_seeds(rows).round(3).to_dict("records")
    [{'mean': 2.1, 'half_width': 0.248, 'seeds': 3}]
    """
    return _interval(_wide(rows))


def differences(rows: pd.DataFrame, pairs: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """Compare pairs of curves by their difference in each seed, which has the same starting weights and batches.

    Args:
        rows: as in `over_seeds`.
        pairs: names of the curves (first, second).

    Returns a table with a row for each pair and x, and the columns "first", "second", "x", "mean" (of first minus
    second), "half_width", "seeds" and "verdict": "lower" or "higher" if the interval is on one side of zero, and
    "undecided" if it contains zero or there are fewer than three seeds. A pair is left out where one of the two is
    not defined.
    """
    wide, known = _wide(rows), set(rows["curve"])
    tables = []
    for first, second in pairs:
        if not known.issuperset((first, second)):
            continue
        table = _interval(wide[first] - wide[second]).query("seeds > 0").reset_index()
        tables.append(table.assign(first=first, second=second))
    columns = ["first", "second", "x", "mean", "half_width", "seeds"]
    result = pd.concat(tables)[columns].reset_index(drop=True) if tables else pd.DataFrame(columns=columns)
    decided = (result["mean"].abs() > result["half_width"]) & (result["seeds"] >= SEEDS)
    side = np.where(result["mean"] < 0, LOWER, HIGHER)
    return result.assign(verdict=np.where(decided, side, UNDECIDED))


def differences_in_words(table: pd.DataFrame) -> list[str]:
    """One sentence for each pair in a table of `differences`, with the numbers, and one on how many are decided.

    >>> import pandas
    >>> from alibi_viz.lab.intervals import differences, differences_in_words
    >>> rows = {"curve": list("aaabbb"), "seed": [0, 1, 2] * 2, "x": 64, "value": [2.0, 2.1, 2.2, 3.0, 3.1, 3.3]}
    >>> for sentence in differences_in_words(differences(pandas.DataFrame(rows), [("a", "b")])):
    ...     print(sentence)
    a against b: lower at 64 (-1.033 ± 0.143).
    1 of 1 differences is decided; by chance alone it would be 0.1, if no two curves truly differed.
    """
    sentences = []
    for (first, second), rows in table.groupby(["first", "second"], sort=False):
        numbers = [
            f"{x:,} ({mean:+z.3f}{'' if math.isnan(half_width) else f' ± {half_width:.3f}'})"
            for x, mean, half_width in zip(rows["x"], rows["mean"], rows["half_width"], strict=True)
        ]
        kinds = {
            kind: [text for text, own in zip(numbers, rows["verdict"], strict=True) if own == kind] for kind in CLAUSES
        }
        clauses = [f"{words} {join(kinds[kind])}" for kind, words in CLAUSES.items() if kinds[kind]]
        sentences.append(f"{quoted(first)} against {quoted(second)}: {'; '.join(clauses)}.")
    return [*sentences, _how_many_are_decided(table)] if len(table) else []


def _how_many_are_decided(table: pd.DataFrame) -> str:
    tested = int((table["seeds"] >= SEEDS).sum())
    if not tested:
        return f"With fewer than {SEEDS} seeds, every difference is undecided."
    decided = int((table["verdict"] != UNDECIDED).sum())
    by_chance = f"by chance alone it would be {(1 - LEVEL) * tested:.1f}, if no two curves truly differed"
    return f"{decided} of {len(table)} differences {'is' if decided == 1 else 'are'} decided; {by_chance}."


def _wide(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per seed, one column per curve and x."""
    wide = rows.set_index(["seed", "curve", "x"])["value"].unstack(["curve", "x"])
    order = pd.MultiIndex.from_frame(rows[["curve", "x"]].drop_duplicates())
    return wide[order]


def _interval(wide: pd.DataFrame) -> pd.DataFrame:
    seeds = wide.count()
    quantiles = seeds.map({count: t_quantile(count - 1) for count in set(seeds)})
    return pd.DataFrame(
        {"mean": wide.mean(), "half_width": quantiles * wide.std() / seeds**0.5, "seeds": seeds}, index=wide.columns
    )
