"""A reader guesses the points of a curve, with sliders or circles, and then sees the curve."""

from collections.abc import Callable

import numpy as np
import plotly.graph_objects as go
import pytest
from ipywidgets import FloatSlider

from alibi_viz import lessons
from alibi_viz.lessons.guesses import Guess
from alibi_viz.widgets.core.plot import Plot
from tests.figures.reading import named_trace
from tests.lessons.reader import ask_for_answer, widgets
from tests.rows import each_case

pytestmark = pytest.mark.usefixtures("empty_folder")


def curve(**changes):
    """A guess at the two points after the first; within 1.5 of the truth, a point is close."""
    settings = {
        "x": [64, 128, 1024],
        "truth": [1.0, 2.0, 5.0],
        "low": -5,
        "high": 5,
    }
    return lessons.guess_curve("loss", "How high is the loss?", **(settings | changes))


def with_others():
    """The same, with two more curves, one of which leaves the axis on both sides."""
    others = {"rotary, window": [-7, 0, 20], "alibi": [1, 1, 1]}
    return curve(name="rotary", others=others)


def plot_of(guess):
    (plot,) = widgets(guess, Plot)
    return plot


def figure_of(guess):
    return go.Figure(plot_of(guess).picture)


def circles(guess):
    """The place (x, y) of each circle."""
    figure = figure_of(guess)
    marks = [mark for handle in plot_of(guess).handles for mark in handle["marks"]]
    return [(*named_trace(figure, mark).x, *named_trace(figure, mark).y) for mark in marks]


Move = Callable[[Guess, int, float], None]


def slide(guess, point, height):
    """Move a point with its slider."""
    widgets(guess, FloatSlider)[point].value = height


def drag(guess, point, height):
    """What the page sends when a circle is dragged to a height."""
    plot_of(guess).dragged = {"handle": point, "place": height}


by_either_way = pytest.mark.parametrize("move", [slide, drag])


# Before the guess


def test_the_figure_stands_below_the_question():
    guess = curve()
    _style, _question, plot, _sliders, *_ = guess.children
    assert plot is plot_of(guess)
    assert plot.app == guess.model_id, "whose picture a saved notebook keeps"


def test_each_point_to_guess_has_a_slider():
    sliders = widgets(curve(), FloatSlider)
    assert [slider.description for slider in sliders] == ["at 128", "at 1,024"]


def test_a_slider_has_steps_of_a_hundredth_of_the_axis():
    for slider in widgets(curve(), FloatSlider):
        assert (slider.min, slider.max, slider.step) == (-5, 5, 0.1)


def test_circles_are_dragged_up_and_down():
    assert [handle["axis"] for handle in plot_of(curve()).handles] == ["y", "y"]


def test_the_points_start_at_the_height_of_the_first():
    assert circles(curve()) == [(128, 1.0), (1024, 1.0)]


def test_the_curves_are_hidden_before_the_guess():
    figure = figure_of(with_others())
    assert [trace.name for trace in figure.data] == ["your guess", "guess 0", "guess 1"]


def test_the_axes_show_all_x_and_the_range_of_the_guess():
    layout = figure_of(curve()).layout
    # Logarithms: 8% of the axis beyond log10(64) = 1.8062 and log10(1024) = 3.0103.
    assert layout.xaxis.range == pytest.approx((1.7098, 3.1066), abs=1e-4)
    assert layout.yaxis.range == (-5, 5)


# Yardsticks


def with_yardsticks():
    """The same, with a line within the axis, which ends at 5, and one above it."""
    return curve(yardsticks={"letter frequencies": 5.1, "letter pairs": 3.292})


def test_a_yardstick_within_the_axis_is_a_line_before_the_guess():
    figure = figure_of(with_yardsticks())
    *_, line = figure.data
    assert np.log10(line.x) == pytest.approx(figure.layout.xaxis.range)
    assert line.y == (3.292, 3.292)


def test_a_yardstick_is_labeled_beside_its_line_only():
    figure = figure_of(with_yardsticks())
    (words,) = figure.layout.annotations
    assert (words.text, words.y) == ("letter pairs alone, 3.29", 3.292)
    assert named_trace(figure, "letter pairs alone, 3.29").showlegend is False


# The reader moves the points


@by_either_way
def test_the_line_goes_through_the_points_of_the_reader(move):
    guess = curve()
    move(guess, 0, 3.5)
    move(guess, 1, -2.0)
    assert named_trace(figure_of(guess), "your guess").y == (1.0, 3.5, -2.0)


