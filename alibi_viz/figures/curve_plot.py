"""Curves of at most seven methods from a table of results.

    mean   thick, with markers, and with bars for its interval from three seeds on
    seeds  thin, one line each, because a mean alone hides how much seeds differ
    lines  gray and labeled: the training length, and losses to compare the curves with

Where some curves rise far above others, several of those lie on one line. A close-up on the right
draws them on an axis of their own:

    curves   names of the curves   close-up
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from alibi_viz.arguments import as_list, check_instance
from alibi_viz.figures import panels, theme
from alibi_viz.figures.curve_labels import NAMES_WIDTH, lowest_curves, name_notes
from alibi_viz.figures.theme import Picture
from alibi_viz.figures.token_labels import literal
from alibi_viz.figures.yardstick_lines import LABEL_WIDTH, yardstick_lines
from alibi_viz.formatting import in_prose
from alibi_viz.measure.table import FEWEST_SEEDS, Axes, check_table, over_seeds

Style = tuple[str, str, str]  # color, dash and symbol
STYLES: tuple[Style, ...] = tuple(zip(theme.COLORS, theme.DASHES, theme.SYMBOLS, strict=True))
MAX_METHODS = len(STYLES)
# Always in the same colors
COMMON_METHODS = ("alibi", "sinusoidal", "rotary", "learned", "none", "kerple-log")

# Shares of the width. Plots are disjoint, because plotly draws no shapes where plots overlap.
_CLOSE_UP_WIDTH = 0.27
_CLOSE_UP_AXIS = 62  # pixels for the numbers of the close-up

_PADDING = 1.12  # factor between the outermost ticks of a logarithmic axis and its ends


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
    >>> [trace.name for trace in figure.data]
    ['ALiBi']
    """
    check_instance("axes", axes, Axes)
    check_table("rows", rows, ("label", "seed", "x", "value"))
    if rows.duplicated(["label", "seed", "x"]).any():
        raise ValueError(
            "rows must have one value for a label, seed and x: choose a question, a task and a "
            "variant"
        )
    slots = assign_slots(list(rows["label"].unique()), fixed)
    return theme.figure(curve_picture(slots, axes, rows))


def curve_picture(
    slots: Sequence[str],
    axes: Axes,
    rows: pd.DataFrame,
    *,
    names: bool = False,
    compact: bool = False,
    height: int = 430,
    page_width: int = 880,
) -> Picture:
    """The curves of the labels in slots.

    A label in a slot is listed in the legend even without rows; labels without a slot are left out.

    Args:
        slots: the label in each slot, from `assign_slots`, whose color, dash and marker it has.
        axes: such as `lab.find_question(name).axes(length)`.
        rows: a table with the columns label, seed, x and value.
        names: whether the names of the curves stand at their ends, and the lowest ones have a
            close-up. On a narrow page there is a legend instead.
        compact: whether the legend is beside the title and the horizontal
            axis has no title.
        height: of the figure, in pixels.
        page_width: pixels available for the figure.
    """
    styles = {label: style for label, style in zip(slots, STYLES, strict=True) if label}
    means = over_seeds(rows, limits=axes.limits).reset_index("x")
    curves = means.dropna(subset="mean").set_index("x", append=True)["mean"]
    curves = curves.unstack("label", sort=False).sort_index()
    value_range = _value_range(axes, means, rows["value"])
    x_ends = _x_ends(axes)
    scale = np.log10 if axes.log else np.asarray
    x_range = scale(x_ends).tolist()

    has_names = names and page_width >= panels.NARROW and curves.size > 0
    low_ones = lowest_curves(curves, value_range) if has_names else []
    margin = {"l": 60, "r": 20, "t": 66, "b": 70}
    legend: dict[str, Any] = {"y": 1.1}
    if compact:
        margin |= {"t": 26, "b": 40}
        legend = {"x": 1, "xanchor": "right", "y": 1.0}
    elif has_names:
        margin["t"] = 34

    # The ends of the plot, in shares of the width
    inside = page_width - margin["l"] - margin["r"]
    right = 1.0
    if has_names:
        right -= NAMES_WIDTH / inside
    if low_ones:
        right -= _CLOSE_UP_WIDTH + _CLOSE_UP_AXIS / inside

    traces = [_mean(label, means[means.index == label], axes, styles[label]) for label in styles]
    for label, (color, _, _) in styles.items():
        traces += _seeds(label, rows[rows["label"] == label], color)
    defined = [curves[label].dropna() for label in curves]
    shapes = _marks(axes, x_ends)
    shapes += yardstick_lines(
        axes.yardsticks,
        value_range,
        curves=[(scale(curve.index), curve.to_numpy()) for curve in defined],
        x_range=x_range,
        label_width=LABEL_WIDTH / right,
    )
    annotations = [_title(axes.title)]
    if has_names:
        colors = {label: color for label, (color, _, _) in styles.items()}
        plot_height = height - margin["t"] - margin["b"]
        annotations += name_notes(curves, colors, value_range, plot_height)

    picture = theme.picture(
        traces,
        height=height,
        hovermode="closest",
        margin=margin,
        showlegend=not has_names,
        legend=legend,
        xaxis={
            "domain": [0, right],
            "type": "log" if axes.log else "linear",
            "range": x_range,
            "tickvals": list(axes.ticks),
            "ticktext": list(axes.ticks.values()),
            "title": {"text": axes.x_title, "standoff": 14},
        },
        yaxis={"range": value_range, "title": {"text": axes.unit}},
        shapes=shapes,
        annotations=annotations,
    )
    if low_ones:
        _add_close_up(picture, curves[low_ones], axes, styles)
    return picture


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


