"""Names at the right ends of curves, in place of a legend, and which curves need a close-up."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from alibi_viz.figures.token_labels import literal
from alibi_viz.formatting import in_prose

NAMES_WIDTH = 150  # pixels: the width of the longest name
_LINE = 15  # pixels: the height of a name
_CLOSE = 0.16  # curves within this share of the axis lie on one line


def name_notes(
    curves: pd.DataFrame,
    colors: Mapping[str, str],
    value_range: Sequence[float],
    plot_height: float,
) -> list[dict[str, Any]]:
    """Annotations: each name at the height of the right end of its curve, or near it.

    Args:
        curves: a column of values for each label, NaN where it has none; the index is x, ascending.
        colors: {label: color of its curve}, in the order of the annotations.
        value_range: the ends of the vertical axis.
        plot_height: in pixels.
    """
    low, high = value_range
    ends = {label: curves[label].dropna() for label in colors if label in curves}
    heights = [(end.iloc[-1] - low) / (high - low) for end in ends.values()]
    places = spread(heights, _LINE / plot_height)

    notes = []
    for (label, end), place in zip(ends.items(), places, strict=True):
        name = literal(in_prose(label))
        longest = end.index[-1]
        if longest != curves.index[-1]:
            name += f", to {longest:,}"
        notes.append(
            {
                "name": "name of a curve",
                # A part with a color of its own keeps it in an app.
                "text": f'<span style="color:{colors[label]}">●</span> {name}',
                "xref": "x domain",
                "yref": "y domain",
                "x": 1,
                "xanchor": "left",
                "xshift": 10,
                "y": place,
                "yanchor": "middle",
                "showarrow": False,
            }
        )
    return notes


def lowest_curves(curves: pd.DataFrame, value_range: Sequence[float]) -> list[str]:
    """The labels of the lowest curves, if there are at least two, which lie on one line.

    >>> import pandas as pd
    >>> from alibi_viz.figures.curve_labels import lowest_curves
    >>> curves = pd.DataFrame({"alibi": [0.8, 0.7], "t5": [0.9, 0.8], "rotary": [0.8, 6.0]})
    >>> lowest_curves(curves, (0, 7))
    ['alibi', 't5']
    """
    low, high = value_range
    limit = curves.min(axis=None) + _CLOSE * (high - low)
    labels = [str(label) for label in curves.columns if curves[label].max() <= limit]
    return labels if len(labels) >= 2 else []


def spread(places: Sequence[float], gap: float) -> NDArray[np.float64]:
    """Places between 0 and 1, moved so that they are at least so far apart, as little as needed.

    >>> from alibi_viz.figures.curve_labels import spread
    >>> spread([0.5, 0.5, 0.0], gap=0.25)
    array([0.5 , 0.75, 0.  ])
    """
    order = np.argsort(places, kind="stable")
    moved = np.asarray(places, dtype=float)[order]
    for upper in range(1, len(moved)):
        moved[upper] = max(moved[upper], moved[upper - 1] + gap)
    # What has left the upper end moves down again, and pushes what is below.
    limit = 1.0
    for place in reversed(range(len(moved))):
        moved[place] = min(moved[place], limit)
        limit = moved[place] - gap
    result = np.empty_like(moved)
    result[order] = moved
    return result
