"""The bias of one query in rounded numbers, as steps, beside a map of the errors of all attention weights.

The colors of the map are logarithmic and always cover the same range, so that two maps can be compared.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import theme
from alibi_viz.figures.theme import as_array, with_gaps

SMALLEST = 1e-6  # errors below have the color of this one
_SMALL = "10<sup>\N{MINUS SIGN}%d</sup>"
_DECADES = {-6: _SMALL % 6, -5: _SMALL % 5, -4: _SMALL % 4, -3: "0.001", -2: "0.01", -1: "0.1", 0: "1"}


def blank() -> go.Figure:
    """The figure without data."""
    figure = theme.blank(400, hovermode="closest", margin={"l": 64, "r": 84, "t": 62, "b": 48})
    titles = ("bias", "<b>error of the weights</b>")
    figure.set_subplots(1, 2, column_widths=[0.43, 0.4], horizontal_spacing=0.17, subplot_titles=titles)
    line = {"color": theme.COLORS[6], "width": 2, "dash": "dot"}
    hover = "key %{x}<br>exact bias %{y:.6g}<extra></extra>"
    figure.add_scatter(name="exact", mode="lines", line=line, hovertemplate=hover)
    line = {"color": theme.COLORS[0], "width": 1.5, "shape": "hvh"}
    figure.add_scatter(name="rounded", mode="lines", line=line, hoverinfo="skip")
    hover = "key %{x}<br>rounded bias %{y:.6g}<extra>%{fullData.name}</extra>"
    for name, color, symbol in (("distinct", 0, "circle"), ("shared", 1, "square")):
        marker = {"color": theme.COLORS[color], "symbol": symbol, "size": 5}
        figure.add_scatter(name=name, mode="markers", marker=marker, hovertemplate=hover)
    hover = "%{customdata}<extra></extra>"
    figure.add_heatmap(row=1, col=2, coloraxis="coloraxis", hoverongaps=False, hovertemplate=hover)
    figure.update_xaxes(showgrid=False, fixedrange=True, title_text="key position")
    figure.update_yaxes(fixedrange=True, title_standoff=4)
    figure.update_layout(yaxis_title_text="bias", yaxis2={"title_text": "query position", "showgrid": False})
    figure.update_annotations(font_size=14, yshift=30)
    labels = {"tickvals": list(_DECADES), "ticktext": list(_DECADES.values()), "title_text": "error"}
    colors = {"cmin": min(_DECADES), "cmax": max(_DECADES), "colorscale": theme.SEQUENTIAL}
    return figure.update_layout(
        legend={"y": 1.0, "font_size": 11}, coloraxis={**colors, "colorbar": {**theme.COLOR_BAR, "x": 1.02, **labels}}
    )


def draw(
    figure: go.Figure,
    keys: Sequence[int],
    exact: ArrayLike,
    rounded: ArrayLike,
    shared: ArrayLike,
    *,
    cells: ArrayLike,
    size: int,
    length: int,
    query: int,
) -> None:
    """Draw the bias of one query and the errors of all weights into a figure from `blank`, plain or live.

    Args:
        figure: the figure.
        keys: the positions of the keys on the left.
        exact, rounded: [keys], their biases.
        shared: [keys], whether a key has the same rounded bias as a neighbor.
        cells: [cell, cell], the largest error of a weight in each square of `size` queries and keys; NaN where masked.
        size: how many queries, and how many keys, a cell has.
        length: how many there are in all.
        query: the position of the query on the left.
    """
    position, same, errors = np.asarray(keys), as_array(shared, bool), as_array(cells)
    line, steps = as_array(exact), as_array(rounded)
    both = np.concatenate([line, steps])
    padding = 0.05 * np.ptp(both) or 0.5
    centers = np.arange(0, length, size) + (size - 1) / 2
    ends = [-0.5, len(centers) * size - 0.5]
    series = [(position, line), (position, steps), *((position[chosen], steps[chosen]) for chosen in (~same, same))]
    with figure.batch_update():
        for trace, (x, y) in zip(figure.data, series, strict=False):
            trace.update(x=x, y=y)
        powers = np.log10(np.maximum(errors, SMALLEST)).round(3)
        figure.data[-1].update(x=centers, y=centers, z=with_gaps(powers), customdata=_texts(errors, size, length))
        figure.layout.annotations[0].text = f"<b>bias of query {query:,}</b>"
        figure.layout.xaxis.range = [keys[0] - 0.5, keys[-1] + 0.5]
        figure.layout.yaxis.range = [both.min() - padding, both.max() + padding]
        figure.layout.update(xaxis2_range=ends, yaxis2_range=ends[::-1])


def _texts(errors: NDArray[np.float64], size: int, length: int) -> list[list[str]]:
    """The hover text of each cell; masked cells show none."""
    last = [min(first + size, length) - 1 for first in range(0, length, size)]
    names = [f"{at * size} to {end}" if end > at * size else f"{end}" for at, end in enumerate(last)]
    return [
        [f"query {row}<br>key {column}<br>largest error {error:.2g}" for column, error in zip(names, line, strict=True)]
        for row, line in zip(names, errors.tolist(), strict=True)
    ]
