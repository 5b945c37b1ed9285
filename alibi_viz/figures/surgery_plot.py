"""A trained model before and after a change: how far back its heads look, and its loss at each
length.

Both plots show the same two series, before and after.
"""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from alibi_viz.figures import theme

BEFORE, AFTER = "as trained", "changed"
_STYLES = {
    BEFORE: (theme.COLORS[6], "dot", "circle-open"),
    AFTER: (theme.COLORS[0], "solid", "circle"),
}
_TITLES = "How far back each head looks", "Loss on longer sequences"
_MAX_LABELS = 16  # with more heads than this, only the layers are labeled
_HEAD = (
    "layer %{customdata[0]}, head %{customdata[1]}: %{customdata[2]:.1f} tokens "
    "back<extra>%{fullData.name}</extra>"
)
_LOSS = "sequences of %{x:,}: %{y:.2f} bits per byte<extra>%{fullData.name}</extra>"


def blank() -> go.Figure:
    """The empty figure: a line per series for the losses, then one marker per head for the
    distances."""
    figure = theme.blank(
        height=380, hovermode="closest", margin={"l": 60, "r": 20, "t": 66, "b": 70}
    )
    figure.set_subplots(
        1, 2, column_widths=[0.45, 0.55], horizontal_spacing=0.12, subplot_titles=_TITLES
    )
    losses = {"mode": "lines+markers", "hovertemplate": _LOSS}
    heads = {"mode": "markers", "hovertemplate": _HEAD, "showlegend": False}
    for column, options in ((2, losses), (1, heads)):
        for name, (color, dash, symbol) in _STYLES.items():
            line, marker = {"color": color, "dash": dash}, {"color": color, "symbol": symbol}
            figure.add_scatter(name=name, line=line, marker=marker, **options, row=1, col=column)
    figure.update_traces(marker_size=8, line_width=2, cliponaxis=False)
    figure.update_annotations(font_size=13)
    figure.add_hline(y=1, line=theme.DOTTED, row=1, col=1)
    figure.add_vline(x=1, line=theme.DOTTED, layer="below", row=1, col=2)
    figure.add_vrect(x0=1, x1=1, fillcolor=theme.SHADE, line_width=0, layer="below", row=1, col=2)
    figure.update_layout(legend={"yref": "container", "y": 1, "yanchor": "top"})
    figure.update_xaxes(title_text="head, layer by layer", showgrid=False, tickangle=0, col=1)
    ticks = {"type": "log", "dtick": float(np.log10(2)), "tickformat": ".3~g"}  # at powers of two
    figure.update_yaxes(title_text="mean distance, tokens (dotted: L)", **ticks, col=1)
    figure.update_xaxes(type="log", title_standoff=14, col=2)
    return figure.update_yaxes(title_text="bits per byte", col=2)


def draw(
    figure: go.Figure,
    length: int,
    unit: str,
    before: tuple[Mapping[int, float], ArrayLike],
    after: tuple[Mapping[int, float], ArrayLike] = ({}, ()),
) -> None:
    """Draw a model before and after a change into a figure from `blank`, plain or live.

    `before` and `after` are {length: bits per byte}, NaN where the model isn't defined; and the
    mean distance in tokens of the keys that each head attends to, [layers, heads]. `length` is the
    training length, in `unit`.

    >>> from alibi_viz.figures.surgery_plot import blank, draw
    >>> figure = blank()
    >>> draw(figure, 32, "bytes", ({32: 2.5, 64: 2.6}, [[3.0, 9.0]]))
    >>> figure.data[0].y, figure.data[2].y
    (array([2.5, 2.6]), array([3., 9.]))
    """
    series = [(curve, np.asarray(heads, dtype=float)) for curve, heads in (before, after)]
    heads, xs = (
        [(layer + 1, head + 1) for layer, head in np.ndindex(series[0][1].shape)],
        sorted(before[0]),
    )
    few = (
        len(heads) <= _MAX_LABELS
    )  # the number of each head, and of its layer below the first head
    names = [
        str(head) * few + f"<br>{'layer ' * few}{layer}" * (head == 1) for layer, head in heads
    ]
    ends, places = np.log10([xs[0] / 1.12, xs[-1] * 1.12]), np.arange(1, len(heads) + 1)
    # Multiples of 0.5 that are at least one bit apart and include all losses, so that the axis
    # seldom changes
    losses = [bits for curve, _ in series for bits in curve.values() if np.isfinite(bits)]
    low = np.floor(2 * min(losses, default=2.0) - 0.2) / 2
    high = max(low + 1, np.ceil(2 * max(losses, default=3.0) + 0.2) / 2)
    labels = [f"{x:,}<br>{'L' if x == length else f'{x / length:g} L'}" for x in xs]
    title = f"length of the test sequences, {unit}"
    with figure.batch_update():
        for line, markers, (curve, distances) in zip(
            figure.data[:2], figure.data[2:], series, strict=True
        ):
            defined = {x: bits for x, bits in curve.items() if np.isfinite(bits)}
            line.update(x=list(defined), y=np.array([*defined.values()]), showlegend=bool(curve))
            shown = distances.ravel().clip(0.1)  # a logarithmic axis has no 0
            custom = [(*head, back) for head, back in zip(heads, distances.flat, strict=False)]
            markers.update(x=places[: distances.size], y=shown, customdata=custom)
        level, start, shade = figure.layout.shapes
        level.update(y0=length, y1=length)
        start.update(x0=length, x1=length)
        shade.update(x0=length, x1=float(10 ** ends[1]))
        figure.layout.xaxis2.update(
            range=ends.tolist(), tickvals=xs, ticktext=labels, title_text=title
        )
        figure.layout.yaxis2.range = [low, high]
        figure.layout.xaxis.update(range=[0.4, len(heads) + 0.6], tickvals=places, ticktext=names)
