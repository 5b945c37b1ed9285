"""The slope of every head and its half-life in tokens.

The axis of the slopes is logarithmic: if slopes are a geometric sequence, they lie on a straight
line. The half-life is ln 2 / slope, so a second axis on the right gives the same points in tokens.
"""

import math
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.arguments import check_instance
from alibi_viz.figures import theme
from alibi_viz.figures.theme import as_array
from alibi_viz.formatting import format_number, format_slope, true_minus

# Axes always include these slopes. ALiBi's own lie between them, for any number of heads, so the
# axes stay while the number changes, and it can be seen which slopes move.
_USUAL_SLOPES = (1 / 256, 1)
_HOVER = (
    "head %{x}<br>slope %{customdata[0]}<br>half-life %{customdata[1]} tokens"
    "<br>weight below 2% beyond %{customdata[2]} tokens<extra>%{fullData.name}</extra>"
)


class SlopeTraces(NamedTuple):
    """The traces of the figure of slopes, in the order in which `blank` adds them."""

    slopes: go.Scatter
    other: go.Scatter
    token_axis: go.Scatter
    lines: go.Scatter


def slope_figure(
    slopes: ArrayLike, name: str = "slopes", other: ArrayLike | None = None, other_name: str = ""
) -> go.Figure:
    """Slopes as a plain plotly figure.

    Args:
        slopes: [heads], from 1e-30 to 1e30.
        name: the name of these slopes in the legend.
        other: [heads], slopes to compare with, drawn as open diamonds; none by default.
        other_name: their name in the legend.

    Raises ValueError for other slopes, such as the 0 of a head without a bias.

    >>> from alibi_viz import figures
    >>> figures.slope_figure([0.5, 0.25]).data[0].y
    array([0.5 , 0.25])
    """
    figure = blank()
    draw(figure, slopes, name, other, other_name)
    return figure


def blank() -> go.Figure:
    """The figure of slopes without data: two series, lines, and a trace for the token axis."""
    figure = theme.blank(
        height=350,
        hovermode="closest",
        margin={"l": 70, "r": 80, "t": 36, "b": 48},
        showlegend=True,
    )

    # The order is that of `SlopeTraces`.
    figure.add_scatter(mode="markers", marker_color=theme.BLUE, hovertemplate=_HOVER)
    figure.add_scatter(
        mode="markers",
        marker={"color": theme.ORANGE, "symbol": "diamond-open", "line_width": 1.5},
        opacity=0.8,
        hovertemplate=_HOVER,
    )
    # plotly draws no axis that has no trace.
    figure.add_scatter(yaxis="y2", mode="markers", opacity=0, showlegend=False, hoverinfo="skip")
    figure.add_scatter(
        mode="lines",
        line={"color": theme.BLUE, "width": 1},
        showlegend=False,
        hoverinfo="skip",
    )
    figure.update_traces(cliponaxis=False)

    figure.update_layout(
        xaxis={"title_text": "head", "showgrid": False},
        yaxis={"title_text": "slope m"},
        yaxis2={
            "title_text": "half-life, ln 2 / m, in tokens",
            "overlaying": "y",
            "side": "right",
            "showgrid": False,
            "tickformat": ",~g",
        },
    )
    figure.update_yaxes(type="log")
    return figure


