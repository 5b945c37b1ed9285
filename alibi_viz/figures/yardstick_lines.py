"""Labeled horizontal lines beside losses, for models that only count: see `Text.yardsticks`.

A line is drawn only if it lies within the axis. Its label stands where the fewest curves run
through it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.figures import theme
from alibi_viz.figures.theme import update_changed

# Where the label of a line can stand, as plotly calls it: the share of the free width to its left
PLACES = {"start": 0.0, "middle": 0.5, "end": 1.0}
FONT_SIZE = 11
# Of a label, in shares of the height of its plot, and of the width of a plot on the whole page
LABEL_HEIGHT = 0.06
LABEL_WIDTH = 0.21
# How many points of a curve are looked at to see whether it runs through a label
SAMPLES = 20


class Curve(NamedTuple):
    """A curve as it is drawn."""

    shares: NDArray[np.float64]  # of the width of its plot, from left to right
    values: NDArray[np.float64]


def label(name: str, bits: float) -> str:
    """What stands beside the line of a yardstick.

    >>> from alibi_viz.figures.yardstick_lines import label
    >>> label("letter pairs", 3.292)
    'letter pairs alone, 3.29'
    """
    return f"{name} alone, {bits:.2f}"


def add_yardsticks(figure: go.Figure, count: int, xaxis: str, yaxis: str) -> None:
    """Add so many lines to the plot of these axes, hidden until they are drawn."""
    for _ in range(count):
        figure.add_shape(
            type="line",
            line=theme.DOTTED,
            layer="below",
            xref=f"{xaxis} domain",
            yref=yaxis,
            x0=0,
            x1=1,
            label={"font_size": FONT_SIZE},
            visible=False,
        )


def draw_yardsticks(
    shapes: Sequence[go.layout.Shape],
    yardsticks: Mapping[str, float],
    value_range: Sequence[float | None],
    *,
    curves: Sequence[Curve] = (),
    label_width: float = LABEL_WIDTH,
    places: Sequence[str] = tuple(PLACES),
) -> None:
    """Draw the lines that lie within the axis, and hide the others.

    Args:
        shapes: from `add_yardsticks`, at least as many as there are yardsticks.
        yardsticks: {name: bits per byte}.
        value_range: the ends of the axis. There are no lines if plotly chooses an end that is None.
        curves: in the same plot. The labels avoid them.
        label_width: in shares of the width of the plot.
        places: where labels may stand, a choice of `PLACES`; of equally good ones, the first.
    """
    low, high = np.array(value_range, dtype=float)  # NaN for None, which no value lies above
    label_height = LABEL_HEIGHT * (high - low)
    shown = {name: bits for name, bits in yardsticks.items() if low <= bits <= high}

    for shape in shapes[len(shown) :]:
        shape.visible = False
    for shape, (name, bits) in zip(shapes, shown.items(), strict=False):
        # The label stands above its line, unless the plot ends there.
        is_above = bits + label_height <= high
        bottom = bits if is_above else bits - label_height
        top = bottom + label_height
        place = _clearest_place(places, label_width, (bottom, top), curves)

        update_changed(shape, y0=bits, y1=bits, visible=True)
        update_changed(
            shape.label,
            text=f" {label(name, bits)} ",
            textposition=place,
            yanchor="bottom" if is_above else "top",
        )


def _clearest_place(
    places: Sequence[str], width: float, heights: tuple[float, float], curves: Sequence[Curve]
) -> str:
    """The place where the fewest curves run through a label between these heights."""

    def points_behind_label(place: str) -> int:
        left = PLACES[place] * (1 - width)
        shares = np.linspace(left, left + width, SAMPLES)
        count = 0
        for curve in curves:
            if len(curve.shares) == 0:  # a model that is defined nowhere
                continue
            values = np.interp(shares, curve.shares, curve.values, left=np.nan, right=np.nan)
            count += int(((heights[0] <= values) & (values <= heights[1])).sum())
        return count

    return min(places, key=points_behind_label)
