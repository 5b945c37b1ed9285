"""Curves of at most seven methods from a table of results, and the loss while training.

    mean   thick, with markers, and with bars for its interval from three seeds on
    seeds  thin, one line each, because a mean alone hides how much seeds differ
    lines  gray and labeled: the training length, and losses to compare the curves with

A figure is made once by `blank`, with a trace of each kind for each slot. A method has the color,
dash and marker of its slot, and traces without data are hidden. `draw` fills in the curves and the
loss while training.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from alibi_viz.arguments import as_list, check_instance
from alibi_viz.figures import panels, theme
from alibi_viz.figures.theme import update_changed
from alibi_viz.figures.token_labels import literal
from alibi_viz.figures.yardstick_lines import LABEL_WIDTH, Curve, add_yardsticks, draw_yardsticks
from alibi_viz.measure.table import FEWEST_SEEDS, Axes, check_table, over_seeds

STYLES = tuple(zip(theme.COLORS, theme.DASHES, theme.SYMBOLS, strict=True))
MAX_METHODS = len(STYLES)
MAX_YARDSTICKS = 2
COMMON_METHODS = ("alibi", "sinusoidal", "rotary", "learned", "none")  # always in the same colors

# Shares of the width. They are disjoint, because plotly draws no shapes where plots overlap.
FULL_WIDTH = (0.005, 1.0)
LEFT = (0.0, 0.44)
RIGHT = (0.56, 1.0)
HIDDEN = (0.0, 0.001)
_BETWEEN_STACKED = 84  # pixels from the upper plot to the lower one

# Of a curve of training: averages out the noise of single batches, and keeps updates small
MAX_POINTS = 80
_PADDING = 1.12  # factor between the outermost ticks of a logarithmic axis and its ends
# The axis of the loss while training always includes these bits per byte.
_USUAL_LOSSES = (2.1, 8.5)
# A text like "yyyy" reaches a loss of 0, which has no logarithm.
_LOWEST_LOSS = 0.05

_CODE_FONT = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_SEED_HOVER = "%{fullData.name}, one seed<br>%{y:.3g}<extra></extra>"
_TRAINING_HOVER = "%{fullData.name}, step %{x:.0f}<br>%{y:.2f} bits<extra></extra>"


class SlotTraces(NamedTuple):
    """The three traces of one slot."""

    mean: go.Scatter
    seeds: go.Scatter
    training: go.Scatter


class CurveShapes(NamedTuple):
    """The shapes of the figure, in the order in which `blank` adds them."""

    longer_than_training: go.layout.Shape
    training_length: go.layout.Shape
    chance: go.layout.Shape
    # Of models that only count, beside the curves and beside the loss while training
    first_yardstick: go.layout.Shape
    second_yardstick: go.layout.Shape
    first_yardstick_in_training: go.layout.Shape
    second_yardstick_in_training: go.layout.Shape

    @property
    def yardsticks(self) -> list[go.layout.Shape]:
        """The yardsticks beside the curves."""
        return [self.first_yardstick, self.second_yardstick]

    @property
    def yardsticks_in_training(self) -> list[go.layout.Shape]:
        """The yardsticks beside the loss while training."""
        return [self.first_yardstick_in_training, self.second_yardstick_in_training]


class CurveTitles(NamedTuple):
    """The annotations of the figure, in the order in which `blank` adds them."""

    curves: go.layout.Annotation
    training: go.layout.Annotation


def curve_figure(rows: pd.DataFrame, axes: Axes, fixed: Sequence[str] = ()) -> go.Figure:
    """The curves of the labels in a table as a plain plotly figure.

    Raises ValueError for more than seven labels, and for several rows of a label, seed and x.

    Args:
        rows: a table with the columns label, seed, x and value, such as the rows of one question,
            task and variant.
        axes: such as `lab.find_question(name).axes(length)`.
        fixed: at most seven labels. Each has the same color in all figures with the same `fixed`.

    >>> import pandas as pd
    >>> from alibi_viz import figures, lab
    >>> rows = pd.DataFrame({"label": "alibi", "seed": 0, "x": [64, 128], "value": [0.4, 0.3]})
    >>> figure = figures.curve_figure(rows, lab.find_question("longer sequences").axes(64))
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
    """Choose a slot (color, dash and marker) for each method.

    Methods in `fixed` have their own slots, in this order; others get the rest. Returns the method
    in each slot, "" for none. Raises ValueError for more methods than slots.

    >>> from alibi_viz.figures.curve_plot import assign_slots
    >>> assign_slots(["t5", "rotary"], fixed=["alibi", "rotary"])
    ['', 'rotary', 't5', '', '', '', '']
    """
    fixed = as_list("fixed", fixed, "labels", str)
    count = max(len(methods), len(fixed))
    if count > MAX_METHODS:
        raise ValueError(f"at most {MAX_METHODS} methods can be drawn, got {count}")

    slots = [""] * MAX_METHODS
    for slot, name in enumerate(fixed):
        if name in methods:
            slots[slot] = name

    # Other methods get the slots of no fixed method first, then those of absent fixed methods, from
    # the last one.
    never_fixed = list(range(len(fixed), MAX_METHODS))
    absent = [slot for slot in reversed(range(len(fixed))) if not slots[slot]]
    others = [name for name in methods if name not in fixed]
    for slot, name in zip(never_fixed + absent, others, strict=False):
        slots[slot] = name
    return slots


