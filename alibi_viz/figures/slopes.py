"""The slope of every head, and what it means in tokens.

Both axes are logarithmic, because the slopes are a geometric sequence: there it is a straight line, and every
departure from it can be seen. Half-life is ln 2 / slope, so it needs no points of its own: the right-hand axis reads
the same points in tokens, upside down.
"""

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from alibi_viz.figures import theme

__all__ = ["blank", "draw", "slope_figure"]

_MAIN, _OTHER, _TOKENS = range(3)
_HOVER = (
    "head %{x}<br>slope %{y:.5g}<br>half-life %{customdata[0]:,.4g} tokens"
    "<br>practically blind beyond %{customdata[1]:,.4g} tokens<extra>%{fullData.name}</extra>"
)
_MARGIN = 0.04  # room above the steepest and below the flattest slope, a share of the axis


def slope_figure(slopes: ArrayLike, name: str = "slopes", other: ArrayLike | None = None, **names: str) -> go.Figure:
    """The picture as a plain figure; the arguments are those of `draw`.

    >>> from alibi_viz.figures.slopes import slope_figure
    >>> slope_figure([0.5, 0.25]).data[0].y
    array([0.5 , 0.25])
    """
    figure = blank()
    draw(figure, slopes, name, other, **names)
    return figure


def blank() -> go.Figure:
    """The sheet: the slopes, the slopes they are compared with, and a trace that only holds the token axis."""
    figure = theme.blank(380, hovermode="closest", margin={"l": 70, "r": 80, "t": 36, "b": 48})
    line = {"color": theme.COLORS[0], "width": 1}
    figure.add_scatter(mode="lines+markers", line=line, marker={"color": theme.COLORS[0], "size": 9}, opacity=1)
    open_marker = {"color": theme.COLORS[1], "size": 11, "symbol": "diamond-open", "line": {"width": 1.5}}
    figure.add_scatter(mode="markers", marker=open_marker, opacity=0.8)
    figure.add_scatter(yaxis="y2", mode="markers", opacity=0, showlegend=False, hoverinfo="skip")
    figure.update_traces(cliponaxis=False)
    figure.data[_MAIN].hovertemplate = figure.data[_OTHER].hovertemplate = _HOVER
    figure.update_layout(
        showlegend=True,
        xaxis={"title": {"text": "head"}, "showgrid": False},
        yaxis={"title": {"text": "slope m"}, "type": "log"},
        yaxis2={
            "title": {"text": "half-life, ln 2 / m, in tokens"},
            "type": "log",
            "overlaying": "y",
            "side": "right",
            "showgrid": False,
        },
    )
    return figure


def draw(
    figure: go.Figure, slopes: ArrayLike, name: str = "slopes", other: ArrayLike | None = None, other_name: str = ""
) -> None:
    """Put the slopes into the sheet.

    Args:
        figure: what `blank` made, plain or live.
        slopes: [heads], positive.
        name: what these slopes are called in the legend.
        other: [heads], slopes to compare with, drawn as open diamonds; None for none.
        other_name: their name in the legend.
    """
    slope = np.asarray(slopes, dtype=np.float64)
    others = np.asarray([] if other is None else other, dtype=np.float64)
    heads = np.arange(1, len(slope) + 1)
    every = np.concatenate([slope, others, [1 / 256, 1 / 2]])  # the usual range stays put when the head count moves
    room = (every.max() / every.min()) ** _MARGIN
    low, high = every.min() / room, every.max() * room
    size = 9 if max(len(slope), len(others)) <= 32 else 6
    with figure.batch_update():
        figure.data[_MAIN].update(x=heads, y=slope, customdata=_in_tokens(slope), name=name, marker_size=size)
        figure.data[_OTHER].update(
            x=heads[: len(others)],
            y=others,
            customdata=_in_tokens(others),
            name=other_name,
            marker_size=size + 2,
            visible=other is not None,
        )
        figure.data[_TOKENS].update(x=heads[:1], y=math.log(2) / slope[:1])
        figure.layout.xaxis.update(range=[0.4, len(slope) + 0.6], dtick=max(1, math.ceil(len(slope) / 16)), tick0=1)
        powers = _every_nth(range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1), 9)
        figure.layout.yaxis.update(
            range=[math.log10(low), math.log10(high)],
            tickvals=[2.0**power for power in powers],
            ticktext=[_as_fraction(power) for power in powers],
        )
        shortest, longest = math.log(2) / high, math.log(2) / low
        tokens = _round_numbers(shortest, longest)
        figure.layout.yaxis2.update(
            range=[math.log10(longest), math.log10(shortest)],
            tickvals=tokens,
            ticktext=[f"{value:,.3g}" if value < 1000 else f"10<sup>{math.log10(value):.0f}</sup>" for value in tokens],
        )


def _in_tokens(slopes: np.ndarray) -> np.ndarray:
    """Half-life and reach of each head, float64 [heads, 2]."""
    return np.stack([math.log(2) / slopes, 4 / slopes], axis=1)


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, 20, ... between two token counts, and only powers of ten when that would be many.

    >>> _round_numbers(0.9, 30)
    [1.0, 2.0, 5.0, 10.0, 20.0]
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 5 else (1,)
    numbers = [step * 10.0**decade for decade in _every_nth(decades, 9) for step in steps]
    return [number for number in numbers if low <= number <= high]


def _every_nth(numbers: range, most: int) -> Sequence[int]:
    return numbers[:: max(1, math.ceil(len(numbers) / most))]


def _as_fraction(power: int) -> str:
    """2^power as people write it: 1/256 while that is short.

    >>> _as_fraction(-8), _as_fraction(0), _as_fraction(-20)
    ('1/256', '1', '2<sup>-20</sup>')
    """
    if power == 0:
        return "1"
    return f"1/{2**-power}" if -10 <= power < 0 else f"2<sup>{power}</sup>"
