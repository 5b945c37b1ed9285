"""The slope of every head and its half-life in tokens.

The axis of the slopes is logarithmic: if slopes are a geometric sequence, they lie on a straight
line. The half-life is ln 2 / slope, so a second axis on the right gives the same points in tokens.
"""

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.arguments import check_instance
from alibi_viz.figures import theme
from alibi_viz.figures.theme import Picture, as_array
from alibi_viz.formatting import format_number, format_slope, true_minus

# Axes always include these slopes. ALiBi's own lie between them, for any number of heads, so the
# axes stay while the number changes, and it can be seen which slopes move.
_USUAL_SLOPES = (1 / 256, 1)
_HOVER = (
    "head %{x}<br>slope %{customdata[0]}<br>half-life %{customdata[1]} tokens"
    "<br>weight below 2% beyond %{customdata[2]} tokens<extra>%{fullData.name}</extra>"
)

Floats = NDArray[np.float64]


def slope_figure(
    slopes: ArrayLike,
    name: str = "slopes",
    other: ArrayLike | None = None,
    other_name: str = "other",
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
    check_instance("name", name, str)
    check_instance("other_name", other_name, str)
    _check_slopes("slopes", slopes)
    if other is not None:
        _check_slopes("other", other)
    return theme.figure(slope_picture(slopes, name, other, other_name))


def slope_picture(
    slopes: ArrayLike,
    name: str,
    other: ArrayLike | None,
    other_name: str | None,
) -> Picture:
    """The slopes of the heads, and perhaps others beside them; see `slope_figure`."""
    slopes = as_array(slopes)
    others = as_array([] if other is None else other)
    heads = max(len(slopes), len(others))

    size = 9 if heads <= 32 else 6  # of a marker, in pixels
    traces = [_points(slopes, name, {"color": theme.BLUE, "size": size})]
    if other is not None:
        diamond = {
            "color": theme.ORANGE,
            "symbol": "diamond-open",
            "size": size + 2,
            "line": {"width": 1.5},
        }
        traces.append(_points(others, other_name, diamond) | {"opacity": 0.8})
    traces.append(_lines(slopes))

    # Both axes are logarithmic, and plotly wants the logarithms of their ends.
    included = np.concatenate([slopes, others, _USUAL_SLOPES])
    padding = 0.04 * np.log10(included.max() / included.min())
    low = float(np.log10(included.min()) - padding)
    high = float(np.log10(included.max()) + padding)
    powers_of_two = range(
        math.ceil(low / math.log10(2)),
        math.floor(high / math.log10(2)) + 1,
    )
    half_life_of_slope_1 = math.log10(math.log(2))
    decades = high - low
    return theme.picture(
        traces,
        height=350,
        margin={"l": 70, "r": 80, "t": 36, "b": 48},
        hovermode="closest",
        showlegend=True,
        xaxis={
            "title": {"text": "head"},
            "range": [0.4, heads + 0.6],
            "tick0": 1,
            "dtick": math.ceil(heads / 16),
            "showgrid": False,
        },
        yaxis={
            "title": {"text": "slope m"},
            "type": "log",
            "range": [low, high],
            **power_ticks(powers_of_two),
        },
        yaxis2={
            "title": {"text": "half-life, ln 2 / m, in tokens"},
            "type": "log",
            "range": [half_life_of_slope_1 - low, half_life_of_slope_1 - high],
            "overlaying": "y",
            "side": "right",
            "showgrid": False,
            "tickmode": "linear",
            # 1, 2, 5, 10, 20, ... or, with more decades, only powers of ten
            "dtick": "D2" if decades < 5 else 1 + decades // 9,
            "tickformat": ",~g",
        },
    )


def _check_slopes(argument: str, values: ArrayLike) -> None:
    """Raise ValueError unless the figure has a place for each slope."""
    slopes = as_array(values, name=argument)
    has_a_place = (slopes > 1e-30) & (slopes < 1e30)
    if slopes.ndim != 1 or not has_a_place.all():
        raise ValueError(
            f"{argument} must be between 1e-30 and 1e30 [heads], got {slopes.tolist()}"
        )


def _points(slopes: Floats, name: str | None, marker: dict[str, Any]) -> dict[str, Any]:
    """The slope of each head, with half-life and reach in the hover text."""
    half_lives = math.log(2) / slopes
    reaches = 4 / slopes  # where the weight falls below e^-4, about 2%
    hover = []
    for slope, half_life, reach in zip(slopes, half_lives, reaches, strict=True):
        hover.append([format_slope(slope), format_number(half_life), format_number(reach)])
    return {
        "type": "scatter",
        "name": name,
        "mode": "markers",
        "x": np.arange(1, len(slopes) + 1),
        "y": slopes,
        "marker": marker,
        "cliponaxis": False,
        "customdata": hover,
        "hovertemplate": _HOVER,
    }


def _lines(slopes: Floats) -> dict[str, Any]:
    """Lines that join each head to the next one, unless that is steeper.

    With 12 heads, the official slopes are the eight of eight heads, and then four more that start
    again: two falling lines, not one with a jump.
    """
    heads = np.arange(1.0, len(slopes) + 1)
    starts_again = np.flatnonzero(slopes[1:] > slopes[:-1]) + 1
    return {
        "type": "scatter",
        "name": "lines",
        "mode": "lines",
        # On the axis of half-lives: plotly draws no axis that has no trace.
        "x": np.insert(heads, starts_again, np.nan),
        "y": np.insert(math.log(2) / slopes, starts_again, np.nan),
        "yaxis": "y2",
        "line": {"color": theme.BLUE, "width": 1},
        "showlegend": False,
        "hoverinfo": "skip",
    }


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
