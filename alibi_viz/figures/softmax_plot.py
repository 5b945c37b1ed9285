"""Logits and the weights that a softmax makes of them, as numbers in two matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from numpy.typing import ArrayLike, NDArray

from alibi_viz.arguments import check_choice, check_integer
from alibi_viz.figures import panels, theme
from alibi_viz.figures.theme import Picture, as_array
from alibi_viz.formatting import format_fixed

_TITLES = ("logits (gray: masked, \N{MINUS SIGN}\N{INFINITY})", "weights")


def softmax_figure(logits: ArrayLike, where: str = "row", index: int = 0) -> go.Figure:
    """Logits and weights beside each other, with a frame around a row or a column of both.

    Args:
        logits: [tokens, tokens], with minus infinity where masked.
        where: what has the frame, "row" or "column".
        index: its number, from 0.

    >>> import math
    >>> from alibi_viz import figures
    >>> figure = figures.softmax_figure([[1.0, -math.inf], [2.0, 2.0]], index=1)
    >>> figure.data[1].z
    array([[1. , nan],
           [0.5, 0.5]])
    """
    values = as_array(logits, name="logits")
    is_square = values.ndim == 2 and values.shape[0] == values.shape[1] >= 1
    if not is_square or not (values < np.inf).all():
        raise ValueError(
            f"logits must be [tokens, tokens], finite or minus infinity, got {values.tolist()}"
        )
    check_choice("where", where, ("row", "column"))
    check_integer("index", index, 0, len(values) - 1)
    weights = torch.as_tensor(values).softmax(-1).numpy()
    return theme.figure(softmax_picture(values, weights, where, index))


def softmax_picture(
    logits: NDArray[np.floating],
    weights: NDArray[np.floating],
    where: str,
    index: int,
) -> Picture:
    """Logits, and beside them their weights; see `softmax_figure`."""
    is_masked = np.isneginf(logits)
    texts = []
    for row in logits.tolist():
        texts.append(["" if np.isneginf(logit) else format_fixed(logit, 1) for logit in row])
    cells = {"type": "heatmap", "showscale": False, "hoverinfo": "skip"}  # a cell has its number
    left = {
        **cells,
        "name": "logits",
        "z": np.where(is_masked, np.nan, logits),
        "text": texts,
        "texttemplate": "%{text}",  # with a real minus sign
        "zmin": -9,
        "zmax": 9,
        "colorscale": _stops(theme.DIVERGING),
    }
    right = {
        **cells,
        "name": "weights",
        "z": np.where(is_masked, np.nan, weights),
        "texttemplate": "%{z:.2f}",
        "zmin": 0,
        "zmax": 1,
        "colorscale": _stops(theme.SEQUENTIAL),
        "xaxis": "x2",
        "yaxis": "y2",
    }

    tokens = len(logits)
    edges = {"x0": -0.5, "x1": tokens - 0.5, "y0": -0.5, "y1": tokens - 0.5}
    framed = "y" if where == "row" else "x"
    around = {f"{framed}0": index - 0.5, f"{framed}1": index + 0.5}
    shapes = []
    for x, y in (("x", "y"), ("x2", "y2")):
        axes = {"type": "rect", "xref": x, "yref": y}
        gray = {**axes, **edges, "fillcolor": theme.MASKED, "line": {"width": 0}, "layer": "below"}
        line = {"color": theme.ORANGE, "width": 4}
        shapes += [gray, {**axes, **edges, **around, "name": "frame", "line": line}]

    domains = panels.beside((0, 0.45), (0.55, 1))
    ticks = {"tickmode": "linear", "dtick": 1, "showgrid": False}
    key = {"title": {"text": "key"}, **ticks}
    down = {"autorange": "reversed", **ticks}
    return theme.picture(
        [left, right],
        height=330,
        margin={"t": 56},
        xaxis={**key, "domain": domains["xaxis"]},
        yaxis={**down, "title": {"text": "query"}, "domain": domains["yaxis"]},
        xaxis2={**key, "domain": domains["xaxis2"], "anchor": "y2"},
        yaxis2={**down, "domain": domains["yaxis2"], "anchor": "x2"},
        shapes=shapes,
        annotations=panels.titles(_TITLES),
    )


def _stops(colors: Sequence[str]) -> list[list[Any]]:
    """A plotly colorscale with colors at equal distances."""
    return [[number / (len(colors) - 1), color] for number, color in enumerate(colors)]
