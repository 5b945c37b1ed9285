"""What a benchmark gives back."""

from typing import TypedDict


class Row(TypedDict):
    """One measured figure: the median of several, unless its name says otherwise."""

    name: str
    figure: float
    target: float | str | None  # at most; "min 0.5" for at least; None where nothing was promised
    unit: str


def met(row: Row) -> bool | None:
    """Whether the figure is what it is to be; None where nothing was promised.

    >>> met({"name": "x", "figure": 1.05, "target": 1.1, "unit": "ratio"})
    True
    >>> met({"name": "x", "figure": 0.4, "target": "min 0.5", "unit": "bit"})
    False
    """
    target = row["target"]
    if target is None:
        return None
    if isinstance(target, str):
        return row["figure"] >= float(target.removeprefix("min "))
    return row["figure"] <= target
