"""A race of position methods: the loss while they train, and the loss at other lengths.

Two panels with the same lines in them. On the left time runs, on the right nothing but the length of the test windows
changes: the dotted line is the length trained on, and the shaded part are lengths that no model has ever seen.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import theme

__all__ = ["MOST_POINTS", "blank", "draw", "race_figure", "thinned"]

MOST_POINTS = 80  # of one curve: the noise of single batches is averaged away, and an update stays small
_LEFT, _RIGHT = (0.0, 0.46), (0.54, 1.0)  # shares of the width
_WHILE = "%{fullData.name}, step %{x:.0f}<br>%{y:.2f} bits per byte<extra></extra>"
_AFTER = "%{fullData.name}, windows of %{x} bytes<br>%{y:.2f} bits per byte<extra></extra>"
_TICKS = (0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6, 8, 12, 20, 50, 100, 200)
_POWERS = range(0, 40, 3)  # for a training that diverges
_UNSEEN = "rgba(128, 128, 128, 0.10)"


def race_figure(methods: Sequence[str], **arrays: object) -> go.Figure:
    """The picture as a plain figure; the arguments are those of `blank` and `draw`.

    >>> from alibi_viz.figures.race import race_figure
    >>> figure = race_figure(["alibi"], length=32, steps=2, losses={"alibi": [8, 4]}, by_length={"alibi": {32: 4.0}})
    >>> figure.data[0].y, figure.data[1].x
    (array([8., 4.]), array([32.]))
    """
    figure = blank(methods)
    draw(figure, methods, **arrays)  # type: ignore[arg-type]
    return figure


def blank(methods: Sequence[str]) -> go.Figure:
    """The sheet for races among these methods, at most seven, each with a colour, a dash and a symbol."""
    figure = theme.blank(400, hovermode="closest", margin={"l": 56, "r": 16, "t": 62, "b": 70})
    for number, name in enumerate(methods):
        line = {"color": theme.COLORS[number], "dash": theme.DASHES[number], "width": 2}
        both = {"name": name, "legendgroup": name, "visible": False}
        figure.add_scatter(mode="lines", line=line, hovertemplate=_WHILE, showlegend=False, **both)
        marker = {"color": theme.COLORS[number], "symbol": theme.SYMBOLS[number], "size": 8}
        figure.add_scatter(
            mode="lines+markers",
            line=line,
            marker=marker,
            hovertemplate=_AFTER,
            xaxis="x2",
            yaxis="y2",
            cliponaxis=False,
            **both,
        )
    seen = {"xref": "x2", "yref": "y2 domain", "y0": 0, "y1": 1, "layer": "below"}
    figure.add_shape(type="rect", fillcolor=_UNSEEN, line_width=0, **seen)
    figure.add_shape(type="line", line={"color": "#8C8C8C", "width": 1.5, "dash": "dot"}, **seen)
    for left, title in ((_LEFT[0], "Loss while training"), (_RIGHT[0], "Loss on longer windows")):
        place = {"xref": "paper", "x": left, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "bottom"}
        figure.add_annotation(text=title, showarrow=False, yshift=4, font_size=13, **place)
    figure.update_layout(
        showlegend=True,
        legend={"yref": "container", "y": 1, "yanchor": "top"},
        xaxis={"domain": _LEFT, "title": {"text": "step"}},
        yaxis={"title": {"text": "bits per byte"}, "type": "log", "tickvals": _TICKS},
        xaxis2={
            "domain": _RIGHT,
            "anchor": "y2",
            "title": {"text": "length of the test windows, bytes", "standoff": 14},
            "type": "log",
        },
        yaxis2={"anchor": "x2"},
    )
    return figure


def draw(
    figure: go.Figure,
    methods: Sequence[str],
    *,
    length: int,
    steps: int,
    losses: Mapping[str, Sequence[float]],
    by_length: Mapping[str, Mapping[int, float]],
    lengths: Sequence[int] = (),
) -> None:
    """Put the state of a race into the sheet.

    Args:
        figure: what `blank` made, plain or live.
        methods: those that `blank` was given, in that order.
        length: bytes in a training window.
        steps: how many training steps there will be.
        losses: bits per byte of each step so far; only methods that take part are keys.
        by_length: bits per byte at each test length; NaN where a method is not defined.
        lengths: the test lengths, for the axis; those in `by_length` by default.
    """
    lengths = sorted({length, *lengths, *(tested for bits in by_length.values() for tested in bits)})
    group = math.ceil(steps / MOST_POINTS)
    curves = {name: thinned(values, group) for name, values in losses.items()}
    tests = {name: _defined(bits) for name, bits in by_length.items() if bits}
    with figure.batch_update():
        for number, name in enumerate(methods):
            left, right = figure.data[2 * number], figure.data[2 * number + 1]
            left.visible = right.visible = name in losses
            if name not in losses:
                continue
            left.x, left.y = curves[name]
            # A trace without a point has no place in the legend.
            right.x, right.y = tests.get(name) or (np.array([float(length)]), np.array([np.nan]))
            right.name = _title(name, by_length.get(name, {}))
        figure.layout.shapes[0].update(x0=length, x1=lengths[-1] * _ROOM)
        figure.layout.shapes[1].update(x0=length, x1=length)
        figure.layout.xaxis.range = [0, steps]
        low, high = _octaves([bits for _, bits in curves.values()])
        figure.layout.yaxis.update(
            range=[math.log10(low), math.log10(high)],
            tickvals=_TICKS if high < 100 * low else [10.0**power for power in _POWERS],
            ticktext=[f"{tick:g}" for tick in _TICKS] if high < 100 * low else [f"10<sup>{p}</sup>" for p in _POWERS],
        )
        figure.layout.xaxis2.update(
            range=[math.log10(lengths[0] / _ROOM), math.log10(lengths[-1] * _ROOM)],
            tickvals=lengths,
            ticktext=[f"{tested:,}<br>{_times(tested / length)}" for tested in lengths],
        )
        figure.layout.yaxis2.range = _range([bits for _, bits in tests.values()], 2.5, 5)


_ROOM = 1.12  # factor between the outermost test lengths and the frame


def thinned(values: ArrayLike, group: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The middle of each `group` of steps, counted from 1, and the mean loss in it; the last group may be short.

    >>> from alibi_viz.figures.race import thinned
    >>> thinned([8, 6, 4, 2, 1], group=2)
    (array([1.5, 3.5, 5. ]), array([7., 3., 1.]))
    """
    losses = np.asarray(values, dtype=np.float64)
    starts = np.arange(0, len(losses), group)
    sizes = np.diff(starts, append=len(losses))
    means = np.add.reduceat(losses, starts) / sizes if len(losses) else losses
    return starts + (sizes + 1) / 2, means