def blank(height: int) -> go.Figure:
    """The figure without data: the curves on the axes x2 and y2, the training on hidden x and y."""
    figure = theme.blank(
        height=height,
        hovermode="closest",
        margin={"l": 60, "r": 20, "t": 66, "b": 70},
        showlegend=True,
        legend_y=1.1,
    )

    # All means come first, then all seeds, then the training; `traces_by_slot` relies on it.
    for color, dash, symbol in STYLES:
        figure.add_scatter(
            mode="lines+markers",
            line={"color": color, "dash": dash, "width": 2},
            marker={"color": color, "symbol": symbol, "size": 8},
            error_y={"thickness": 1.5, "width": 5},
            showlegend=True,
            cliponaxis=False,
            xaxis="x2",
            yaxis="y2",
        )
    for color in theme.COLORS:
        figure.add_scatter(
            mode="lines",
            line={"color": color, "dash": "solid", "width": 1},
            opacity=0.6,
            hovertemplate=_SEED_HOVER,
            showlegend=False,
            cliponaxis=False,
            xaxis="x2",
            yaxis="y2",
        )
    for color, dash, _ in STYLES:
        figure.add_scatter(
            mode="lines",
            line={"color": color, "dash": dash, "width": 2},
            hovertemplate=_TRAINING_HOVER,
            showlegend=False,
        )
    figure.update_traces(visible=False)

    # The order is that of `CurveShapes`.
    whole_height = {"xref": "x2", "yref": "y2 domain", "y0": 0, "y1": 1, "layer": "below"}
    figure.add_shape(type="rect", fillcolor=theme.SHADE, line_width=0, **whole_height)
    figure.add_shape(type="line", line=theme.DOTTED, **whole_height)
    figure.add_shape(
        type="line",
        line=theme.DOTTED,
        xref="x2",
        yref="y2",
        layer="below",
        label={"textposition": "start", "yanchor": "bottom", "font_size": 11},
    )
    add_yardsticks(figure, MAX_YARDSTICKS, "x2", "y2")
    add_yardsticks(figure, MAX_YARDSTICKS, "x", "y")

    # The order is that of `CurveTitles`.
    for text, x, y in (("", "x2", "y2"), ("Loss while training", "x", "y")):
        figure.add_annotation(
            theme.TITLE,
            text=text,
            xref=f"{x} domain",
            yref=f"{y} domain",
            yshift=4,
            font_size=13,
        )

    figure.update_layout(
        xaxis={"domain": HIDDEN, "visible": False},
        yaxis={"type": "log", "visible": False, "dtick": float(np.log10(2))},
        xaxis2={"anchor": "y2", "title": {"standoff": 14}},
        yaxis2={"anchor": "x2"},
    )
    return figure


def arrange(
    figure: go.Figure, height: int, *, compact: bool = False, stacked: bool = False
) -> None:
    """Arrange a figure of methods from `blank` for a height.

    A compact one has its legend beside its title. In a stacked one, the curves are below the loss
    while training. The names in the legend are those in code.
    """
    margin = {"l": 60, "r": 20, "t": 66, "b": 70}
    legend = {"x": 0, "xanchor": "left", "y": 1.1}
    if compact:
        margin = {"l": 60, "r": 20, "t": 26, "b": 40}
        legend = {"x": 1, "xanchor": "right", "y": 1.0}
    update_changed(figure.layout, height=height)
    update_changed(figure.layout.margin, **margin)
    update_changed(figure.layout.legend, **legend)
    update_changed(figure.layout.legend.font, family=_CODE_FONT)
    upper = (0.0, 1.0)
    lower = (0.0, 1.0)
    if stacked:
        upper, lower = panels.stacked_domains(figure, height=height, between=_BETWEEN_STACKED)
    update_changed(figure.layout.yaxis, domain=upper)
    update_changed(figure.layout.yaxis2, domain=lower)


