"""A trained model before and after a change: where its heads look, and what that does to its loss at each length.

Two panels with the same two series, before and after. On the left how far each head looks; on the right the loss, with
the training length dotted and the lengths that training never showed shaded, as in the picture of a race.
"""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from alibi_viz.figures import theme

__all__ = ["blank", "draw", "surgery_figure"]

_LEFT, _RIGHT = (0.0, 0.42), (0.54, 1.0)  # shares of the width
_ROOM = 1.12  # factor between the outermost lengths and the frame
_MANY = 16  # heads in all, from which on they cannot all be numbered
_UNSEEN = "rgba(128, 128, 128, 0.10)"
_LOOKS = "layer %{customdata[0]}, head %{customdata[1]}: %{y:.1f} tokens back<extra>%{fullData.name}</extra>"
_LOSES = "windows of %{x} bytes<br>%{y:.2f} bits per byte<extra>%{fullData.name}</extra>"
BEFORE, AFTER = "as trained", "changed"


def surgery_figure(**arrays: object) -> go.Figure:
    """The picture as a plain figure; the arguments are those of `draw`.

    >>> from alibi_viz.figures.surgery import surgery_figure
    >>> figure = surgery_figure(length=32, distance=[[3.0]], before={32: 2.5, 64: 2.6})
    >>> figure.data[0].y, figure.data[2].x
    (array([3.]), array([32., 64.]))
    """
    figure = blank()
    draw(figure, **arrays)  # type: ignore[arg-type]
    return figure


def blank() -> go.Figure:
    """The sheet: two markers a head on the left, two lines on the right."""
    figure = theme.blank(380, hovermode="closest", margin={"l": 60, "r": 20, "t": 62, "b": 64})
    styles = (
        {"color": theme.COLORS[6], "symbol": "circle-open", "dash": "dot"},
        {"color": theme.COLORS[0], "symbol": "circle", "dash": "solid"},
    )
    for axes, mode, hover in (({}, "markers", _LOOKS), ({"xaxis": "x2", "yaxis": "y2"}, "lines+markers", _LOSES)):
        for name, style in zip((BEFORE, AFTER), styles, strict=True):
            figure.add_scatter(
                name=name,
                legendgroup=name,
                mode=mode,
                marker={"color": style["color"], "symbol": style["symbol"], "size": 9},
                line={"color": style["color"], "dash": style["dash"], "width": 2},
                hovertemplate=hover,
                showlegend=mode != "markers",
                cliponaxis=False,
                **axes,
            )
    seen = {"xref": "x2", "yref": "y2 domain", "y0": 0, "y1": 1, "layer": "below"}
    figure.add_shape(type="rect", fillcolor=_UNSEEN, line_width=0, **seen)
    figure.add_shape(type="line", line={"color": "#8C8C8C", "width": 1.5, "dash": "dot"}, **seen)
    figure.add_shape(
        type="line", xref="x domain", x0=0, x1=1, yref="y", line={"color": "#8C8C8C", "width": 1.5, "dash": "dot"}
    )
    for left, title in ((_LEFT[0], "How far back each head looks"), (_RIGHT[0], "Loss on longer windows")):
        place = {"xref": "paper", "x": left, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "bottom"}
        figure.add_annotation(text=title, showarrow=False, yshift=4, font_size=13, **place)
    figure.update_layout(
        showlegend=True,
        legend={"yref": "container", "y": 1, "yanchor": "top"},
        xaxis={"domain": _LEFT, "title": {"text": "head, layer by layer"}, "showgrid": False, "tickangle": 0},
        yaxis={"title": {"text": "mean distance, tokens (dotted: L)"}, "type": "log"},
        xaxis2={
            "domain": _RIGHT,
            "anchor": "y2",
            "title": {"text": "length of the test windows, bytes", "standoff": 14},
            "type": "log",
        },
        yaxis2={"anchor": "x2", "title": {"text": "bits per byte"}},
    )
    return figure


def draw(
    figure: go.Figure,
    *,
    length: int,
    distance: ArrayLike,
    before: Mapping[int, float],
    changed_distance: ArrayLike | None = None,
    after: Mapping[int, float] | None = None,
) -> None:
    """Put a model before and after a change into the sheet.

    Args:
        figure: what `blank` made, plain or live.
        length: the training length.
        distance: tokens back, the mean of each head: [layers, heads].
        before: bits per byte at each test length; NaN where the positions are not defined.
        changed_distance, after: the same after a change; None where nothing was changed.
    """
    looks = np.asarray(distance, dtype=np.float64)
    layers, heads = looks.shape
    where = [[layer + 1, head + 1] for layer in range(layers) for head in range(heads)]
    at = np.arange(1, layers * heads + 1)
    lengths = sorted(before)
    known = [(looks.ravel(), before)]
    known.append(
        (np.empty(0), {}) if after is None else (np.asarray(changed_distance, dtype=np.float64).ravel(), after)
    )
    curves = [np.array([losses.get(tested, np.nan) for tested in lengths], dtype=np.float64) for _, losses in known]
    with figure.batch_update():
        for number, (distances, _) in enumerate(known):
            figure.data[number].update(x=at[: len(distances)], y=distances, customdata=where)
            figure.data[2 + number].update(x=np.array(lengths, dtype=np.float64), y=curves[number])
        figure.layout.shapes[0].update(x0=length, x1=lengths[-1] * _ROOM)
        figure.layout.shapes[1].update(x0=length, x1=length)
        figure.layout.shapes[2].update(y0=length, y1=length)
        figure.layout.xaxis.update(
            range=[0.4, layers * heads + 0.6],
            tickvals=at,
            ticktext=[_head_label(layer, head, many=layers * heads > _MANY) for layer, head in where],
        )
        figure.layout.yaxis.update(**_powers_of_two(np.concatenate([distances for distances, _ in known]), length))
        figure.layout.xaxis2.update(
            range=[np.log10(lengths[0] / _ROOM), np.log10(lengths[-1] * _ROOM)],
            tickvals=lengths,
            ticktext=[f"{tested:,}<br>{'L' if tested == length else f'{tested / length:g} L'}" for tested in lengths],
        )
        figure.layout.yaxis2.range = _halves(np.concatenate(curves))


def _head_label(layer: int, head: int, *, many: bool) -> str:
    """The number of a head, and of its layer below the first; of many heads the layers only, or none could be read."""
    number = "" if many else f"{head}"
    if head > 1:
        return number
    return f"{number}<br>{layer if many else f'layer {layer}'}"


def _powers_of_two(distances: np.ndarray, length: int) -> dict[str, object]:
    """A logarithmic axis in tokens that holds every head and the training length, with powers of two marked."""
    points = np.concatenate([distances[np.isfinite(distances)], [1.0, 2 * length]]).clip(0.05)
    low, high = int(np.floor(np.log2(points.min()))), int(np.ceil(np.log2(points.max())))
    powers = range(low, high + 1, max(1, (high - low) // 8 + 1) if high - low > 8 else 1)
    return {
        "range": [low * np.log10(2), high * np.log10(2)],
        "tickvals": [2.0**power for power in powers],
        "ticktext": [f"{2**power:g}" if power >= 0 else f"1/{2**-power}" for power in powers],
    }


def _halves(points: np.ndarray) -> list[float]:
    """An axis that holds every point, in halves of a bit, so that it seldom moves."""
    points = np.concatenate([points[np.isfinite(points)], [2.5, 3.5]])
    return [float(np.floor(points.min() * 2 - 0.2) / 2), float(np.ceil(points.max() * 2 + 0.2) / 2)]
