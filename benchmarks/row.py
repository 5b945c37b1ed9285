"""The result of a benchmark, and how it is printed."""

from dataclasses import dataclass

HEADER = ("benchmark", "measured", "at most", "unit", "")
VERDICTS = {True: "met", False: "MISSED", None: ""}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured figure: a median, unless its name says otherwise.

    A target is the largest figure allowed, or None for a figure that is only reported. Ratios to
    something measured in the same run have targets. Times in seconds have none, because they depend
    on the machine.
    """

    name: str
    figure: float
    unit: str
    target: float | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether the figure is within its target; None if it has no target.

        >>> from benchmarks.row import Row
        >>> Row(name="x", figure=1.05, target=1.1, unit="ratio").is_met
        True
        >>> Row(name="x", figure=3.0, unit="s").is_met
        """
        if self.target is None:
            return None
        return self.figure <= self.target


def table(rows: list[Row]) -> str:
    """Rows as aligned text.

    >>> from benchmarks.row import Row, table
    >>> print(table([Row(name="import time", figure=1.25, target=1.1, unit="x import torch")]))
    benchmark    measured  at most  unit
    import time  1.25      1.1      x import torch  MISSED
    """
    lines = [HEADER]
    for row in rows:
        figure = f"{row.figure:.4g}"
        target = "" if row.target is None else f"{row.target:g}"
        lines.append((row.name, figure, target, row.unit, VERDICTS[row.is_met]))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = []
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        aligned.append("  ".join(cells).rstrip())
    return "\n".join(aligned)
