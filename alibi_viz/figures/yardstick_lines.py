"""Labeled horizontal lines beside losses, for models that only count: see `Text.yardsticks`.

A line is drawn only if it lies within the axis. Its label stands where the fewest curves run
through it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alibi_viz.figures import theme

# Where the label of a line can stand, as plotly calls it: the share of the free width to its left
PLACES = {"start": 0.0, "middle": 0.5, "end": 1.0}
FONT_SIZE = 11
# Of a label, in shares of the height of its plot, and of the width of a plot on the whole page
LABEL_HEIGHT = 0.08
LABEL_WIDTH = 0.21
# How many points of a curve are looked at to see whether it runs through a label
SAMPLES = 20

Curve = tuple[NDArray[Any], NDArray[Any]]  # x, ascending, and y


def label(name: str, bits: float) -> str:
    """What stands beside the line of a yardstick.

    >>> from alibi_viz.figures.yardstick_lines import label
    >>> label("letter pairs", 3.292)
    'letter pairs alone, 3.29'
    """
    return f"{name} alone, {bits:.2f}"


def yardstick_lines(
    yardsticks: Mapping[str, float],
    value_range: Sequence[float | None],
    *,
    curves: Sequence[Curve] = (),
    x_range: Sequence[float] = (0.0, 1.0),
    label_width: float = LABEL_WIDTH,
    x: str = "x",
    y: str = "y",
) -> list[dict[str, Any]]:
    """A shape for each line that lies within the axis.

    Args:
        yardsticks: {name: bits per byte}.
        value_range: the ends of the axis. There are no lines if plotly chooses an end that is None.
        curves: in the same plot. The labels avoid them.
        x_range: the ends of the horizontal axis, as logarithms if that of `curves` are.
        label_width: in shares of the width of the plot.
        x: the horizontal axis of the plot.
        y: the vertical axis of the plot.

    >>> from alibi_viz.figures.yardstick_lines import yardstick_lines
    >>> lines = yardstick_lines({"letter pairs": 3.3, "letter frequencies": 4.5}, [0, 4])
    >>> [line["label"]["text"].strip() for line in lines]
    ['letter pairs alone, 3.30']
    """
    low, high = np.array(value_range, dtype=float)  # NaN for None, which no value lies above
    label_height = LABEL_HEIGHT * (high - low)
    lines = []
    for name, bits in yardsticks.items():
        if not low <= bits <= high:
            continue
        # The label stands above its line, unless the plot ends there.
        is_above = bits + label_height <= high
        bottom = bits if is_above else bits - label_height
        heights = (bottom, bottom + label_height)
        lines.append(
            {
                "type": "line",
                "name": "yardstick",
                "xref": f"{x} domain",
                "yref": y,
                "x0": 0,
                "x1": 1,
                "y0": bits,
                "y1": bits,
                "line": theme.DOTTED,
                "layer": "below",
                "label": {
                    "text": f" {label(name, bits)} ",
                    "textposition": _clearest_place(label_width, heights, curves, x_range),
                    "yanchor": "bottom" if is_above else "top",
                    "font": {"size": FONT_SIZE},
                },
            }
        )
    return lines


def _clearest_place(
    label_width: float,
    heights: tuple[float, float],
    curves: Sequence[Curve],
    x_range: Sequence[float],
) -> str:
    """The one of the `PLACES` where the fewest curves run through a label between these heights; of
    equally good ones, the first."""
    left_end, right_end = x_range
    width = label_width * (right_end - left_end)
    bottom, top = heights

    def points_behind_label(place: str) -> int:
        left = left_end + PLACES[place] * (right_end - left_end - width)
        samples = np.linspace(left, left + width, SAMPLES)
        count = 0
        for x, y in curves:
            if x.size == 0:  # a model that is defined nowhere
                continue
            values = np.interp(samples, x, y, left=np.nan, right=np.nan)
            count += int(((bottom <= values) & (values <= top)).sum())
        return count

    return min(PLACES, key=points_behind_label)