def _x_ends(axes: Axes) -> tuple[float, float]:
    """The ends of the horizontal axis."""
    last = max(axes.ticks)
    if axes.log:
        return min(axes.ticks) / _PADDING, last * _PADDING
    return 0, last


def _title(text: str, number: str = "") -> dict[str, Any]:
    """An annotation: the title of the plot on the axes with this number."""
    return {
        **theme.TITLE,
        "name": "title",
        "text": text,
        "xref": f"x{number} domain",
        "yref": f"y{number} domain",
        "yshift": 4,
        "font": {"size": 13},
    }


def _curve(style: Style) -> dict[str, Any]:
    """A curve with markers, without its points."""
    color, dash, symbol = style
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "line": {"color": color, "dash": dash, "width": 2},
        "marker": {"color": color, "symbol": symbol, "size": 8},
        "cliponaxis": False,
    }


def _mean(label: str, means: pd.DataFrame, axes: Axes, style: Style) -> dict[str, Any]:
    """The mean of one label, with its intervals from `FEWEST_SEEDS` seeds on.

    The name in the legend says if the curve ends early.
    """
    points = means.dropna(subset="mean").set_index("x")
    name = literal(in_prose(label))
    if points.empty and len(means):
        name += " (not defined)"
    elif len(points) < len(means):
        name += f" (to {max(points.index):,} only)"
    if points.empty:
        # plotly leaves a trace without points out of the legend.
        points = points.reindex([min(axes.ticks)])

    unit = "" if "%" in axes.number else f" {axes.unit}"  # a percentage has its sign
    point = f"{axes.point}<br>{{y:{axes.number}}}{unit}".replace("{", "%{")
    trace = _curve(style) | {
        "name": name,
        "legendgroup": label,
        "x": points.index.to_numpy(float),
        "y": points["mean"].to_numpy(),
        "hovertemplate": f"%{{fullData.name}}, {point}<extra></extra>",
    }
    bars = points.where(points["seeds"] >= FEWEST_SEEDS)
    if bars["seeds"].any():
        trace["error_y"] = {
            "type": "data",
            "array": (bars["high"] - bars["mean"]).to_numpy(),
            "arrayminus": (bars["mean"] - bars["low"]).to_numpy(),
        }
    return trace


