"""The picture of the course: one rotary model, two switches, four losses.

A square of four cells, one for each state of the switches. The columns say whether far keys are
braked, the rows whether a longer text shows new angles. An app draws the loss by length beside it.
"""

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from alibi_viz.arguments import check_instance, check_known
from alibi_viz.figures import panels, theme
from alibi_viz.figures.yardstick_lines import (
    LABEL_WIDTH,
    Curve,
    add_yardsticks,
    draw_yardsticks,
)
from alibi_viz.measure.table import AS_TRAINED, check_table

ANGLES_STOP = "angles stop"
FAR_BRAKE = "far brake"
BOTH = "angles stop and far brake"
LOSSES = "longer sequences"
FAR_SHARES = "attention beyond L"
WINDOW = "window"  # the variant that hides far keys, to compare the states with
UNKNOWN = "?"  # instead of the number of a state that is not shown

# A loss of so many bits has the full color: all 256 bytes are equally likely.
_WORST = 8.0
_GAP = 0.015  # around a cell, in cells
_COLUMNS = ("far keys <b>open</b>", "far keys <b>braked</b>")
_ROWS = ("<b>new</b> angles", "<b>no new</b> angles")
# Pixels between the middle of a cell and its words
_ABOVE = 30
_BELOW = -29
# Shares of the width of the figure of an app
_HEIGHT = 280  # pixels
_STACKED_HEIGHT = 470  # with the curves below the cells
_NARROW = 640  # pixels: on a narrower page, the words of a cell would be cut
_LEFT = (0.0, 0.43)
_RIGHT = (0.55, 1.0)
_PADDING = 1.12  # on both sides of the lengths, as a factor
_POINT = "%{x:,} bytes: %{y:.2f} bits per byte<extra>%{fullData.name}</extra>"


class Cell(NamedTuple):
    """Where a state of the switches is in the picture, and what is said of it."""

    row: int  # 0 for new angles, 1 if the angles stop
    column: int  # 0 for open far keys, 1 for braked ones
    name: str  # in its cell and beside its curve


# In reading order. The keys are variants of `lab.modify`'s results.
CELLS = {
    AS_TRAINED: Cell(0, 0, AS_TRAINED),
    FAR_BRAKE: Cell(0, 1, FAR_BRAKE),
    ANGLES_STOP: Cell(1, 0, ANGLES_STOP),
    BOTH: Cell(1, 1, "both"),
}
STATES = tuple(CELLS)


class Outcome(NamedTuple):
    """What a state of the switches does, as the mean over all seeds."""

    losses: dict[int, float]  # {length: bits per byte}
    far_shares: dict[int, float]  # {length: share of attention on keys at least L back}
    seeds: int  # how many models it is the mean of

    @property
    def longest(self) -> int:
        """The longest texts that were tested."""
        return max(self.losses)

    @property
    def bits(self) -> float:
        """The loss on the longest texts."""
        return self.losses[self.longest]

    @property
    def far_share(self) -> float:
        """The share of attention on keys at least L back in the longest texts."""
        return self.far_shares[self.longest]


def switch_outcomes(rows: pd.DataFrame) -> dict[str, Outcome]:
    """What each of the four states does, {state: outcome} in the order of `STATES`.

    Args:
        rows: results of one kind of model in one setting, such as rotary in the main setting of
            `study.published_results()`.

    Raises ValueError if a state wasn't measured, and for rows of several models or settings.

    >>> from alibi_viz.figures.switches_plot import switch_outcomes
    >>> import pandas as pd
    >>> states = ["as trained", "far brake", "angles stop", "angles stop and far brake"]
    >>> rows = pd.DataFrame({"variant": 2 * states, "seed": 0, "x": 128, "value": 0.5})
    >>> rows["question"] = 4 * ["longer sequences"] + 4 * ["attention beyond L"]
    >>> switch_outcomes(rows)["far brake"].bits
    0.5
    """
    check_table("rows", rows, ("question", "variant", "seed", "x", "value"))
    for column in ("label", "setting"):
        if column in rows and rows[column].nunique() > 1:
            several = ", ".join(map(str, rows[column].unique()))
            raise ValueError(f"rows must have one {column}, got {several}")
    means = rows.groupby(["question", "variant", "x"])["value"].mean()

    outcomes = {}
    for state in STATES:
        for question in (LOSSES, FAR_SHARES):
            if (question, state) not in means:
                raise ValueError(f"rows must answer {question!r} for {state!r}")
        outcomes[state] = Outcome(
            losses=means[LOSSES, state].to_dict(),
            far_shares=means[FAR_SHARES, state].to_dict(),
            seeds=rows.loc[rows["variant"] == state, "seed"].nunique(),
        )
    return outcomes