def traces_by_slot(figure: go.Figure) -> list[SlotTraces]:
    """The traces of each slot of a figure from `blank`."""
    means = figure.data[:MAX_METHODS]
    seeds = figure.data[MAX_METHODS : 2 * MAX_METHODS]
    training = figure.data[2 * MAX_METHODS : 3 * MAX_METHODS]
    return [SlotTraces(*traces) for traces in zip(means, seeds, training, strict=True)]


def draw(
    figure: go.Figure,
    slots: Sequence[str],
    axes: Axes,
    rows: pd.DataFrame,
    *,
    training: pd.DataFrame | None = None,
    steps: int = 1,
    stacked: bool = False,
) -> None:
    """Draw curves into a figure from `blank`, plain or live.

    A label in a slot is listed in the legend even without rows; labels without a slot are left out.

    Args:
        figure: from `blank`.
        slots: the label in each slot, from `assign_slots`.
        axes: such as `lab.find_question(name).axes(length)`.
        rows: a table with the columns label, seed, x and value.
        training: rows of the "training loss" of one seed, in order, to draw on the left; None for
            the curves alone.
        steps: how many steps the training takes.
        stacked: whether the loss while training is above the curves, instead of on their left.
    """
    means = over_seeds(rows, limits=axes.limits).reset_index("x")
    first_tick = min(axes.ticks)
    last_tick = max(axes.ticks)
    x_ends = (first_tick / _PADDING, last_tick * _PADDING) if axes.log else (0, last_tick)
    plot_width = FULL_WIDTH if training is None or stacked else RIGHT
    value_range = _value_range(axes, means, rows["value"])

    with figure.batch_update():
        for label, traces in zip(slots, traces_by_slot(figure), strict=True):
            if label:
                _draw_mean(traces.mean, label, means[means.index == label], axes)
                _draw_seeds(traces.seeds, label, rows[rows["label"] == label])
            else:
                traces.mean.visible = False
                traces.seeds.visible = False
        _draw_lines(figure, axes, x_ends)
        draw_yardsticks(
            CurveShapes(*figure.layout.shapes).yardsticks,
            axes.yardsticks,
            value_range,
            curves=_drawn_curves(axes, x_ends, means),
            label_width=LABEL_WIDTH / (plot_width[1] - plot_width[0]),
        )
        _draw_training(
            figure,
            slots,
            training,
            steps,
            axes.yardsticks,
            width=FULL_WIDTH if stacked else LEFT,
        )
        CurveTitles(*figure.layout.annotations[:2]).curves.text = axes.title
        update_changed(
            figure.layout.xaxis2,
            domain=plot_width,
            type="log" if axes.log else "linear",
            range=np.log10(x_ends).tolist() if axes.log else x_ends,
            tickvals=list(axes.ticks),
            ticktext=list(axes.ticks.values()),
            title_text=axes.x_title,
        )
        update_changed(figure.layout.yaxis2, title_text=axes.unit, range=value_range)


def _draw_mean(trace: go.Scatter, label: str, means: pd.DataFrame, axes: Axes) -> None:
    """Draw the mean of one label, with its intervals from `FEWEST_SEEDS` seeds on.

    The name in the legend says if the curve ends early.
    """
    points = means.dropna(subset="mean").set_index("x")
    name = literal(label)
    if points.empty and len(means):
        name += " (not defined)"
    elif len(points) < len(means):
        name += f" (to {max(points.index):,} only)"
    if points.empty:
        # plotly leaves a trace without points out of the legend.
        points = points.reindex([min(axes.ticks)])

    bars = points.where(points["seeds"] >= FEWEST_SEEDS)
    unit = "" if "%" in axes.number else f" {axes.unit}"  # a percentage has its sign
    point = f"{axes.point}<br>{{y:{axes.number}}}{unit}".replace("{", "%{")
    update_changed(
        trace,
        x=points.index.to_numpy(float),
        y=points["mean"].to_numpy(),
        error_y={
            "array": (bars["high"] - bars["mean"]).to_numpy(),
            "arrayminus": (bars["mean"] - bars["low"]).to_numpy(),
            "visible": bool(bars["seeds"].any()),
        },
        name=name,
        legendgroup=label,
        hovertemplate=f"%{{fullData.name}}, {point}<extra></extra>",
        visible=True,
    )


