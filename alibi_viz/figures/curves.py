"""Curves of at most seven methods from a table of results, on annotated axes; beside them, the loss while training.

    mean   thick, with markers, and with bars for its interval from three seeds on
    seeds  thin, one line each, because a mean alone hides how much seeds differ

A figure is made once by `blank`, with a trace of each kind for each slot. A method has the color, dash and marker of
its slot, and traces without data are hidden. `draw` fills in the curves, `draw_training` the loss while training.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.figures import theme
from alibi_viz.table import SEEDS, Axes, over_seeds

STYLES = tuple(zip(theme.COLORS, theme.DASHES, theme.SYMBOLS, strict=True))
MAX_METHODS = len(STYLES)
# Shares of the width. They are disjoint, because plotly draws no shapes where plots overlap.
FULL_WIDTH, RIGHT, LEFT, HIDDEN = (0.005, 1.0), (0.56, 1.0), (0.0, 0.44), (0.0, 0.001)
_MARKS = ("4px, 3px", "10px, 3px, 2px, 3px")  # the dashes of the marks
MAX_POINTS = 80  # of a curve of training: averages out the noise of single batches, and keeps updates small
_PADDING = 1.12  # factor between the outermost ticks of a logarithmic axis and its ends
_TICKS = (0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6, 8, 12, 20, 50, 100, 200)


def curve_figure(rows: pd.DataFrame, axes: Axes, fixed: Sequence[str] = ()) -> go.Figure:
    """The curves of the labels in a table as a plain plotly figure. Raises ValueError for more than seven labels.

    Args:
        rows: a table with the columns label, seed, x and value, such as the rows of one question.
        axes: such as `lab.find_question(name).axes(length)`.
        fixed: at most seven labels. Each has the same color in all figures with the same `fixed`.

    >>> rows = pd.DataFrame({"label": "alibi", "seed": 0, "x": [64, 128], "value": [0.4, 0.3]})
    >>> figure = curve_figure(rows, lab.find_question("longer windows").axes(64))
    >>> [trace.name for trace in figure.data if trace.visible]
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


def blank(height: int, left_title: str = "") -> go.Figure:
    """A figure with empty curves on the axes x2 and y2, one slot per style. The axes x and y, on the left, are hidden.

    Its first traces are the means of all slots, then the seeds, then the losses while training.
    """
    figure = theme.blank(height, hovermode="closest", margin={"l": 60, "r": 20, "t": 66, "b": 70})
    right = {"xaxis": "x2", "yaxis": "y2", "cliponaxis": False, "visible": False}
    lines = [{"color": color, "dash": dash, "width": 2} for color, dash, _ in STYLES]
    for line, (color, _, symbol) in zip(lines, STYLES, strict=True):
        marker, bars = {"color": color, "symbol": symbol, "size": 8}, {"thickness": 1.5, "width": 5}
        means = {"line": line, "marker": marker, "error_y": bars, "showlegend": True}
        figure.add_scatter(mode="lines+markers", **means, **right)
    for color in theme.COLORS:
        figure.add_scatter(mode="lines", line={"color": color, "width": 1}, opacity=0.6, showlegend=False, **right)
    hover = "%{fullData.name}, step %{x:.0f}<br>%{y:.2f} bits<extra></extra>"
    for line in lines:
        figure.add_scatter(mode="lines", line=line, hovertemplate=hover, showlegend=False, visible=False)
    span = {"xref": "x2", "yref": "y2 domain", "y0": 0, "y1": 1, "layer": "below"}
    figure.add_shape(type="rect", fillcolor=theme.SHADE, line_width=0, **span)
    figure.add_shape(type="line", line=theme.DOTTED, **span)
    for dash in _MARKS:
        line = {"color": theme.COLORS[0], "width": 1, "dash": dash}
        figure.add_shape(type="line", line=line, showlegend=True, legendrank=2000, **span)
    label = {"textposition": "start", "yanchor": "bottom", "font_size": 11}
    figure.add_shape(type="line", line=theme.DOTTED, xref="x2", yref="y2", layer="below", label=label)
    place = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "bottom"}
    for text in ("", left_title):
        figure.add_annotation(place, text=text, showarrow=False, yshift=4, font_size=13)
    return figure.update_layout(
        showlegend=True,
        legend_y=1.1,
        xaxis={"domain": HIDDEN, "visible": False},
        yaxis={"type": "log", "visible": False},
        xaxis2={"anchor": "y2", "title": {"standoff": 14}},
        yaxis2={"anchor": "x2"},
    )


