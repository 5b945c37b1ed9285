"""A trained model before and after a change: how far back its heads look, and a panel with its loss at each length.

Both plots show the same two series, before and after.
"""

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from alibi_viz.figures import panel as panels
from alibi_viz.figures import theme
from alibi_viz.figures.slopes import power_ticks
from alibi_viz.panel import Panel

__all__ = ["AFTER", "BEFORE", "blank", "draw", "surgery_figure"]

BEFORE, AFTER = "as trained", "changed"
_STYLES = ((theme.COLORS[6], "dot", "circle-open"), (theme.COLORS[0], "solid", "circle"))
_LEFT, _RIGHT = (0.0, 0.42), (0.54, 1.0)  # shares of the width
_MAX_LABELS = 16  # with more heads than this, only the layers are labeled
_MARGIN = 0.06  # of the logarithmic axis, so that no marker at its end is cut
_HOVER = "layer %{customdata[0]}, head %{customdata[1]}: %{y:.1f} tokens back<extra>%{fullData.name}</extra>"


def surgery_figure(panel: Panel, distance: ArrayLike, changed_distance: ArrayLike | None = None) -> go.Figure:
    """One model as a plain plotly figure. The arguments are those of `draw`.

    >>> from alibi_viz.panel import Curves
    >>> curves = {"as trained": Curves({32: 2.5, 64: 2.6})}
    >>> figure = surgery_figure(lab.find_question("longer windows").layout(curves, 32, [32, 64], {}), [[3.0, 9.0]])
    >>> figure.data[0].y, figure.data[-2].y
    (array([2.5, 2.6]), array([3., 9.]))
    """
    figure = blank()
    draw(figure, panel, distance, changed_distance)
    return figure


def blank() -> go.Figure:
    """The empty figure: a panel with two slots, then two traces with one marker per head."""
    figure = panels.blank(380, _STYLES)
    for name, (color, _, symbol) in zip((BEFORE, AFTER), _STYLES, strict=True):
        marker = {"color": color, "symbol": symbol, "size": 9}
        figure.add_scatter(
            name=name, legendgroup=name, showlegend=False, mode="markers", marker=marker, hovertemplate=_HOVER
        )
    line = {"color": "#8C8C8C", "width": 1.5, "dash": "dot"}
    figure.add_shape(type="line", xref="x domain", x0=0, x1=1, yref="y", line=line)
    panels.add_title(figure, "How far back each head looks", left=_LEFT[0])
    x_axis = {"domain": _LEFT, "visible": True, "showgrid": False, "tickangle": 0}
    figure.update_layout(xaxis=x_axis, xaxis_title_text="head, layer by layer")
    y_title = "mean distance, tokens (dotted: L)"
    return figure.update_layout(yaxis={"visible": True, "type": "log", "title_text": y_title})


def draw(figure: go.Figure, panel: Panel, distance: ArrayLike, changed_distance: ArrayLike | None = None) -> None:
    """Draw a model before and after a change into a figure from `blank`, plain or live.

    Args:
        figure: the figure.
        panel: the loss at each length, with the curves `BEFORE` and, if there was a change, `AFTER`.
        distance: tokens, [layers, heads]: the mean distance of the keys that each head attends to.
        changed_distance: the same after the change; None if there was none.
    """
    before = np.asarray(distance, dtype=np.float64)
    after = np.array([]) if changed_distance is None else np.asarray(changed_distance, dtype=np.float64)
    layers, heads = before.shape
    numbers = [[layer + 1, head + 1] for layer in range(layers) for head in range(heads)]
    xs = np.arange(1, layers * heads + 1)
    length = panel.length or 1
    with figure.batch_update():
        for trace, distances in zip(figure.data[-2:], (before.ravel(), after.ravel()), strict=True):
            trace.update(x=xs[: len(distances)], y=distances, customdata=numbers)
        panels.draw(figure, (BEFORE, AFTER), panel, domain=_RIGHT)
        figure.layout.shapes[-1].update(y0=length, y1=length)
        figure.layout.xaxis.update(
            range=[0.4, layers * heads + 0.6],
            tickvals=xs,
            ticktext=[_head_label(layer, head, number_heads=layers * heads <= _MAX_LABELS) for layer, head in numbers],
        )
        figure.layout.yaxis.update(**_distance_axis(np.concatenate([before.ravel(), after.ravel()]), length))


def _head_label(layer: int, head: int, *, number_heads: bool) -> str:
    """The number of the head, and of its layer below the first head."""
    first = f"<br>{'layer ' if number_heads else ''}{layer}" if head == 1 else ""
    return f"{head if number_heads else ''}{first}"


def _distance_axis(distances: np.ndarray, length: int) -> dict[str, object]:
    """A logarithmic axis that includes every head and the training length, with ticks at powers of two."""
    points = np.concatenate([distances[np.isfinite(distances)], [1.0, 2 * length]]).clip(0.05)
    low, high = int(np.floor(np.log2(points.min()))), int(np.ceil(np.log2(points.max())))
    ends = [low * np.log10(2) - _MARGIN, high * np.log10(2) + _MARGIN]
    return {"range": ends, **power_ticks(range(low, high + 1))}
