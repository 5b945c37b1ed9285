"""The figure of slopes read back: points, lines, and axes that include them all."""

import numpy as np
import pytest
import torch

from alibi_viz import alibi_slopes, figures, half_life
from alibi_viz.formatting import format_number
from tests.figures.reading import named_trace
from tests.rows import each_case


def includes(axis, values):
    """Whether an axis of logarithms includes all of these values, and none at its ends."""
    low, high = axis.range
    exponents = np.log10(values)
    return bool(low < exponents.min() and exponents.max() < high)


# Slopes

HEADS_AND_SCHEMES = [(1, "geometric"), (12, "official"), (64, "halving")]


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


def test_only_one_series_is_shown_without_others():
    figure = figures.slope_figure([0.5, 0.25], name="mine")
    assert [trace.name for trace in figure.data] == ["mine", "lines"]


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
    lines = named_trace(figures.slope_figure(slopes), "lines")
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


def test_the_height_of_a_point_of_a_line_is_its_half_life():
    slopes = alibi_slopes(12)
    lines = named_trace(figures.slope_figure(slopes), "lines")
    assert lines.yaxis == "y2"
    np.testing.assert_allclose(lines.y[~np.isnan(lines.y)], half_life(slopes.double()))


def test_both_axes_give_the_same_height_to_a_slope_and_its_half_life():
    layout = figures.slope_figure(alibi_slopes(12)).layout
    of_slopes = np.power(10, layout.yaxis.range)
    of_half_lives = np.power(10, layout.yaxis2.range)
    np.testing.assert_allclose(of_half_lives, half_life(torch.tensor(of_slopes)))


@pytest.mark.parametrize(("heads", "step"), [(16, 1), (17, 2), (33, 3)])
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
