"""Draw an `alibi_viz.panel.Panel`: the curves of at most seven methods, with annotated axes.

    mean   thick, with markers, and with bars where it has an interval
    seeds  thin, one line each, because a mean alone hides how much seeds differ

A figure is made once by `blank`, with a trace of each kind for each slot. A method has the color, dash and marker of
its slot, and traces without data are hidden. The panel's traces, shapes and annotations come first in the figure; a
figure with a second plot adds its own after them.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.figures import theme
from alibi_viz.panel import Curves, Panel, Points

__all__ = ["KINDS", "MAX_METHODS", "STYLES", "Style", "add_title", "assign_slots", "blank", "draw", "panel_figure"]

Style = tuple[str, str, str]  # color, dash and marker symbol
STYLES: Sequence[Style] = tuple(zip(theme.COLORS, theme.DASHES, theme.SYMBOLS, strict=True))
MAX_METHODS = len(STYLES)
KINDS = ("mean", "seeds")
FULL_WIDTH, HIDDEN = (0.005, 1.0), (0.0, 0.001)  # disjoint domains: plotly draws no shapes where plots overlap
MARKS = 2
_SHADE = "rgba(128, 128, 128, 0.10)"
_DOTTED = {"color": "#8C8C8C", "width": 1.5, "dash": "dot"}
_PADDING = 1.12  # factor between the outermost ticks of a logarithmic axis and its ends
_PAGE_WIDTH, _MARGINS = 880, 80  # pixels: before a page reports its width, and the left and right margin together
_TOP, _LEGEND_ROW = 66, 19  # pixels above a panel with one row of legend, and for each further row
_CHANCE_HEIGHT, _MARK_HEIGHT = 0.07, 0.22  # shares of the plot's height that the labels of chance and of a mark take


def panel_figure(panel: Panel, fixed: Sequence[str] = ()) -> go.Figure:
    """One panel as a plain plotly figure. Raises ValueError for more than seven methods.

    Give several figures the same `fixed` methods, at most seven, and each of these has the same color in all of them.

    >>> question = lab.find_question("longer windows")
    >>> results = study.published_results().query("question == 'longer windows' and evaluated == 'as trained'")
    >>> panel = question.panel(results, length=64, labels=["alibi", "rotary"])
    >>> [trace.name for trace in panel_figure(panel).data if trace.visible and trace.showlegend]
    ['alibi', 'rotary']
    """
    figure = blank(430)
    draw(figure, assign_slots(tuple(panel.curves), fixed), panel)
    return figure


def assign_slots(methods: Sequence[str], fixed: Sequence[str]) -> list[str]:
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


def blank(height: int, styles: Sequence[Style] = STYLES) -> go.Figure:
    """A figure with an empty panel on the axes x2 and y2, one slot per style. The axes x and y are free and hidden.

    Its first traces are the means of all slots, then the seeds.
    """
    figure = theme.blank(height, hovermode="closest", margin={"l": 60, "r": 20, "t": _TOP, "b": 70})
    for kind in KINDS:
        for style in styles:
            figure.add_scatter(showlegend=kind == "mean", xaxis="x2", yaxis="y2", **_trace(kind, *style))
    span = {"xref": "x2", "yref": "y2 domain", "y0": 0, "y1": 1, "layer": "below"}
    figure.add_shape(type="rect", fillcolor=_SHADE, line_width=0, **span)
    figure.add_shape(type="line", line=_DOTTED, **span)
    for _ in range(MARKS):
        figure.add_shape(type="line", line={**_DOTTED, "color": theme.COLORS[0], "width": 1}, visible=False, **span)
    figure.add_shape(type="line", line=_DOTTED, xref="x2 domain", x0=0, x1=1, yref="y2", visible=False, layer="below")
    add_title(figure, "", left=0)
    label: dict[str, object] = {"text": "", "showarrow": False, "font_size": 11, "visible": False, "xref": "x2 domain"}
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


def add_title(figure: go.Figure, text: str, left: float) -> None:
    """Add the title of one of the plots of a figure; `left` is where it starts, as a share of the width."""
    place = {"xref": "paper", "x": left, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "bottom"}
    figure.add_annotation(text=text, showarrow=False, yshift=4, font_size=13, **place)


def draw(figure: go.Figure, slots: Sequence[str], panel: Panel, *, domain: tuple[float, float] = FULL_WIDTH) -> None:
    """Draw a panel into a figure from `blank`, plain or live.

    Args:
        figure: the figure.
        slots: the method in each slot, "" for none.
        panel: what to draw. Methods without a slot are left out.
        domain: the left and right end of the panel, as shares of the width.
    """
    with figure.batch_update():
        for slot, name in enumerate(slots):
            traces = [figure.data[kind * len(slots) + slot] for kind in range(len(KINDS))]
            _draw_curves(traces, name, panel.curves.get(name), panel)
        first, last = min(panel.ticks), max(panel.ticks)
        ends = (first / _PADDING, last * _PADDING) if panel.log else (0, last)
        _draw_lines(figure, panel, ends)
        names = [_legend_name(name, panel.curves[name].mean) for name in slots if name in panel.curves]
        rows = theme.legend_rows(names, (figure.layout.width or _PAGE_WIDTH) - _MARGINS)
        figure.layout.margin.t = _TOP + _LEGEND_ROW * (rows - 1)
        figure.layout.annotations[0].update(text=panel.title, x=0 if domain is FULL_WIDTH else domain[0])
        figure.layout.xaxis2.update(
            domain=domain,
            type="log" if panel.log else "linear",
            range=[float(np.log10(end)) for end in ends] if panel.log else list(ends),
            tickvals=list(panel.ticks),
            ticktext=list(panel.ticks.values()),
            title_text=panel.x_title,
        )
        figure.layout.yaxis2.update(title_text=panel.y_title, range=_value_range(panel))


def _trace(kind: str, color: str, dash: str, symbol: str) -> dict[str, object]:
    """The properties of the trace of one kind."""
    line, marker = {"color": color, "dash": dash, "width": 2}, {"color": color, "symbol": symbol, "size": 8}
    styles: dict[str, dict[str, object]] = {
        "mean": {"mode": "lines+markers", "line": line, "marker": marker, "error_y": {"thickness": 1.5, "width": 5}},
        "seeds": {"mode": "lines", "line": {"color": color, "width": 1}, "opacity": 0.6},
    }
    return {"cliponaxis": False, "visible": False, **styles[kind]}


def _draw_curves(traces: Sequence[go.Scatter], name: str, curves: Curves | None, panel: Panel) -> None:
    """The traces of one slot, one of each kind."""
    mean, seeds = traces
    if curves is None:
        for trace in traces:
            trace.visible = False
        return
    xs, values = _finite([curves.mean])
    if not len(xs):  # plotly leaves a trace without points out of the legend
        xs, values = np.array([float(min(panel.ticks))]), np.array([np.nan])
    legend = {"name": _legend_name(name, curves.mean), "legendgroup": name}
    ends = np.array([curves.intervals.get(int(x), (np.nan, np.nan)) for x in xs])  # an array, because JSON has no NaN
    bars = {"array": ends[:, 1] - values, "arrayminus": values - ends[:, 0], "visible": bool(curves.intervals)}
    notes = [f"<br>{curves.notes.get(int(x), '')}" for x in xs] if curves.notes else []
    hover = panel.hover.replace("<extra>", "%{customdata}<extra>") if notes else panel.hover
    mean.update(x=xs, y=values, error_y=bars, visible=True, hovertemplate=hover, customdata=notes or None, **legend)
    xs, values = _finite(curves.seeds)
    hover = panel.hover.replace("<br>", ", one seed<br>", 1)
    seeds.update(x=xs, y=values, visible=len(xs) > 0, hovertemplate=hover, name=name, legendgroup=name)


def _draw_lines(figure: go.Figure, panel: Panel, ends: tuple[float, float]) -> None:
    """The training length, the marks and the level of chance, with their labels."""
    shade, length, *marks, chance = figure.layout.shapes[: MARKS + 3]
    _, *labels, chance_label = figure.layout.annotations[: MARKS + 2]
    shade.visible = length.visible = panel.length is not None
    length.update(x0=panel.length, x1=panel.length)
    shade.update(x0=panel.length, x1=ends[1])
    inside = [(text, x) for text, x in panel.marks.items() if ends[0] < x < ends[1]]
    for number, (line, label) in enumerate(zip(marks, labels, strict=True)):
        line.visible = label.visible = number < len(inside)
        if number < len(inside):
            text, x = inside[number]
            line.update(x0=x, x1=x)
            label.update(text=text, x=_axis_share(x, ends, panel.log), y=_free_height(panel, x))
    chance.visible = chance_label.visible = panel.chance is not None
    if panel.chance is not None:
        chance.update(y0=panel.chance, y1=panel.chance)
        left = 0 if panel.length is None else _axis_share(panel.length, ends, panel.log)
        chance_label.update(text=f"chance, {panel.chance:.1%}", y=panel.chance, x=left + 0.006)


def _finite(curves: Iterable[Points]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The x and y of several curves in one trace, with a NaN between two. Undefined points are left out."""
    gap = (np.nan, np.nan)
    pairs: list[tuple[float, float]] = []
    for points in curves:
        finite = [(x, value) for x, value in points.items() if np.isfinite(value)]
        pairs += [gap, *finite] if finite and pairs else finite
    xs, values = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    return xs, values