def _draw_seeds(trace: go.Scatter, label: str, rows: pd.DataFrame) -> None:
    """Draw every seed of one label in one trace, with a gap after each; hidden for a single
    seed."""
    gap = np.array([[np.nan, np.nan]])
    curves = []
    for _, seed_rows in rows.dropna(subset="value").groupby("seed", sort=False):
        curves.append(seed_rows[["x", "value"]])
        curves.append(gap)

    has_several_seeds = len(curves) > 2  # a seed is a curve and its gap
    trace.visible = has_several_seeds
    if has_several_seeds:
        x, y = np.vstack(curves).T
        update_changed(trace, x=x, y=y, name=literal(label), legendgroup=label)


def _draw_training(
    figure: go.Figure,
    slots: Sequence[str],
    losses: pd.DataFrame | None,
    steps: int,
    yardsticks: Mapping[str, float],
    *,
    width: tuple[float, float],
) -> None:
    """Draw the loss while training, averaged in groups of steps; hidden for None."""
    visible = losses is not None
    unit = "bits per byte"
    curves = {}
    if losses is not None and len(losses):
        unit = losses["unit"].iloc[0]
        curves = dict(list(losses.groupby("label")))

    group_size = math.ceil(steps / MAX_POINTS)
    included = list(_USUAL_LOSSES)
    for label, traces in zip(slots, traces_by_slot(figure), strict=True):
        trace = traces.training
        trace.visible = label in curves
        if label not in curves:
            continue
        curve = curves[label][["x", "value"]]
        group = (curve["x"] - 1) // group_size  # steps count from 1
        x, y = curve.groupby(group).mean().to_numpy().T
        update_changed(trace, x=x, y=y, name=literal(label), legendgroup=label)
        included += y.clip(_LOWEST_LOSS).tolist()

    value_range = (0.97 * min(included), 1.03 * max(included))
    draw_yardsticks(
        CurveShapes(*figure.layout.shapes).yardsticks_in_training,
        yardsticks if visible else {},
        value_range,
        places=["end"],  # where the loss has fallen below them
    )
    CurveTitles(*figure.layout.annotations[:2]).training.visible = visible
    update_changed(
        figure.layout.xaxis,
        domain=width if visible else HIDDEN,
        range=[0, steps],
        visible=visible,
        title_text="step",
    )
    update_changed(
        figure.layout.yaxis,
        range=np.log10(value_range).tolist(),
        visible=visible,
        title_text=unit,
    )


def _draw_lines(figure: go.Figure, axes: Axes, x_ends: tuple[float, float]) -> None:
    """Mark the training length, with everything beyond it shaded, and the level of chance."""
    left, right = x_ends
    shapes = CurveShapes(*figure.layout.shapes)

    # Without a training length, hidden shapes keep valid places.
    has_length = axes.length is not None
    length = axes.length if axes.length is not None else left
    update_changed(shapes.longer_than_training, x0=length, x1=right, visible=has_length)
    update_changed(shapes.training_length, x0=length, x1=length, visible=has_length)

    has_chance = axes.chance is not None
    chance = axes.chance if axes.chance is not None else 0
    update_changed(shapes.chance, x0=length, x1=right, y0=chance, y1=chance, visible=has_chance)
    shapes.chance.label.text = f" chance, {chance:.1%}"


def _drawn_curves(axes: Axes, x_ends: tuple[float, float], means: pd.DataFrame) -> list[Curve]:
    """The means of the labels, as they run through the plot."""
    scale = np.log if axes.log else np.asarray
    left, right = scale(np.array(x_ends, dtype=float))
    curves = []
    for _, curve in means.dropna(subset="mean").groupby(level="label"):
        points = curve.sort_values("x")
        x = scale(points["x"].to_numpy(float))
        curves.append(Curve((x - left) / (right - left), points["mean"].to_numpy(float)))
    return curves


def _value_range(
    axes: Axes, means: pd.DataFrame, values: pd.Series
) -> tuple[float | None, float | None]:
    """A range that includes every point and interval.

    It ends at multiples of `axes.step`, so that the axis seldom changes. plotly chooses an end that
    is None.
    """
    with_interval = means[means["seeds"] >= FEWEST_SEEDS]
    included = pd.concat([values, with_interval["low"], with_interval["high"]]).dropna()
    if included.empty:
        return axes.low, axes.high
    if axes.is_steady and included.between(axes.low, axes.high).all():
        return axes.low, axes.high
    steps = 1 / axes.step
    low = float(np.floor(included.min() * steps - 0.2) / steps)
    high = float(np.ceil(included.max() * steps + 0.2) / steps)
    if axes.low is not None:
        low = min(low, axes.low)
    if axes.high is not None:
        high = max(high, axes.high)
    return low, high
