"""The figure of the windows: marks per head, the line of equal content, and axes that include every mark."""

import math

import numpy as np
import pandas as pd
import pytest

from alibi_viz import figures, lab
from alibi_viz.figures import windows as picture
from alibi_viz.lab.attention_sources import Words


def table(text: str, heads: int) -> pd.DataFrame:
    windows = lab.window_table(Words(), text, num_heads=heads)
    return windows[windows["content"] == "random"]


@pytest.mark.parametrize(("length", "heads"), [(1, 1), (9, 8), (900, 32)])
def test_marks_are_the_table_and_lie_inside_the_axes(length: int, heads: int) -> None:
    windows = table("word " * length, heads)
    figure = figures.window_figure(windows, length)
    _, bound, needed, left_out = figure.data
    assert (bound.name, needed.name) == ("bound", "needed")
    for trace, column in ((bound, "bound"), (needed, "needed")):
        assert np.array_equal(trace.x, windows["slope"])
        assert np.array_equal(trace.y, windows[column].clip(lower=1)), "an axis of logarithms has no 0"
        for axis, values in ((figure.layout.xaxis, trace.x), (figure.layout.yaxis, trace.y)):
            low, high = axis.range
            assert low < np.log10(values.min()) and np.log10(values.max()) < high
    assert np.array_equal(left_out.y, windows["left_out"])
    assert np.array_equal(left_out.error_y.arrayminus, windows["left_out"]), "stems down to 0"
    assert np.array_equal(needed.customdata, windows[["head", "needed", "bound", "left_out"]])
    assert figure.layout.shapes[0].y0 == max(1, length - 1)
    assert f"{length:,} tokens" in figure.layout.annotations[0].text


def test_dashed_line_is_the_window_at_equal_content() -> None:
    windows = lab.window_table(Words(), "word " * 900, num_heads=8)
    line = picture.window_figure(windows, 900).data[0]
    assert np.allclose(line.x * line.y, math.log(2**24))
    steepest = windows[(windows["content"] == "equal") & (windows["head"] == 1)]
    assert steepest["needed"].item() == pytest.approx(math.log(2**24) / 0.5, abs=1)


def test_heads_without_a_positive_slope_are_not_drawn() -> None:
    windows = table("word " * 50, 3)
    windows["slope"] = [0.0, 0.5, -0.1]
    figure = picture.window_figure(windows, 50)
    assert [list(trace.x) for trace in figure.data[1:]] == [[0.5]] * 3
    windows["slope"] = 0.0
    picture.draw(figure, windows, 50)
    assert [len(trace.x) for trace in figure.data[1:]] == [0, 0, 0]
    assert np.isfinite([*figure.layout.xaxis.range, *figure.layout.yaxis.range]).all()


def test_drawing_again_changes_the_figure_in_place() -> None:
    figure = picture.window_figure(table("word " * 900, 8), 900)
    traces = figure.data
    picture.draw(figure, table("word " * 40, 2), 40)
    assert all(new is old for new, old in zip(figure.data, traces, strict=True))
    assert figure.layout.annotations[0].text == "the whole text, 40 tokens"
    assert len(figure.data[1].y) == 2