def _legend_name(name: str, points: Points) -> str:
    """The name of a method and, if its curve ends early, the last x at which it is defined."""
    defined = [x for x, value in points.items() if np.isfinite(value)]
    if len(defined) == len(points):
        return name
    return f"{name} (to {max(defined):,} only)" if defined else f"{name} (not defined)"


def _axis_share(x: float, ends: tuple[float, float], log: bool) -> float:
    """Where x is on the axis, from 0 to 1. plotly misplaces data coordinates when an axis switches to log."""
    x, first, last = (float(np.log10(number)) if log else number for number in (x, *ends))
    return (x - first) / (last - first)


def _free_height(panel: Panel, x: float) -> float:
    """A height, 0 to 1, at which no curve crosses the label of a mark at x: near the axis, else in the widest gap."""
    low, high = _value_range(panel)
    chance = () if panel.chance is None else (panel.chance, panel.chance + _CHANCE_HEIGHT * (high - low))
    crossings = np.array([*chance, *(_value_at(points, x) for points in _all_points(panel))])
    heights = sorted((crossings[np.isfinite(crossings)] - low) / (high - low))
    gaps = list(pairwise([0.0, *heights, 1.0]))
    widest = max(gaps, key=lambda gap: gap[1] - gap[0])
    bottom, top = next((gap for gap in gaps if gap[1] - gap[0] > _MARK_HEIGHT), widest)
    return float(bottom + min(top - bottom, _MARK_HEIGHT) / 2)


def _value_at(points: Points, x: float) -> float:
    """The value of a curve at x, interpolated on a logarithmic axis; NaN outside the curve."""
    xs, values = _finite([dict(sorted(points.items()))])
    return float(np.interp(np.log(x), np.log(xs), values, left=np.nan, right=np.nan)) if len(xs) else np.nan


def _all_points(panel: Panel) -> list[Points]:
    """Every curve that is drawn, with the ends of its intervals."""
    curves = [points for c in panel.curves.values() for points in (c.mean, *c.seeds)]
    ends = [{x: pair[end] for x, pair in c.intervals.items()} for c in panel.curves.values() for end in (0, 1)]
    return curves + ends


def _value_range(panel: Panel) -> list[float]:
    """A range that ends at multiples of `panel.step` and includes every point, so that the axis seldom changes."""
    values = [value for points in _all_points(panel) for value in points.values() if np.isfinite(value)]
    if not values:
        return [panel.low, panel.high]
    scale = 1 / panel.step
    low, high = np.floor(min(values) * scale - 0.2) / scale, np.ceil(max(values) * scale + 0.2) / scale
    return [float(min(low, panel.low)), float(max(high, panel.high))]