def window_loss(rows: pd.DataFrame) -> float:
    """The loss of the same models with a sliding window, on the longest texts; NaN if unknown.

    It is what the states can be compared with: a window hides far keys, and their angles with them.
    """
    losses = rows[(rows["question"] == LOSSES) & (rows["variant"] == WINDOW)]
    return float(losses.loc[losses["x"] == losses["x"].max(), "value"].mean())


def switches_figure(
    rows: pd.DataFrame,
    *,
    now: str | None = None,
    yardsticks: Mapping[str, float] | None = None,
) -> go.Figure:
    """The four losses of one model with two switches, as a picture that fits on a napkin.

    Args:
        rows: results of one kind of model in one setting, such as rotary in the main setting of
            `study.published_results()`. If they include a sliding window, its loss stands below.
        now: the state whose cell is framed: "as trained", "far brake", "angles stop" or "angles
            stop and far brake".
        yardsticks: losses of models that only count, such as `Text.yardsticks`, for a line below.

    Raises ValueError if a state wasn't measured, for rows of several models or settings, and for an
    unknown `now`.

    >>> from alibi_viz import figures, study
    >>> rows = study.published_results().query("setting == 'main' and label == 'rotary'")
    >>> figure = figures.switches_figure(rows)
    """
    if now is not None:
        check_known("now", [now], STATES)
    if yardsticks is None:
        yardsticks = {}
    check_instance("yardsticks", yardsticks, Mapping)
    outcomes = switch_outcomes(rows)

    figure = theme.blank(
        height=360,
        width=520,
        margin={"l": 40, "r": 12, "t": 62, "b": 56},
    )
    _add_cells(figure, (0.0, 1.0))
    _draw_cells(figure, outcomes, now, STATES)
    figure.add_annotation(
        name="yardsticks",
        text=_in_words(window_loss(rows), yardsticks),
        xref="paper",
        yref="paper",
        x=0,
        xanchor="left",
        y=0,
        yanchor="top",
        yshift=-8,
        align="left",
        showarrow=False,
    )
    return figure


def blank() -> go.Figure:
    """The figure of an app without data: the cells on the left, the curves on the right."""
    figure = theme.blank(
        height=_HEIGHT,
        hovermode="closest",
        margin={"l": 34, "r": 92, "t": 46, "b": 46},
        showlegend=False,
    )
    _add_cells(figure, _LEFT)

    figure.update_layout(
        xaxis2={
            "domain": _RIGHT,
            "anchor": "y2",
            "type": "log",
            "title": {"text": "length of the text, bytes", "standoff": 8, "font_size": 12},
        },
        yaxis2={"anchor": "x2", "title": {"text": "bits per byte", "font_size": 12}},
    )
    for state in STATES:
        figure.add_scatter(
            name=state,
            xaxis="x2",
            yaxis="y2",
            mode="lines+markers",
            cliponaxis=False,
            hovertemplate=_POINT,
        )
        # The name stands at the right end of its curve.
        figure.add_annotation(
            name=f"curve {state}",
            text=CELLS[state].name,
            xref="x2 domain",
            yref="y2",
            x=1,
            xanchor="left",
            xshift=3,
            y=0,
            showarrow=False,
        )

    figure.add_shape(
        name="longer than training",
        type="rect",
        xref="x2",
        yref="y2 domain",
        y0=0,
        y1=1,
        fillcolor=theme.SHADE,
        line_width=0,
        layer="below",
    )
    add_yardsticks(figure, 2, "x2", "y2")
    return figure


