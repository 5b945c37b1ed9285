"""Curves of at most seven methods from a table of results, on annotated axes; beside them, the loss while training.

    mean   thick, with markers, and with bars for its interval from three seeds on
    seeds  thin, one line each, because a mean alone hides how much seeds differ

A figure is made once by `blank`, with a trace of each kind for each slot. A method has the color, dash and marker of
its slot, and traces without data are hidden. `draw` fills in the curves, `draw_training` the loss while training.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.figures import theme
from alibi_viz.table import SEEDS, Axes, over_seeds

Style = tuple[str, str, str]  # color, dash and marker symbol
STYLES: Sequence[Style] = tuple(zip(theme.COLORS, theme.DASHES, theme.SYMBOLS, strict=True))
MAX_METHODS = len(STYLES)
FULL_WIDTH, RIGHT, LEFT, HIDDEN = (0.005, 1.0), (0.56, 1.0), (0.0, 0.44), (0.0, 0.001)  # disjoint: where plots
# overlap, plotly draws no shapes
MARKS = 2
_SHADE = "rgba(128, 128, 128, 0.10)"
_DOTTED = {"color": "#8C8C8C", "width": 1.5, "dash": "dot"}
_PADDING = 1.12  # factor between the outermost ticks of a logarithmic axis and its ends
_PAGE_WIDTH, _MARGINS = 880, 80  # pixels: before a page reports its width, and the left and right margin together
_TOP, _LEGEND_ROW = 66, 19  # pixels above the plot with one row of legend, and for each further row
_CHANCE_HEIGHT, _MARK_HEIGHT = 0.07, 0.22  # shares of the plot's height that the labels of chance and of a mark take
MAX_POINTS = 80  # of a curve of training: averages out the noise of single batches, and keeps updates small
_TICKS = (0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6, 8, 12, 20, 50, 100, 200)
_SPARSE_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)
_POWERS = range(0, 40, 3)  # of ten, for a training that diverges


def curve_figure(rows: pd.DataFrame, axes: Axes, fixed: Sequence[str] = ()) -> go.Figure:
    """The curves of the labels in a table as a plain plotly figure. Raises ValueError for more than seven labels.

    Args:
        rows: a table with the columns label, seed, x and value, such as the rows of one question.
        axes: such as `lab.find_question(name).axes(length)`.
        fixed: at most seven labels. Each has the same color in all figures with the same `fixed`.

    >>> rows = pd.DataFrame({"label": "alibi", "seed": 0, "x": [64, 128], "value": [0.4, 0.3]})
    >>> figure = curve_figure(rows, lab.find_question("longer windows").axes(64))
    >>> [trace.name for trace in figure.data if trace.visible and trace.showlegend]
    ['alibi']
    """
    figure = blank(430)
    draw(figure, assign_slots(list(rows["label"].unique()), fixed), axes, rows)
    return figure


def assign_slots(methods: Sequence[str], fixed: Sequence[str] = ()) -> list[str]:
    """Choose a slot (color, dash and marker) for each method: `fixed` methods have their own, others get the rest.

    Returns the method in each slot, "" for none. Raises ValueError for more methods than slots.

    >>> assign_slots(["t5", "rotary"], fixed=["alibi", "rotary"])
    ['', 'rotary', 't5', '', '', '', '']
    """
    if len(methods) > MAX_METHODS:
        raise ValueError(f"at most {MAX_METHODS} methods can be drawn, got {len(methods)}")
    slots = [name if name in methods else "" for name in fixed] + [""] * (MAX_METHODS - len(fixed))
    free = [*range(len(fixed), MAX_METHODS), *(slot for slot in reversed(range(len(fixed))) if not slots[slot])]
    others = [name for name in methods if name not in fixed]
    for slot, name in zip(free, others, strict=False):
        slots[slot] = name
    return slots


def blank(height: int, styles: Sequence[Style] = STYLES, left_title: str = "") -> go.Figure:
    """A figure with empty curves on the axes x2 and y2, one slot per style. The axes x and y, on the left, are hidden.

    Its first traces are the means of all slots, then the seeds, then the losses while training.
    """
    figure = theme.blank(height, hovermode="closest", margin={"l": 60, "r": 20, "t": _TOP, "b": 70})
    right = {"xaxis": "x2", "yaxis": "y2", "cliponaxis": False, "visible": False}
    for color, dash, symbol in styles:
        line, marker = {"color": color, "dash": dash, "width": 2}, {"color": color, "symbol": symbol, "size": 8}
        bars = {"thickness": 1.5, "width": 5}
        figure.add_scatter(mode="lines+markers", line=line, marker=marker, error_y=bars, showlegend=True, **right)
    for color, _, _ in styles:
        figure.add_scatter(mode="lines", line={"color": color, "width": 1}, opacity=0.6, showlegend=False, **right)
    for color, dash, _ in styles:
        line = {"color": color, "dash": dash, "width": 2}
        hover = "%{fullData.name}, step %{x:.0f}<br>%{y:.2f} bits<extra></extra>"
        figure.add_scatter(mode="lines", line=line, hovertemplate=hover, showlegend=False, visible=False)
    span = {"xref": "x2", "yref": "y2 domain", "y0": 0, "y1": 1, "layer": "below"}
    figure.add_shape(type="rect", fillcolor=_SHADE, line_width=0, **span)
    figure.add_shape(type="line", line=_DOTTED, **span)
    for _ in range(MARKS):
        figure.add_shape(type="line", line={**_DOTTED, "color": theme.COLORS[0], "width": 1}, visible=False, **span)
    figure.add_shape(type="line", line=_DOTTED, xref="x2 domain", x0=0, x1=1, yref="y2", visible=False, layer="below")
    for text in ("", left_title):
        place = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "bottom"}
        figure.add_annotation(text=text, showarrow=False, yshift=4, font_size=13, **place)
    label: dict[str, Any] = {"text": "", "showarrow": False, "font_size": 11, "visible": False, "xref": "x2 domain"}
    for _ in range(MARKS):
        figure.add_annotation(label, xanchor="right", yref="y2 domain", yanchor="middle", textangle=-90)
    figure.add_annotation(label, xanchor="left", yref="y2", yanchor="bottom")
    figure.update_layout(
        showlegend=True,
        legend={"yref": "container", "y": 1, "yanchor": "top"},
        xaxis={"domain": HIDDEN, "visible": False},
        yaxis={"visible": False},
        xaxis2={"anchor": "y2", "title": {"standoff": 14}},
        yaxis2={"anchor": "x2"},
    )
    return figure


def draw(
    figure: go.Figure,
    slots: Sequence[str],
    axes: Axes,
    rows: pd.DataFrame,
    *,
    unfinished: pd.DataFrame | None = None,
    notes: dict[str, dict[int, str]] | None = None,
    domain: tuple[float, float] = FULL_WIDTH,
) -> None:
    """Draw curves into a figure from `blank`, plain or live.

    Args:
        figure: the figure.
        slots: the label in each slot, "" for none. A label without rows is listed in the legend; others are left out.
        axes: what to draw around the curves.
        rows: with the columns label, seed, x and value.
        unfinished: rows of seeds that are still training, drawn thin and left out of the mean.
        notes: {label: {x: a further line in the hover text of the mean}}.
        domain: the left and right end of the plot, as shares of the width.
    """
    thin = rows if unfinished is None else pd.concat([rows, unfinished])
    means = over_seeds(rows if len(rows) else thin, limits=axes.limits)
    first, last = min(axes.ticks), max(axes.ticks)
    ends = (first / _PADDING, last * _PADDING) if axes.log else (0, last)
    with figure.batch_update():
        names = []
        for slot, label in enumerate(slots):
            mean, seeds = figure.data[slot], figure.data[len(slots) + slot]
            if not label:
                mean.visible = seeds.visible = False
                continue
            own = means.loc[[label]].droplevel("label") if label in means.index else means.head(0).droplevel("label")
            names.append(_legend_name(label, own["mean"]))
            defined = own.dropna(subset="mean")
            if defined.empty:  # plotly leaves a trace without points out of the legend, and JSON has no NaN
                mean.update(x=[first], y=np.array([np.nan]), error_y={"visible": False}, customdata=None)
            else:
                _draw_mean(mean, defined, axes, (notes or {}).get(label, {}))
            _draw_seeds(seeds, thin[thin["label"] == label], axes)
            mean.update(name=names[-1], legendgroup=label, visible=True)
            seeds.update(name=label, legendgroup=label)
        low, high = _value_range(axes, means, thin)
        _draw_lines(figure, axes, ends, (low, high), means)
        legend_rows = theme.legend_rows(names, (figure.layout.width or _PAGE_WIDTH) - _MARGINS)
        figure.layout.margin.t = _TOP + _LEGEND_ROW * (legend_rows - 1)
        figure.layout.annotations[0].update(text=axes.title, x=0 if domain is FULL_WIDTH else domain[0])
        figure.layout.xaxis2.update(
            domain=domain,
            type="log" if axes.log else "linear",
            range=[float(np.log10(end)) for end in ends] if axes.log else list(ends),
            tickvals=list(axes.ticks),
            ticktext=list(axes.ticks.values()),
            title_text=axes.x_title,
        )
        figure.layout.yaxis2.update(title_text=axes.y_title, range=[low, high])


def _hover(axes: Axes, further: str = "") -> str:
    """plotly's hover template of a point."""
    words = f"{axes.point}{further}<br>{axes.value}".replace("{", "%{")
    return f"%{{fullData.name}}, {words}%{{customdata}}<extra></extra>"


