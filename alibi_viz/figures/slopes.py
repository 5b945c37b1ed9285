"""The slope of every head and its half-life in tokens.

The vertical axis is logarithmic: if slopes are a geometric sequence, they lie on a straight line. The half-life is
ln 2 / slope, so a second axis on the right gives the same points in tokens, from the longest at the bottom to the
shortest at the top.
"""

import math

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from alibi_viz.figures import theme
from alibi_viz.figures.theme import as_array

_HOVER = (
    "head %{x}<br>slope %{y:.5g}<br>half-life %{customdata[0]:,.4g} tokens"
    "<br>weight below 2% beyond %{customdata[1]:,.4g} tokens<extra>%{fullData.name}</extra>"
)


def slope_figure(slopes: ArrayLike, name: str = "slopes", other: ArrayLike | None = None, **names: str) -> go.Figure:
    """Slopes as a plain plotly figure. The arguments are those of `draw`.

    >>> from alibi_viz import figures
    >>> figures.slope_figure([0.5, 0.25]).data[0].y
    array([0.5 , 0.25])
    """
    figure = blank()
    draw(figure, slopes, name, other, **names)
    return figure


def blank() -> go.Figure:
    """The figure without data: the slopes, other slopes to compare, and a trace that only holds the token axis."""
    figure = theme.blank(380, hovermode="closest", margin={"l": 70, "r": 80, "t": 36, "b": 48}, showlegend=True)
    line = {"color": theme.COLORS[0], "width": 1}
    figure.add_scatter(mode="lines+markers", line=line, hovertemplate=_HOVER)
    diamond = {"color": theme.COLORS[1], "symbol": "diamond-open", "line_width": 1.5}
    figure.add_scatter(mode="markers", marker=diamond, opacity=0.8, hovertemplate=_HOVER)
    figure.add_scatter(yaxis="y2", mode="markers", opacity=0, showlegend=False, hoverinfo="skip")
    tokens = {"type": "log", "overlaying": "y", "side": "right", "showgrid": False, "tickformat": ",~g"}
    figure.update_layout(yaxis2=tokens, yaxis2_title_text="half-life, ln 2 / m, in tokens")
    figure.update_layout(
        xaxis={"title_text": "head", "showgrid": False}, yaxis={"title_text": "slope m", "type": "log"}
    )
    return figure.update_traces(cliponaxis=False)


def draw(
    figure: go.Figure, slopes: ArrayLike, name: str = "slopes", other: ArrayLike | None = None, other_name: str = ""
) -> None:
    """Draw slopes into a figure from `blank`, plain or live.

    Args:
        figure: the figure.
        slopes: [heads], positive.
        name: the name of these slopes in the legend.
        other: [heads], slopes to compare with, drawn as open diamonds; none by default.
        other_name: their name in the legend.
    """
    shown = [as_array(slopes), as_array([] if other is None else other)]
    heads = len(shown[0])
    every = np.concatenate([*shown, [1 / 256, 1 / 2]])  # always includes the usual range, for steady axes
    low, high = np.log10([every.min(), every.max()]) + np.array([-0.04, 0.04]) * np.log10(every.max() / every.min())
    decades, powers = high - low, range(math.ceil(low / math.log10(2)), math.floor(high / math.log10(2)) + 1)
    with figure.batch_update():
        for trace, slope, title, size in zip(figure.data[:2], shown, (name, other_name), (0, 2), strict=True):
            lives = np.stack([math.log(2) / slope, 4 / slope], axis=1)  # half-life and reach
            trace.update(x=np.arange(1, len(slope) + 1), y=slope, customdata=lives, name=title)
            trace.marker.size = (9 if heads <= 32 else 6) + size
        figure.data[1].visible = other is not None
        figure.data[2].update(x=[1], y=math.log(2) / shown[0][:1])
        figure.layout.xaxis.update(range=[0.4, heads + 0.6], dtick=math.ceil(heads / 16), tick0=1)
        figure.layout.yaxis.update(range=[low, high], **power_ticks(powers))
        ticks = "D2" if decades < 5 else 1 + decades // 9  # 1, 2, 5, 10, ... or powers of ten
        life = math.log10(math.log(2))
        figure.layout.yaxis2.update(range=[life - low, life - high], dtick=ticks, tickmode="linear")


def power_ticks(powers: range) -> dict[str, object]:
    """At most nine ticks of an axis at these powers of two, written as fractions if they are short.

    >>> power_ticks(range(-8, 1, 8)), power_ticks(range(-20, -19))["ticktext"]
    ({'tickvals': [0.00390625, 1.0], 'ticktext': ['1/256', '1']}, ['2<sup>-20</sup>'])
    """
    texts = {power: f"{2**power}" if power >= 0 else f"1/{2**-power}" for power in range(-10, 11)}
    powers = powers[:: max(1, math.ceil(len(powers) / 9))]
    return {
        "tickvals": [2.0**power for power in powers],
        "ticktext": [texts.get(power, f"2<sup>{power}</sup>") for power in powers],
    }