def arrange(figure: go.Figure, page_width: int) -> None:
    """Put the curves of an app beside the cells or, on a narrow page, below them."""
    if page_width < _NARROW:
        panels.stack(figure, height=_STACKED_HEIGHT, between=24)
    else:
        panels.put_beside(figure, _LEFT, _RIGHT, height=_HEIGHT)


def draw(
    figure: go.Figure,
    outcomes: Mapping[str, Outcome],
    *,
    now: str,
    shown: Collection[str],
    length: int,
    yardsticks: Mapping[str, float],
) -> None:
    """Draw the states of the switches into a figure from `blank`, plain or live.

    Args:
        figure: from `blank`.
        outcomes: of all states, from `switch_outcomes`.
        now: the state that is framed and whose curve is blue.
        shown: the states whose numbers and curves are shown, with `now`.
        length: the training length.
        yardsticks: at most two losses to compare with, such as `Text.yardsticks`.
    """
    lengths = sorted(outcomes[now].losses)
    left = lengths[0] / _PADDING
    right = lengths[-1] * _PADDING
    worst = max(outcome.bits for outcome in outcomes.values())
    loss_range = [0.0, float(np.ceil(2 * worst + 0.2) / 2)]  # the same in every state

    with figure.batch_update():
        _draw_cells(figure, outcomes, now, shown)
        for state, outcome in outcomes.items():
            _draw_curve(figure, state, outcome, is_now=state == now, is_shown=state in shown)

        figure.update_shapes({"x0": length, "x1": right}, {"name": "longer than training"})
        figure.layout.xaxis2.update(
            range=np.log10([left, right]).tolist(),
            tickvals=lengths,
            ticktext=[f"{tested:,}" for tested in lengths],
        )
        figure.layout.yaxis2.range = loss_range
        yardstick_lines = [shape for shape in figure.layout.shapes if shape.name is None]
        draw_yardsticks(
            yardstick_lines,
            yardsticks,
            loss_range,
            curves=[_drawn_curve(outcomes[state], left, right) for state in shown],
            label_width=LABEL_WIDTH / (_RIGHT[1] - _RIGHT[0]),
        )


def tint(bits: float) -> str:
    """The color of a loss: nothing for 0 bits, the full orange for 8, over the color of the page.

    >>> from alibi_viz.figures.switches_plot import tint
    >>> tint(4.0)
    'rgba(213, 94, 0, 0.50)'
    """
    red, green, blue = bytes.fromhex(theme.ORANGE[1:])
    opacity = min(bits / _WORST, 1.0)
    return f"rgba({red}, {green}, {blue}, {opacity:.2f})"


