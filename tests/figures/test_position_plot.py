"""What curves, waves and clocks of position methods show, and what is red."""

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from alibi_viz import figures
from alibi_viz.figures.position_plot import (
    RED,
    clocks_picture,
    is_new,
    logit_picture,
    waves_picture,
)
from alibi_viz.models.positions.absolute import Sinusoidal
from alibi_viz.models.positions.rotary import Rotary, rotary_frequencies
from tests.figures.reading import named_trace

WAVES = rotary_frequencies(64).numpy()
HANDS = rotary_frequencies(8).numpy()
STRAIGHT = -np.arange(256) / 16
FIRST_RED = 155  # of the numbers of a barcode


def test_pictures_are_plotly_figures_at_every_distance():
    for place in (0, 63, 64, 255):
        go.Figure(logit_picture(STRAIGHT, place))
        go.Figure(waves_picture(WAVES, place))
        go.Figure(clocks_picture(HANDS, place))


# The curve


def test_the_curve_is_the_logit_at_each_distance_with_a_mark_at_one():
    figure = figures.logit_figure(STRAIGHT, distance=200)
    np.testing.assert_array_equal(named_trace(figure, "curve").y, STRAIGHT)
    mark = named_trace(figure, "distance")
    assert (mark.x[0], mark.y[0]) == (200, -12.5)


def test_usual_curves_share_an_axis_and_others_fit_into_theirs():
    usual = figures.logit_figure(STRAIGHT, 0).layout.yaxis.range
    assert figures.logit_figure(0 * STRAIGHT, 0).layout.yaxis.range == usual
    low, _ = figures.logit_figure(100 * STRAIGHT, 0).layout.yaxis.range
    assert low < 100 * STRAIGHT.min()


def test_what_is_longer_than_in_training_is_gray_and_says_so():
    figure = figures.logit_figure(STRAIGHT, 0)
    (region,) = figure.select_shapes({"name": "longer"})
    assert region.x0 == 63.5
    labels = [label.text for label in figure.select_annotations({"name": "region"})]
    assert labels == ["seen in training", "longer than in training"]


def test_the_curve_below_the_clocks_is_a_product_of_rotated_vectors():
    query, key = Rotary(8).rotate(torch.ones(1, 1, 1, 8), torch.ones(1, 1, 256, 8))
    products = (key @ query.mT)[0, 0, :, 0]  # the query is at the last position
    curve = named_trace(figures.clocks_figure(HANDS, 0), "curve")
    np.testing.assert_allclose(curve.y, products.flip(0) - 8, atol=1e-5)


# What is new. In training, the largest distance is 63.


def new_angles(speeds, distance):
    """How many hands or waves are, at a distance, where no distance of training has turned them.

    It compares points on a circle with those of training, in steps of a hundredth of a token.
    """
    step = 0.01
    training = np.arange(0, 63 + step / 2, step)
    new = 0
    for speed in speeds:
        point = np.exp(1j * speed * distance)
        gap = np.abs(np.exp(1j * speed * training) - point).min()
        new += int(gap > step * speed)
    return new


@pytest.mark.parametrize("distance", [0, 63, 64, 255])
def test_an_angle_is_new_if_no_distance_of_training_has_it(distance):
    of_base_8 = rotary_frequencies(8, 8).numpy()
    for speeds in (WAVES, HANDS, of_base_8):
        assert is_new(speeds, distance).sum() == new_angles(speeds, distance)
    assert not is_new(of_base_8, distance).any()


# The clocks


@pytest.mark.parametrize("distance", [0, 64, 255])
def test_new_hands_are_red_and_others_blue(distance):
    figure = figures.clocks_figure(HANDS, distance)
    expected = new_angles(HANDS, distance)
    new = named_trace(figure, "new hands")
    assert new.line.color == RED
    # Each hand is two points and a gap.
    assert len(new.x) == 3 * expected
    assert len(named_trace(figure, "known hands").x) == 3 * (4 - expected)


def test_a_clock_with_a_new_hand_says_so():
    labels = figures.clocks_figure(HANDS, 64).select_annotations({"name": "period"})
    assert ["new angle" in label.text for label in labels] == [False, False, True, True]


def angles(distance, name):
    """How much of a round the band of each clock spans, from noon or where training ended."""
    trace = named_trace(figures.clocks_figure(HANDS, distance), name)
    spans = []
    points = (trace.x + 1j * trace.y).reshape(4, -1)[:, :100]  # the outer edge
    for clock, edge in enumerate(points):
        turns = np.unwrap(np.pi / 2 - np.angle(edge - clock))
        spans.append(float(turns[-1] - turns[0]))
    return spans


@pytest.mark.parametrize("distance", [0, 200])
def test_the_blue_band_of_a_clock_holds_all_angles_of_training(distance):
    once_round = 2 * np.pi  # of the two fast hands
    expected = [once_round, once_round, 0.01 * 63, 0.001 * 63]
    np.testing.assert_allclose(angles(distance, "turns of training"), expected, atol=1e-5)


@pytest.mark.parametrize(("distance", "tokens"), [(63, 0), (200, 200 - 63)])
def test_the_red_band_of_a_clock_holds_the_angles_after_training(distance, tokens):
    expected = [0, 0, 0.01 * tokens, 0.001 * tokens]
    np.testing.assert_allclose(angles(distance, "new turns"), expected, atol=1e-5)


# The barcode


def shades():
    """The number of each cell of the barcode, [wave, position]."""
    return named_trace(figures.waves_figure(WAVES, 200), "waves").z.astype(int)


def test_the_barcode_is_red_where_training_never_showed_a_wave():
    is_red = shades() >= FIRST_RED
    for position in (0, 63, 64, 255):
        assert is_red[:, position].sum() == new_angles(WAVES, position)


def test_the_barcode_has_the_waves_of_the_library():
    numbers = shades()
    numbers[numbers >= FIRST_RED] -= FIRST_RED
    waves = Sinusoidal(64).table(torch.arange(256)).T[::2]
    np.testing.assert_allclose(numbers, 50 + 50 * waves, atol=0.51)


def test_the_barcode_is_the_same_at_every_position():
    """So it is sent to the page only once."""
    first, second = (waves_picture(WAVES, position)["data"][0]["z"] for position in (0, 200))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("position", [63, 200])
def test_new_waves_have_a_mark_and_are_counted(position):
    figure = figures.waves_figure(WAVES, position)
    expected = new_angles(WAVES, position)
    assert len(named_trace(figure, "waves now").y) == expected
    (count,) = figure.select_annotations({"name": "new waves"})
    assert f"{expected} new</span> at {position}" in count.text
    (line,) = figure.select_shapes({"name": "position"})
    assert line.x0 == line.x1 == position


# Bad arguments


@pytest.mark.parametrize("logits", [[0.0] * 255, [np.nan] * 256], ids=["too few", "NaN"])
def test_logits_that_are_not_256_numbers_are_refused(logits):
    with pytest.raises(ValueError, match=r"logits must be \[256\] and finite"):
        figures.logit_figure(logits, 0)


@pytest.mark.parametrize("speeds", [[0.0], [4.0], []])
def test_speeds_that_turn_no_hand_or_too_fast_are_refused(speeds):
    with pytest.raises(ValueError, match="speeds must be above 0 and at most pi"):
        figures.clocks_figure(speeds, 0)
