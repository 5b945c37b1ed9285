"""Names at the right ends of curves, in place of a legend, and a close-up of the lowest curves.

Where some curves rise far above others, several of those lie on one line. The close-up draws them
on an axis of their own, to the right of the names:

    all curves   names   close-up
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.figures import theme
from alibi_viz.figures.curve_plot import FULL_WIDTH, STYLES
from alibi_viz.figures.panels import NARROW
from alibi_viz.figures.theme import update_changed
from alibi_viz.figures.token_labels import literal
from alibi_viz.measure.table import Axes, over_seeds

_LOW = 0.16  # curves below this share of the axis are low ones
_CLOSE_UP = 0.27  # of the width of the figure
# Pixels
_NAMES = 150  # the width of the longest name
_LINE = 15  # the height of a name
_AXIS = 62  # for the numbers of the close-up
_TOP = 34  # above the plot, without a legend
_TOP_WITH_LEGEND = 66


def add_labels(figure: go.Figure) -> None:
    """Add names and a close-up, hidden, to a figure from `curve_plot.blank`."""
    for _ in STYLES:
        figure.add_annotation(
            name="name of a curve",
            xref="x2 domain",
            yref="y2 domain",
            x=1,
            xanchor="left",
            xshift=10,
            y=0,
            yanchor="middle",
            showarrow=False,
            visible=False,
        )
    figure.add_annotation(
        theme.TITLE,
        name="close-up",
        text="Close-up of the lower curves",
        xref="x3 domain",
        yref="y3 domain",
        yshift=4,
        font_size=13,
        visible=False,
    )
    for color, dash, symbol in STYLES:
        figure.add_scatter(
            name="close-up",
            mode="lines+markers",
            line={"color": color, "dash": dash, "width": 2},
            marker={"color": color, "symbol": symbol, "size": 8},
            xaxis="x3",
            yaxis="y3",
            cliponaxis=False,
            showlegend=False,
            visible=False,
        )
    figure.update_layout(
        xaxis3={"anchor": "y3", "visible": False},
        yaxis3={"anchor": "x3", "visible": False},
    )


def draw_labels(
    figure: go.Figure, slots: Sequence[str], axes: Axes, rows: pd.DataFrame, *, page_width: int
) -> None:
    """Name the curves that `curve_plot.draw` has drawn, and draw the close-up if it says more.

    On a narrow page the figure has its legend instead. The arguments are those of `draw`.
    """
    curves = over_seeds(rows, limits=axes.limits)["mean"].dropna().unstack("label", sort=False)
    value_range: Any = figure.layout.yaxis2.range
    has_axis = value_range is not None and None not in value_range
    has_names = page_width >= NARROW and has_axis and curves.size > 0
    low_ones = lowest_curves(curves, value_range) if has_names else []

    with figure.batch_update():
        update_changed(figure.layout, showlegend=not has_names)
        update_changed(figure.layout.margin, t=_TOP if has_names else _TOP_WITH_LEGEND)
        inside = page_width - figure.layout.margin.l - figure.layout.margin.r
        end = FULL_WIDTH[1]
        if has_names:
            end = 1 - _NAMES / inside
        if low_ones:
            end -= _CLOSE_UP + _AXIS / inside
        figure.layout.xaxis2.domain = (FULL_WIDTH[0], end)

        height = figure.layout.height - _TOP - figure.layout.margin.b
        _draw_names(figure, slots, curves if has_names else curves.iloc[:, :0], value_range, height)
        _draw_close_up(figure, slots, axes, curves[low_ones])


def lowest_curves(curves: pd.DataFrame, value_range: tuple[float, float]) -> list[str]:
    """The labels of at least two curves that share the lower end of the axis, if there are others.

    >>> import pandas as pd
    >>> from alibi_viz.figures.curve_labels import lowest_curves
    >>> curves = pd.DataFrame({"alibi": [0.8, 0.7], "t5": [0.9, 0.8], "rotary": [0.8, 6.0]})
    >>> lowest_curves(curves, (0, 7))
    ['alibi', 't5']
    """
    low, high = value_range
    limit = low + _LOW * (high - low)
    labels = [str(label) for label in curves.columns if curves[label].max() <= limit]
    return labels if 2 <= len(labels) < len(curves.columns) else []


def spread(places: Sequence[float], gap: float) -> NDArray[np.float64]:
    """Places between 0 and 1, moved so that they are at least so far apart, as little as needed.

    >>> from alibi_viz.figures.curve_labels import spread
    >>> spread([0.5, 0.5, 0.0], gap=0.25)
    array([0.5 , 0.75, 0.  ])
    """
    order = np.argsort(places, kind="stable")
    moved = np.asarray(places, dtype=float)[order]
    for upper in range(1, len(moved)):
        moved[upper] = max(moved[upper], moved[upper - 1] + gap)
    # What has left the upper end moves down again, and pushes what is below.
    limit = 1.0
    for place in reversed(range(len(moved))):
        moved[place] = min(moved[place], limit)
        limit = moved[place] - gap
    result = np.empty_like(moved)
    result[order] = moved
    return result


def _draw_names(
    figure: go.Figure,
    slots: Sequence[str],
    curves: pd.DataFrame,
    value_range: tuple[float, float],
    height: float,
) -> None:
    """Put each name at the height of the right end of its curve, or near it."""
    labels = [label for label in slots if label in curves.columns]
    ends = [float(curves[label].dropna().iloc[-1]) for label in labels]
    low, high = value_range if labels else (0.0, 1.0)
    places = spread([(end - low) / (high - low) for end in ends], _LINE / height)
    place_of = dict(zip(labels, places, strict=True))

    annotations = figure.select_annotations({"name": "name of a curve"})
    for label, annotation, (color, _, _) in zip(slots, annotations, STYLES, strict=True):
        is_shown = label in place_of
        update_changed(annotation, visible=is_shown)
        if not is_shown:
            continue
        name = literal(label)
        longest = curves[label].last_valid_index()
        if longest != curves.index[-1]:
            name += f", to {longest:,}"
        # A part with a color of its own keeps it in an app.
        text = f'<span style="color:{color}">●</span> {name}'
        update_changed(annotation, text=text, y=place_of[label])


def _draw_close_up(
    figure: go.Figure, slots: Sequence[str], axes: Axes, curves: pd.DataFrame
) -> None:
    """Draw these curves once more, on axes of their own; hidden without any."""
    is_shown = len(curves.columns) > 0
    figure.update_annotations({"visible": is_shown}, {"name": "close-up"})
    traces = figure.select_traces({"name": "close-up"})
    for label, trace in zip(slots, traces, strict=True):
        is_low = label in curves.columns
        trace.visible = is_low
        if is_low:
            values = curves[label].dropna()
            hover = f"{literal(label)}<br>{axes.point}<br>{{y:{axes.number}}}<extra></extra>"
            trace.update(
                x=values.index.to_numpy(float),
                y=values.to_numpy(),
                hovertemplate=hover.replace("{", "%{"),
            )

    update_changed(figure.layout.xaxis3, visible=is_shown)
    update_changed(figure.layout.yaxis3, visible=is_shown)
    if not is_shown:
        update_changed(figure.layout.xaxis3, domain=(0.999, 1))
        return
    x = figure.layout.xaxis2
    first_and_last = [min(axes.ticks), max(axes.ticks)]
    update_changed(
        figure.layout.xaxis3,
        domain=(1 - _CLOSE_UP, 1),
        type=x.type,
        range=x.range,
        tickvals=first_and_last,
        ticktext=[axes.ticks[tick] for tick in first_and_last],
    )
    lowest = float(np.nanmin(curves))
    highest = float(np.nanmax(curves))
    padding = 0.08 * (highest - lowest) or 0.1  # an axis needs a height
    update_changed(figure.layout.yaxis3, range=[lowest - padding, highest + padding])
