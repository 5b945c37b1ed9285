"""The claims of the study on one line each: a dot with its interval for every setting."""

from collections.abc import Sequence
from itertools import chain, cycle
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import theme
from alibi_viz.measure.table import (
    OPEN,
    REACH_COLUMNS,
    SCALED,
    VERDICT_COLUMNS,
    VERDICTS,
    check_table,
)

MAIN_SETTING = "the main setting"
OTHER_SETTINGS = "other settings"
# Where the words under the axis stand, as distances from the threshold
_WORDS = {
    -3.0: "clearly fails",
    -0.2: "narrowly fails",
    0.0: "threshold",
    0.2: "narrowly holds",
    3.0: "clearly holds",
}
_END = np.arcsinh(80.0)  # of the axis
_ROW = 22  # pixels for a claim
_WORDS_WIDTH = 38  # characters of a line of words on the right
_SPREAD = 0.64  # of the dots of a claim, as a share of its row


def claims_figure(table: pd.DataFrame, reach: pd.DataFrame) -> go.Figure:
    """What became of each claim of the study: a line for each claim, a dot with its interval for
    each setting.

    To the right of the threshold a claim holds, to the left it doesn't. The axis shrinks large
    distances: some are a hundred times as large as others. Where a claim hangs on a factor, the
    settings that change it have its color; all other dots are gray. Diamonds have ALiBi's slopes
    times 8, and a dot is hollow if the verdict is open. Words on the right say how far each claim
    reaches.

    Args:
        table: from `study.verdict_table`.
        reach: its `study.reach_table`.
    """
    check_table("table", table, VERDICT_COLUMNS)
    check_table("reach", reach, REACH_COLUMNS)
    claims = list(reach["claim"])
    figure = theme.blank(
        height=110 + _ROW * len(claims),
        margin={"l": 180, "r": 246, "t": 40, "b": 44},
        # At the upper edge: above the plot, it would cover the first claim on a wide page.
        legend={"yref": "container", "y": 1, "yanchor": "top"},
    )
    points = _points(table, reach)
    # A factor has its color in the rows of the claims that hang on it.
    factors = dict.fromkeys(chain.from_iterable(reach["hangs_on"]))
    colors = {OTHER_SETTINGS: theme.GRAY, MAIN_SETTING: theme.GRAY}
    colors |= dict(zip(factors, cycle(theme.COLORS), strict=False))
    for name, color in colors.items():
        # The legend shows the first symbol of a group: circles come before diamonds.
        of_name = points[points["group"] == name].sort_values("slopes", kind="stable")
        if not of_name.empty:
            size = 12 if name == MAIN_SETTING else 8
            _add_points(figure, of_name, name, color, size)

    figure.add_vline(x=0, line={"color": theme.GRAY, "width": 1.5})
    for place, words in enumerate(reach["reach"]):
        text = "<br>".join(wrap(words, _WORDS_WIDTH))
        if words.startswith("hangs on"):
            text = f"<b>{text}</b>"
        figure.add_annotation(
            x=1,
            xref="paper",
            xanchor="left",
            xshift=8,
            y=place,
            text=text,
            font_size=11,
            align="left",
            showarrow=False,
        )
    distances = np.array(list(_WORDS))
    figure.update_xaxes(
        range=[-_END, _END],
        tickvals=_shrink(distances),
        # On two lines, beside each other they would be turned and cut.
        ticktext=[words.replace(" ", "<br>") for words in _WORDS.values()],
        tickangle=0,
        showgrid=False,
    )
    figure.update_yaxes(
        tickvals=np.arange(len(claims)),
        ticktext=claims,
        range=[len(claims) - 0.5, -0.5],  # the first claim is at the top
    )
    return figure


def _points(table: pd.DataFrame, reach: pd.DataFrame) -> pd.DataFrame:
    """The verdicts that have an interval, with the place (on the y axis), group and symbol of each.

    The group is a factor that decides, "the main setting" or "other settings".
    """
    table = table.dropna(subset="low")
    places = {claim: place for place, claim in enumerate(reach["claim"])}
    deciding = dict(zip(reach["claim"], reach["hangs_on"], strict=True))
    settings = table.groupby("claim")["setting"].unique().map(list)

    rows = []
    for row in table.itertuples():
        group = deciding_factor(row, deciding[row.claim])
        if not group:
            group = OTHER_SETTINGS if row.factor or row.slopes == SCALED else MAIN_SETTING
        of_claim = settings[row.claim]
        lane = (of_claim.index(row.setting) + 0.5) / len(of_claim) - 0.5
        shape = "diamond" if row.slopes == SCALED else "circle"
        hollow = "-open" if row.verdict == OPEN else ""
        rows.append((places[row.claim] + _SPREAD * lane, group, shape + hollow))
    columns = pd.DataFrame(rows, columns=["place", "group", "symbol"], index=table.index)
    return table.join(columns)


def deciding_factor(verdict: Any, hangs_on: Sequence[str]) -> str:
    """Which of the factors that a claim hangs on a verdict differs in from the main one, or "".

    `verdict` has the attributes factor and slopes, as a row of `study.verdict_table`.
    """
    if verdict.factor in hangs_on:
        return str(verdict.factor)
    if verdict.slopes == SCALED and "slopes" in hangs_on:
        return "slopes"
    return ""


def _add_points(figure: go.Figure, points: pd.DataFrame, name: str, color: str, size: int) -> None:
    """Add the points of a group with their intervals."""
    margin = _shrink(points["margin"])
    slopes = points["slopes"].map(lambda slopes: f", slopes {slopes}" if slopes else "")
    settings = points["setting_name"] + slopes
    figure.add_scatter(
        x=margin,
        y=points["place"],
        mode="markers",
        name=name,
        marker={"color": color, "symbol": list(points["symbol"]), "size": size},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": _shrink(points["high"]) - margin,
            "arrayminus": margin - _shrink(points["low"]),
            "color": color,
            "thickness": 1.5,
            "width": 0,
        },
        customdata=np.column_stack(
            [points["verdict"].map(VERDICTS), settings, points["text"], points["numbers"]]
        ),
        hovertemplate=(
            "<b>%{customdata[0]}</b>, %{customdata[1]}"
            "<br>%{customdata[2]}<br>%{customdata[3]}<extra></extra>"
        ),
    )


def _shrink(margin: ArrayLike) -> NDArray[np.float64]:
    """Linear up to about 0.1, logarithmic beyond."""
    return np.arcsinh(np.asarray(margin, dtype=float) / 0.1)
