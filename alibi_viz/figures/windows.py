"""How far back each head looks, over its slope, and the share of its work that is left out."""

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from alibi_viz.figures import theme
from alibi_viz.figures.slopes import power_ticks, round_numbers

__all__ = ["blank", "draw", "window_figure"]

_LINE, _BOUND, _NEEDED, _LEFT_OUT = range(4)
_WINDOWS, _SHARES = (0.42, 1.0), (0.0, 0.3)  # of the height
_HOVER = (
    "head %{customdata[0]}, slope %{x:.4g}<br>needed: %{customdata[1]:,} steps back<br>bound: %{customdata[2]:,}"
    "<br>left out: %{customdata[3]:.0%}<extra></extra>"
)


def window_figure(windows: pd.DataFrame, length: int) -> go.Figure:
    """Windows as a plain plotly figure. The arguments are those of `draw`.

    >>> from alibi_viz import figures, lab
    >>> table = lab.window_table(lab.make_model("alibi"), "to be or not to be", longest=8)
    >>> figures.window_figure(table, length=8).data[2].y[:4]  # the windows that are needed
    array([7, 7, 7, 7])
    """
    figure = blank()
    draw(figure, windows, length)
    return figure


def blank() -> go.Figure:
    """The figure without data: a line of what the slope alone predicts, and three marks per head."""
    figure = theme.blank(430, hovermode="closest", margin={"l": 70, "r": 24, "t": 40, "b": 48})
    gray = {"color": "#888888", "dash": "dash", "width": 1.5}
    figure.add_scatter(mode="lines", line=gray, hoverinfo="skip", name="equal content: ln(2<sup>24</sup>) / m")
    diamond = {"color": theme.COLORS[1], "size": 11, "symbol": "diamond-open", "line": {"width": 1.5}}
    figure.add_scatter(mode="markers", marker=diamond, name="bound", hovertemplate=_HOVER)
    figure.add_scatter(
        mode="markers", marker={"color": theme.COLORS[0], "size": 7}, name="needed", hovertemplate=_HOVER
    )
    stems = {"type": "data", "symmetric": False, "width": 0, "thickness": 3, "color": theme.COLORS[1]}
    marker = {"color": theme.COLORS[1], "size": 7}
    figure.add_scatter(mode="markers", marker=marker, error_y=stems, showlegend=False, hovertemplate=_HOVER, yaxis="y2")
    figure.update_traces(cliponaxis=False, selector={"mode": "markers"})
    figure.add_hline(0, line={"color": "#888888", "width": 1}, yref="y")
    text = {
        "showarrow": False,
        "xref": "paper",
        "x": 1,
        "xanchor": "right",
        "yref": "y",
        "yanchor": "bottom",
        "yshift": 7,
    }
    figure.add_annotation(**text)
    figure.update_layout(
        showlegend=True,
        xaxis={"title_text": "slope m", "type": "log", "anchor": "y2"},
        yaxis={"title_text": "steps back", "type": "log", "domain": _WINDOWS, "tickformat": ",d"},
        yaxis2={"title_text": "left out", "domain": _SHARES, "tickformat": ".0%", "range": [0, 1.05], "dtick": 0.5},
    )
    return figure


def draw(figure: go.Figure, windows: pd.DataFrame, length: int) -> None:
    """Draw windows into a figure from `blank`, plain or live.

    Args:
        figure: the figure.
        windows: a table with the columns "head", "slope", "bound", "needed" and "left_out" of `lab.window_table`.
            Heads without a positive slope are not drawn.
        length: the number of tokens of the text; heads with a bound that reaches its first token look at everything.
    """
    windows = windows[windows["slope"] > 0]
    slope = windows["slope"].to_numpy()
    low, high = min([2**-8, *slope]) / 1.4, max([2**-1, *slope]) * 1.4  # always includes the usual range
    ends = np.array([low, high])
    custom = windows[["head", "needed", "bound", "left_out"]].to_numpy()
    first = max(1, length - 1)  # steps back to the first token
    lowest, highest = 0.6 * min([first, 30, *windows["needed"].clip(lower=1)]), 2 * max(first, 60)
    ticks = round_numbers(max(1, lowest), highest)
    with figure.batch_update():
        figure.data[_LINE].update(x=ends, y=-math.log(2**-24) / ends)
        for trace, column in ((_BOUND, "bound"), (_NEEDED, "needed"), (_LEFT_OUT, "left_out")):
            values = windows[column].to_numpy()
            figure.data[trace].update(x=slope, y=values if column == "left_out" else values.clip(1), customdata=custom)
        figure.data[_LEFT_OUT].error_y.update(array=0 * slope, arrayminus=windows["left_out"].to_numpy())
        figure.layout.shapes[0].update(y0=first, y1=first)
        figure.layout.annotations[0].update(y=math.log10(first), text=f"the whole text, {length:,} tokens")
        powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
        figure.layout.xaxis.update(range=[math.log10(low), math.log10(high)], **power_ticks(powers))
        figure.layout.yaxis.update(range=[math.log10(lowest), math.log10(highest)])
        figure.layout.yaxis.update(tickvals=ticks, ticktext=[f"{tick:,.0f}" for tick in ticks])