@by_either_way
def test_a_circle_stays_at_its_place_on_the_x_axis(move):
    guess = curve()
    move(guess, 0, 3.5)
    move(guess, 1, -2.0)
    assert circles(guess) == [(128, 3.5), (1024, -2.0)]


@by_either_way
def test_a_point_stays_within_the_axis(move):
    guess = curve()
    move(guess, 0, 1e9)
    move(guess, 1, -1e9)
    assert named_trace(figure_of(guess), "your guess").y == (1.0, 5.0, -5.0)
    assert circles(guess) == [(128, 5.0), (1024, -5.0)]


def test_a_circle_left_at_its_height_is_no_guess():
    guess = curve()
    slide(guess, 1, 5.0)
    drag(guess, 0, 1.0)
    assert guess.value() is None


def test_a_guess_is_finished_once_every_point_has_moved():
    guess = curve()
    slide(guess, 1, 5.0)
    drag(guess, 0, 99.0)
    assert guess.value() == [5, 5]


# The answer


@by_either_way
@each_case(
    ("heights", "points", "close"),
    {
        "one is just close": ([3.5, 3.4], 0.5, "1 of your 2 points is close"),
        "outside the axis": ([1e9, -1e9], 0, "0 of your 2 points are close"),
    },
)
def test_points_within_15_percent_of_the_axis_are_close(move, heights, points, close):
    guess = curve()
    for point, height in enumerate(heights):
        move(guess, point, height)
    assert f"It is 2.00 at 128 and 5.00 at 1,024: {close}." in ask_for_answer(guess)
    assert guess.points == points


@each_case(
    ("height", "close"),
    {
        "close": (5, "your point is close"),
        "not close": (3, "your point is not close"),
    },
)
def test_a_single_point_is_close_or_not(height, close):
    guess = curve(at=[1024])
    slide(guess, 0, height)
    assert f"It is 5.00 at 1,024: {close}." in ask_for_answer(guess)


@pytest.fixture
def answered():
    """The figure with several curves, after the answer."""
    guess = with_others()
    slide(guess, 0, 2.0)
    slide(guess, 1, 5.0)
    ask_for_answer(guess)
    return figure_of(guess)


def test_the_truth_hides_no_curve_that_agrees_with_it(answered):
    """It is drawn as open rings, over the lines."""
    truth = named_trace(answered, "rotary")
    assert answered.data[-1] is truth
    assert (truth.mode, truth.marker.symbol) == ("markers", "circle-open")


def test_the_answer_shows_every_curve(answered):
    shown = {trace.name: trace.y for trace in answered.data}
    assert shown == {
        "guess 0": (2.0,),
        "guess 1": (5.0,),
        "your guess": (1.0, 2.0, 5.0),
        "rotary": (1.0, 2.0, 5.0),
        "rotary, window": (-7, 0, 20),
        "alibi": (1, 1, 1),
    }


def test_a_curve_beyond_the_axis_widens_it(answered):
    bottom, top = answered.layout.yaxis.range
    assert bottom == -7, "the lowest point lies on the lower end"
    assert top == pytest.approx(20 * 1.03), "above the highest point, 3% of its height are free"


def test_variants_of_a_method_have_its_color_and_another_dash(answered):
    rotary = named_trace(answered, "rotary").line
    window = named_trace(answered, "rotary, window").line
    assert window.color == rotary.color
    assert window.dash == "dashdot"
    assert rotary.dash != "dashdot"


def test_another_method_has_another_color(answered):
    assert named_trace(answered, "alibi").line.color != named_trace(answered, "rotary").line.color


# What cannot be asked for


@each_case(
    ("changes", "message"),
    {
        "the given point": ({"at": [64]}, "at must be .* after the first, got"),
        "no point there": ({"at": [100]}, "at must be .* after the first, got"),
        "one point twice": ({"at": [1024, 1024]}, "at must be different values"),
        "short curve": ({"truth": [1.0]}, r"'measured' must have \d numbers"),
        "another truth": (
            {"others": {"measured": [1.0, 1.0, 1.0]}},
            "others must not have the name of the truth, 'measured'",
        ),
        "empty axis": ({"low": 5}, "high must be .* above low, got 5"),
        "no logarithm": (
            {"x": [0, 64, 1024]},
            r"x must be positive and increasing, got \[0, 64, 1024\]",
        ),
        "falling x": (
            {"x": [128, 64, 1024]},
            r"x must be positive and increasing, got \[128, 64, 1024\]",
        ),
    },
)
def test_a_curve_that_cannot_be_asked_for_raises(changes, message):
    with pytest.raises(ValueError, match=message):
        curve(**changes)