def draw(
    figure: go.Figure,
    slots: Sequence[str],
    axes: Axes,
    rows: pd.DataFrame,
    *,
    unfinished: pd.DataFrame | None = None,
    notes: Mapping[str, Mapping[int, str]] | None = None,
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
    means = over_seeds(rows if len(rows) else thin, limits=axes.limits).reset_index("x")
    first, last = min(axes.ticks), max(axes.ticks)
    ends = (first / _PADDING, last * _PADDING) if axes.log else (0, last)
    with figure.batch_update():
        for slot, label in enumerate(slots):
            mean, seeds = figure.data[slot], figure.data[len(slots) + slot]
            mean.visible = bool(label)
            _draw_mean(mean, label, means[means.index == label], axes, (notes or {}).get(label, {}))
            _draw_seeds(seeds, label, thin[thin["label"] == label], axes)
        _draw_lines(figure, axes, ends)
        figure.layout.annotations[0].update(text=axes.title, x=0 if domain is FULL_WIDTH else domain[0])
        figure.layout.xaxis2.update(
            domain=domain,
            type="log" if axes.log else "linear",
            range=np.log10(ends).tolist() if axes.log else ends,
            tickvals=list(axes.ticks),
            ticktext=list(axes.ticks.values()),
            title_text=axes.x_title,
        )
        figure.layout.yaxis2.update(title_text=axes.unit, range=_value_range(axes, means, thin["value"]))


def _hover(axes: Axes, further: str = "") -> str:
    """plotly's hover template of a point."""
    words = f"{axes.point}{further}<br>{axes.value}".replace("{", "%{")
    return f"%{{fullData.name}}, {words}%{{customdata}}<extra></extra>"


def _draw_mean(trace: go.Scatter, label: str, means: pd.DataFrame, axes: Axes, notes: Mapping[int, str]) -> None:
    """The mean of one label, with its intervals from `SEEDS` seeds on. Its name says if the curve ends early."""
    points = means.dropna(subset="mean").set_index("x")
    name = label
    if len(points) < len(means):
        name += f" (to {points.index.max():,} only)" if len(points) else " (not defined)"
    if points.empty:  # plotly leaves a trace without points out of the legend
        points = points.reindex([min(axes.ticks)])
    decided = points["seeds"] >= SEEDS
    above = (points["high"] - points["mean"]).where(decided).to_numpy()
    below = (points["mean"] - points["low"]).where(decided).to_numpy()
    trace.update(
        name=name,
        legendgroup=label,
        x=points.index.to_numpy(float),
        y=points["mean"].to_numpy(),
        error_y={"array": above, "arrayminus": below, "visible": bool(decided.any())},
        customdata=[f"<br>{notes[x]}" if x in notes else "" for x in points.index],
        hovertemplate=_hover(axes),
    )


def _draw_seeds(trace: go.Scatter, label: str, rows: pd.DataFrame, axes: Axes) -> None:
    """Every seed of one label in one trace, with a gap after each."""
    seeds = [own[["x", "value"]] for _, own in rows.dropna(subset="value").groupby("seed", sort=False)]
    trace.visible = len(seeds) > 1
    if len(seeds) > 1:
        x, y = np.vstack([part for own in seeds for part in (own, [[np.nan, np.nan]])]).T
        texts = {"customdata": [""] * len(x), "hovertemplate": _hover(axes, ", one seed")}
        trace.update(x=x, y=y, name=label, legendgroup=label, **texts)


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
        curves[label] = own[["x", "value"]].groupby((own["x"] - 1) // group).mean().to_numpy().T
    unit = losses["unit"].iloc[0] if losses is not None and len(losses) else "bits per byte"
    with figure.batch_update():
        for trace, label in zip(figure.data[-len(slots) :], slots, strict=True):
            trace.visible = label in curves
            if label in curves:
                trace.update(x=curves[label][0], y=curves[label][1], name=label, legendgroup=label)
        figure.layout.annotations[1].visible = visible
        domain = LEFT if visible else HIDDEN
        figure.layout.xaxis.update(range=[0, steps], visible=visible, domain=domain, title_text="step")
        figure.layout.yaxis.update(title_text=unit, visible=visible, **_loss_axis([y for _, y in curves.values()]))


def _loss_axis(curves: Sequence[NDArray[np.float64]]) -> dict[str, Any]:
    """An axis that includes every point and ends at quarters of an octave, so that it seldom changes."""
    points = np.concatenate([np.array([2.1, 8.5]), *curves])
    octaves = np.log2(points.clip(0.05)) * 4  # a text like "yyyy" reaches a loss of 0, which has no logarithm
    low, high = 2 ** (np.floor(octaves.min()) / 4), 2 ** (np.ceil(octaves.max()) / 4)
    decades = 10.0 ** np.arange(-1, 40, 1 if high < 1e6 * low else 3)
    ticks = _TICKS if high < 20 * low else decades.tolist()
    return {"range": [math.log10(low), math.log10(high)], "tickvals": ticks, "ticktext": [f"{at:g}" for at in ticks]}


def _draw_lines(figure: go.Figure, axes: Axes, ends: tuple[float, float]) -> None:
    """The training length, the level of chance with its label, and the marks, which are named in the legend."""
    shade, length, *marks, chance = figure.layout.shapes
    start = ends[0] if axes.length is None else axes.length
    shade.update(x0=start, x1=ends[1], visible=axes.length is not None)
    length.update(x0=start, x1=start, visible=axes.length is not None)
    inside = [(name, x) for name, x in axes.marks.items() if ends[0] < x < ends[1]]
    for line, (name, x) in zip(marks, [*inside, ("", start), ("", start)], strict=False):
        line.update(x0=x, x1=x, name=name, visible=bool(name))
    level = axes.chance or 0
    chance.update(x0=start, x1=ends[1], y0=level, y1=level, visible=axes.chance is not None)
    chance.label.text = f" chance, {level:.1%}"


def _value_range(axes: Axes, means: pd.DataFrame, values: pd.Series) -> tuple[float, float]:
    """A range that ends at multiples of `axes.step` and includes every point, so that the axis seldom changes."""
    ends = np.append(means.loc[means["seeds"] >= SEEDS, ["low", "high"]], values)
    ends = ends[np.isfinite(ends)]
    if not len(ends):
        return axes.low, axes.high
    steps = 1 / axes.step
    low, high = np.floor(ends.min() * steps - 0.2) / steps, np.ceil(ends.max() * steps + 0.2) / steps
    return float(min(low, axes.low)), float(max(high, axes.high))