def _add_cells(figure: go.Figure, width: tuple[float, float]) -> None:
    """Add the four cells and their words, in this share of the figure's width."""
    hidden_axis = {"showgrid": False, "ticks": "", "showticklabels": False}
    figure.update_layout(
        xaxis={"domain": width, "range": [0, 2], **hidden_axis},
        yaxis={"range": [2, 0], "showline": False, **hidden_axis},  # the first row on top
    )
    # Invisible: plotly draws axes only with a trace, and an app hears clicks on its cells.
    figure.add_heatmap(
        name="cells",
        x=[0.5, 1.5],
        y=[0.5, 1.5],
        z=[[0, 0], [0, 0]],
        opacity=0,
        showscale=False,
        hoverinfo="none",
    )

    figure.add_annotation(
        theme.TITLE, name="title", xref="x domain", yref="paper", yshift=22, font_size=13
    )
    for column, text in enumerate(_COLUMNS):
        figure.add_annotation(
            text=text, x=column + 0.5, y=0, yanchor="bottom", yshift=1, showarrow=False
        )
    for row, text in enumerate(_ROWS):
        figure.add_annotation(
            text=text,
            x=0,
            xanchor="right",
            xshift=-2,
            y=row + 0.5,
            textangle=-90,
            font_size=11,
            showarrow=False,
        )

    for state, cell in CELLS.items():
        figure.add_shape(
            name=state,
            type="rect",
            x0=cell.column + _GAP,
            x1=cell.column + 1 - _GAP,
            y0=cell.row + _GAP,
            y1=cell.row + 1 - _GAP,
            layer="below",
        )
        middle = {"x": cell.column + 0.5, "y": cell.row + 0.5, "showarrow": False}
        figure.add_annotation(
            name=f"name {state}", text=cell.name, yshift=_ABOVE, font_size=12, **middle
        )
        figure.add_annotation(name=f"bits {state}", font_size=30, **middle)
        figure.add_annotation(name=f"far share {state}", yshift=_BELOW, font_size=12, **middle)


def _draw_cells(
    figure: go.Figure, outcomes: Mapping[str, Outcome], now: str | None, shown: Collection[str]
) -> None:
    """Fill in the cells that are shown, and frame the one of `now`."""
    longest = outcomes[AS_TRAINED].longest
    figure.update_annotations(
        {"text": f"Bits per byte on texts of {longest:,} bytes"}, {"name": "title"}
    )
    for state, outcome in outcomes.items():
        is_shown = state in shown
        frame = {"color": theme.GRAY, "width": 1, "dash": "solid" if is_shown else "dot"}
        if state == now:
            frame = {"color": theme.BLUE, "width": 4, "dash": "solid"}
        fill = tint(outcome.bits) if is_shown else theme.SHADE
        bits = f"<b>{outcome.bits:.2f}</b>" if is_shown else UNKNOWN
        far_share = f"far keys get {outcome.far_share:.0%}" if is_shown else ""

        figure.update_shapes({"fillcolor": fill, "line": frame}, {"name": state})
        figure.update_annotations({"text": bits}, {"name": f"bits {state}"})
        figure.update_annotations({"text": far_share}, {"name": f"far share {state}"})


def _draw_curve(
    figure: go.Figure, state: str, outcome: Outcome, *, is_now: bool, is_shown: bool
) -> None:
    """Draw the losses of a state: blue and thick now, gray and thin before, else not at all."""
    color = theme.BLUE if is_now else theme.GRAY
    figure.update_traces(
        {
            "x": list(outcome.losses),
            "y": list(outcome.losses.values()),
            "line": {"color": color, "width": 3 if is_now else 1.5},
            "marker": {"color": color, "size": 8 if is_now else 5},
            "opacity": 1.0 if is_now else 0.7,
            "visible": is_shown,
        },
        {"name": state},
    )
    name = CELLS[state].name
    figure.update_annotations(
        {
            "text": f"<b>{name}</b>" if is_now else name,
            "y": outcome.bits,
            "visible": is_shown,
        },
        {"name": f"curve {state}"},
    )


def _drawn_curve(outcome: Outcome, left: float, right: float) -> Curve:
    """The losses of a state as they run through a plot between these lengths."""
    lengths = np.log10(list(outcome.losses))
    shares = (lengths - np.log10(left)) / (np.log10(right) - np.log10(left))
    return Curve(shares, np.array(list(outcome.losses.values())))


def _in_words(with_window: float, yardsticks: Mapping[str, float]) -> str:
    """What the numbers can be compared with: a sliding window, and models that only count."""
    lines = []
    if not math.isnan(with_window):
        lines.append(f"With a sliding window, it needs {with_window:.2f}.")
    if yardsticks:
        counted = [f"{name} {bits:.1f}" for name, bits in yardsticks.items()]
        lines.append(f"Models that only count: {', '.join(counted)}.")
    return "<br>".join(lines)
