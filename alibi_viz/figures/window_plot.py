"""How far back each head looks in a text, over its slope."""

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from alibi_viz.arguments import check_integer
from alibi_viz.figures import theme
from alibi_viz.figures.slope_plot import power_ticks
from alibi_viz.formatting import format_slope
from alibi_viz.measure.table import check_table


def window_figure(spans: pd.DataFrame, length: int) -> go.Figure:
    """How far back each head looks in a text, over its slope.

    A circle is the span that a head needs, a diamond the bound that `alibi_attention` finds without
    computing weights, and the dashed line the span at equal content. Heads without a positive slope
    are not drawn.

    Args:
        spans: the rows of `lab.window_table` for one layer.
        length: the number of tokens of the text.

    >>> from alibi_viz import figures, lab
    >>> spans = lab.window_table(lab.make_model("alibi", num_layers=1), "word " * 20)
    >>> figures.window_figure(spans, length=100).data[1].name
    'bound'
    """
    check_table("spans", spans, ("head", "slope", "bound", "needed", "left_out"))
    check_integer("length", length, 1)
    spans = spans[spans["slope"] > 0]
    slopes = spans["slope"].to_numpy()
    numbers = spans[["head", "needed", "bound", "left_out"]]
    hover = numbers.assign(slope=[format_slope(slope) for slope in slopes]).to_numpy()
    first_token = max(1, length - 1)  # steps back from the last one
    # A logarithmic axis has no 0.
    bound = spans["bound"].clip(lower=1).to_numpy()
    needed = spans["needed"].clip(lower=1).to_numpy()

    figure = theme.blank(
        height=345,
        hovermode="closest",
        margin={"l": 70, "r": 24, "t": 40, "b": 48},
        showlegend=True,
    )
    shown_slopes = [1 / 256, 1, *slopes]
    slope_ends = [min(shown_slopes) / 1.4, max(shown_slopes) * 1.4]
    figure.add_scatter(
        name="24 half-lives, at equal content",
        x=slope_ends,
        y=[math.log(2**24) / slope for slope in slope_ends],
        mode="lines",
        line={"color": theme.GRAY, "dash": "dash", "width": 1.5},
        hoverinfo="skip",
    )
    marks = {
        "bound": (
            bound,
            {"color": theme.ORANGE, "size": 11, "symbol": "diamond-open", "line_width": 1.5},
        ),
        "needed": (needed, {"color": theme.BLUE, "size": 7}),
    }
    for name, (steps, marker) in marks.items():
        figure.add_scatter(
            name=name,
            x=slopes,
            y=steps,
            mode="markers",
            marker=marker,
            cliponaxis=False,
            customdata=hover,
            hovertemplate=(
                "head %{customdata[0]}, slope %{customdata[4]}"
                "<br>needed: %{customdata[1]:,} steps back<br>bound: %{customdata[2]:,}"
                "<br>left out: %{customdata[3]:.0%}<extra></extra>"
            ),
        )
    figure.add_hline(
        y=first_token,
        line={"color": theme.GRAY, "dash": "solid", "width": 1},
        annotation_text=f"the whole text, {length:,} tokens",
        annotation_position="top right",
        annotation_yshift=4,
        # Annotations of a logarithmic axis are placed by the logarithm, shapes by the value.
        annotation_y=math.log10(first_token),
    )

    lowest_power, highest_power = np.log2(slope_ends)
    powers = range(math.ceil(lowest_power), math.floor(highest_power) + 1)
    step_ends = [0.6 * min([first_token, 30, *needed]), 2 * max(first_token, 60)]
    figure.update_xaxes(
        title_text="slope m",
        type="log",
        range=np.log10(slope_ends),
        **power_ticks(powers),
    )
    figure.update_yaxes(
        title_text="steps back", type="log", range=np.log10(step_ends), tickformat=",d", dtick="D2"
    )
    return figure
