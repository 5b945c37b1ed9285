"""Guesses in the forest plot: each is on its side of zero, and filled only if the first setting agrees."""

import pandas as pd

from alibi_viz.figures import forest_figure, mark_guesses

ROW = {"margin": 0.1, "low": 0.05, "high": 0.2, "text": "", "numbers": ""}
TABLE = pd.DataFrame(
    {**ROW, "setting": setting, "claim": claim, "verdict": verdict}
    for setting, verdicts in {"first": ["seen here", "not seen here"], "second": ["can't tell", "can't tell"]}.items()
    for claim, verdict in zip(("A", "B"), verdicts, strict=True)
)


def test_guesses_point_to_the_expected_side_and_are_filled_if_right() -> None:
    figure = forest_figure(TABLE)
    mark_guesses(figure, TABLE, {"A": "seen here", "B": "seen here"})
    marks = figure.data[-1]
    assert [x > 0 for x in marks.x] == [True, True] and list(marks.y) == [0, 1]
    assert list(marks.marker.symbol) == ["triangle-right", "triangle-right-open"]
    mark_guesses(figure, TABLE, {"A": None, "B": "not seen here"})
    assert list(figure.data[-1].y) == [1] and figure.data[-1].x[0] < 0
