"""One panel for many questions: a curve a method, each seed beside it, and what the eye needs to know on the axis.

    mean       thick, with markers
    seeds      thin, one line each: a mean of few hides how much they differ
    published  thin and dotted: seeds that were trained elsewhere
    guesses    open markers: what somebody expected

The sheet is made once with a trace of each kind for every method; a curve that is not there is hidden.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.figures import theme

__all__ = ["Curves", "Panel", "add_panel", "draw_panel"]

Points = Mapping[int, float]
KINDS = ("mean", "seeds", "published", "guesses")
_UNSEEN = "rgba(128, 128, 128, 0.10)"
_GREY = {"color": "#8C8C8C", "width": 1.5, "dash": "dot"}
_ROOM = 1.12  # factor between the outermost points of a logarithmic axis and the frame
_MARKS = 2  # at most so many marks besides the training length
_WIDTH, _SIDES = 880, 80  # pixels of a page that has not said its width, and of both margins
_ABOVE, _ROW = 66, 19  # pixels above a panel whose legend has one row, and of each row more
_LINE_OF_WORDS = 0.07  # share of the height that the words on the level of chance take
_WORDS = 0.22  # share of the height that a mark's words take, with some air


@dataclass(frozen=True)
class Curves:
    """What there is of one method: {length, distance, position or step: number}, NaN where it is not defined."""

    mean: Points
    seeds: Sequence[Points] = ()
    published: Sequence[Points] = ()
    guesses: Points = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """A question and its answers.

    Attributes:
        title, x_title, y_title: of the panel.
        hover: plotly's template for a point.
        curves: of each method that takes part.
        ticks: {place on the horizontal axis: its label}; the outermost ends of a logarithmic axis.
        low, high: the vertical axis holds at least these.
        unit: the vertical axis ends at whole multiples of it.
        length: the training length: dotted, and what is longer is shaded; None where the axis is no length.
        marks: {words: place}, at most two more vertical lines; those outside the ticks are left out.
        chance: a horizontal line, or None.
        log: whether the horizontal axis is logarithmic; otherwise it starts at 0.
    """

    title: str
    x_title: str
    y_title: str
    hover: str
    curves: Mapping[str, Curves]
    ticks: Mapping[int, str]
    low: float
    high: float
    unit: float = 0.5
    length: int | None = None
    marks: Mapping[str, float] = field(default_factory=dict)
    chance: float | None = None
    log: bool = True


def add_panel(figure: go.Figure, methods: Sequence[str]) -> None:
    """The traces (means first, then seeds, published, guesses, each method by method), lines and words of a panel.

    It lives on the axes x2 and y2.
    """
    where = {"xaxis": "x2", "yaxis": "y2", "cliponaxis": False, "visible": False}
    for kind in KINDS:
        for number, name in enumerate(methods):
            color, symbol = theme.COLORS[number], theme.SYMBOLS[number]
            styles: dict[str, dict[str, object]] = {
                "mean": {
                    "mode": "lines+markers",
                    "line": {"color": color, "dash": theme.DASHES[number], "width": 2},
                    "marker": {"color": color, "symbol": symbol, "size": 8},
                },
                "seeds": {"mode": "lines", "line": {"color": color, "width": 1}, "opacity": 0.6},
                "published": {"mode": "lines", "line": {"color": color, "width": 1, "dash": "dot"}, "opacity": 0.8},
                "guesses": {
                    "mode": "lines+markers",
                    "line": {"color": color, "width": 1, "dash": "dot"},
                    "marker": {"color": color, "symbol": f"{symbol}-open", "size": 13, "line": {"width": 2}},
                },
            }
            figure.add_scatter(name=name, legendgroup=name, showlegend=kind == "mean", **styles[kind], **where)
    upright = {"xref": "x2", "yref": "y2 domain", "y0": 0, "y1": 1, "layer": "below"}
    figure.add_shape(type="rect", fillcolor=_UNSEEN, line_width=0, **upright)
    figure.add_shape(type="line", line=_GREY, **upright)
    for _ in range(_MARKS):
        figure.add_shape(type="line", line={**_GREY, "color": theme.COLORS[0], "width": 1}, visible=False, **upright)
    figure.add_shape(type="line", line=_GREY, xref="x2 domain", x0=0, x1=1, yref="y2", visible=False, layer="below")
    for _ in range(_MARKS):
        place: dict[str, object] = {"xref": "x2 domain", "xanchor": "right", "yref": "y2 domain", "yanchor": "middle"}
        figure.add_annotation(text="", showarrow=False, textangle=-90, font_size=11, visible=False, **place)
    place = {"xref": "x2 domain", "x": 0.01, "xanchor": "left", "yref": "y2", "yanchor": "bottom"}
    figure.add_annotation(text="", showarrow=False, font_size=11, visible=False, **place)
    figure.update_layout(xaxis2={"anchor": "y2", "title": {"standoff": 14}}, yaxis2={"anchor": "x2"})


def draw_panel(figure: go.Figure, methods: Sequence[str], panel: Panel, *, before: int, title: int) -> None:
    """Put a panel into the sheet, which has `before` traces of its own, and annotation `title` for the title.

    The panel's own shapes are the first of the sheet; its annotations are the last three.
    """
    for number, name in enumerate(methods):
        traces = [figure.data[before + kind * len(methods) + number] for kind in range(len(KINDS))]
        _draw_curves(traces, name, panel.curves.get(name), panel)
    first, last = min(panel.ticks), max(panel.ticks)
    edges = (first / _ROOM, last * _ROOM) if panel.log else (0, last)
    unseen, length, *marks, chance = figure.layout.shapes[: _MARKS + 3]
    unseen.visible = length.visible = panel.length is not None
    if panel.length is not None:
        unseen.update(x0=panel.length, x1=edges[1])
        length.update(x0=panel.length, x1=panel.length)
    *words, level = figure.layout.annotations[-_MARKS - 1 :]
    shown = [(text, at) for text, at in panel.marks.items() if edges[0] < at < edges[1]]
    for number, (line, label) in enumerate(zip(marks, words, strict=True)):
        line.visible = label.visible = number < len(shown)
        if number < len(shown):
            text, at = shown[number]
            line.update(x0=at, x1=at)
            label.update(text=text, x=_share(at, edges, panel.log), y=_free(panel, at))
    chance.visible = level.visible = panel.chance is not None
    if panel.chance is not None:
        chance.update(y0=panel.chance, y1=panel.chance)
        from_left = 0 if panel.length is None else _share(panel.length, edges, panel.log)
        level.update(text=f"chance, {panel.chance:.1%}", y=panel.chance, x=from_left + 0.006)
    names = [_title(name, panel.curves[name].mean) for name in methods if name in panel.curves]
    rows = theme.legend_rows(names, (figure.layout.width or _WIDTH) - _SIDES)
    figure.layout.margin.t = _ABOVE + _ROW * (rows - 1)
    figure.layout.annotations[title].text = panel.title
    figure.layout.xaxis2.update(
        type="log" if panel.log else "linear",
        range=[float(np.log10(edge)) for edge in edges] if panel.log else list(edges),
        tickvals=list(panel.ticks),
        ticktext=list(panel.ticks.values()),
        title_text=panel.x_title,
    )
    figure.layout.yaxis2.update(title_text=panel.y_title, range=_range(panel))


def _draw_curves(traces: Sequence[go.Scatter], name: str, curves: Curves | None, panel: Panel) -> None:
    mean = traces[0]
    mean.visible = curves is not None
    if curves is None:
        for trace in traces[1:]:
            trace.visible = False
        return
    at, values = _defined([curves.mean])
    if not len(at):  # a trace without a point has no place in the legend
        at, values = np.array([float(min(panel.ticks))]), np.array([np.nan])
    mean.update(x=at, y=values, name=_title(name, curves.mean), hovertemplate=panel.hover)
    for trace, several, kind in (
        (traces[1], curves.seeds, "one seed"),
        (traces[2], curves.published, "published"),
        (traces[3], [curves.guesses], "guess"),
    ):
        at, values = _defined(several)
        trace.visible = len(at) > 0
        if len(at):
            trace.update(x=at, y=values, hovertemplate=panel.hover.replace("<br>", f", {kind}<br>", 1))


def _defined(several: Iterable[Points]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Curves one after the other, a NaN between two, without the places at which they are not defined."""
    at: list[float] = []
    values: list[float] = []
    for points in several:
        known = [(place, value) for place, value in points.items() if np.isfinite(value)]
        if known and at:
            at.append(np.nan)
            values.append(np.nan)
        at += [float(place) for place, _ in known]
        values += [float(value) for _, value in known]
    return np.array(at), np.array(values)


