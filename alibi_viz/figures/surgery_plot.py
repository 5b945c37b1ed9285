"""A trained model before and after a change.

On the left, how far back each head looks; on the right, the loss at each length. Both plots show
the same two series, before and after the change.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import panels, theme
from alibi_viz.figures.yardstick_lines import LABEL_WIDTH, Curve, add_yardsticks, draw_yardsticks

BEFORE = "as trained"
AFTER = "changed"
_STYLES = {
    BEFORE: {"color": theme.GRAY, "dash": "dot", "symbol": "circle-open"},
    AFTER: {"color": theme.BLUE, "dash": "solid", "symbol": "circle"},
}
_TITLES = ("How far back each head looks", "Loss on longer sequences")
_HEIGHT = 256  # pixels: the texts below it belong to the same screen
_STACKED_HEIGHT = 440  # with one plot below the other
# Shares of the width
_LEFT = (0.0, 0.396)
_RIGHT = (0.516, 1.0)
# The axis of losses starts at 0 and always includes these bits per byte, and with them the lines of
# models that only count.
_USUAL_LOSSES = 5.0
_MAX_LABELS = 16  # with more heads than this, only the layers are labeled
_HEAD = (
    "layer %{customdata[0]}, head %{customdata[1]}: %{customdata[2]:.1f} tokens back"
    "<extra>%{fullData.name}</extra>"
)
_LOSS = "sequences of %{x:,}: %{y:.2f} bits per byte<extra>%{fullData.name}</extra>"

Losses = Mapping[int, float]  # {length: bits per byte}


class SurgeryTraces(NamedTuple):
    """The traces of the figure, in the order in which `blank` adds them."""

    losses_before: go.Scatter
    losses_after: go.Scatter
    distances_before: go.Scatter
    distances_after: go.Scatter


class SurgeryShapes(NamedTuple):
    """The shapes of the figure, in the order in which `blank` adds them."""

    training_length_of_distances: go.layout.Shape
    training_length_of_losses: go.layout.Shape
    longer_than_training: go.layout.Shape
    first_yardstick: go.layout.Shape
    second_yardstick: go.layout.Shape

    @property
    def yardsticks(self) -> list[go.layout.Shape]:
        """The losses of models that only count."""
        return [self.first_yardstick, self.second_yardstick]


def blank() -> go.Figure:
    """The figure without data."""
    figure = theme.blank(
        height=_HEIGHT,
        hovermode="closest",
        margin={"l": 60, "r": 20, "t": 44, "b": 62},
        legend={"yref": "container", "y": 1, "yanchor": "top", "x": 0},
    )
    figure.set_subplots(rows=1, cols=2)
    panels.add_titles(figure, _TITLES)
    arrange(figure, page_width=panels.NARROW)

    # The order is that of `SurgeryTraces`. The legend lists the lines only.
    for name in _STYLES:
        _add_series(figure, name, mode="lines+markers", hovertemplate=_LOSS, column=2)
    for name in _STYLES:
        _add_series(figure, name, mode="markers", hovertemplate=_HEAD, column=1, showlegend=False)

    # The order is that of `SurgeryShapes`.
    figure.add_hline(y=1, line=theme.DOTTED, row=1, col=1)
    figure.add_vline(x=1, line=theme.DOTTED, layer="below", row=1, col=2)
    figure.add_vrect(x0=1, x1=1, fillcolor=theme.SHADE, line_width=0, layer="below", row=1, col=2)
    add_yardsticks(figure, 2, "x2", "y2")

    figure.update_xaxes(title_text="head, layer by layer", showgrid=False, tickangle=0, col=1)
    figure.update_yaxes(
        title_text="tokens back, mean",
        type="log",
        dtick=float(np.log10(2)),  # ticks at powers of two
        tickformat=".3~g",
        col=1,
    )
    figure.update_xaxes(type="log", title_standoff=14, col=2)
    figure.update_yaxes(title_text="bits per byte", col=2)
    return figure


def arrange(figure: go.Figure, page_width: int) -> None:
    """Put the plots beside each other or, on a narrow page, below each other."""
    if page_width < panels.NARROW:
        panels.stack(figure, height=_STACKED_HEIGHT)
    else:
        panels.put_beside(figure, _LEFT, _RIGHT, height=_HEIGHT)


def draw(
    figure: go.Figure,
    length: int,
    unit: str,
    before: tuple[Losses, ArrayLike],
    after: tuple[Losses, ArrayLike] = ({}, ()),
    *,
    yardsticks: Mapping[str, float] | None = None,
) -> None:
    """Draw a model before and after a change into a figure from `blank`, plain or live.

    Args:
        figure: from `blank`.
        length: the training length.
        unit: what lengths are counted in, such as "bytes".
        before: the losses {length: bits per byte}, NaN where the model isn't defined; and the mean
            distance in tokens of the keys that each head attends to, [layers, heads].
        after: the same of the changed model; nothing by default.
        yardsticks: at most two losses to compare with, such as `Text.yardsticks`.

    >>> from alibi_viz.figures.surgery_plot import blank, draw
    >>> figure = blank()
    >>> draw(figure, 32, "bytes", ({32: 2.5, 64: 2.6}, [[3.0, 9.0]]))
    >>> figure.data[0].y, figure.data[2].y
    (array([2.5, 2.6]), array([3., 9.]))
    """
    losses_before = before[0]
    losses_after = after[0]
    distances_before = np.asarray(before[1], dtype=float)
    distances_after = np.asarray(after[1], dtype=float)

    lengths = sorted(losses_before)
    # The axis of the lengths is logarithmic, and plotly wants the logarithms of its ends.
    length_range = np.log10([lengths[0] / 1.12, lengths[-1] * 1.12])
    right_end = float(10 ** length_range[1])
    heads = [(layer + 1, head + 1) for layer, head in np.ndindex(distances_before.shape)]

    traces = SurgeryTraces(*figure.data)
    shapes = SurgeryShapes(*figure.layout.shapes)
    with figure.batch_update():
        _draw_losses(traces.losses_before, losses_before)
        _draw_losses(traces.losses_after, losses_after)
        _draw_distances(traces.distances_before, heads, distances_before)
        _draw_distances(traces.distances_after, heads, distances_after)

        shapes.training_length_of_distances.update(y0=length, y1=length)
        shapes.training_length_of_losses.update(x0=length, x1=length)
        shapes.longer_than_training.update(x0=length, x1=right_end)

        figure.layout.xaxis.update(
            range=[0.4, len(heads) + 0.6],
            tickvals=np.arange(1, len(heads) + 1),
            ticktext=_head_labels(heads),
        )
        figure.layout.xaxis2.update(
            range=length_range.tolist(),
            tickvals=lengths,
            ticktext=[_length_label(tested, length) for tested in lengths],
            title_text=f"length of the test sequences, {unit}",
        )
        loss_range = _loss_range([*losses_before.values(), *losses_after.values()])
        figure.layout.yaxis2.range = loss_range
        draw_yardsticks(
            shapes.yardsticks,
            yardsticks or {},
            loss_range,
            curves=[_drawn_curve(losses, length_range) for losses in (losses_before, losses_after)],
            label_width=2 * LABEL_WIDTH,  # the plot has about half of the page
        )


def _add_series(
    figure: go.Figure,
    name: str,
    *,
    mode: str,
    hovertemplate: str,
    column: int,
    showlegend: bool | None = None,
) -> None:
    """Add an empty trace in the style of a series, `BEFORE` or `AFTER`."""
    style = _STYLES[name]
    figure.add_scatter(
        name=name,
        mode=mode,
        line={"color": style["color"], "dash": style["dash"], "width": 2},
        marker={"color": style["color"], "symbol": style["symbol"], "size": 8},
        cliponaxis=False,
        hovertemplate=hovertemplate,
        showlegend=showlegend,
        row=1,
        col=column,
    )


def _draw_losses(line: go.Scatter, losses: Losses) -> None:
    """Draw the losses of a model at the lengths where it is defined."""
    defined = {length: bits for length, bits in losses.items() if np.isfinite(bits)}
    line.update(
        x=list(defined),
        y=np.array(list(defined.values())),
        showlegend=bool(losses),
    )


def _drawn_curve(losses: Losses, length_range: NDArray[np.float64]) -> Curve:
    """The losses as they run through the plot, whose axis has these logarithms at its ends."""
    defined = {length: bits for length, bits in losses.items() if np.isfinite(bits)}
    left, right = length_range
    shares = (np.log10(list(defined)) - left) / (right - left)
    return Curve(shares, np.array(list(defined.values())))


def _draw_distances(
    markers: go.Scatter, heads: Sequence[tuple[int, int]], distances: NDArray[np.float64]
) -> None:
    """Draw the mean distance of each head, (layer, head); nothing without distances."""
    if distances.size == 0:
        heads = []
    # The hover text has the exact distance; a logarithmic axis has no 0.
    customdata = [
        (layer, head, distance)
        for (layer, head), distance in zip(heads, distances.flat, strict=True)
    ]
    markers.update(
        x=np.arange(1, distances.size + 1),
        y=distances.ravel().clip(0.1),
        customdata=customdata,
    )


def _head_labels(heads: Sequence[tuple[int, int]]) -> list[str]:
    """A label per head: its number, and below the first head of a layer that of the layer.

    >>> _head_labels([(1, 1), (1, 2), (2, 1), (2, 2)])
    ['1<br>layer 1', '2', '1<br>layer 2', '2']
    """
    crowded = len(heads) > _MAX_LABELS
    labels = []
    for layer, head in heads:
        number = "" if crowded else str(head)
        layer_name = str(layer) if crowded else f"layer {layer}"
        if head == 1:
            labels.append(f"{number}<br>{layer_name}")
        else:
            labels.append(number)
    return labels


def _length_label(length: int, training_length: int) -> str:
    """A length, and below it the same as a multiple of the training length L.

    >>> _length_label(2048, 1024), _length_label(1024, 1024)
    ('2,048<br>2 L', '1,024<br>L')
    """
    if length == training_length:
        return f"{length:,}<br>L"
    return f"{length:,}<br>{length / training_length:g} L"


def _loss_range(losses: Sequence[float]) -> list[float]:
    """A range from 0 that includes all losses. It ends at a whole bit and seldom changes."""
    defined = [bits for bits in losses if np.isfinite(bits)]
    highest = float(np.ceil(max(defined, default=0.0) + 0.1))
    return [0.0, max(_USUAL_LOSSES, highest)]
