"""The answers to one question as a table to print: a mean and its interval in each cell."""

import math
from collections.abc import Collection
from functools import partial

import pandas as pd

from alibi_viz.arguments import as_list
from alibi_viz.lab.intervals import over_seeds
from alibi_viz.lab.questions import Question, find_question
from alibi_viz.lab.results import AS_TRAINED

__all__ = ["summary", "summary_cell"]


def summary(
    results: pd.DataFrame, question: str, labels: Collection[str] | None = None, xs: Collection[int] | None = None
) -> pd.DataFrame:
    """The mean over seeds and its 95% interval for each trained model, with and without changes, and each x.

    Args:
        results: a table with the columns of `lab.COLUMNS`.
        question: the name of one of `lab.QUESTIONS`.
        labels: of the rows, in their order; all by default. A change to the model follows after a comma: "rotary,
            window". Up to the training length, changed models are equal to unchanged ones and left out.
        xs: of the columns, in their order; all by default.

    Returns strings: "2.165 ± 0.006", or both ends of the interval for a value that has limits, such as a share. The
    last column says how many seeds there are.

    Raises ValueError for an unknown question, and KeyError for a label or x without results.

    >>> lab.summary(lab.published_results(), "longer windows", ["rotary, window"], [1024])["seeds"].tolist()
    [8]
    """
    asked = find_question(question)
    rows = results[results["question"] == asked.name]
    rows = rows[(rows["evaluated"] == AS_TRAINED) | (rows["x"] > rows["length"])]
    changed = rows["evaluated"] != AS_TRAINED
    curves = rows["label"].where(~changed, rows["label"] + ", " + rows["evaluated"])
    table = over_seeds(rows.assign(curve=curves))
    cell = summary_cell if asked.limits[0] == -math.inf else partial(_range, asked)
    cells = table.apply(cell, axis=1).unstack("x", sort=False).fillna("")
    cells = cells[sorted(cells.columns) if xs is None else as_list("xs", xs, "integers")]
    cells["seeds"] = table["seeds"].groupby(level="curve", sort=False).max().astype(int)
    cells = cells if labels is None else cells.loc[as_list("labels", labels, "names")]
    return cells.rename_axis(None)


def summary_cell(row: pd.Series) -> str:
    """A row of `over_seeds`: the mean with half of its interval; "not defined" where no seed has a value."""
    if row["seeds"] == 0:
        return "not defined"
    return f"{row['mean']:.3f}" + (f" ± {row['half_width']:.3f}" if math.isfinite(row["half_width"]) else "")


def _range(question: Question, row: pd.Series) -> str:
    """As `summary_cell`, with both ends of the interval."""
    if row["seeds"] == 0 or not math.isfinite(row["half_width"]):
        return summary_cell(row)
    low, high = question.interval(row["mean"], row["half_width"])
    return f"{row['mean']:.3f} ({low:.3f} to {high:.3f})"
