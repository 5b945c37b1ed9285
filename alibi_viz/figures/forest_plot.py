"""A forest plot: by how much each claim of the study holds, with its interval, in every setting."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray
from plotly.basedatatypes import BaseFigure

from alibi_viz.arguments import check_instance
from alibi_viz.figures import theme
from alibi_viz.measure.table import VERDICT_COLUMNS, check_table

VERDICT_COLORS = {
    "seen here": theme.BLUE,
    "not seen here": theme.ORANGE,
    "can't tell": theme.GRAY,
}
SETTING_SYMBOLS = ("circle", "diamond-open")
_TICKS = np.array([-8, -2, -0.5, -0.1, 0, 0.1, 0.5, 2, 8])
_END = np.arcsinh(70.0)  # where guesses are marked, near the ends of the axis
_GUESS_SYMBOLS = {
    "seen here": (_END, "triangle-right"),
    "not seen here": (-_END, "triangle-left"),
    "can't tell": (0, "circle"),
}
_ROW = 34  # pixels for a claim
_OFFSET = 0.18  # half the distance between the settings of a claim, as a share of its row


def forest_figure(table: pd.DataFrame) -> go.Figure:
    """Draw the verdicts of `study.verdict_table`: a row for each claim, a point with its interval
    for each setting.

    To the right of zero a claim holds, to the left it doesn't, and the distance says by how much.
    If the interval contains zero, one can't tell. The axis shrinks large distances: some are a
    hundred times as large as others.
    """
    check_table("table", table, VERDICT_COLUMNS)
    claims = list(table["claim"].unique())
    settings = list(table["setting"].unique())
    figure = theme.blank(
        height=110 + _ROW * len(claims), margin={"l": 180, "t": 64}, legend={"y": 1.05}
    )
    for number, setting in enumerate(settings):
        rows = table[(table["setting"] == setting) & table["margin"].notna()]
        offset = _OFFSET * (2 * number - len(settings) + 1)  # the settings of a claim side by side
        is_in_legend = False
        for verdict in VERDICT_COLORS:
            same_verdict = rows[rows["verdict"] == verdict]
            if same_verdict.empty:
                continue
            places = same_verdict["claim"].map(claims.index) + offset
            symbol = SETTING_SYMBOLS[number % 2]
            _add_points(figure, same_verdict, places, symbol, showlegend=not is_in_legend)
            is_in_legend = True

    figure.add_vline(x=0, line={"color": theme.GRAY, "width": 1.5})
    above_zero = {"x": 0, "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False}
    figure.add_annotation(above_zero, xanchor="right", xshift=-8, text="◂ doesn't hold")
    figure.add_annotation(above_zero, xanchor="left", xshift=8, text="holds ▸")

    figure.update_xaxes(
        title="by how much, in bits per byte (needles: share of answers)",
        range=_shrink(_TICKS[[0, -1]]),
        tickvals=_shrink(_TICKS),
        ticktext=[f"{abs(tick):g}" for tick in _TICKS],
    )
    figure.update_yaxes(
        tickvals=np.arange(len(claims)),
        ticktext=claims,
        range=[len(claims) - 0.5, -0.5],  # the first claim is at the top
    )
    return figure


def _add_points(
    figure: go.Figure, rows: pd.DataFrame, places: pd.Series, symbol: str, *, showlegend: bool
) -> None:
    """Add the points of one setting and verdict with their intervals, at these places of y."""
    setting = rows["setting"].iloc[0]
    verdict = rows["verdict"].iloc[0]
    color = VERDICT_COLORS[verdict]
    margin = _shrink(rows["margin"])
    figure.add_scatter(
        x=margin,
        y=places,
        mode="markers",
        name=setting,
        legendgroup=setting,
        showlegend=showlegend,
        marker={
            "color": color,
            "symbol": symbol,
            "size": 11,
            "line": {"width": 2, "color": color},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": _shrink(rows["high"]) - margin,
            "arrayminus": margin - _shrink(rows["low"]),
            "color": color,
            "thickness": 2,
            "width": 4,
        },
        customdata=rows[["text", "numbers"]].to_numpy(),
        hovertemplate=(
            f"<b>{verdict}</b>, {setting}"
            "<br>%{customdata[0]}<br>%{customdata[1]}<extra></extra>"
        ),
    )


def mark_guesses(figure: go.Figure, table: pd.DataFrame, guesses: Mapping[str, str | None]) -> None:
    """Mark in the forest plot of a table what a reader guessed of each claim.

    A triangle points to the reader's side, a circle means "can't tell". It is filled if the first
    setting agrees.

    Args:
        figure: from `forest_figure`, plain or live.
        table: the same table.
        guesses: {claim: verdict}, None for a claim without a guess.
    """
    check_instance("figure", figure, BaseFigure)  # plain or live
    check_instance("guesses", guesses, Mapping)
    check_table("table", table, VERDICT_COLUMNS)
    verdicts = table.drop_duplicates("claim").set_index("claim")["verdict"]  # in the first setting
    claims = list(verdicts.index)

    x: list[float] = []
    y: list[int] = []
    symbols: list[str] = []
    texts: list[str] = []
    for claim, guess in guesses.items():
        if guess is None:
            continue
        side, symbol = _GUESS_SYMBOLS[guess]
        x.append(side)
        y.append(claims.index(claim))
        symbols.append(symbol if guess == verdicts[claim] else f"{symbol}-open")
        texts.append(f"{claim}: you guessed “{guess}”")

    figure.add_scatter(
        x=x,
        y=y,
        mode="markers",
        name="your guess (filled: right)",
        showlegend=bool(x),
        marker={"symbol": symbols, "size": 12, "color": theme.GREEN},
        text=texts,
        hoverinfo="text",
    )


def _shrink(margin: ArrayLike) -> NDArray[np.float64]:
    """Linear up to about 0.1, logarithmic beyond."""
    return np.arcsinh(np.asarray(margin, dtype=float) / 0.1)
