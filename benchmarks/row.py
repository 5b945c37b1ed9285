"""The result of a benchmark, and how it is printed."""

from typing import TypedDict


class Row(TypedDict):
    """One measured figure: a median, unless its name says otherwise.

    A target is the largest figure allowed, or None for a figure that is only reported. Ratios to
    something measured in the same run have targets. Times in seconds have none, because they depend
    on the machine.
    """

    name: str
    figure: float
    target: float | None
    unit: str


def is_met(row: Row) -> bool | None:
    """Whether the figure is within its target; None if it has no target.

    >>> is_met({"name": "x", "figure": 1.05, "target": 1.1, "unit": "ratio"})
    True
    >>> is_met({"name": "x", "figure": 3.0, "target": None, "unit": "s"})
    """
    return None if row["target"] is None else row["figure"] <= row["target"]


def table(rows: list[Row]) -> str:
    """Rows as aligned text.

    >>> print(table([{"name": "import time", "figure": 1.25, "target": 1.1, "unit": "x import torch"}]))
    benchmark    measured  at most  unit
    import time  1.25      1.1      x import torch  MISSED
    """
    verdicts = {True: "met", False: "MISSED", None: ""}
    lines = [("benchmark", "measured", "at most", "unit", "")]
    for row in rows:
        target = "" if row["target"] is None else f"{row['target']:g}"
        lines.append(
            (row["name"], f"{row['figure']:.4g}", target, row["unit"], verdicts[is_met(row)])
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