def _seeds(label: str, rows: pd.DataFrame, color: str) -> list[dict[str, Any]]:
    """Every seed of one label in one trace, with a gap after each; no trace for a single seed."""
    gap = np.array([[np.nan, np.nan]])
    curves = []
    for _, seed_rows in rows.dropna(subset="value").groupby("seed", sort=False):
        curves += [seed_rows[["x", "value"]], gap]
    if len(curves) <= 2:  # a seed is a curve and its gap
        return []

    x, y = np.vstack(curves).T
    trace = {
        "type": "scatter",
        "name": literal(in_prose(label)),
        "legendgroup": label,
        "x": x,
        "y": y,
        "mode": "lines",
        "line": {"color": color, "width": 1},
        "opacity": 0.6,
        "hovertemplate": "%{fullData.name}, one seed<br>%{y:.3g}<extra></extra>",
        "showlegend": False,
        "cliponaxis": False,
    }
    return [trace]


def _marks(axes: Axes, x_ends: tuple[float, float]) -> list[dict[str, Any]]:
    """Shapes: the training length, with everything beyond it shaded, and the level of chance."""
    first, last = x_ends
    shapes = []
    if axes.length is not None:
        first = axes.length
        whole_height = {"xref": "x", "yref": "y domain", "y0": 0, "y1": 1, "layer": "below"}
        beyond = {
            **whole_height,
            "type": "rect",
            "name": "longer than training",
            "x0": first,
            "x1": last,
            "fillcolor": theme.SHADE,
            "line": {"width": 0},
        }
        length = {
            **whole_height,
            "type": "line",
            "name": "training length",
            "x0": first,
            "x1": first,
            "line": theme.DOTTED,
        }
        shapes += [beyond, length]
    if axes.chance is not None:
        chance = {
            "type": "line",
            "name": "chance",
            "x0": first,
            "x1": last,
            "y0": axes.chance,
            "y1": axes.chance,
            "line": theme.DOTTED,
            "layer": "below",
            "label": {
                "text": f" chance, {axes.chance:.1%}",
                "textposition": "start",
                "yanchor": "bottom",
                "font": {"size": 11},
            },
        }
        shapes.append(chance)
    return shapes


def _add_close_up(
    picture: Picture, curves: pd.DataFrame, axes: Axes, styles: Mapping[str, Style]
) -> None:
    """Add these curves once more, on axes of their own."""
    for label in styles:
        if label not in curves:
            continue
        values = curves[label].dropna()
        hover = f"{literal(in_prose(label))}<br>{axes.point}<br>{{y:{axes.number}}}<extra></extra>"
        trace = _curve(styles[label]) | {
            "name": "close-up",
            "x": values.index.to_numpy(float),
            "y": values.to_numpy(),
            "hovertemplate": hover.replace("{", "%{"),
            "xaxis": "x2",
            "yaxis": "y2",
        }
        picture["data"].append(trace)

    layout = picture["layout"]
    layout["annotations"].append(_title("Close-up", "2"))
    first_and_last = [min(axes.ticks), max(axes.ticks)]
    layout["xaxis2"] = {
        "anchor": "y2",
        "domain": [1 - _CLOSE_UP_WIDTH, 1],
        "type": layout["xaxis"]["type"],
        "range": layout["xaxis"]["range"],
        "tickvals": first_and_last,
        "ticktext": [axes.ticks[tick] for tick in first_and_last],
    }
    lowest = float(np.nanmin(curves))
    highest = float(np.nanmax(curves))
    padding = 0.08 * (highest - lowest) or 0.1  # an axis needs a height
    layout["yaxis2"] = {"anchor": "x2", "range": [lowest - padding, highest + padding]}


def _value_range(axes: Axes, means: pd.DataFrame, values: pd.Series) -> list[Any]:
    """A range that includes every point and interval.

    It ends at multiples of `axes.step`, so that the axis seldom changes. plotly chooses an end that
    is None.
    """
    with_interval = means[means["seeds"] >= FEWEST_SEEDS]
    included = pd.concat([values, with_interval["low"], with_interval["high"]]).dropna()
    if included.empty:
        return [axes.low, axes.high]
    if axes.is_steady and included.between(axes.low, axes.high).all():
        return [axes.low, axes.high]
    steps = 1 / axes.step
    low = float(np.floor(included.min() * steps - 0.2) / steps)
    high = float(np.ceil(included.max() * steps + 0.2) / steps)
    if axes.low is not None:
        low = min(low, axes.low)
    if axes.high is not None:
        high = max(high, axes.high)
    return [low, high]
