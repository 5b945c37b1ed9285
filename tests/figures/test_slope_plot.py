"""The figures of slopes and spans read back: points, lines, axes that include them all, and
redrawing in place."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from alibi_viz import alibi_slopes, figures, half_life, lab
from alibi_viz.figures import slope_plot as picture
from alibi_viz.figures.slope_plot import SlopeTraces
from alibi_viz.figures.theme import named_trace
from alibi_viz.formatting import format_number
from alibi_viz.measure.attention_sources import Words
from alibi_viz.slopes import SCHEMES
from tests.rows import each_case


def includes(axis, values):
    """Whether an axis of logarithms includes all of these values, and none at its ends."""
    low, high = axis.range
    exponents = np.log10(values)
    return bool(low < exponents.min() and exponents.max() < high)


# Slopes

HEADS_AND_SCHEMES = list(product((1, 2, 7, 12, 64), SCHEMES))


def beside_official(heads, scheme):
    """The slopes of a scheme, and the official ones beside them."""
    slopes = alibi_slopes(heads, scheme).requires_grad_()
    return figures.slope_figure(slopes, scheme, alibi_slopes(heads), other_name="official")


@pytest.mark.parametrize(("heads", "scheme"), HEADS_AND_SCHEMES)
def test_points_are_the_slopes_of_the_heads_from_1(heads, scheme):
    main, other = beside_official(heads, scheme).data[:2]
    for trace, name in ((main, scheme), (other, "official")):
        assert trace.name == name
        assert list(trace.x) == list(range(1, heads + 1))
        np.testing.assert_array_equal(trace.y, alibi_slopes(heads, name).numpy())


@pytest.mark.parametrize(("heads", "scheme"), HEADS_AND_SCHEMES)
def test_hover_texts_have_the_half_life_and_the_steps_to_a_bias_of_4(heads, scheme):
    main = beside_official(heads, scheme).data[0]
    slopes = alibi_slopes(heads, scheme)
    for texts, half_life_of_head, steps in zip(
        main.customdata, half_life(slopes.double()), 4 / slopes, strict=True
    ):
        assert list(texts[1:]) == [format_number(half_life_of_head), format_number(steps)]


def test_hover_texts_write_slopes_as_the_captions_do():
    hover = figures.slope_figure([0.25, 2**-0.5]).data[0].customdata
    assert [texts[0] for texts in hover] == ["1/4", "0.707"]


@pytest.mark.parametrize(("heads", "scheme"), HEADS_AND_SCHEMES)
def test_axes_include_every_point(heads, scheme):
    figure = beside_official(heads, scheme)
    left, right = figure.layout.xaxis.range
    assert left < 1
    assert heads < right
    for trace in figure.data[:2]:
        assert includes(figure.layout.yaxis, trace.y)


def tick_texts(slopes):
    axis = figures.slope_figure(slopes).layout.yaxis
    return dict(zip(axis.tickvals, axis.ticktext, strict=True))


def test_ticks_of_slopes_are_fractions():
    texts = tick_texts([0.5, 2**-8])
    assert texts[2**-8] == "1/256"
    assert texts[2**-2] == "1/4"


def test_ticks_of_small_slopes_are_powers_of_two():
    assert tick_texts([2**-20])[2**-20] == "2<sup>\N{MINUS SIGN}20</sup>"


def test_a_single_large_slope_has_the_usual_ticks_as_well():
    texts = list(tick_texts([100]).values())
    assert texts == ["1/256", "1/64", "1/16", "1/4", "1", "4", "16", "64"]


@pytest.mark.parametrize("scheme", ["official", "geometric"])
def test_the_axis_of_slopes_stays_for_every_number_of_heads(scheme):
    axis_of_eight = figures.slope_figure(alibi_slopes(8, scheme)).layout.yaxis
    for heads in (1, 12, 16, 64):
        axis = figures.slope_figure(alibi_slopes(heads, scheme)).layout.yaxis
        assert axis.range == axis_of_eight.range
        assert axis.tickvals == axis_of_eight.tickvals


def joined_heads(slopes):
    """The heads of each line."""
    lines = SlopeTraces(*figures.slope_figure(slopes).data).lines
    pieces = [[]]
    for head in lines.x:
        if np.isnan(head):
            pieces.append([])
        else:
            pieces[-1].append(int(head))
    return pieces


@each_case(
    ("heads", "scheme", "lines"),
    {
        "a power of two": (8, "official", [[1, 2, 3, 4, 5, 6, 7, 8]]),
        "the first power of two, and the rest": (
            12,
            "official",
            [[1, 2, 3, 4, 5, 6, 7, 8], [9, 10, 11, 12]],
        ),
        "one geometric sequence": (6, "geometric", [[1, 2, 3, 4, 5, 6]]),
        "a single head": (1, "official", [[1]]),
    },
)
def test_a_line_joins_heads_as_long_as_their_slopes_fall(heads, scheme, lines):
    assert joined_heads(alibi_slopes(heads, scheme)) == lines


def test_the_height_of_a_point_of_a_line_is_its_slope():
    slopes = alibi_slopes(12)
    lines = SlopeTraces(*figures.slope_figure(slopes).data).lines
    np.testing.assert_array_equal(lines.y[~np.isnan(lines.y)], slopes)


@pytest.mark.parametrize(("heads", "step"), [(2, 1), (16, 1), (17, 2), (32, 2), (33, 3)])
def test_at_most_16_heads_have_their_numbers(heads, step):
    assert figures.slope_figure([0.5] * heads).layout.xaxis.dtick == step


@each_case(
    ("slopes", "step"),
    {
        "two digits of a decade": ([100], "D2"),
        "each decade": ([1e-5], 1),
        "every third decade": ([1e-17], 3),
        "every eighth decade": ([1.1e-30, 9e29], 8),
    },
)
def test_half_lives_have_ticks_that_fit(slopes, step):
    assert figures.slope_figure(slopes).layout.yaxis2.dtick == step


@pytest.mark.parametrize("other", [[1e-30], [1e30], [[0.5]]], ids=str)
def test_slopes_without_a_place_on_the_axes_are_refused(other):
    with pytest.raises(ValueError, match="other must be between 1e-30 and 1e30"):
        figures.slope_figure([0.5], other=other)


# Spans


@cache
def spans_of(length, heads):
    """The spans of heads on a text of equal words."""
    table = lab.window_table(Words(), "word " * length, num_heads=heads)
    return table[table["content"] == "same word"]


def drawn_spans(length, heads):
    figure = picture.blank_spans()
    picture.draw_spans(figure, spans_of(length, heads), length)
    return figure


LENGTHS_AND_HEADS = [(1, 1), (9, 8), (900, 32)]


@pytest.mark.parametrize(("length", "heads"), LENGTHS_AND_HEADS)
@pytest.mark.parametrize("column", ["bound", "needed"])
def test_marks_are_the_spans_of_the_table(length, heads, column):
    trace = named_trace(drawn_spans(length, heads), column)
    spans = spans_of(length, heads)
    np.testing.assert_array_equal(trace.x, spans["slope"])
    # An axis of logarithms has no 0.
    np.testing.assert_array_equal(trace.y, spans[column].clip(lower=1))


@pytest.mark.parametrize(("length", "heads"), LENGTHS_AND_HEADS)
def test_axes_include_every_mark(length, heads):
    figure = drawn_spans(length, heads)
    for trace in figure.data[1:]:
        assert includes(figure.layout.xaxis, trace.x)
        assert includes(figure.layout.yaxis, trace.y)


def test_hover_texts_have_the_row_of_the_table():
    needed = named_trace(drawn_spans(9, 8), "needed")
    expected = spans_of(9, 8)[["head", "needed", "bound", "left_out"]]
    np.testing.assert_array_equal(needed.customdata[:, :4].astype(float), expected)
    assert needed.customdata[0, 4] == "1/2"


@each_case(
    ("length", "farthest"),
    {
        "one token, 0 steps back, but a logarithm has no 0": (1, 1),
        "9 tokens": (9, 8),
        "900 tokens": (900, 899),
    },
)
def test_a_line_marks_the_farthest_key(length, farthest):
    assert drawn_spans(length, 1).layout.shapes[0].y0 == farthest


@pytest.mark.parametrize(
    ("slopes", "number"), [([0.0, 0.5, -0.1], 1), ([0.0, 0.0, 0.0], 0)], ids=["one", "none"]
)
def test_only_heads_with_a_positive_slope_are_drawn(slopes, number):
    figure = picture.blank_spans()
    picture.draw_spans(figure, spans_of(50, 3).assign(slope=slopes), 50)
    assert [len(trace.x) for trace in figure.data[1:]] == [number, number]
    assert np.isfinite([*figure.layout.xaxis.range, *figure.layout.yaxis.range]).all()


def test_spans_are_drawn_again_in_place():
    figure = drawn_spans(900, 8)
    before = [id(trace) for trace in figure.data]
    picture.draw_spans(figure, spans_of(50, 3), 50)
    assert [id(trace) for trace in figure.data] == before
    assert "50 tokens" in figure.layout.annotations[0].text
