"""The span of each head, which is how far back it looks, over its slope."""

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from alibi_viz.figures import theme
from alibi_viz.figures.slopes import power_ticks


def blank() -> go.Figure:
    """The figure without data: a line of what the slope alone predicts, and two marks per head."""
    figure = theme.blank(400, hovermode="closest", margin={"l": 70, "r": 24, "t": 40, "b": 48}, showlegend=True)
    gray = {"color": theme.DOTTED["color"], "dash": "dash", "width": 1.5}
    figure.add_scatter(mode="lines", line=gray, hoverinfo="skip", name="equal content: ln(2<sup>24</sup>) / m")
    hover = "head %{customdata[0]}, slope %{x:.4g}<br>needed: %{customdata[1]:,} steps back<br>"
    hover += "bound: %{customdata[2]:,}<br>left out: %{customdata[3]:.0%}<extra></extra>"
    diamond = {"color": theme.COLORS[1], "size": 11, "symbol": "diamond-open", "line": {"width": 1.5}}
    for name, marker in (("bound", diamond), ("needed", {"color": theme.COLORS[0], "size": 7})):
        figure.add_scatter(mode="markers", hovertemplate=hover, cliponaxis=False, marker=marker, name=name)
    place = {"annotation_position": "top right", "annotation_yshift": 4}
    figure.add_hline(1, line={**gray, "dash": "solid", "width": 1}, annotation_text=" ", **place)
    return figure.update_layout(
        xaxis={"title_text": "slope m", "type": "log"},
        yaxis={"title_text": "steps back", "type": "log", "tickformat": ",d", "dtick": "D2"},
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
    custom = spans[["head", "needed", "bound", "left_out"]].to_numpy()
    with figure.batch_update():
        figure.data[0].update(x=ends, y=math.log(2**24) / ends)
        for trace in figure.data[1:]:
            trace.update(x=slope, y=steps[trace.name].to_numpy(), customdata=custom)
        figure.layout.shapes[0].update(y0=first, y1=first)
        figure.layout.annotations[0].update(y=math.log10(first), text=f"the whole text, {length:,} tokens")
        low, high = np.log2(ends)
        figure.layout.xaxis.update(range=np.log10(ends), **power_ticks(range(math.ceil(low), math.floor(high) + 1)))
        figure.layout.yaxis.range = np.log10([0.6 * min([first, 30, *steps["needed"]]), 2 * max(first, 60)])
