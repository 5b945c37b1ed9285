"""Tables of means over seeds with their intervals, to print and for LaTeX."""

import math
from collections.abc import Collection, Sequence

import pandas as pd

from alibi_viz.arguments import as_list
from alibi_viz.lab.questions import find_question
from alibi_viz.table import AS_TRAINED, over_seeds

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
    rows = rows[(rows["variant"] == AS_TRAINED) | (rows["x"] > rows["length"])]
    curves = rows["label"].where(rows["variant"] == AS_TRAINED, rows["label"] + ", " + rows["variant"])
    table = over_seeds(rows.assign(label=curves), limits=asked.limits)
    cells = table.apply(_cell, axis=1, both_ends=asked.limits[0] > -math.inf).unstack("x", sort=False).fillna("")
    cells = cells[sorted(cells.columns) if xs is None else as_list("xs", xs, "integers")]
    cells["seeds"] = table["seeds"].groupby(level="label", sort=False).max().astype(int)
    cells = cells if labels is None else cells.loc[as_list("labels", labels, "names")]
    return cells.rename_axis(None)


def _cell(row: pd.Series, both_ends: bool = False) -> str:
    if row["seeds"] == 0:
        return "not defined"
    if math.isnan(row["half_width"]):
        return f"{row['mean']:.3f}"
    interval = f"({row['low']:.3f} to {row['high']:.3f})" if both_ends else f"± {row['half_width']:.3f}"
    return f"{row['mean']:.3f} {interval}"


def latex_table(means: pd.DataFrame, rows: Sequence[tuple[str, str]], length: int, caption: str) -> str:
    """A LaTeX table for the package booktabs: a row for each (curve of `means`, its name), a column for each length."""
    cells = means[means["seeds"] > 0].apply(_cell, axis=1).unstack("x", sort=False)
    cells = cells[sorted(cells)].reindex([curve for curve, _ in rows]).fillna("--")
    names = [name.translate(LATEX) for _, name in rows]
    cells.index = pd.Index([rf"\quad {name.strip()}" if name.startswith(" ") else name for name in names])
    cells.columns = pd.Index([f"{x} (${x / length:g}L$)" for x in cells.columns])
    style = {"hrules": True, "position_float": "centering", "label": "tab:comparison"}
    return cells.style.to_latex(column_format="l" + "r" * cells.shape[1], caption=caption.translate(LATEX), **style)