def _title(name: str, points: Points) -> str:
    """A method's name, with the length beyond which it is not defined: a line that ends needs a reason."""
    if all(np.isfinite(list(points.values()))):
        return name
    defined = [place for place, value in points.items() if np.isfinite(value)]
    return f"{name} (to {max(defined):,} only)" if defined else f"{name} (not defined)"


def _share(at: float, edges: tuple[float, float], log: bool) -> float:
    """Where a place is on the axis, 0 to 1: a page converts words at a number when their axis becomes logarithmic."""
    place, first, last = (float(np.log10(number)) if log else number for number in (at, *edges))
    return (place - first) / (last - first)


def _free(panel: Panel, at: float) -> float:
    """Where at a place no curve is, for words: near the axis if they fit there, else in the widest gap; 0 to 1."""
    low, high = _range(panel)
    level = () if panel.chance is None else (panel.chance, panel.chance + _LINE_OF_WORDS * (high - low))
    passing = np.array([*level, *(_passes(points, at) for points in _every(panel))])
    taken = sorted((passing[np.isfinite(passing)] - low) / (high - low))
    gaps = list(pairwise([0.0, *taken, 1.0]))
    bottom, top = next((gap for gap in gaps if gap[1] - gap[0] > _WORDS), max(gaps, key=lambda gap: gap[1] - gap[0]))
    return float(bottom + min(top - bottom, _WORDS) / 2)


def _passes(points: Points, at: float) -> float:
    """The value with which a curve passes a place on a logarithmic axis; NaN where it does not."""
    places, values = _defined([dict(sorted(points.items()))])
    return float(np.interp(np.log(at), np.log(places), values, left=np.nan, right=np.nan)) if len(places) else np.nan


def _every(panel: Panel) -> list[Points]:
    """All that is drawn of all methods."""
    return [points for own in panel.curves.values() for points in (own.mean, *own.seeds, *own.published, own.guesses)]


def _range(panel: Panel) -> list[float]:
    """An axis that holds every point, in whole units, so that it seldom moves while the points come in."""
    values = np.array([value for points in _every(panel) for value in points.values() if np.isfinite(value)])
    if not len(values):
        return [panel.low, panel.high]
    low, high = min(values.min(), panel.low), max(values.max(), panel.high)
    per = 1 / panel.unit
    return [float(np.floor(low * per - 0.2) / per), float(np.ceil(high * per + 0.2) / per)]
