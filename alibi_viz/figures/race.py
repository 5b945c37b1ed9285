"""A race of position methods: the training loss on the left, and a panel about the models on the right.

A panel that needs no training loss beside it gets the whole width.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import panel as panels
from alibi_viz.figures.panel import STYLES, assign_slots
from alibi_viz.panel import Panel

__all__ = ["MAX_POINTS", "blank", "draw", "group_means", "race_figure"]

MAX_POINTS = 80  # of one curve: averages out the noise of single batches, and keeps updates small
_LEFT, _RIGHT = (0.0, 0.44), (0.56, 1.0)  # shares of the width
_HOVER = "%{fullData.name}, step %{x:.0f}<br>%{y:.2f} bits<extra></extra>"
_TICKS = (0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6, 8, 12, 20, 50, 100, 200)
_SPARSE_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)
_POWERS = range(0, 40, 3)  # of ten, for a training that diverges


def race_figure(panel: Panel, losses: Mapping[str, Sequence[float]], steps: int, *, unit: str = "byte") -> go.Figure:
    """One race as a plain plotly figure. The arguments are those of `draw`; the panel has at most seven methods.

    >>> from alibi_viz.panel import Curves
    >>> panel = lab.find_question("longer windows").layout({"alibi": Curves({32: 4.0})}, 32, [32, 64], {})
    >>> figure = race_figure(panel, {"alibi": [8, 4]}, steps=2)
    >>> figure.data[-7].y, figure.data[0].y
    (array([8., 4.]), array([4.]))
    """
    figure = blank()
    draw(figure, assign_slots(tuple(panel.curves), ()), panel, losses=losses, steps=steps, unit=unit)
    return figure


def blank() -> go.Figure:
    """The empty figure: a panel, then one trace of the training loss for each slot."""
    figure = panels.blank(400)
    for color, dash, _ in STYLES:
        line = {"color": color, "dash": dash, "width": 2}
        figure.add_scatter(mode="lines", line=line, hovertemplate=_HOVER, showlegend=False, visible=False)
    panels.add_title(figure, "Loss while training", left=_LEFT[0])
    figure.update_layout(xaxis={"title": {"text": "step"}}, yaxis={"type": "log"})
    return figure


def draw(
    figure: go.Figure,
    slots: Sequence[str],
    panel: Panel,
    *,
    losses: Mapping[str, Sequence[float]] | None,
    steps: int,
    unit: str = "byte",
) -> None:
    """Draw the state of a race into a figure from `blank`, plain or live.

    Args:
        figure: the figure.
        slots: the method in each slot, "" for none.
        panel: what to show about the models.
        losses: {method: bits at each training step so far}; None gives the panel the whole width.
        steps: how many training steps there will be.
        unit: the losses are bits per this.
    """
    group = math.ceil(steps / MAX_POINTS)
    curves = {name: group_means(values, group) for name, values in (losses or {}).items()}
    with figure.batch_update():
        for trace, name in zip(figure.data[-len(slots) :], slots, strict=True):
            trace.visible = name in curves
            if name in curves:
                trace.update(x=curves[name][0], y=curves[name][1], name=name, legendgroup=name)
        visible = losses is not None
        left, right = (_LEFT, _RIGHT) if visible else (panels.HIDDEN, panels.FULL_WIDTH)
        panels.draw(figure, slots, panel, domain=right)
        figure.layout.annotations[-1].visible = visible
        figure.layout.xaxis.update(range=[0, steps], visible=visible, domain=left)
        figure.layout.yaxis.update(title_text=f"bits per {unit}", visible=visible)
        figure.layout.yaxis.update(_loss_axis([bits for _, bits in curves.values()]))


def group_means(values: ArrayLike, group: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The middle of each `group` of steps, counted from 1, and the mean loss in it; the last group may be short.

    >>> group_means([8, 6, 4, 2, 1], group=2)
    (array([1.5, 3.5, 5. ]), array([7., 3., 1.]))
    """
    losses = np.asarray(values, dtype=np.float64)
    starts = np.arange(0, len(losses), group)
    sizes = np.diff(starts, append=len(losses))
    means = np.add.reduceat(losses, starts) / sizes if len(losses) else losses
    return starts + (sizes + 1) / 2, means


def _loss_axis(curves: Sequence[NDArray[np.float64]]) -> dict[str, object]:
    """An axis that includes every point and ends at quarters of an octave, so that it seldom changes."""
    points = np.concatenate([np.array([2.1, 8.5]), *curves])
    octaves = np.log2(points.clip(0.05)) * 4  # a text like "yyyy" reaches a loss of 0, which has no logarithm
    low, high = 2 ** (np.floor(octaves.min()) / 4), 2 ** (np.ceil(octaves.max()) / 4)
    if high >= 1000 * low:
        ticks = {"tickvals": [10.0**power for power in _POWERS], "ticktext": [f"10<sup>{p}</sup>" for p in _POWERS]}
    else:
        values = _TICKS if high < 20 * low else _SPARSE_TICKS
        ticks = {"tickvals": values, "ticktext": [f"{value:g}" for value in values]}
    return {"range": [math.log10(low), math.log10(high)], **ticks}
