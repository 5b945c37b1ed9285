"""Two plots of a figure: beside each other or, on a narrow page, one below the other.

They are the plots of the axes x and y, and x2 and y2. A title stays above its plot if it is placed
by the domains of its axes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

NARROW = 560  # pixels: on a narrower page, two plots don't fit beside each other

Domains = dict[str, list[float]]  # {axis: where it starts and ends, as shares of the figure}


def titles(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Annotations: a title above the middle of each plot."""
    annotations = []
    for (x, y), text in zip((("x", "y"), ("x2", "y2")), texts, strict=True):
        annotations.append(
            {
                "text": text,
                "xref": f"{x} domain",
                "yref": f"{y} domain",
                "x": 0.5,
                "y": 1,
                "yanchor": "bottom",
                "showarrow": False,
                "font": {"size": 13},
            }
        )
    return annotations


def beside(left: Sequence[float], right: Sequence[float]) -> Domains:
    """The domains of plots beside each other, in these shares of the width."""
    return {"xaxis": list(left), "xaxis2": list(right), "yaxis": [0, 1], "yaxis2": [0, 1]}


def stacked(*, height: int, margin: Mapping[str, int], between: int = 84) -> Domains:
    """The domains of two equally high plots, the second below the first.

    There are `between` pixels between them, for the labels of an axis and a title. `height` and
    `margin` are those of the figure, in pixels.

    >>> from alibi_viz.figures.panels import stacked
    >>> stacked(height=300, margin={"t": 50, "b": 50}, between=100)
    {'xaxis': [0, 1], 'xaxis2': [0, 1], 'yaxis': [0.75, 1], 'yaxis2': [0, 0.25]}
    """
    inside = height - margin["t"] - margin["b"]
    half = 0.5 * (1 - between / inside)
    return {"xaxis": [0, 1], "xaxis2": [0, 1], "yaxis": [1 - half, 1], "yaxis2": [0, half]}
