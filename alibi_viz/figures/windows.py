"""The span of each head, which is how far back it looks, over its slope, and the share of its work that is left out."""

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from alibi_viz.figures import theme
from alibi_viz.figures.slopes import power_ticks

_SPANS, _SHARES = (0.42, 1.0), (0.0, 0.3)  # of the height
_HOVER = (
    "head %{customdata[0]}, slope %{x:.4g}<br>needed: %{customdata[1]:,} steps back<br>bound: %{customdata[2]:,}"
    "<br>left out: %{customdata[3]:.0%}<extra></extra>"
)


def window_figure(spans: pd.DataFrame, length: int) -> go.Figure:
    """The figure of a table of spans. The arguments are those of `draw`.

    >>> from alibi_viz import figures, lab
    >>> table = lab.window_table(lab.make_model("alibi"), "to be or not to be", longest=8)
    >>> figures.window_figure(table, length=8).data[2].y[:4]  # the spans that are needed
    array([7, 7, 7, 7])
    """
    figure = blank()
    draw(figure, spans, length)
    return figure


def blank() -> go.Figure:
    """The figure without data: a line of what the slope alone predicts, and three marks per head."""
    figure = theme.blank(430, hovermode="closest", margin={"l": 70, "r": 24, "t": 40, "b": 48}, showlegend=True)
    gray = {"color": "#888888", "dash": "dash", "width": 1.5}
    figure.add_scatter(mode="lines", line=gray, hoverinfo="skip", name="equal content: ln(2<sup>24</sup>) / m")
    common = {"mode": "markers", "hovertemplate": _HOVER, "cliponaxis": False}
    diamond = {"color": theme.COLORS[1], "size": 11, "symbol": "diamond-open", "line": {"width": 1.5}}
    figure.add_scatter(**common, marker=diamond, name="bound")
    figure.add_scatter(**common, marker={"color": theme.COLORS[0], "size": 7}, name="needed")
    stems = {"type": "data", "symmetric": False, "width": 0, "thickness": 3, "color": theme.COLORS[1]}
    marker = {"color": theme.COLORS[1], "size": 7}
    figure.add_scatter(**common, marker=marker, error_y=stems, showlegend=False, name="left_out", yaxis="y2")
    figure.add_hline(0, line={"color": "#888888", "width": 1}, yref="y")
    place = {"xref": "paper", "x": 1, "xanchor": "right", "yref": "y", "yanchor": "bottom", "yshift": 7}
    figure.add_annotation(place, showarrow=False)
    return figure.update_layout(
        xaxis={"title_text": "slope m", "type": "log", "anchor": "y2"},
        yaxis={"title_text": "steps back", "type": "log", "domain": _SPANS, "tickformat": ",d", "dtick": "D2"},
        yaxis2={"title_text": "left out", "domain": _SHARES, "tickformat": ".0%", "range": [0, 1.05], "dtick": 0.5},
    )


def draw(figure: go.Figure, spans: pd.DataFrame, length: int) -> None:
    """Draw spans into a figure from `blank`, plain or live.

    Args:
        figure: the figure.
        spans: a table with the columns "head", "slope", "bound", "needed" and "left_out" of `lab.window_table`.
            Heads without a positive slope are not drawn.
        length: the number of tokens of the text; heads with a bound that reaches its first token look at everything.
    """
    spans = spans[spans["slope"] > 0]
    slope, first = spans["slope"].to_numpy(), max(1, length - 1)  # steps back to the first token
    ends = np.array([min([2**-8, *slope]) / 1.4, max([2**-1, *slope]) * 1.4])  # always includes the usual range
    steps = spans[["bound", "needed"]].clip(lower=1)  # a logarithmic axis has no 0
    hover = {"x": slope, "customdata": spans[["head", "needed", "bound", "left_out"]].to_numpy()}
    line, bound, needed, left_out = figure.data
    with figure.batch_update():
        line.update(x=ends, y=math.log(2**24) / ends)
        bound.update(y=steps["bound"].to_numpy(), **hover)
        needed.update(y=steps["needed"].to_numpy(), **hover)
        share = spans["left_out"].to_numpy()
        left_out.update(y=share, error_y={"array": 0 * share, "arrayminus": share}, **hover)
        figure.layout.shapes[0].update(y0=first, y1=first)
        figure.layout.annotations[0].update(y=math.log10(first), text=f"the whole text, {length:,} tokens")
        low, high = np.log2(ends)
        figure.layout.xaxis.update(range=np.log10(ends), **power_ticks(range(math.ceil(low), math.floor(high) + 1)))
        figure.layout.yaxis.range = np.log10([0.6 * min([first, 30, *steps["needed"]]), 2 * max(first, 60)])
