"""Attention weights that were checked, beside the correct ones."""

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from torch import Tensor

from alibi_viz.figures import theme
from alibi_viz.figures.arrays import as_array

__all__ = ["comparison_figure"]

_SHOWN = 32  # queries and keys at most; more would be too small to see


def comparison_figure(wanted: Tensor, got: Tensor, place: tuple[int, int, int], title: str) -> go.Figure:
    """Draw the correct weights, the checked ones, and their difference for one head.

    Args:
        wanted: the correct weights [heads, query, key].
        got: the checked weights, the same shape.
        place: (head, query, key), which gets a frame; of long sequences, the part around it is shown.
        title: what the weights belong to.
    """
    head, query, key = place
    rows, columns = _part(query, wanted.shape[1]), _part(key, wanted.shape[2])
    correct, checked = (as_array(weights[head])[rows, columns] for weights in (wanted, got))
    figure = make_subplots(1, 3, subplot_titles=("wanted", "got", "got minus wanted"), horizontal_spacing=0.09)
    for panel, weights in enumerate((correct, checked, checked - correct), start=1):
        heatmap = go.Heatmap(
            z=np.round(weights, 5),
            x0=columns.start,
            y0=rows.start,
            coloraxis="coloraxis" if panel < 3 else "coloraxis2",
            hovertemplate="query %{y}<br>key %{x}<br>%{z:.4g}<extra></extra>",
        )
        figure.add_trace(heatmap, row=1, col=panel)
        frame = {"x0": key - 0.5, "x1": key + 0.5, "y0": query - 0.5, "y1": query + 0.5}
        figure.add_shape(type="rect", line={"color": theme.COLORS[1], "width": 2}, row=1, col=panel, **frame)
    limit = float(np.abs(checked - correct).max()) or 1.0
    bar = {"thickness": 10, "outlinewidth": 0}
    figure.update_layout(
        theme.blank(320).layout.to_plotly_json(),
        coloraxis={"colorscale": theme.SEQUENTIAL, "cmin": 0, "colorbar": {**bar, "x": 0.64}},
        coloraxis2={"colorscale": theme.DIVERGING, "cmin": -limit, "cmax": limit, "colorbar": {**bar, "x": 1.0}},
        title={"text": f"Attention weights at equal content: head {head + 1} with {title}", "font_size": 13},
        margin_t=80,
    )
    figure.update_xaxes(title="key").update_yaxes(autorange="reversed").update_yaxes(title="query", col=1)
    return figure


def _part(index: int, size: int) -> slice:
    """At most `_SHOWN` positions that contain `index`, preferably before it."""
    start = max(0, min(index + 3, size) - _SHOWN)
    return slice(start, min(start + _SHOWN, size))
