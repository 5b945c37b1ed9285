"""The forest plot draws intervals; a guess is on its side of zero, and filled only if the first setting agrees."""

import numpy as np
import pandas as pd
import pytest

from alibi_viz.figures import forest_figure, mark_guesses

ROW = {"margin": 0.1, "low": 0.05, "high": 0.2, "text": "", "numbers": ""}
TABLE = pd.DataFrame(
    {**ROW, "setting": setting, "claim": claim, "verdict": verdict}
    for setting, verdicts in {"first": ["seen here", "not seen here"], "second": ["can't tell", "can't tell"]}.items()
    for claim, verdict in zip(("A", "B"), verdicts, strict=True)
)


def test_guesses_point_to_the_expected_side_and_are_filled_if_right() -> None:
    figure = forest_figure(TABLE)
    point = figure.data[0]
    ends = [point.x[0], point.x[0] - point.error_x.arrayminus[0], point.x[0] + point.error_x.array[0]]
    assert ends == pytest.approx(np.arcsinh([1, 0.5, 2])), "the interval, on an axis that is linear up to 0.1"
    assert figure.layout.xaxis.range == (figure.layout.xaxis.tickvals[0], figure.layout.xaxis.tickvals[-1])
    mark_guesses(figure, TABLE, {"A": "seen here", "B": "seen here"})
    marks = figure.data[-1]
    assert [x > 0 for x in marks.x] == [True, True] and list(marks.y) == [0, 1]
    assert list(marks.marker.symbol) == ["triangle-right", "triangle-right-open"]
    mark_guesses(figure, TABLE, {"A": None, "B": "not seen here"})
    assert list(figure.data[-1].y) == [1] and figure.data[-1].x[0] < 0
