"""A forest plot: by how much each claim of the study holds, with its interval, in every setting."""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.arguments import check_instance
from alibi_viz.figures import theme
from alibi_viz.measure.table import VERDICT_COLUMNS, check_table

COLORS = {
    "seen here": theme.COLORS[0],
    "not seen here": theme.COLORS[1],
    "can't tell": theme.COLORS[6],
}
SYMBOLS = ("circle", "diamond-open")  # of the settings
_TICKS = np.array([-8, -2, -0.5, -0.1, 0, 0.1, 0.5, 2, 8])
_END = np.arcsinh(70.0)  # where guesses are marked, near the ends of the axis
_ROW, _OFFSET = (
    34,
    0.18,
)  # pixels for a claim, and how far apart its settings are, as a share of that


def forest_figure(table: pd.DataFrame) -> go.Figure:
    """Draw the verdicts of `study.verdict_table`: a row for each claim, a point with its interval
    for each setting.

    To the right of zero a claim holds, to the left it doesn't, and the distance says by how much.
    If the interval contains zero, one can't tell. The axis shrinks large distances: some are a
    hundred times as large as others.
    """
    check_table("table", table, VERDICT_COLUMNS)
    claims, settings = list(dict.fromkeys(table["claim"])), list(dict.fromkeys(table["setting"]))
    figure = theme.blank(
        height=110 + _ROW * len(claims), margin={"l": 180, "t": 64}, legend={"y": 1.05}
    )
    for (place, setting), (verdict, color) in product(enumerate(settings), COLORS.items()):
        rows = table[
            (table["setting"] == setting) & (table["verdict"] == verdict) & table["margin"].notna()
        ]
        if rows.empty:
            continue
        x, low, high = (_shrink(rows[name]) for name in ("margin", "low", "high"))
        bars = {"type": "data", "symmetric": False, "array": high - x, "arrayminus": x - low}
        figure.add_scatter(
            x=x,
            y=rows["claim"].map(claims.index) + _OFFSET * (2 * place - len(settings) + 1),
            mode="markers",
            name=setting,
            legendgroup=setting,
            showlegend=setting not in {trace.name for trace in figure.data},
            marker={
                "color": color,
                "symbol": SYMBOLS[place % 2],
                "size": 11,
                "line": {"width": 2, "color": color},
            },
            error_x={**bars, "color": color, "thickness": 2, "width": 4},
            customdata=rows[["text", "numbers"]].to_numpy(),
            hovertemplate=(
                f"<b>{verdict}</b>, "
                f"{setting}<br>%{{customdata[0]}}<br>%{{customdata[1]}}<extra></extra>"
            ),
        )
    figure.add_vline(x=0, line={"color": theme.COLORS[6], "width": 1.5})
    top = {"x": 0, "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False}
    figure.add_annotation(top, xanchor="right", xshift=-8, text="◂ doesn't hold")
    figure.add_annotation(top, xanchor="left", xshift=8, text="holds ▸")
    ends = _shrink(_TICKS[[0, -1]])
    figure.update_xaxes(
        title="by how much, in bits per byte (needles: share of answers)", range=ends
    )
    figure.update_xaxes(tickvals=_shrink(_TICKS), ticktext=[f"{abs(tick):g}" for tick in _TICKS])
    figure.update_yaxes(
        tickvals=np.arange(len(claims)), ticktext=claims, range=[len(claims) - 0.5, -0.5]
    )
    return figure


def mark_guesses(figure: go.Figure, table: pd.DataFrame, guesses: Mapping[str, str | None]) -> None:
    """Mark in the forest plot of a table what a reader guessed of each claim, {claim: verdict, or
    None}.

    A triangle points to the reader's side, a circle means "can't tell". It is filled if the first
    setting agrees.
    """
    check_instance("figure", figure, *go.Figure.__bases__)  # a live figure, too
    check_instance("guesses", guesses, Mapping)
    check_table("table", table, VERDICT_COLUMNS)
    first = table.drop_duplicates("claim").set_index("claim")["verdict"]
    made = {claim: guess for claim, guess in guesses.items() if guess is not None}
    sides = dict(
        zip(
            COLORS, ((_END, "triangle-right"), (-_END, "triangle-left"), (0, "circle")), strict=True
        )
    )
    symbols = [sides[guess][1] + "-open" * (guess != first[claim]) for claim, guess in made.items()]
    figure.add_scatter(
        x=[sides[guess][0] for guess in made.values()],
        y=[list(first.index).index(claim) for claim in made],
        mode="markers",
        name="your guess (filled: right)",
        showlegend=bool(made),
        marker={"symbol": symbols, "size": 12, "color": theme.COLORS[2]},
        text=[f"{claim}: you guessed “{guess}”" for claim, guess in made.items()],
        hoverinfo="text",
    )


def _shrink(margin: ArrayLike) -> NDArray[np.float64]:
    """Linear up to about 0.1, logarithmic beyond."""
    return np.arcsinh(np.asarray(margin, dtype=float) / 0.1)
