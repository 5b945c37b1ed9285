"""The figure of spans read back: marks, lines, and axes that include them all."""

import math

import numpy as np
import pandas as pd
import pytest

from alibi_viz import figures
from tests.rows import each_case

# Three heads, of which the last reads everything
SPANS = pd.DataFrame(
    {
        "head": [1, 2, 3],
        "slope": [1 / 2, 1 / 16, 1 / 512],
        "bound": [40, 320, 899],
        "needed": [33, 270, 899],
        "left_out": [0.92, 0.4, 0.0],
    }
)


def drawn(spans=SPANS, length=900):
    """The lines and marks of a figure by their names, and its layout."""
    figure = figures.window_figure(spans, length)
    return {trace.name: trace for trace in figure.data}, figure.layout


@pytest.mark.parametrize("column", ["bound", "needed"])
def test_marks_are_the_spans_of_the_table(column):
    traces, _ = drawn()
    assert list(traces[column].x) == list(SPANS["slope"])
    assert list(traces[column].y) == list(SPANS[column])


def test_the_dashed_line_is_the_span_at_equal_content():
    traces, _ = drawn()
    line = traces["24 half-lives, at equal content"]
    np.testing.assert_allclose(line.y, 24 * math.log(2) / np.array(line.x))


@each_case(
    "length", {"one token, 0 steps back, but a logarithm has no 0": 1, "9 tokens": 9, "900": 900}
)
def test_axes_include_every_mark_and_a_line_marks_the_first_token(length):
    spans = SPANS.assign(
        bound=SPANS["bound"].clip(upper=length - 1), needed=SPANS["needed"].clip(upper=length - 1)
    )
    traces, layout = drawn(spans, length)
    assert layout.shapes[0].y0 == max(1, length - 1)
    for trace in (traces["bound"], traces["needed"]):
        for axis, values in ((layout.xaxis, trace.x), (layout.yaxis, trace.y)):
            low, high = axis.range
            assert low < np.log10(values).min()
            assert np.log10(values).max() < high


def test_hover_texts_have_the_row_of_the_table():
    traces, _ = drawn()
    assert list(traces["needed"].customdata[0]) == [1, 33, 40, 0.92, "1/2"]


@pytest.mark.parametrize(
    ("slopes", "number"), [([0.0, 0.5, -0.1], 1), ([0.0, 0.0, 0.0], 0)], ids=["one", "none"]
)
def test_only_heads_with_a_positive_slope_are_drawn(slopes, number):
    traces, layout = drawn(SPANS.assign(slope=slopes))
    assert len(traces["bound"].x) == len(traces["needed"].x) == number
    assert np.isfinite([*layout.xaxis.range, *layout.yaxis.range]).all()
