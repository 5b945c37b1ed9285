"""The figures of slopes and spans read back: points, lines, axes that include them all, and
redrawing in place."""

import numpy as np
import pandas as pd
import pytest
import torch

from alibi_viz import alibi_slopes, figures, half_life, lab
from alibi_viz.figures import slope_plot as picture
from alibi_viz.measure.attention_sources import Words
from alibi_viz.slopes import SCHEMES


@pytest.mark.parametrize(
    ("heads", "scheme"), [(heads, scheme) for heads in (1, 2, 7, 12, 64) for scheme in SCHEMES]
)
def test_points_are_the_slopes_and_lie_inside_both_axes(heads: int, scheme: str) -> None:
    slopes, official = alibi_slopes(heads, scheme), alibi_slopes(heads)
    figure = figures.slope_figure(slopes.requires_grad_(), scheme, official, other_name="official")
    main, other, _ = figure.data
    for trace, name, values in ((main, scheme, slopes.detach()), (other, "official", official)):
        assert (list(trace.x), trace.name, trace.visible) == (
            list(range(1, heads + 1)),
            name,
            trace.visible,
        )
        assert np.array_equal(trace.y, values.numpy())
        np.testing.assert_allclose(
            trace.customdata, torch.stack([half_life(values), 4 / values], dim=1), rtol=1e-6
        )
        (left, right), (low, high) = figure.layout.xaxis.range, figure.layout.yaxis.range
        assert (
            left < 1
            and right > heads
            and low < np.log10(trace.y.min())
            and high > np.log10(trace.y.max())
        )
    for value, text in zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True):
        assert (
            eval(text.replace("<sup>", "**").replace("</sup>", "")) == value
        )  # such as 1/256 or 2<sup>-20</sup>


def test_axes_seldom_change_and_refuse_what_has_no_place_on_them() -> None:
    series = [2**-4] * 17, [2**-1, 2**-8], [100], [1e-5], [1e-17], [1.1e-30, 9e29]
    few, usual, *wide = (figures.slope_figure(slopes).layout for slopes in series)
    assert few.yaxis.range == usual.yaxis.range and (few.xaxis.dtick, usual.xaxis.dtick) == (
        2,
        1,
    ), "at most 16 numbers"
    assert [each.yaxis2.dtick for each in wide] == ["D2", 1, 3, 8]
    assert wide[0].yaxis.ticktext == ("1/256", "1/64", "1/16", "1/4", "1", "4", "16", "64")
    for slopes in ([1e-30], [1e30], [[0.5]]):
        with pytest.raises(ValueError, match="other must be between 1e-30 and 1e30"):
            figures.slope_figure([0.5], other=slopes)


def table(length: int, heads: int) -> pd.DataFrame:
    return lab.window_table(Words(), "word " * length, num_heads=heads).query(
        "content == 'same word'"
    )


@pytest.mark.parametrize(("length", "heads"), [(1, 1), (9, 8), (900, 32)])
def test_marks_are_the_table_and_lie_inside_the_axes(length: int, heads: int) -> None:
    spans, figure = table(length, heads), picture.blank_spans()
    picture.draw_spans(figure, spans, length)
    _, bound, needed = figure.data
    for trace, column in ((bound, "bound"), (needed, "needed")):
        assert trace.name == column and np.array_equal(trace.x, spans["slope"])
        assert np.array_equal(trace.y, spans[column].clip(lower=1)), (
            "an axis of logarithms has no 0"
        )
        for axis, values in ((figure.layout.xaxis, trace.x), (figure.layout.yaxis, trace.y)):
            low, high = axis.range
            assert low < np.log10(values.min()) and np.log10(values.max()) < high
    assert np.array_equal(needed.customdata, spans[["head", "needed", "bound", "left_out"]])
    assert figure.layout.shapes[0].y0 == max(1, length - 1)


def test_heads_without_a_positive_slope_are_not_drawn_and_the_figure_is_updated_in_place() -> None:
    spans, figure = table(50, 3), picture.blank_spans()
    picture.draw_spans(figure, table(900, 8), 900)
    traces = list(figure.data)
    for slopes, drawn in (([0.0, 0.5, -0.1], 1), ([0.0] * 3, 0)):
        picture.draw_spans(figure, spans.assign(slope=slopes), 50)
        assert all(new is old for new, old in zip(figure.data, traces, strict=True))
        assert [len(trace.x) for trace in traces[1:]] == [drawn] * 2
        assert np.isfinite([*figure.layout.xaxis.range, *figure.layout.yaxis.range]).all()
    assert "50 tokens" in figure.layout.annotations[0].text
