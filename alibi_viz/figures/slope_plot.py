"""The slope of every head and its half-life in tokens; and its span, which is how far back it
looks, over its slope.

The axis of the slopes is logarithmic: if slopes are a geometric sequence, they lie on a straight
line. The half-life is ln 2 / slope, so a second axis on the right gives the same points in tokens.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from alibi_viz.figures import theme
from alibi_viz.figures.theme import as_array

if TYPE_CHECKING:
    import pandas as pd  # slow to import, and the slopes don't need it

_HOVER = (
    "head %{x}<br>slope %{y:.5g}<br>half-life %{customdata[0]:,.4g} tokens"
    "<br>weight below 2% beyond %{customdata[1]:,.4g} tokens<extra>%{fullData.name}</extra>"
)


def slope_figure(
    slopes: ArrayLike, name: str = "slopes", other: ArrayLike | None = None, **names: str
) -> go.Figure:
    """Slopes as a plain plotly figure. The arguments are those of `draw`.

    >>> from alibi_viz import figures
    >>> figures.slope_figure([0.5, 0.25]).data[0].y
    array([0.5 , 0.25])
    """
    figure = blank()
    draw(figure, slopes, name, other, **names)
    return figure


def blank() -> go.Figure:
    """The figure without data: the slopes, other slopes to compare, and a trace that only holds the
    token axis."""
    figure = theme.blank(
        height=380,
        hovermode="closest",
        margin={"l": 70, "r": 80, "t": 36, "b": 48},
        showlegend=True,
    )
    figure.add_scatter(
        mode="lines+markers", line={"color": theme.COLORS[0], "width": 1}, hovertemplate=_HOVER
    )
    diamond = {"color": theme.COLORS[1], "symbol": "diamond-open", "line_width": 1.5}
    figure.add_scatter(mode="markers", marker=diamond, opacity=0.8, hovertemplate=_HOVER)
    figure.add_scatter(yaxis="y2", mode="markers", opacity=0, showlegend=False, hoverinfo="skip")
    figure.update_layout(
        xaxis={"title_text": "head", "showgrid": False}, yaxis={"title_text": "slope m"}
    )
    tokens = {"overlaying": "y", "side": "right", "showgrid": False, "tickformat": ",~g"}
    figure.update_layout(yaxis2={**tokens, "title_text": "half-life, ln 2 / m, in tokens"})
    return figure.update_yaxes(type="log").update_traces(cliponaxis=False)


def draw(
    figure: go.Figure,
    slopes: ArrayLike,
    name: str = "slopes",
    other: ArrayLike | None = None,
    other_name: str = "",
) -> None:
    """Draw slopes into a figure from `blank`, plain or live.

    Args:
        slopes: [heads], positive.
        name: the name of these slopes in the legend.
        other: [heads], slopes to compare with, drawn as open diamonds; none by default.
        other_name: their name in the legend.
    """
    shown = [
        as_array(slopes, name="slopes"),
        as_array([] if other is None else other, name="other"),
    ]
    for argument, values in zip(("slopes", "other"), shown, strict=True):
        if values.ndim != 1 or not ((values > 1e-30) & (values < 1e30)).all():
            raise ValueError(
                f"{argument} must be between 1e-30 and 1e30 [heads], got {values.tolist()}"
            )
    heads = max(map(len, shown))
    every = np.concatenate(
        [*shown, [1 / 256, 1 / 2]]
    )  # always includes the usual range, for steady axes
    low, high = np.log10([every.min(), every.max()]) + np.array([-0.04, 0.04]) * np.log10(
        every.max() / every.min()
    )
    decades, powers = (
        high - low,
        range(math.ceil(low / math.log10(2)), math.floor(high / math.log10(2)) + 1),
    )
    with figure.batch_update():
        for trace, slope, text, size in zip(
            figure.data[:2], shown, (name, other_name or "other"), (0, 2), strict=True
        ):
            lives = np.stack([math.log(2) / slope, 4 / slope], axis=1)  # half-life and reach
            trace.update(x=np.arange(1, len(slope) + 1), y=slope, customdata=lives, name=text)
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
    words = [texts.get(power, f"2<sup>{power}</sup>") for power in powers]
    return {"tickvals": [2.0**power for power in powers], "ticktext": words}


def blank_spans() -> go.Figure:
    """The figure without data: a line of what the slope alone predicts, and two marks per head."""
    figure = theme.blank(
        height=400,
        hovermode="closest",
        margin={"l": 70, "r": 24, "t": 40, "b": 48},
        showlegend=True,
    )
    gray = {"color": theme.DOTTED["color"], "dash": "dash", "width": 1.5}
    figure.add_scatter(
        mode="lines", line=gray, hoverinfo="skip", name="24 half-lives, at equal content"
    )
    hover = "head %{customdata[0]}, slope %{x:.4g}<br>needed: %{customdata[1]:,} steps back<br>"
    hover += "bound: %{customdata[2]:,}<br>left out: %{customdata[3]:.0%}<extra></extra>"
    diamond = {
        "color": theme.COLORS[1],
        "size": 11,
        "symbol": "diamond-open",
        "line": {"width": 1.5},
    }
    for name, marker in (("bound", diamond), ("needed", {"color": theme.COLORS[0], "size": 7})):
        figure.add_scatter(
            mode="markers", hovertemplate=hover, cliponaxis=False, marker=marker, name=name
        )
    place = {"annotation_position": "top right", "annotation_yshift": 4}
    figure.add_hline(1, line={**gray, "dash": "solid", "width": 1}, annotation_text=" ", **place)
    figure.update_xaxes(title_text="slope m", type="log")
    return figure.update_yaxes(title_text="steps back", type="log", tickformat=",d", dtick="D2")


def draw_spans(figure: go.Figure, spans: "pd.DataFrame", length: int) -> None:
    """Draw the spans of `lab.window_table` for a text of `length` tokens into a figure from
    `blank_spans`.

    Heads without a positive slope are not drawn. Those with a bound that reaches the first token
    look at everything.
    """
    spans = spans[spans["slope"] > 0]
    slope, first = spans["slope"].to_numpy(), max(1, length - 1)  # steps back to the first token
    ends = np.array(
        [min([2**-8, *slope]) / 1.4, max([2**-1, *slope]) * 1.4]
    )  # always includes the usual range
    steps = spans[["bound", "needed"]].clip(lower=1)  # a logarithmic axis has no 0
    custom = spans[["head", "needed", "bound", "left_out"]].to_numpy()
    with figure.batch_update():
        figure.data[0].update(x=ends, y=math.log(2**24) / ends)
        for trace in figure.data[1:]:
            trace.update(x=slope, y=steps[trace.name].to_numpy(), customdata=custom)
        figure.layout.shapes[0].update(y0=first, y1=first)
        figure.layout.annotations[0].update(
            y=math.log10(first), text=f"the whole text, {length:,} tokens"
        )
        low, high = np.log2(ends)
        figure.layout.xaxis.update(
            range=np.log10(ends), **power_ticks(range(math.ceil(low), math.floor(high) + 1))
        )
        figure.layout.yaxis.range = np.log10(
            [0.6 * min([first, 30, *steps["needed"]]), 2 * max(first, 60)]
        )
