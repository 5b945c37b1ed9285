"""The picture of the course: one rotary model, two switches, four losses.

A square of four cells, one for each state of the switches. The columns say whether far keys are
braked, the rows whether a longer text shows new angles. An app draws the loss by length beside it.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from alibi_viz.arguments import check_instance, check_known
from alibi_viz.figures import panels, theme
from alibi_viz.figures.theme import Picture
from alibi_viz.figures.yardstick_lines import LABEL_WIDTH, yardstick_lines
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
# Of the figure of an app
_MARGIN = {"l": 34, "r": 92, "t": 46, "b": 46}
_HEIGHT = 280  # pixels
_STACKED_HEIGHT = 470  # with the curves below the cells
_NARROW = 640  # pixels: on a narrower page, the words of a cell would be cut
# Shares of the width
_LEFT = (0.0, 0.43)
_RIGHT = (0.55, 1.0)
_PADDING = 1.12  # on both sides of the lengths, as a factor
# The axes of the cells, the first row on top
_CELLS_XAXIS = {"range": [0, 2], "showgrid": False, "ticks": "", "showticklabels": False}
_CELLS_YAXIS = _CELLS_XAXIS | {"range": [2, 0], "showline": False}
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

    annotations = _cell_words(outcomes, STATES)
    annotations.append(
        {
            "name": "yardsticks",
            "text": _in_words(window_loss(rows), yardsticks),
            "xref": "paper",
            "yref": "paper",
            "x": 0,
            "xanchor": "left",
            "y": 0,
            "yanchor": "top",
            "yshift": -8,
            "align": "left",
            "showarrow": False,
        }
    )
    picture = theme.picture(
        [_cells()],
        height=360,
        width=520,
        margin={"l": 40, "r": 12, "t": 62, "b": 56},
        xaxis=_CELLS_XAXIS,
        yaxis=_CELLS_YAXIS,
        shapes=_cell_frames(outcomes, now, STATES),
        annotations=annotations,
    )
    return theme.figure(picture)


def switches_picture(
    outcomes: Mapping[str, Outcome],
    *,
    now: str,
    shown: Collection[str],
    length: int,
    yardsticks: Mapping[str, float],
    page_width: int = 880,
) -> Picture:
    """The cells of an app, and the losses by length on the right or, on a narrow page, below.

    Args:
        outcomes: of all states, from `switch_outcomes`.
        now: the state that is framed and whose curve is blue.
        shown: the states whose numbers and curves are shown, with `now`.
        length: the training length.
        yardsticks: at most two losses to compare with, such as `Text.yardsticks`.
        page_width: pixels available for the figure.
    """
    lengths = sorted(outcomes[now].losses)
    right_end = lengths[-1] * _PADDING
    length_range = np.log10([lengths[0] / _PADDING, right_end]).tolist()
    worst = max(outcome.bits for outcome in outcomes.values())
    loss_range = [0.0, float(np.ceil(2 * worst + 0.2) / 2)]  # the same in every state

    height = _HEIGHT
    domains = panels.beside(_LEFT, _RIGHT)
    if page_width < _NARROW:
        height = _STACKED_HEIGHT
        domains = panels.stacked(height=height, margin=_MARGIN, between=24)

    traces = [_cells()]
    annotations = _cell_words(outcomes, shown)
    curves = []
    for state in [state for state in STATES if state in shown]:
        losses = outcomes[state].losses
        curves.append((np.log10(list(losses)), np.array(list(losses.values()))))
        traces.append(_curve(state, losses, is_now=state == now))
        # The name stands at the right end of its curve.
        name = CELLS[state].name
        annotations.append(
            {
                "name": f"curve {state}",
                "text": f"<b>{name}</b>" if state == now else name,
                "xref": "x2 domain",
                "yref": "y2",
                "x": 1,
                "xanchor": "left",
                "xshift": 3,
                "y": outcomes[state].bits,
                "showarrow": False,
            }
        )

    beyond_training = {
        "type": "rect",
        "name": "longer than training",
        "xref": "x2",
        "yref": "y2 domain",
        "x0": length,
        "x1": right_end,
        "y0": 0,
        "y1": 1,
        "fillcolor": theme.SHADE,
        "line": {"width": 0},
        "layer": "below",
    }
    lines = yardstick_lines(
        yardsticks,
        loss_range,
        curves=curves,
        x_range=length_range,
        label_width=LABEL_WIDTH / (_RIGHT[1] - _RIGHT[0]),
        x="x2",
        y="y2",
    )
    return theme.picture(
        traces,
        height=height,
        hovermode="closest",
        margin=_MARGIN,
        showlegend=False,
        xaxis=_CELLS_XAXIS | {"domain": domains["xaxis"]},
        yaxis=_CELLS_YAXIS | {"domain": domains["yaxis"]},
        xaxis2={
            "anchor": "y2",
            "domain": domains["xaxis2"],
            "type": "log",
            "range": length_range,
            "tickvals": lengths,
            "ticktext": [f"{tested:,}" for tested in lengths],
            "title": {
                "text": "length of the text, bytes",
                "standoff": 8,
                "font": {"size": 12},
            },
        },
        yaxis2={
            "anchor": "x2",
            "domain": domains["yaxis2"],
            "range": loss_range,
            "title": {"text": "bits per byte", "font": {"size": 12}},
        },
        shapes=[*_cell_frames(outcomes, now, shown), beyond_training, *lines],
        annotations=annotations,
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


def _cells() -> dict[str, Any]:
    """An invisible trace: plotly draws axes only with one, and an app hears clicks on its cells."""
    return {
        "type": "heatmap",
        "name": "cells",
        "x": [0.5, 1.5],
        "y": [0.5, 1.5],
        "z": [[0, 0], [0, 0]],
        "opacity": 0,
        "showscale": False,
        "hoverinfo": "none",
    }


def _cell_frames(
    outcomes: Mapping[str, Outcome], now: str | None, shown: Collection[str]
) -> list[dict[str, Any]]:
    """A shape for each cell, filled if it is shown, with a thick frame for the one of `now`."""
    frames = []
    for state, cell in CELLS.items():
        is_shown = state in shown
        line = {"color": theme.GRAY, "width": 1, "dash": "solid" if is_shown else "dot"}
        if state == now:
            line = {"color": theme.BLUE, "width": 4, "dash": "solid"}
        frames.append(
            {
                "type": "rect",
                "name": state,
                "x0": cell.column + _GAP,
                "x1": cell.column + 1 - _GAP,
                "y0": cell.row + _GAP,
                "y1": cell.row + 1 - _GAP,
                "fillcolor": tint(outcomes[state].bits) if is_shown else theme.SHADE,
                "line": line,
                "layer": "below",
            }
        )
    return frames


def _cell_words(outcomes: Mapping[str, Outcome], shown: Collection[str]) -> list[dict[str, Any]]:
    """Annotations: the title of the cells, of their columns and rows, and what each state does."""
    words = [
        {
            **theme.TITLE,
            "name": "title",
            "text": f"Bits per byte on texts of {outcomes[AS_TRAINED].longest:,} bytes",
            "xref": "x domain",
            "yref": "paper",
            "yshift": 22,
            "font": {"size": 13},
        }
    ]
    for column, text in enumerate(_COLUMNS):
        words.append({"text": text, "x": column + 0.5, "y": 0, "yanchor": "bottom", "yshift": 1})
    for row, text in enumerate(_ROWS):
        words.append(
            {
                "text": text,
                "x": 0,
                "xanchor": "right",
                "xshift": -2,
                "y": row + 0.5,
                "textangle": -90,
                "font": {"size": 11},
            }
        )
    for state, cell in CELLS.items():
        bits = UNKNOWN
        far_share = ""
        if state in shown:
            bits = f"<b>{outcomes[state].bits:.2f}</b>"
            far_share = f"far keys get {outcomes[state].far_share:.0%}"
        for name, text, yshift, size in (
            ("name", cell.name, _ABOVE, 12),
            ("bits", bits, 0, 30),
            ("far share", far_share, _BELOW, 12),
        ):
            words.append(
                {
                    "name": f"{name} {state}",
                    "text": text,
                    "x": cell.column + 0.5,
                    "y": cell.row + 0.5,
                    "yshift": yshift,
                    "font": {"size": size},
                }
            )
    return [{"showarrow": False} | annotation for annotation in words]


def _curve(state: str, losses: Mapping[int, float], *, is_now: bool) -> dict[str, Any]:
    """The losses of a state: blue and thick now, gray and thin before."""
    color = theme.BLUE if is_now else theme.GRAY
    return {
        "type": "scatter",
        "name": state,
        "mode": "lines+markers",
        "x": list(losses),
        "y": list(losses.values()),
        "line": {"color": color, "width": 3 if is_now else 1.5},
        "marker": {"color": color, "size": 8 if is_now else 5},
        "opacity": 1.0 if is_now else 0.7,
        "cliponaxis": False,
        "hovertemplate": _POINT,
        "xaxis": "x2",
        "yaxis": "y2",
    }


def _in_words(with_window: float, yardsticks: Mapping[str, float]) -> str:
    """What the numbers can be compared with: a sliding window, and models that only count."""
    lines = []
    if not math.isnan(with_window):
        lines.append(f"With a sliding window, it needs {with_window:.2f}.")
    if yardsticks:
        counted = [f"{name} {bits:.1f}" for name, bits in yardsticks.items()]
        lines.append(f"Models that only count: {', '.join(counted)}.")
    return "<br>".join(lines)