def draw(
    figure: go.Figure,
    slopes: ArrayLike,
    name: str = "slopes",
    other: ArrayLike | None = None,
    other_name: str = "",
) -> None:
    """Draw slopes into a figure from `blank`, plain or live.

    Raises ValueError for slopes that aren't between 1e-30 and 1e30.

    Args:
        figure: from `blank`.
        slopes: [heads], positive.
        name: the name of these slopes in the legend.
        other: [heads], slopes to compare with, drawn as open diamonds; none by default.
        other_name: their name in the legend.
    """
    check_instance("name", name, str)
    check_instance("other_name", other_name, str)
    slopes = _checked_slopes("slopes", slopes)
    others = _checked_slopes("other", [] if other is None else other)
    heads = max(len(slopes), len(others))
    size = 9 if heads <= 32 else 6  # of a marker, in pixels

    # Both axes are logarithmic, and plotly wants the logarithms of their ends.
    included = np.concatenate([slopes, others, _USUAL_SLOPES])
    padding = 0.04 * np.log10(included.max() / included.min())
    low = np.log10(included.min()) - padding
    high = np.log10(included.max()) + padding
    half_life_of_slope_1 = math.log10(math.log(2))

    traces = SlopeTraces(*figure.data)
    with figure.batch_update():
        _draw_series(traces.slopes, slopes, name, size)
        _draw_series(traces.other, others, other_name or "other", size + 2)
        traces.other.visible = other is not None
        traces.token_axis.update(x=[1], y=math.log(2) / slopes[:1])
        _draw_lines(traces.lines, slopes)

        figure.layout.xaxis.update(range=[0.4, heads + 0.6], dtick=math.ceil(heads / 16), tick0=1)
        figure.layout.yaxis.update(
            range=[low, high],
            **power_ticks(_powers_of_two(low / math.log10(2), high / math.log10(2))),
        )
        figure.layout.yaxis2.update(
            range=[half_life_of_slope_1 - low, half_life_of_slope_1 - high],
            dtick=_tick_distance(high - low),
            tickmode="linear",
        )


def _checked_slopes(argument: str, values: ArrayLike) -> NDArray[np.float64]:
    """The values of an argument as an array; ValueError unless the figure has a place for each."""
    slopes: NDArray[np.float64] = as_array(values, name=argument)
    has_a_place = (slopes > 1e-30) & (slopes < 1e30)
    if slopes.ndim != 1 or not has_a_place.all():
        raise ValueError(
            f"{argument} must be between 1e-30 and 1e30 [heads], got {slopes.tolist()}"
        )
    return slopes


def _draw_series(trace: go.Scatter, slopes: NDArray[np.float64], name: str, size: int) -> None:
    """Draw the slopes of one series, with half-life and reach in the hover text."""
    half_lives = math.log(2) / slopes
    reaches = 4 / slopes  # where the weight falls below e^-4, about 2%
    hover = []
    for slope, half_life, reach in zip(slopes, half_lives, reaches, strict=True):
        hover.append([format_slope(slope), format_number(half_life), format_number(reach)])
    trace.update(
        x=np.arange(1, len(slopes) + 1),
        y=slopes,
        customdata=hover,
        name=name,
    )
    trace.marker.size = size


def _draw_lines(trace: go.Scatter, slopes: NDArray[np.float64]) -> None:
    """Join each head to the next one, unless that is steeper.

    With 12 heads, the official slopes are the eight of eight heads, and then four more that start
    again: two falling lines, not one with a jump.
    """
    heads = np.arange(1, len(slopes) + 1)
    starts_again = np.flatnonzero(slopes[1:] > slopes[:-1]) + 1
    trace.update(
        x=np.insert(heads.astype(float), starts_again, np.nan),
        y=np.insert(slopes, starts_again, np.nan),
    )


def _tick_distance(decades: float) -> str | float:
    """The `dtick` of a logarithmic axis: 1, 2, 5, 10, 20, ... or only powers of ten."""
    if decades < 5:
        return "D2"
    return 1 + decades // 9


def _powers_of_two(low: float, high: float) -> range:
    """The whole exponents between two."""
    return range(math.ceil(low), math.floor(high) + 1)


def power_ticks(powers: range) -> dict[str, object]:
    """At most nine ticks of an axis at these powers of two, written as fractions if they are short.

    >>> power_ticks(range(-8, 1, 8))
    {'tickvals': [0.00390625, 1.0], 'ticktext': ['1/256', '1']}
    >>> power_ticks(range(20, 21))["ticktext"]
    ['2<sup>20</sup>']
    """
    step = max(1, math.ceil(len(powers) / 9))
    labeled = powers[::step]
    return {
        "tickvals": [2.0**power for power in labeled],
        "ticktext": [_power_text(power) for power in labeled],
    }


def _power_text(power: int) -> str:
    """A power of two as a number or a fraction, or as a power if that would be long."""
    if abs(power) > 10:
        return f"2<sup>{true_minus(str(power))}</sup>"
    if power >= 0:
        return f"{2**power}"
    return f"1/{2**-power}"
