"""Tables of means over seeds with their intervals, to print and for LaTeX."""

import math
from collections.abc import Collection, Sequence

import pandas as pd

from alibi_viz.arguments import as_list
from alibi_viz.lab.intervals import over_seeds
from alibi_viz.lab.questions import find_question
from alibi_viz.lab.results import AS_TRAINED

LATEX = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\~{}", "^": r"\^{}"})


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
    last column says how many seeds there are. Raises ValueError for an unknown question, and KeyError for a label or x
    without results.
    """
    asked = find_question(question)
    rows = results[results["question"] == asked.name]
    rows = rows[(rows["evaluated"] == AS_TRAINED) | (rows["x"] > rows["length"])]
    curves = rows["label"].where(rows["evaluated"] == AS_TRAINED, rows["label"] + ", " + rows["evaluated"])
    table = over_seeds(rows.assign(curve=curves))
    cells = table.apply(_cell, axis=1, limits=asked.limits).unstack("x", sort=False).fillna("")
    cells = cells[sorted(cells.columns) if xs is None else as_list("xs", xs, "integers")]
    cells["seeds"] = table["seeds"].groupby(level="curve", sort=False).max().astype(int)
    cells = cells if labels is None else cells.loc[as_list("labels", labels, "names")]
    return cells.rename_axis(None)


def _cell(row: pd.Series, limits: tuple[float, float] = (-math.inf, math.inf)) -> str:
    if row["seeds"] == 0:
        return "not defined"
    mean, half = row["mean"], row["half_width"]
    if math.isnan(half):
        return f"{mean:.3f}"
    low, high = max(mean - half, limits[0]), min(mean + half, limits[1])
    return f"{mean:.3f} ± {half:.3f}" if limits[0] == -math.inf else f"{mean:.3f} ({low:.3f} to {high:.3f})"


def latex_table(means: pd.DataFrame, rows: Sequence[tuple[str, str]], length: int, caption: str) -> str:
    """A LaTeX table for the package booktabs: a row for each (curve of `means`, its name), a column for each length."""
    cells = means[means["seeds"] > 0].apply(_cell, axis=1).unstack("x", sort=False)
    cells = cells[sorted(cells)].reindex([curve for curve, _ in rows]).fillna("--")
    names = [name.translate(LATEX) for _, name in rows]
    cells.index = pd.Index([rf"\quad {name.strip()}" if name.startswith(" ") else name for name in names])
    cells.columns = pd.Index([f"{x} (${x / length:g}L$)" for x in cells.columns])
    style = {"hrules": True, "position_float": "centering", "label": "tab:comparison"}
    return cells.style.to_latex(column_format="l" + "r" * cells.shape[1], caption=caption.translate(LATEX), **style)
