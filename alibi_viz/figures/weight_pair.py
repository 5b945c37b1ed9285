"""Attention weights of a correct implementation beside those of another, as two heatmaps on one color scale."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import theme
from alibi_viz.figures.arrays import as_array
from alibi_viz.figures.color_scale import WEIGHT_SCALE

__all__ = ["blank", "draw", "weight_pair_figure"]

_DOMAINS = ((0.0, 0.47), (0.53, 1.0))
_MOST_TICKS = 8


def weight_pair_figure(correct: ArrayLike, other: ArrayLike, **options: object) -> go.Figure:
    """Two matrices of weights as a plain plotly figure. The arguments are those of `draw`.

    >>> from alibi_viz import figures
    >>> correct, other = [[1.0, 0.0], [0.6, 1.0]], [[1.0, 0.0], [0.9, 1.0]]
    >>> figure = figures.weight_pair_figure(correct, other, rows=[0, 1], keys=[0, 1])
    >>> figure.data[1].z  # weights of 0 are masked
    ([1.0, None], [0.9, 1.0])
    """
    figure = blank()
    draw(figure, correct, other, **options)  # type: ignore[arg-type]  # `draw` has types
    return figure


def blank() -> go.Figure:
    """The figure without data."""
    figure = theme.blank(390, hovermode="closest", showlegend=False, margin={"l": 56, "r": 80, "t": 34, "b": 48})
    for number, domain in enumerate(_DOMAINS, start=1):
        x, y = (axis + str(number) * (number > 1) for axis in "xy")
        figure.add_heatmap(xaxis=x, yaxis=y, coloraxis="coloraxis", hoverongaps=False, xgap=1, ygap=1)
        axis = {"showgrid": False, "fixedrange": True}
        x_axis = {**axis, "domain": domain, "anchor": y, "title_text": "key position"}
        figure.update_layout({f"xaxis{x[1:]}": x_axis, f"yaxis{y[1:]}": {**axis, "anchor": x}})
        place = {"xref": "paper", "yref": "paper", "x": domain[0], "y": 1, "xanchor": "left", "yanchor": "bottom"}
        figure.add_annotation(place, showarrow=False, yshift=6, font_size=14)
    bar = {"thickness": 10, "outlinewidth": 0, "x": 1.02, "xpad": 0, "ticks": "outside", "ticklen": 3}
    figure.update_layout(coloraxis={**WEIGHT_SCALE.axis, "colorbar": {**bar, **WEIGHT_SCALE.bar}})
    return figure


def draw(
    figure: go.Figure,
    correct: ArrayLike,
    other: ArrayLike,
    *,
    rows: Sequence[int],
    keys: Sequence[int],
    row_name: str = "query",
    names: tuple[str, str] = ("correct", "other"),
) -> None:
    """Draw two matrices of weights into a figure from `blank`, plain or live.

    Args:
        figure: the figure.
        correct: [rows, keys], the weights of a correct implementation from 0 to 1; 0 is masked and not drawn.
        other: the weights to compare, the same shape.
        rows: the number of each row, such as the positions of the queries.
        keys: the positions of the keys.
        row_name: what a row is, "query" or "head".
        names: the titles of the two heatmaps.
    """
    row_title = {"query": "query position"}.get(row_name, row_name)
    with figure.batch_update():
        for number, (weights, name) in enumerate(zip((correct, other), names, strict=True)):
            trace, suffix = figure.data[number], str(number + 1) * (number > 0)
            hover = f"{row_name} %{{y}}, key %{{x}}<br>weight %{{z:.3g}}<extra>{name}</extra>"
            trace.update(x=list(keys), y=list(rows), z=_without_masked(as_array(weights)), hovertemplate=hover)
            figure.layout[f"xaxis{suffix}"].update(range=[keys[0] - 0.5, keys[-1] + 0.5], **_ticks(keys))
            figure.layout[f"yaxis{suffix}"].update(range=[rows[-1] + 0.5, rows[0] - 0.5], **_ticks(rows))
            figure.layout.annotations[number].text = f"<b>{name}</b>"
        figure.layout.yaxis.title.text = row_title


def _without_masked(weights: NDArray[np.float64]) -> list[list[float | None]]:
    """Lists for plotly, where None is a gap. plotly would send NaN as text."""
    return [[float(weight) if weight > 0 else None for weight in row] for row in weights]


def _ticks(positions: Sequence[int]) -> dict[str, object]:
    """Every position or every few, with the last, which is the newest token."""
    step = -(-len(positions) // _MOST_TICKS)
    return {"tickvals": list(positions[::-1][::step][::-1])}
