"""Content against distance, for one key among equal others.

What pulls on its logit is on the left, and its weight at each distance on the right:

    content  ======|            |  curve: weight against distance
    distance    ===|            |
    sum      ===                |  a point: this distance
"""

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.arguments import check_integer, check_number, check_positive
from alibi_viz.figures import panels, theme
from alibi_viz.figures.theme import Picture
from alibi_viz.formatting import format_fixed

TOKENS = 256
# Pixels: of the figure, and with one plot below the other
_HEIGHT = 290
_STACKED_HEIGHT = 430
_MARGIN = {"t": 28, "l": 108, "r": 30, "b": 48}
# The scale of the pulls is fixed, so that bars can be compared. What is below it is cut off and
# marked.
_PULLS = (-16, 13)
_CUT = -15.2  # where a bar that is too long ends


def tug_figure(slope: float, content: float, distance: int) -> go.Figure:
    """Content against distance: the last of 256 tokens, and one match among equal keys.

    Args:
        slope: of the head.
        content: by how much the logit of the match is higher, from 0 to 12.
        distance: from 1 to 255, how many tokens back the match is.

    >>> from alibi_viz import figures
    >>> figure = figures.tug_figure(slope=1 / 8, content=4, distance=16)
    >>> figure.layout.yaxis.ticktext[-1]
    'sum <b>+2.0</b>'
    """
    check_positive("slope", slope)
    check_number("content", content, "from 0 to 12", lambda number: 0 <= number <= 12)
    check_integer("distance", distance, 1, TOKENS - 1)
    return theme.figure(tug_picture(slope, content, distance))


def match_weights(slope: float, content: float) -> NDArray[np.float64]:
    """The weight of a match at each distance from 0 to 255, among the 255 other keys."""
    distances = np.arange(TOKENS)
    others = np.exp(-slope * distances)
    match = np.exp(content - slope * distances)
    weights: NDArray[np.float64] = match / (others.sum() - others + match)
    return weights


def tug_picture(slope: float, content: float, distance: int, *, page_width: int = 880) -> Picture:
    """What pulls on the match, and its weight at each distance; see `tug_figure`."""
    if page_width < panels.NARROW:
        height = _STACKED_HEIGHT
        domains = panels.stacked(height=height, margin=_MARGIN)
    else:
        height = _HEIGHT
        domains = panels.beside((0, 0.4), (0.53, 1))

    cost = slope * distance
    pulls = {"content": content, "distance": -cost, "sum": content - cost}
    labels = []
    for name, pull in pulls.items():
        labels.append(f"{name} <b>{format_fixed(pull, 1, plus=True)}</b>")

    picture = theme.picture(
        [*_pulls(content, cost), *_weights(slope, content, distance)],
        height=height,
        margin=_MARGIN,
        showlegend=False,
        xaxis={
            "title": {"text": "pull on the logit"},
            "range": list(_PULLS),
            "tickvals": [-15, -10, -5, 0, 5, 10],
            "zeroline": True,
            "domain": domains["xaxis"],
        },
        yaxis={
            "range": [2.6, -0.6],  # from top to bottom
            "tickvals": [0, 1, 2],
            "ticktext": labels,
            "ticks": "",
            "showgrid": False,
            "domain": domains["yaxis"],
        },
        xaxis2={
            "anchor": "y2",
            "title": {"text": "letters back"},
            "type": "log",
            "range": [0, math.log10(TOKENS)],
            "tickvals": [1, 4, 16, 64, 256],
            "domain": domains["xaxis2"],
        },
        yaxis2={
            "anchor": "x2",
            "title": {"text": "weight of the match"},
            "range": [0, 1.03],
            "tickformat": ".0%",
            "domain": domains["yaxis2"],
        },
    )
    tie = content / slope  # the distance at which content and bias cancel
    if 1 <= tie < TOKENS:
        _add_tie(picture, tie)
    return picture


def _pulls(content: float, cost: float) -> list[dict[str, Any]]:
    """Bars of which each begins where the one above it ends, and the sum of both.

    A bar that is longer than the scale is broken, with two slashes, and ends in an arrow.
    """
    left = content - cost
    is_cut = left < _PULLS[0]
    end = _CUT if is_cut else left
    bars = {
        "type": "bar",
        "name": "pulls",
        "orientation": "h",
        "y": [0, 1, 2],
        "base": [0, content, 0],
        "x": [content, end - content, end],
        "marker": {"color": [theme.BLUE, theme.ORANGE, theme.GREEN]},
        "hoverinfo": "skip",
    }
    # From the end of each bar down to the next
    ends = {
        "type": "scatter",
        "name": "ends",
        "mode": "lines",
        "x": [content, content, None, end, end],
        "y": [0, 1, None, 1, 2],
        "line": theme.DOTTED,
        "hoverinfo": "skip",
    }
    slashes = [_CUT + 1.2, _CUT + 1.8]
    breaks = {
        "type": "scatter",
        "name": "breaks",
        "mode": "markers",
        "x": [*slashes, *slashes] if is_cut else [],
        "y": [1, 1, 2, 2] if is_cut else [],
        "marker": {"symbol": "line-ne", "size": 22, "line": {"color": "#FFFFFF", "width": 3}},
        "hoverinfo": "skip",
    }
    arrows = {
        "type": "scatter",
        "name": "arrows",
        "mode": "markers",
        "x": [_CUT, _CUT] if is_cut else [],
        "y": [1, 2] if is_cut else [],
        "marker": {
            "symbol": "triangle-left",
            "size": 18,
            "color": [theme.ORANGE, theme.GREEN],
        },
        "cliponaxis": False,
        "hoverinfo": "skip",
    }
    return [bars, ends, breaks, arrows]


def _weights(slope: float, content: float, distance: int) -> list[dict[str, Any]]:
    """The weight of the match at each distance, and at its own."""
    weights = match_weights(slope, content)
    curve = {
        "type": "scatter",
        "name": "weight by distance",
        "mode": "lines",
        "x": np.arange(1, TOKENS, dtype=np.int16),
        "y": weights[1:].astype(np.float32),
        "line": {"color": theme.BLUE},
        "hovertemplate": "%{x} back: %{y:.0%}<extra></extra>",
        "xaxis": "x2",
        "yaxis": "y2",
    }
    match = {
        "type": "scatter",
        "name": "match",
        "x": [distance],
        "y": [float(weights[distance])],
        "marker": {"size": 13, "color": theme.GREEN},
        "cliponaxis": False,
        "hoverinfo": "skip",
        "xaxis": "x2",
        "yaxis": "y2",
    }
    return [curve, match]


def _add_tie(picture: Picture, tie: float) -> None:
    """Add a line at the distance at which content and bias cancel."""
    line = {
        "name": "tie",
        "type": "line",
        "x0": tie,
        "x1": tie,
        "xref": "x2",
        "y0": 0,
        "y1": 1,
        "yref": "y2 domain",
        "line": theme.DOTTED,
    }
    text = {
        "name": "tie",
        "text": f"tie, {tie:,.0f} back",
        "x": math.log10(tie),  # as plotly places annotations on a logarithmic axis
        "xref": "x2",
        "y": 1,
        "yref": "y2 domain",
        "yanchor": "bottom",
        "showarrow": False,
    }
    picture["layout"] |= {"shapes": [line], "annotations": [text]}