def _defined(bits: Mapping[int, float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lengths and losses without the lengths at which a method is not defined."""
    at, losses = np.array(list(bits), dtype=np.float64), np.array(list(bits.values()), dtype=np.float64)
    return at[np.isfinite(losses)], losses[np.isfinite(losses)]


def _title(name: str, bits: Mapping[int, float]) -> str:
    """A method's name, with the length beyond which it is not defined: a line that ends needs a reason."""
    if all(np.isfinite(list(bits.values()))):
        return name
    defined = [length for length, loss in bits.items() if np.isfinite(loss)]
    return f"{name} (to {max(defined):,} only)" if defined else f"{name} (not defined)"


def _times(ratio: float) -> str:
    """A test length in training lengths.

    >>> _times(1), _times(4)
    ('L', '4 L')
    """
    return "L" if ratio == 1 else f"{ratio:g} L"


def _range(curves: Sequence[NDArray[np.float64]], low: float, high: float) -> list[float]:
    """An axis that holds every point, in halves of a bit, so that it seldom moves while the points come in."""
    points = np.concatenate([np.empty(0), *curves])
    if not len(points):
        return [low, high]
    return [float(np.floor(points.min() * 2 - 0.2) / 2), float(np.ceil(points.max() * 2 + 0.2) / 2)]


def _octaves(curves: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """The same for a logarithmic axis, in steps of a quarter of an octave."""
    points = np.concatenate([np.array([2.1, 8.5]), *curves])
    octaves = np.log2(points.clip(0.05)) * 4  # a text like "yyyy" is learned to zero bits, which such an axis has not
    return float(2 ** (np.floor(octaves.min()) / 4)), float(2 ** (np.ceil(octaves.max()) / 4))