def _draw_mean(trace: go.Scatter, means: pd.DataFrame, axes: Axes, notes: dict[int, str]) -> None:
    """The mean of one label, with its intervals from `SEEDS` seeds on."""
    decided = means["seeds"] >= SEEDS
    above = (means["high"] - means["mean"]).where(decided).to_numpy()
    below = (means["mean"] - means["low"]).where(decided).to_numpy()
    trace.update(
        x=means.index.to_numpy(float),
        y=means["mean"].to_numpy(),
        error_y={"array": above, "arrayminus": below, "visible": bool(decided.any())},
        customdata=[f"<br>{notes[x]}" if x in notes else "" for x in means.index],
        hovertemplate=_hover(axes),
    )


def _draw_seeds(trace: go.Scatter, rows: pd.DataFrame, axes: Axes) -> None:
    """Every seed of one label in one trace, with a gap between two."""
    seeds = [own for _, own in rows.dropna(subset="value").groupby("seed", sort=False)]
    trace.visible = len(seeds) > 1
    if len(seeds) > 1:
        gap = pd.DataFrame({"x": [np.nan], "value": [np.nan]})
        joined = pd.concat([part for own in seeds for part in (own[["x", "value"]], gap)])
        x, y = joined["x"].to_numpy(float), joined["value"].to_numpy(float)
        trace.update(x=x, y=y, customdata=[""] * len(x), hovertemplate=_hover(axes, ", one seed"))


