"""The forest plot draws intervals; a guess is on its side of zero, and filled only if the first
setting agrees."""

import numpy as np
import pandas as pd
import pytest

from alibi_viz.figures import forest_figure, mark_guesses

ROWS = [
    ("first", "A", "seen here", 0.1),
    ("first", "B", "not seen here", 0.1),
    ("second", "A", "can't tell", 0.1),
]
TABLE = pd.DataFrame(
    [*ROWS, ("second", "B", "can't tell", None)], columns=["setting", "claim", "verdict", "margin"]
)
TABLE = TABLE.assign(
    low=0.05, high=0.2, text=TABLE["claim"] + " holds", numbers="0.1", source="", known="", p=0.01
)


def test_points_are_those_of_the_table_and_guesses_point_to_their_side() -> None:
    figure = forest_figure(TABLE)
    looks = (True, 0, "circle"), (False, 1, "circle"), (True, 0, "diamond-open")
    for point, (setting, claim, verdict, _), look in zip(figure.data, ROWS, looks, strict=True):
        assert (
            point.showlegend,
            round(point.y[0]),
            point.marker.symbol,
            point.error_x.symmetric,
        ) == (*look, False)
        ends = [
            point.x[0],
            point.x[0] - point.error_x.arrayminus[0],
            point.x[0] + point.error_x.array[0],
        ]
        assert ends == pytest.approx(np.arcsinh([1, 0.5, 2])), (
            "the interval, on an axis that is linear up to 0.1"
        )
        hover = (
            f"<b>{verdict}</b>, "
            f"{setting}<br>%{{customdata[0]}}<br>%{{customdata[1]}}<extra></extra>"
        )
        assert (point.hovertemplate, *point.customdata[0]) == (hover, f"{claim} holds", "0.1")
    assert [at.text for at in figure.layout.annotations if not at.showarrow] == [
        "◂ doesn't hold",
        "holds ▸",
    ]
    x, y, (line,) = figure.layout.xaxis, figure.layout.yaxis, figure.layout.shapes
    assert (
        line.x0 == line.x1 == 0
        and x.range == (*x.tickvals[::8],)
        and [*x.tickvals] == sorted(x.tickvals)
    )
    steps = [f"{abs(at):g}" for at in (np.sinh(x.tickvals) / 10).round(9)]
    assert [*x.ticktext] == steps == ["8", "2", "0.5", "0.1", "0", "0.1", "0.5", "2", "8"]
    assert (*y.tickvals, *y.ticktext, *y.range) == (0, 1, "A", "B", 1.5, -0.5), (
        "the first claim is at the top"
    )
    for guesses, xs, ys, symbols in (
        (("seen here", "can't tell"), [1, 0], [0, 1], ["triangle-right", "circle-open"]),
        ((None, "not seen here"), [-1], [1], ["triangle-left"]),
    ):
        mark_guesses(figure, TABLE, dict(zip("AB", guesses, strict=True)))
        marks, texts = figure.data[-1], [f"{'AB'[y]}: you guessed “{guesses[y]}”" for y in ys]
        assert [[*np.sign(marks.x)], [*marks.y], [*marks.marker.symbol], [*marks.text]] == [
            xs,
            ys,
            symbols,
            texts,
        ]
