"""The words of a text, what they keep of their weight, and the half-life above them."""

import numpy as np
import plotly.graph_objects as go
import pytest

from alibi_viz import figures
from alibi_viz.figures import theme
from alibi_viz.figures.forgetting_plot import forgetting_picture
from tests.figures.reading import named_trace

FORTY_WORDS = ["word"] * 40


def handle_place(figure):
    """Where the circle of the half-life stands, as a position of a word."""
    return named_trace(figure, "handle").x[0]


def label(figure, name):
    (found,) = figure.select_annotations({"name": name})
    return found


def test_pictures_are_plotly_figures():
    go.Figure(forgetting_picture(["a", "b"], 32, 0))
    go.Figure(forgetting_picture(FORTY_WORDS, 1, 39, square_root=True))


@pytest.mark.parametrize("half_life", [1, 7, 32])
def test_weights_halve_after_the_half_life(half_life):
    figure = figures.forgetting_figure(FORTY_WORDS, half_life)
    from_last_to_first = named_trace(figure, "weights").y[::-1]
    np.testing.assert_allclose(from_last_to_first, 0.5 ** (np.arange(40) / half_life))


def test_words_are_cut_and_escaped_below_the_bars():
    figure = figures.forgetting_figure(["an", '"unbelievably_long"', "<word>"], 4)
    assert figure.layout.xaxis.ticktext == ("an", '"unbelievably_l…', "<b>&lt;word&gt;</b>")


def test_a_marked_word_has_its_own_color_and_its_weight():
    figure = figures.forgetting_figure(FORTY_WORDS, 7, marked=14)
    colors = named_trace(figure, "weights").marker.color
    assert [place for place, color in enumerate(colors) if color == theme.ORANGE] == [25]
    assert label(figure, "word").text == "<b>25%</b>"
    assert label(figure, "word").x == 25


def test_every_word_takes_the_pointer_up_to_the_half_life():
    figure = figures.forgetting_figure(FORTY_WORDS, 1)
    columns = named_trace(figure, "columns")
    assert list(columns.x) == list(range(40))
    assert min(columns.y) > 1
    assert columns.customdata[38] == "word, 1 back: 50%"


def test_the_axis_ends_just_beyond_the_first_and_the_last_word():
    low, high = figures.forgetting_figure(["a", "b", "c"], 1).layout.xaxis.range
    assert -1 < low <= -0.5  # a word is one wide
    assert 2.5 <= high < 3


# The half-life


@pytest.mark.parametrize("half_life", [1, 20])
def test_the_handle_stands_so_many_words_back_above_the_bars(half_life):
    figure = figures.forgetting_figure(FORTY_WORDS, half_life)
    assert handle_place(figure) == 39 - half_life
    assert named_trace(figure, "handle").y[0] > 1
    line = named_trace(figure, "half-life")
    assert (line.x[0], line.x[-1], line.y[-1]) == (39, 39 - half_life, 0.5)


def test_a_half_life_beyond_the_text_stays_in_sight_and_says_so():
    figure = figures.forgetting_figure(FORTY_WORDS[:21], 25)
    assert -0.6 < handle_place(figure) < 0
    assert label(figure, "half-life").text == "half-life: 25 words, more than the text has"
    assert min(named_trace(figure, "half-life").y) > 1, "no word has half of the weight"


def test_the_label_of_a_short_half_life_is_left_of_its_handle():
    figure = figures.forgetting_figure(FORTY_WORDS[:21], 4)
    text = label(figure, "half-life")
    assert (text.xanchor, text.yanchor) == ("right", "middle")
    assert handle_place(figure) - 1 < text.x < handle_place(figure)


def test_the_label_of_a_long_half_life_is_above_the_line():
    text = label(figures.forgetting_figure(FORTY_WORDS[:21], 10), "half-life")
    assert (text.xanchor, text.yanchor) == ("right", "bottom")
    assert 20 <= text.x < 20.6


# The square root


def test_the_square_root_is_drawn_only_if_asked_for():
    names = [trace.name for trace in figures.forgetting_figure(FORTY_WORDS, 4).data]
    assert "square root" not in names


def test_the_label_of_the_square_root_stands_where_its_curve_begins():
    figure = figures.forgetting_figure(FORTY_WORDS[:17], 4, square_root=True)
    curve = named_trace(figure, "square root")
    assert curve.y[0] == pytest.approx(0.5)  # sqrt(16) = 4, a half-life
    text = label(figure, "square root")
    assert (text.x, text.y, text.xanchor) == (curve.x[0], curve.y[0], "left")


@pytest.mark.parametrize("words", [["one"], [1, 2]], ids=str)
def test_words_that_are_not_two_texts_are_refused(words):
    with pytest.raises(ValueError, match="words must be at least 2 texts"):
        figures.forgetting_figure(words, 4)
