"""The bias of one query in rounded numbers, as steps, beside the errors of all attention weights.

The colors of the map of errors are logarithmic and always cover the same range, so that two maps
can be compared.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import panels, theme
from alibi_viz.figures.theme import as_array, named_trace, with_gaps
from alibi_viz.formatting import true_minus

SMALLEST = 1e-6  # errors below have the color of this one
# Pixels: of the figure, the same with one plot below the other, and from a plot to its title
_HEIGHT = 380
_STACKED_HEIGHT = 590
_BETWEEN_STACKED = 110  # the labels of the upper plot, and the title of the lower one
_ABOVE_LEGEND = 30
# Shares of the width
_LEFT = (0.0, 0.43)
_RIGHT = (0.6, 1.0)


class PrecisionTraces(NamedTuple):
    """The traces of the figure. Each has the name of its field."""

    exact: go.Scatter
    rounded: go.Scatter
    distinct: go.Scatter
    shared: go.Scatter
    errors: go.Heatmap


def blank() -> go.Figure:
    """The figure without data."""
    figure = theme.blank(
        height=_HEIGHT,
        hovermode="closest",
        margin={"l": 64, "r": 84, "t": 62, "b": 48},
        legend={"y": 1.0, "font_size": 11},
    )
    figure.set_subplots(rows=1, cols=2)
    panels.add_titles(figure, ("bias", "error of the weights"), yshift=_ABOVE_LEGEND)

    bias_hover = "key %{x}<br>%{fullData.name} bias %{customdata}<extra></extra>"
    figure.add_scatter(
        name="exact",
        mode="lines",
        line={**theme.DOTTED, "width": 2},
        hovertemplate=bias_hover,
    )
    figure.add_scatter(
        name="rounded",
        mode="lines",
        line={"color": theme.BLUE, "width": 1.5, "shape": "hvh"},
        hoverinfo="skip",
    )
    figure.add_scatter(
        name="distinct",
        mode="markers",
        marker={"color": theme.BLUE, "symbol": "circle", "size": 5},
        hovertemplate=bias_hover,
    )
    figure.add_scatter(
        name="shared",
        mode="markers",
        marker={"color": theme.ORANGE, "symbol": "square", "size": 5},
        hovertemplate=bias_hover,
    )
    figure.add_heatmap(name="errors", row=1, col=2, coloraxis="coloraxis", hoverongaps=False)

    figure.update_xaxes(showgrid=False, fixedrange=True, title_text="key position")
    figure.update_yaxes(fixedrange=True, title_standoff=4)
    figure.update_layout(
        yaxis={"title_text": "bias"},
        yaxis2={"title_text": "query position", "showgrid": False},
        coloraxis={
            "cmin": math.log10(SMALLEST),
            "cmax": 0,
            "colorscale": theme.SEQUENTIAL,
            "colorbar": {
                **theme.COLOR_BAR,
                "x": 1.02,
                "title": {"text": "error", "side": "right"},
                "dtick": 1,
                "tickprefix": "10<sup>",
                "ticksuffix": "</sup>",
            },
        },
    )
    arrange(figure, page_width=panels.NARROW)
    return figure


def arrange(figure: go.Figure, page_width: int) -> None:
    """Put the plots beside each other or, on a narrow page, below each other."""
    bar = figure.layout.coloraxis.colorbar
    if page_width < panels.NARROW:
        panels.stack(figure, height=_STACKED_HEIGHT, between=_BETWEEN_STACKED)
        # In a batch of updates, the axis still has its old place.
        _, lower = panels.stacked_domains(figure, height=_STACKED_HEIGHT, between=_BETWEEN_STACKED)
        theme.update_changed(bar, y=0, yanchor="bottom", len=lower[1])
    else:
        panels.put_beside(figure, _LEFT, _RIGHT, height=_HEIGHT)
        theme.update_changed(bar, y=0.5, yanchor="middle", len=1)


def traces_of(figure: go.Figure) -> PrecisionTraces:
    """The traces of a figure from `blank`, plain or live."""
    return PrecisionTraces(
        exact=named_trace(figure, "exact"),
        rounded=named_trace(figure, "rounded"),
        distinct=named_trace(figure, "distinct"),
        shared=named_trace(figure, "shared"),
        errors=named_trace(figure, "errors"),
    )


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
    """Draw the bias of one query and the errors of all weights into a figure from `blank`.

    The figure may be plain or live.

    Args:
        figure: from `blank`.
        keys: the positions of the keys in the order of the text, the last is the query.
        exact: the bias of each key.
        rounded: the same in rounded numbers.
        shared: bool, which of the rounded biases equal that of a neighbor.
        errors: [cell, cell], the largest error in each square of queries and keys, NaN where
            masked.
        size: the side of these squares, in tokens.
    """
    position = np.asarray(keys)
    exact_bias = as_array(exact)
    rounded_bias = as_array(rounded)
    is_shared = as_array(shared, bool)

    all_biases = np.concatenate([exact_bias, rounded_bias])
    lowest = all_biases.min()
    highest = all_biases.max()
    padding = 0.05 * (highest - lowest)

    num_cells = len(errors)
    cell_centers = (np.arange(num_cells) + 0.5) * size - 0.5
    first_edge = -0.5
    last_edge = num_cells * size - 0.5
    log_errors = np.log10(np.maximum(errors, SMALLEST)).round(3)

    traces = traces_of(figure)
    bias_title, _ = figure.layout.annotations
    with figure.batch_update():
        traces.exact.update(x=position, y=exact_bias, customdata=_hover_texts(exact_bias))
        traces.rounded.update(x=position, y=rounded_bias)
        for trace, shown in ((traces.distinct, ~is_shared), (traces.shared, is_shared)):
            biases = rounded_bias[shown]
            trace.update(x=position[shown], y=biases, customdata=_hover_texts(biases))
        traces.errors.update(
            x=cell_centers,
            y=cell_centers,
            z=with_gaps(log_errors),
            customdata=with_gaps(errors),
            hovertemplate=(
                f"{size} queries around %{{y}}, {size} keys around %{{x}}"
                "<br>largest error %{customdata:.2g}<extra></extra>"
            ),
        )
        bias_title.text = f"bias of query {position[-1]:,}"
        figure.layout.xaxis.range = [keys[0] - 0.5, keys[-1] + 0.5]
        figure.layout.yaxis.range = [lowest - padding, highest + padding]
        figure.layout.xaxis2.range = [first_edge, last_edge]
        figure.layout.yaxis2.range = [last_edge, first_edge]  # query 0 is at the top


def _hover_texts(biases: NDArray[np.float64]) -> list[str]:
    """Each bias with six significant digits: in a rounded number, all of them count."""
    return [true_minus(f"{bias:.6g}") for bias in biases]
