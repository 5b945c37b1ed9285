"""A race of position methods: the loss while they train, and the answer to one question about the trained models.

On the left time runs; on the right is a panel (see `panel`), by default the loss at other lengths. Any other question
has the whole width.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import theme
from alibi_viz.figures.panel import Curves, Panel, add_panel, draw_panel
from alibi_viz.figures.race_panels import length_panel

__all__ = ["MOST_POINTS", "blank", "draw", "race_figure", "thinned"]

MOST_POINTS = 80  # of one curve: the noise of single batches is averaged away, and an update stays small
_LEFT, _RIGHT = (0.0, 0.44), (0.56, 1.0)  # shares of the width
_NONE, _ALL = (0.0, 0.001), (0.005, 1.0)  # plots that overlap would lose their lines and shades
_WHILE = "%{fullData.name}, step %{x:.0f}<br>%{y:.2f} bits<extra></extra>"
_TICKS = (0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6, 8, 12, 20, 50, 100, 200)
_FEW = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)
_POWERS = range(0, 40, 3)  # for a training that diverges


def race_figure(
    methods: Sequence[str],
    *,
    length: int,
    steps: int,
    losses: Mapping[str, Sequence[float]],
    by_length: Mapping[str, Mapping[int, float]],
) -> go.Figure:
    """The picture of one race as a plain figure: `losses` of each step, and `by_length` {method: {length: bits}}.

    >>> from alibi_viz.figures.race import race_figure
    >>> figure = race_figure(["alibi"], length=32, steps=2, losses={"alibi": [8, 4]}, by_length={"alibi": {32: 4.0}})
    >>> figure.data[0].y, figure.data[1].x
    (array([8., 4.]), array([32.]))
    """
    figure = blank(methods)
    curves = {name: Curves(by_length.get(name, {})) for name in losses}
    lengths = [tested for points in by_length.values() for tested in points]
    draw(figure, methods, steps=steps, losses=losses, panel=length_panel(curves, length, [length, *lengths]))
    return figure


def blank(methods: Sequence[str]) -> go.Figure:
    """The sheet for races among these methods, at most seven, each with a colour, a dash and a symbol."""
    figure = theme.blank(400, hovermode="closest", margin={"l": 56, "r": 16, "t": 62, "b": 70})
    for number, name in enumerate(methods):
        line = {"color": theme.COLORS[number], "dash": theme.DASHES[number], "width": 2}
        both = {"name": name, "legendgroup": name, "visible": False}
        figure.add_scatter(mode="lines", line=line, hovertemplate=_WHILE, showlegend=False, **both)
    for left, title in ((_LEFT[0], "Loss while training"), (_RIGHT[0], "")):
        place = {"xref": "paper", "x": left, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "bottom"}
        figure.add_annotation(text=title, showarrow=False, yshift=4, font_size=13, **place)
    figure.update_layout(
        showlegend=True,
        legend={"yref": "container", "y": 1, "yanchor": "top"},
        xaxis={"domain": _LEFT, "title": {"text": "step"}},
        yaxis={"type": "log", "tickvals": _TICKS},
    )
    add_panel(figure, methods)
    return figure


def draw(
    figure: go.Figure,
    methods: Sequence[str],
    *,
    steps: int,
    losses: Mapping[str, Sequence[float]],
    panel: Panel,
    alone: bool = False,
    unit: str = "byte",
) -> None:
    """Put the state of a race into the sheet.

    Args:
        figure: what `blank` made, plain or live.
        methods: those that `blank` was given, in that order.
        steps: how many training steps there will be.
        losses: bits of each step so far; only methods that take part are keys.
        panel: what is shown beside it.
        alone: give the panel the whole width.
        unit: what the losses are counted per.
    """
    group = math.ceil(steps / MOST_POINTS)
    curves = {name: thinned(values, group) for name, values in losses.items()}
    with figure.batch_update():
        for number, name in enumerate(methods):
            left = figure.data[number]
            left.visible = name in losses and not alone
            if name in losses:
                left.x, left.y = curves[name]
        draw_panel(figure, methods, panel, before=len(methods), title=1)
        figure.layout.annotations[0].visible = not alone
        figure.layout.annotations[1].x = 0 if alone else _RIGHT[0]
        figure.layout.xaxis2.domain = _ALL if alone else _RIGHT
        figure.layout.xaxis.update(range=[0, steps], visible=not alone, domain=_NONE if alone else _LEFT)
        low, high = _octaves([bits for _, bits in curves.values()])
        figure.layout.yaxis.update(
            range=[math.log10(low), math.log10(high)],
            title_text=f"bits per {unit}",
            visible=not alone,
            **_ticks(low, high),
        )


def _ticks(low: float, high: float) -> dict[str, object]:
    """Labels of the logarithmic axis, fewer where it spans more."""
    if high >= 1000 * low:
        return {"tickvals": [10.0**power for power in _POWERS], "ticktext": [f"10<sup>{p}</sup>" for p in _POWERS]}
    values = _TICKS if high < 20 * low else _FEW
    return {"tickvals": values, "ticktext": [f"{value:g}" for value in values]}


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


def _octaves(curves: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """The same for a logarithmic axis, in steps of a quarter of an octave."""
    points = np.concatenate([np.array([2.1, 8.5]), *curves])
    octaves = np.log2(points.clip(0.05)) * 4  # a text like "yyyy" is learned to zero bits, which such an axis has not
    return float(2 ** (np.floor(octaves.min()) / 4)), float(2 ** (np.ceil(octaves.max()) / 4))
