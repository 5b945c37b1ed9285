"""What each word of a text keeps of its weight, when only its distance from the last one counts:

half-life: 4 words  o ..........    a handle, and a line back to it from the last word
                    :
bars: the weights   :               down to half of the weight
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from alibi_viz.arguments import check_flag, check_instance, check_integer
from alibi_viz.figures import theme
from alibi_viz.figures.theme import Picture
from alibi_viz.figures.token_labels import label
from alibi_viz.formatting import format_percent

_BRACKET = 1.12  # the height of the half-life above the bars
_COLUMN = _BRACKET - 0.04  # how high a click on a word may be: many bars are too low for it
_LEFT_END = -0.2  # where the handle of a half-life beyond the text stands, as a position of a word


def forgetting_figure(
    words: list[str], half_life: int, *, marked: int = 0, square_root: bool = False
) -> go.Figure:
    """The weight of each word of a text for the last one, if all match it equally well.

    Args:
        words: at least 2.
        half_life: the number of words after which the weight has halved.
        marked: the marked word, counted in words back from the last one.
        square_root: whether a second curve shows the law -m sqrt(d), with the same slope m.

    >>> from alibi_viz import figures
    >>> figure = figures.forgetting_figure(["to", "be", "or", "not"], half_life=1)
    >>> figure.data[0].y
    array([0.125, 0.25 , 0.5  , 1.   ])
    """
    check_instance("words", words, list)
    if len(words) < 2 or not all(isinstance(word, str) for word in words):
        raise ValueError(f"words must be at least 2 texts, got {words}")
    check_integer("half_life", half_life, 1)
    check_integer("marked", marked, 0, len(words) - 1)
    check_flag("square_root", square_root)
    return theme.figure(forgetting_picture(words, half_life, marked, square_root=square_root))


def forgetting_picture(
    words: Sequence[str],
    half_life: int,
    marked: int,
    *,
    square_root: bool = False,
) -> Picture:
    """The weights of the words, and the half-life above them; see `forgetting_figure`."""
    last = len(words) - 1
    position = np.arange(len(words))
    kept = 0.5 ** ((last - position) / half_life)
    place = last - marked  # of the marked word

    labels = [label(word, 16) for word in words]
    hover = []
    for text, back, share in zip(labels, last - position, kept, strict=True):
        hover.append(f"{text}, {back} back: {format_percent(share)}")
    labels[place] = f"<b>{labels[place]}</b>"
    colors = [theme.BLUE] * len(words)
    colors[place] = theme.ORANGE

    bars = {
        "type": "bar",
        "name": "weights",
        "x": position,
        "y": kept,
        "marker": {"color": colors},
        "hoverinfo": "skip",
    }
    # Invisible, for the pointer
    columns = {
        "type": "bar",
        "name": "columns",
        "x": position,
        "y": [_COLUMN] * len(words),
        "width": 1,
        "opacity": 0,
        "customdata": hover,
        "hovertemplate": "%{customdata}<extra></extra>",
    }
    share = {
        "name": "word",
        "text": f"<b>{format_percent(kept[place])}</b>",
        "x": place,
        "y": kept[place],
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"color": theme.ORANGE, "size": 14},
    }
    traces: list[dict[str, Any]] = [bars, columns, *_half_life(last, half_life)]
    annotations = [share, _half_life_label(last, half_life)]
    if square_root:
        curve, curve_label = _square_root(last, half_life)
        traces.append(curve)
        annotations.append(curve_label)
    return theme.picture(
        traces,
        height=290,
        margin={"b": 76, "t": 12},
        showlegend=False,
        barmode="overlay",
        bargap=0.25,
        hovermode="closest",
        xaxis={
            "range": [-0.6, last + 0.6],
            "tickvals": position,
            "ticktext": labels,
            "tickangle": -60,
            "ticks": "",
            "showgrid": False,
        },
        yaxis={
            "title": {"text": "weight"},
            "range": [0, 1.36],
            "tickvals": [0, 0.25, 0.5, 0.75, 1],
            "tickformat": ".0%",
        },
        annotations=annotations,
    )


def _handle_place(last: int, half_life: int) -> float:
    """Where the handle of the half-life is: in sight, also if that is longer than the text."""
    return max(last - half_life, _LEFT_END)


def _half_life(last: int, half_life: int) -> list[dict[str, Any]]:
    """A line above the bars from the last word back to the one with half of its weight, and from
    there down to it; and its handle."""
    place = _handle_place(last, half_life)
    x = [last, place]
    y = [_BRACKET, _BRACKET]
    if half_life <= last:
        x.append(place)
        y.append(0.5)
    line = {
        "type": "scatter",
        "name": "half-life",
        "mode": "lines",
        "x": x,
        "y": y,
        "line": theme.DOTTED,
        "hoverinfo": "skip",
    }
    handle = {
        "type": "scatter",
        "name": "handle",
        "mode": "markers",
        "x": [place],
        "y": [_BRACKET],
        "marker": {"size": 16, "color": theme.GRAY},
        "cliponaxis": False,
        "hoverinfo": "skip",
    }
    return [line, handle]


def _half_life_label(last: int, half_life: int) -> dict[str, Any]:
    """The half-life in words, to the left of its handle or, where that has too little room, above
    the line."""
    place = _handle_place(last, half_life)
    has_room = place > last / 2
    unit = "word" if half_life == 1 else "words"
    text = f"half-life: {half_life} {unit}"
    if half_life > last:
        text += ", more than the text has"
    return {
        "name": "half-life",
        "text": text,
        "x": place - 0.7 if has_room else last + 0.4,
        "y": _BRACKET,
        "xanchor": "right",
        "yanchor": "middle" if has_room else "bottom",
        "showarrow": False,
    }


def _square_root(last: int, half_life: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The weights by the law of the square root, and the label of this curve."""
    position = np.linspace(0, last, 200)
    slope = math.log(2) / half_life
    weights = np.exp(-slope * np.sqrt(last - position))
    curve = {
        "type": "scatter",
        "name": "square root",
        "mode": "lines",
        "x": position.astype(np.float32),
        "y": weights.astype(np.float32),
        "line": {"color": theme.GREEN, "width": 3, "dash": "dash"},
        "hoverinfo": "skip",
    }
    curve_label = {
        "name": "square root",
        "text": "the square root, with the same slope",
        "x": 0,
        "y": float(weights[0]),
        "xanchor": "left",
        "yshift": 12,
        "showarrow": False,
        "font": {"color": theme.GREEN},
    }
    return curve, curve_label
