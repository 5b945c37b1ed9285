"""The bias of one query in rounded numbers, as steps, beside a map of the errors of all attention
weights.

The colors of the map are logarithmic and always cover the same range, so that two maps can be
compared.
"""

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import theme
from alibi_viz.figures.theme import as_array, with_gaps

SMALLEST = 1e-6  # errors below have the color of this one


def blank() -> go.Figure:
    """The figure without data."""
    figure = theme.blank(
        height=400, hovermode="closest", margin={"l": 64, "r": 84, "t": 62, "b": 48}
    )
    titles = ("bias", "error of the weights")
    figure.set_subplots(
        1, 2, column_widths=[0.43, 0.4], horizontal_spacing=0.17, subplot_titles=titles
    )
    figure.update_annotations(font_size=13, yshift=30)
    blue, orange = theme.COLORS[:2]
    hover = "key %{x}<br>%{fullData.name} bias %{y:.6g}<extra></extra>"
    figure.add_scatter(
        name="exact", mode="lines", line=theme.DOTTED | {"width": 2}, hovertemplate=hover
    )
    steps = {"color": blue, "width": 1.5, "shape": "hvh"}
    figure.add_scatter(name="rounded", mode="lines", line=steps, hoverinfo="skip")
    for name, color, symbol in (("distinct", blue, "circle"), ("shared", orange, "square")):
        marker = {"color": color, "symbol": symbol, "size": 5}
        figure.add_scatter(name=name, mode="markers", marker=marker, hovertemplate=hover)
    figure.add_heatmap(row=1, col=2, coloraxis="coloraxis", hoverongaps=False)
    figure.update_xaxes(showgrid=False, fixedrange=True, title_text="key position")
    figure.update_yaxes(fixedrange=True, title_standoff=4)
    figure.update_layout(
        yaxis_title_text="bias", yaxis2={"title_text": "query position", "showgrid": False}
    )
    bar = {**theme.COLOR_BAR, "x": 1.02, "title": {"text": "error", "side": "right"}, "dtick": 1}
    bar |= {"tickprefix": "10<sup>", "ticksuffix": "</sup>"}
    colors = {
        "cmin": math.log10(SMALLEST),
        "cmax": 0,
        "colorscale": theme.SEQUENTIAL,
        "colorbar": bar,
    }
    return figure.update_layout(legend={"y": 1.0, "font_size": 11}, coloraxis=colors)


def draw(
    figure: go.Figure,
    keys: Sequence[int],
    exact: ArrayLike,
    rounded: ArrayLike,
    shared: ArrayLike,
    *,
    errors: NDArray[np.float64],
    size: int,
) -> None:
    """Draw the bias of one query and the errors of all weights into a figure from `blank`, plain or
    live.

    The biases are those of `keys`, whose last is the query; `shared` says which are rounded to that
    of a neighbor. The errors [cell, cell] are the largest in each square of `size` queries and
    keys, NaN where masked.
    """
    position, same, line, steps = (
        np.asarray(keys),
        as_array(shared, bool),
        as_array(exact),
        as_array(rounded),
    )
    both = np.concatenate([line, steps])
    padding = 0.05 * np.ptp(both)
    centers = (np.arange(len(errors)) + 0.5) * size - 0.5
    ends = [-0.5, len(errors) * size - 0.5]
    series = [
        (position, line),
        (position, steps),
        *((position[chosen], steps[chosen]) for chosen in (~same, same)),
    ]
    around = f"{size} queries around %{{y}}, {size} keys around %{{x}}"
    with figure.batch_update():
        for trace, (x, y) in zip(figure.data, series, strict=False):
            trace.update(x=x, y=y)
        powers = with_gaps(np.log10(np.maximum(errors, SMALLEST)).round(3))
        hover = f"{around}<br>largest error %{{customdata:.2g}}<extra></extra>"
        figure.data[-1].update(
            x=centers, y=centers, z=powers, customdata=with_gaps(errors), hovertemplate=hover
        )
        figure.layout.annotations[0].text = f"bias of query {position[-1]:,}"
        figure.layout.xaxis.range = [keys[0] - 0.5, keys[-1] + 0.5]
        figure.layout.yaxis.range = [both.min() - padding, both.max() + padding]
        figure.layout.update(xaxis2_range=ends, yaxis2_range=ends[::-1])
