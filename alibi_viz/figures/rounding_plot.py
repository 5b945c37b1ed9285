"""The biases of the nearest keys in rounded numbers, as steps beside the exact line."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from alibi_viz.arguments import check_instance, check_positive
from alibi_viz.figures import theme
from alibi_viz.figures.theme import as_array
from alibi_viz.formatting import true_minus


def rounding_figure(biases: Mapping[str, ArrayLike], slope: float) -> go.Figure:
    """How the rounded biases of one query differ from a straight line, in a plot for each way to
    compute them.

    Squares are keys that share their bias with a neighbor, so the query can't tell which of them is
    nearer. A constant in a row cancels in its softmax: each bias is drawn as its difference to that
    of the query's own key.

    Args:
        biases: {name: [key]}, rounded, of the same keys for each name; the last is the query's own.
        slope: of the head.

    >>> from alibi_viz import figures
    >>> figure = figures.rounding_figure({"key": [254.0, 256.0, 256.0]}, slope=1.0)
    >>> figure.data[1].y
    array([-2.,  0.,  0.])
    """
    check_instance("biases", biases, Mapping)
    check_positive("slope", slope)
    figure = theme.blank(
        height=310,
        hovermode="closest",
        margin={"l": 64, "r": 24, "t": 72, "b": 48},
        legend={"y": 1.14},
    )
    figure.set_subplots(
        cols=len(biases), shared_yaxes=True, horizontal_spacing=0.03, subplot_titles=[*biases]
    )
    for column, (name, values) in enumerate(biases.items(), start=1):
        bias = as_array(values, name=f"biases[{name!r}]")
        rounded = bias - bias[-1]
        keys = np.arange(1 - len(bias), 1)  # from the query
        exact = slope * keys
        is_like_next = np.diff(bias) == 0
        is_shared = np.append(is_like_next, False) | np.append(False, is_like_next)

        place = {"row": 1, "col": column, "showlegend": column == 1}
        figure.add_scatter(
            name="exact",
            x=keys,
            y=exact,
            mode="lines",
            line=theme.DOTTED,
            hoverinfo="skip",
            **place,
        )
        figure.add_scatter(
            name="rounded (squares: shared with a neighbor)",
            x=keys,
            y=rounded,
            mode="lines+markers",
            line={"color": theme.BLUE, "width": 1.5, "shape": "hvh"},
            marker={
                "color": np.where(is_shared, theme.ORANGE, theme.BLUE),
                "symbol": np.where(is_shared, "square", "circle"),
                "size": 5,
            },
            customdata=[true_minus(f"{number:.6g}") for number in exact],
            text=[true_minus(f"{number:.6g}") for number in rounded],
            hovertemplate="key %{x}<br>%{text} instead of %{customdata}<extra></extra>",
            **place,
        )

    figure.update_annotations(font_size=14)  # the titles of the plots
    figure.update_xaxes(showgrid=False, title_text="key, from the query")
    figure.update_yaxes(title_text="bias, from the own key", col=1)
    return figure