def draw_training(figure: go.Figure, slots: Sequence[str], losses: pd.DataFrame | None, steps: int) -> None:
    """Draw the loss while training into the left of a figure from `blank`; hide that plot for None.

    Args:
        figure: the figure.
        slots: the label in each slot, "" for none.
        losses: rows of the question "training loss" of one seed, in the order of the steps.
        steps: how many training steps there will be.
    """
    visible, group = losses is not None, math.ceil(steps / MAX_POINTS)
    curves = {}
    for label, own in losses.groupby("label") if losses is not None else ():
        grouped = own.groupby((own["x"] - 1) // group)
        curves[label] = grouped["x"].mean().to_numpy(), grouped["value"].mean().to_numpy()
    with figure.batch_update():
        for trace, label in zip(figure.data[-len(slots) :], slots, strict=True):
            trace.visible = label in curves
            if label in curves:
                trace.update(x=curves[label][0], y=curves[label][1], name=label, legendgroup=label)
        figure.layout.annotations[1].visible = visible
        figure.layout.xaxis.update(
            range=[0, steps], visible=visible, domain=LEFT if visible else HIDDEN, title_text="step"
        )
        unit = losses["unit"].iloc[0] if losses is not None and len(losses) else "bits per byte"
        figure.layout.yaxis.update(title_text=unit, type="log", visible=visible)
        figure.layout.yaxis.update(_loss_axis([bits for _, bits in curves.values()]))


def _loss_axis(curves: Sequence[NDArray[np.float64]]) -> dict[str, Any]:
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


def _draw_lines(
    figure: go.Figure, axes: Axes, ends: tuple[float, float], values: tuple[float, float], means: pd.DataFrame
) -> None:
    """The training length, the marks and the level of chance, with their labels."""
    shade, length, *marks, chance = figure.layout.shapes[: MARKS + 3]
    *labels, chance_label = figure.layout.annotations[2 : MARKS + 3]
    shade.visible = length.visible = axes.length is not None
    length.update(x0=axes.length, x1=axes.length)
    shade.update(x0=axes.length, x1=ends[1])
    inside = [(text, x) for text, x in axes.marks.items() if ends[0] < x < ends[1]]
    for number, (line, label) in enumerate(zip(marks, labels, strict=True)):
        line.visible = label.visible = number < len(inside)
        if number < len(inside):
            text, x = inside[number]
            line.update(x0=x, x1=x)
            label.update(text=text, x=_axis_share(x, ends, axes.log), y=_free_height(axes, values, means, x))
    chance.visible = chance_label.visible = axes.chance is not None
    if axes.chance is not None:
        chance.update(y0=axes.chance, y1=axes.chance)
        left = 0 if axes.length is None else _axis_share(axes.length, ends, axes.log)
        chance_label.update(text=f"chance, {axes.chance:.1%}", y=axes.chance, x=left + 0.006)


def _legend_name(label: str, means: pd.Series) -> str:
    """The label and, if its curve ends early, the last x at which it is defined."""
    defined = means.dropna()
    if len(defined) == len(means):
        return label
    return f"{label} (to {defined.index.max():,} only)" if len(defined) else f"{label} (not defined)"


def _axis_share(x: float, ends: tuple[float, float], log: bool) -> float:
    """Where x is on the axis, from 0 to 1. plotly misplaces data coordinates when an axis switches to log."""
    x, first, last = (float(np.log10(number)) if log else number for number in (x, *ends))
    return (x - first) / (last - first)


def _free_height(axes: Axes, values: tuple[float, float], means: pd.DataFrame, x: float) -> float:
    """A height, 0 to 1, at which no mean crosses the label of a mark at x: near the axis, else in the widest gap."""
    low, high = values
    crossings = [] if axes.chance is None else [axes.chance, axes.chance + _CHANCE_HEIGHT * (high - low)]
    for _, own in means.dropna(subset="mean").groupby(level="label"):
        at = own.droplevel("label").sort_index()["mean"]
        crossings.append(np.interp(np.log(x), np.log(at.index), at, left=np.nan, right=np.nan))
    heights = sorted((height - low) / (high - low) for height in crossings if np.isfinite(height))
    gaps = list(pairwise([0.0, *heights, 1.0]))
    widest = max(gaps, key=lambda gap: gap[1] - gap[0])
    bottom, top = next((gap for gap in gaps if gap[1] - gap[0] > _MARK_HEIGHT), widest)
    return float(bottom + min(top - bottom, _MARK_HEIGHT) / 2)


def _value_range(axes: Axes, means: pd.DataFrame, rows: pd.DataFrame) -> tuple[float, float]:
    """A range that ends at multiples of `axes.step` and includes every point, so that the axis seldom changes."""
    intervals = means.loc[means["seeds"] >= SEEDS, ["low", "high"]].to_numpy().ravel()
    values = np.concatenate([rows["value"].to_numpy(float), intervals])
    values = values[np.isfinite(values)]
    if not len(values):
        return axes.low, axes.high
    scale = 1 / axes.step
    low, high = np.floor(values.min() * scale - 0.2) / scale, np.ceil(values.max() * scale + 0.2) / scale
    return float(min(low, axes.low)), float(max(high, axes.high))
