"""Curves of at most seven methods from a table of results, on annotated axes; beside them, the loss
while training.

    mean   thick, with markers, and with bars for its interval from three seeds on
    seeds  thin, one line each, because a mean alone hides how much seeds differ

A figure is made once by `blank`, with a trace of each kind for each slot. A method has the color,
dash and marker of its slot, and traces without data are hidden. `draw` fills in the curves and the
loss while training.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from alibi_viz.arguments import as_list, check_instance
from alibi_viz.figures import theme
from alibi_viz.figures.token_labels import literal
from alibi_viz.measure.table import SEEDS, Axes, check_table, over_seeds

STYLES = tuple(zip(theme.COLORS, theme.DASHES, theme.SYMBOLS, strict=True))
MAX_METHODS = len(STYLES)
COMMON_METHODS = ("alibi", "sinusoidal", "rotary", "learned", "none")  # always in the same colors
# Shares of the width. They are disjoint, because plotly draws no shapes where plots overlap.
FULL_WIDTH, RIGHT, LEFT, HIDDEN = (0.005, 1.0), (0.56, 1.0), (0.0, 0.44), (0.0, 0.001)
MAX_POINTS = (
    80  # of a curve of training: averages out the noise of single batches, and keeps updates small
)
_PADDING = 1.12  # factor between the outermost ticks of a logarithmic axis and its ends
_LOSSES = (2.1, 8.5)  # bits per byte that the axis of the loss while training includes at least


def curve_figure(rows: pd.DataFrame, axes: Axes, fixed: Sequence[str] = ()) -> go.Figure:
    """The curves of the labels in a table as a plain plotly figure.

    Raises ValueError for more than seven labels, and for several rows of a label, seed and x.

    Args:
        rows: a table with the columns label, seed, x and value, such as the rows of one question,
            task and variant.
        axes: such as `lab.find_question(name).axes(length)`.
        fixed: at most seven labels. Each has the same color in all figures with the same `fixed`.

    >>> rows = pd.DataFrame({"label": "alibi", "seed": 0, "x": [64, 128], "value": [0.4, 0.3]})
    >>> figure = curve_figure(rows, lab.find_question("longer sequences").axes(64))
    >>> [trace.name for trace in figure.data if trace.visible]
    ['alibi']
    """
    check_instance("axes", axes, Axes)
    check_table("rows", rows, ("label", "seed", "x", "value"))
    if rows.duplicated(["label", "seed", "x"]).any():
        raise ValueError(
            "rows must have one value for a label, seed and x: choose a question, a task and a "
            "variant"
        )
    figure = blank(430)
    draw(figure, assign_slots(list(rows["label"].unique()), fixed), axes, rows)
    return figure


def assign_slots(methods: Sequence[str], fixed: Sequence[str] = ()) -> list[str]:
    """Choose a slot (color, dash and marker) for each method: `fixed` methods have their own,
    others get the rest.

    Returns the method in each slot, "" for none. Raises ValueError for more methods than slots.

    >>> assign_slots(["t5", "rotary"], fixed=["alibi", "rotary"])
    ['', 'rotary', 't5', '', '', '', '']
    """
    fixed = as_list("fixed", fixed, "labels", str)
    if (count := max(len(methods), len(fixed))) > MAX_METHODS:
        raise ValueError(f"at most {MAX_METHODS} methods can be drawn, got {count}")
    slots = [name if name in methods else "" for name in fixed] + [""] * (MAX_METHODS - len(fixed))
    free = [
        *range(len(fixed), MAX_METHODS),
        *(slot for slot in reversed(range(len(fixed))) if not slots[slot]),
    ]
    others = [name for name in methods if name not in fixed]
    for slot, name in zip(free, others, strict=False):
        slots[slot] = name
    return slots


def blank(height: int) -> go.Figure:
    """A figure with empty means of all slots, then seeds, on the axes x2 and y2; then losses on the
    hidden x and y."""
    figure = theme.blank(
        height=height, hovermode="closest", margin={"l": 60, "r": 20, "t": 66, "b": 70}
    )
    right = {"xaxis": "x2", "yaxis": "y2", "cliponaxis": False}
    bars, seed = (
        {"thickness": 1.5, "width": 5},
        "%{fullData.name}, one seed<br>%{y:.3g}<extra></extra>",
    )
    step = "%{fullData.name}, step %{x:.0f}<br>%{y:.2f} bits<extra></extra>"
    for color, dash, symbol in STYLES:
        line, marker = (
            {"color": color, "dash": dash, "width": 2},
            {"color": color, "symbol": symbol, "size": 8},
        )
        figure.add_scatter(
            mode="lines+markers", line=line, marker=marker, error_y=bars, showlegend=True, **right
        )
    for color in theme.COLORS:
        thin = {"color": color, "dash": "solid", "width": 1}
        figure.add_scatter(
            mode="lines", line=thin, opacity=0.6, hovertemplate=seed, showlegend=False, **right
        )
    for mean in figure.data[:MAX_METHODS]:
        figure.add_scatter(mode="lines", line=mean.line, hovertemplate=step, showlegend=False)
    figure.update_traces(visible=False)
    span = {"xref": "x2", "yref": "y2 domain", "y0": 0, "y1": 1, "layer": "below"}
    figure.add_shape(type="rect", fillcolor=theme.SHADE, line_width=0, **span)
    figure.add_shape(type="line", line=theme.DOTTED, **span)
    label = {"textposition": "start", "yanchor": "bottom", "font_size": 11}
    figure.add_shape(
        type="line", line=theme.DOTTED, xref="x2", yref="y2", layer="below", label=label
    )
    place = {
        "xref": "paper",
        "x": 0,
        "xanchor": "left",
        "yref": "paper",
        "y": 1,
        "yanchor": "bottom",
    }
    for text in ("", "Loss while training"):
        figure.add_annotation(place, text=text, showarrow=False, yshift=4, font_size=13)
    x, y = (
        {"domain": HIDDEN, "visible": False},
        {"type": "log", "visible": False, "dtick": float(np.log10(2))},
    )
    figure.update_layout(showlegend=True, legend_y=1.1, xaxis=x, yaxis=y, yaxis2={"anchor": "x2"})
    return figure.update_layout(xaxis2={"anchor": "y2", "title": {"standoff": 14}})


def draw(
    figure: go.Figure,
    slots: Sequence[str],
    axes: Axes,
    rows: pd.DataFrame,
    *,
    training: pd.DataFrame | None = None,
    steps: int = 1,
) -> None:
    """Draw curves into a figure from `blank`, plain or live, from rows with the columns label,
    seed, x and value.

    A label in a slot is listed in the legend even without rows; labels without a slot are left out.
    `training` are rows of the "training loss" of one seed of so many `steps`, in order, to draw on
    the left; None for the curves alone.
    """
    means = over_seeds(rows, limits=axes.limits).reset_index("x")
    first, last = min(axes.ticks), max(axes.ticks)
    ends = (first / _PADDING, last * _PADDING) if axes.log else (0, last)
    domain, scale = (FULL_WIDTH if training is None else RIGHT), ("log" if axes.log else "linear")
    with figure.batch_update():
        for slot, label in enumerate(slots):
            mean, seeds = figure.data[slot], figure.data[len(slots) + slot]
            mean.visible = bool(label)
            if not label:
                seeds.visible = False
            else:
                _draw_mean(mean, label, means[means.index == label], axes)
                _draw_seeds(seeds, label, rows[rows["label"] == label])
        _draw_lines(figure, axes, ends)
        _draw_training(figure, slots, training, steps)
        figure.layout.annotations[0].update(text=axes.title, x=0 if training is None else RIGHT[0])
        figure.layout.xaxis2.update(
            domain=domain, type=scale, range=np.log10(ends).tolist() if axes.log else ends
        )
        ticks = {"tickvals": list(axes.ticks), "ticktext": list(axes.ticks.values())}
        figure.layout.xaxis2.update(**ticks, title_text=axes.x_title)
        figure.layout.yaxis2.update(
            title_text=axes.unit, range=_value_range(axes, means, rows["value"])
        )


def _draw_mean(trace: go.Scatter, label: str, means: pd.DataFrame, axes: Axes) -> None:
    """The mean of one label, with its intervals from `SEEDS` seeds on. Its name says if the curve
    ends early."""
    points = means.dropna(subset="mean").set_index("x")
    end = f" (to {max(points.index):,} only)" if len(points) else " (not defined)"
    name = literal(label) + end * (len(points) < len(means))
    if points.empty:  # plotly leaves a trace without points out of the legend
        points = points.reindex([min(axes.ticks)])
    bars = points.where(points["seeds"] >= SEEDS)
    above, below = (bars["high"] - bars["mean"]).to_numpy(), (bars["mean"] - bars["low"]).to_numpy()
    error_y = {"array": above, "arrayminus": below, "visible": bool(bars["seeds"].any())}
    unit = "" if "%" in axes.number else f" {axes.unit}"
    words = f"{axes.point}<br>{{y:{axes.number}}}{unit}".replace("{", "%{")
    trace.update(
        x=points.index.to_numpy(float), y=points["mean"].to_numpy(), name=name, legendgroup=label
    )
    trace.update(error_y=error_y, hovertemplate=f"%{{fullData.name}}, {words}<extra></extra>")


def _draw_seeds(trace: go.Scatter, label: str, rows: pd.DataFrame) -> None:
    """Every seed of one label in one trace, with a gap after each."""
    seeds = [
        own[["x", "value"]] for _, own in rows.dropna(subset="value").groupby("seed", sort=False)
    ]
    trace.visible = len(seeds) > 1
    if len(seeds) > 1:
        x, y = np.vstack([part for own in seeds for part in (own, [[np.nan, np.nan]])]).T
        trace.update(x=x, y=y, name=literal(label), legendgroup=label)


def _draw_training(
    figure: go.Figure, slots: Sequence[str], losses: pd.DataFrame | None, steps: int
) -> None:
    """The loss while training, averaged in groups of steps; hidden for None."""
    visible, group, points = losses is not None, math.ceil(steps / MAX_POINTS), list(_LOSSES)
    curves = {} if losses is None else dict(list(losses.groupby("label")))
    for trace, label in zip(figure.data[-len(slots) :], slots, strict=True):
        trace.visible = label in curves
        if label in curves:
            own = curves[label][["x", "value"]]
            x, y = own.groupby((own["x"] - 1) // group).mean().to_numpy().T
            trace.update(x=x, y=y, name=literal(label), legendgroup=label)
            points += y.clip(
                0.05
            ).tolist()  # a text like "yyyy" reaches a loss of 0, which has no logarithm
    unit = losses["unit"].iloc[0] if losses is not None and len(losses) else "bits per byte"
    domain, ends = (
        LEFT if visible else HIDDEN,
        np.log10([0.97 * min(points), 1.03 * max(points)]).tolist(),
    )
    figure.layout.annotations[1].visible = visible
    figure.layout.xaxis.update(range=[0, steps], visible=visible, domain=domain, title_text="step")
    figure.layout.yaxis.update(range=ends, visible=visible, title_text=unit)


def _draw_lines(figure: go.Figure, axes: Axes, ends: tuple[float, float]) -> None:
    """The training length, with everything beyond it shaded, and the level of chance with its
    label."""
    shade, length, chance = figure.layout.shapes
    start, level = axes.length or ends[0], axes.chance or 0
    shade.update(x0=start, x1=ends[1], visible=axes.length is not None)
    length.update(x0=start, x1=start, visible=axes.length is not None)
    chance.update(x0=start, x1=ends[1], y0=level, y1=level, visible=axes.chance is not None)
    chance.label.text = f" chance, {level:.1%}"


def _value_range(axes: Axes, means: pd.DataFrame, values: pd.Series) -> tuple[float, float]:
    """A range that ends at multiples of `axes.step` and includes every point, so that the axis
    seldom changes."""
    ends = pd.concat(
        [values, *(means.loc[means["seeds"] >= SEEDS, name] for name in ("low", "high"))]
    ).dropna()
    if ends.empty:
        return axes.low, axes.high
    steps = 1 / axes.step
    low, high = (
        np.floor(ends.min() * steps - 0.2) / steps,
        np.ceil(ends.max() * steps + 0.2) / steps,
    )
    return float(min(low, axes.low)), float(max(high, axes.high))
