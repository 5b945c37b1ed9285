"""PositionZoo: what its curves, waves and clocks show, and what is red."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import alibi_viz as av
from alibi_viz.figures.position_plot import RED
from alibi_viz.figures.theme import named_trace
from alibi_viz.models.positions.biases import KerpleLog
from alibi_viz.models.positions.rotary import Rotary
from alibi_viz.widgets import PositionZoo
from alibi_viz.widgets.core.traits import BadValue
from tests.rows import each_case
from tests.widgets.race.small_race import control

DISTANCE = torch.arange(256)


def drawn(app, name):
    """The y of a trace."""
    return named_trace(app.figure, name).y


# The curves


def curve(method):
    """The logits at the distances from 0 to 255."""
    return drawn(PositionZoo(method=method), "curve")


def test_without_positions_the_curve_is_flat():
    assert not curve("none").any()


def test_the_curve_of_alibi_is_the_bias_of_head_4():
    bias = av.alibi_bias(av.alibi_slopes(8), 1, 256)[3, 0]
    np.testing.assert_allclose(curve("alibi"), bias.flip(0), atol=1e-6)


def test_the_curve_of_kerple_is_that_of_the_library():
    kerple = KerpleLog(1)
    torch.nn.init.ones_(kerple.p)
    torch.nn.init.ones_(kerple.a)
    expected = kerple.curve(DISTANCE)[0].detach()
    np.testing.assert_allclose(curve("kerple-log"), expected, rtol=1e-6)


def test_the_curve_of_rotary_is_a_product_of_rotated_vectors():
    query, key = Rotary(8).rotate(torch.ones(1, 1, 1, 8), torch.ones(1, 1, 256, 8))
    products = (key @ query.mT)[0, 0, :, 0]  # the query is at the last position
    np.testing.assert_allclose(curve("rotary"), products.flip(0) - 8, atol=1e-5)


def test_the_last_step_of_t5_is_as_in_a_model_trained_on_64_tokens():
    np.testing.assert_array_equal(curve("t5"), -DISTANCE.clamp(max=15) / 16)


def test_a_logit_of_zero_has_no_sign():
    assert "the logit 0." in PositionZoo(method="kerple-log", distance=0).caption


@each_case(
    ("method", "distance", "place"),
    {
        "one token": ("alibi", 1, "1 token back was seen in training"),
        "the longest of training": ("t5", 63, "63 tokens back was seen in training"),
        "one more": ("none", 64, "64 tokens back is longer than in training"),
        "one more, in clocks": ("rotary", 64, "64 tokens back is longer than in training"),
    },
)
def test_the_caption_says_whether_training_had_the_distance(method, distance, place):
    assert PositionZoo(method=method, distance=distance).caption.startswith(place)


# What is new. In training, the largest distance is 63.


def new_angles(count, distance, base=10_000.0):
    """How many hands or waves are, at a distance, where no distance of training has turned them.

    It compares points on a circle with those of training, in steps of a hundredth of a token.
    """
    step = 0.01
    training = np.arange(0, 63 + step / 2, step)
    new = 0
    for speed in base ** (-np.arange(count) / count):
        point = np.exp(1j * speed * distance)
        gap = np.abs(np.exp(1j * speed * training) - point).min()
        new += int(gap > step * speed)
    return new


def hands(app, name):
    """How many hands a trace has: each is two points and a gap."""
    return len(drawn(app, name)) // 3


@pytest.mark.parametrize("distance", [0, 63, 64, 255])
def test_a_hand_is_red_where_no_distance_of_training_has_turned_it(distance):
    app = PositionZoo(method="rotary", distance=distance)
    expected = new_angles(4, distance)
    assert hands(app, "new hands") == expected
    assert hands(app, "known hands") == 4 - expected


@each_case(
    ("distance", "said"),
    {
        "63": (63, "all four hands of a head show angles that occurred"),
        "64": (64, "2 of the four hands of a head show an angle that never occurred"),
    },
)
def test_the_caption_counts_the_new_hands(distance, said):
    assert said in PositionZoo(method="rotary", distance=distance).caption


def test_a_clock_with_a_new_hand_says_so():
    app = PositionZoo(method="rotary", distance=64)
    labels = [label.text for label in app.figure.select_annotations({"name": "period"})]
    assert ["new angle" in label for label in labels] == [False, False, True, True]


def angles(app, name):
    """How much of a round the band of each clock spans, from noon or where training ended."""
    spans = []
    trace = named_trace(app.figure, name)
    points = (trace.x + 1j * trace.y).reshape(4, -1)[:, :100]  # the outer edge
    for clock, edge in enumerate(points):
        turns = np.unwrap(np.pi / 2 - np.angle(edge - clock))
        spans.append(float(turns[-1] - turns[0]))
    return spans


@pytest.mark.parametrize("distance", [0, 63, 200])
def test_the_blue_band_of_a_clock_holds_all_angles_of_training(distance):
    app = PositionZoo(method="rotary", distance=distance)
    once_round = 2 * np.pi  # of the two fast hands
    expected = [once_round, once_round, 0.01 * 63, 0.001 * 63]
    np.testing.assert_allclose(angles(app, "turns of training"), expected, atol=1e-6)


def test_the_red_band_of_a_clock_holds_the_angles_after_training():
    app = PositionZoo(method="rotary", distance=200)
    expected = [0, 0, 0.01 * (200 - 63), 0.001 * (200 - 63)]
    np.testing.assert_allclose(angles(app, "new turns"), expected, atol=1e-6)


@pytest.mark.parametrize("distance", [0, 63])
def test_no_band_is_red_in_training(distance):
    app = PositionZoo(method="rotary", distance=distance)
    np.testing.assert_allclose(angles(app, "new turns"), 0, atol=1e-6)


@pytest.mark.parametrize("distance", [64, 255])
def test_with_base_8_no_hand_is_ever_red(distance):
    assert new_angles(4, distance, base=8) == 0
    app = PositionZoo(method="rotary", distance=distance, base=8)
    assert hands(app, "new hands") == 0
    assert "goes round in 29.9 tokens" in app.caption


@pytest.mark.parametrize("base", [9, True, "8"])
def test_another_base_is_refused(base):
    with pytest.raises(BadValue, match="base must be one of 10000, 8"):
        PositionZoo(base=base)


@pytest.mark.parametrize("method", ["alibi", "sinusoidal", "rotary"])
def test_only_rotary_has_a_menu_of_bases(method):
    menu = control(PositionZoo(method=method), "s-base")
    assert (menu.layout.display != "none") == (method == "rotary")


@pytest.mark.parametrize("position", [0, 63, 64, 255])
def test_a_wave_is_marked_where_no_position_of_training_has_brought_it(position):
    app = PositionZoo(method="sinusoidal", distance=position)
    expected = new_angles(32, position)
    assert f" {expected} of 32 waves" in app.caption
    assert len(drawn(app, "waves now")) == expected


def test_the_barcode_is_red_where_training_never_showed_a_wave():
    app = PositionZoo(method="sinusoidal")
    is_red = named_trace(app.figure, "new waves").z != None  # noqa: E711  # of each cell
    is_gray = named_trace(app.figure, "waves").z != None  # noqa: E711
    assert not (is_red & is_gray).any()
    for position in (0, 63, 64, 128, 255):
        assert is_red[:, position].sum() == new_angles(32, position)


def visible_reds(app):
    """The traces and shapes that are shown and have a red part."""
    red = [str(int(RED[start : start + 2], 16)) for start in (1, 3, 5)]
    red_rgba = f"rgba({', '.join(red)}"
    found = []
    for part in (*app.figure.data, *app.figure.layout.shapes):
        if part.visible is False or ("y" in part and len(part.y) == 0):
            continue
        if RED in str(part.to_plotly_json()) or red_rgba in str(part.to_plotly_json()):
            found.append(part.name)
    return found


@pytest.mark.parametrize("method", ["none", "alibi", "t5", "kerple-log"])
def test_nothing_is_red_where_no_value_is_new(method):
    assert visible_reds(PositionZoo(method=method, distance=200)) == []


def test_hands_and_bands_that_are_new_are_red():
    app = PositionZoo(method="rotary", distance=200)
    assert visible_reds(app) == ["new turns", "new hands"]


def test_what_is_longer_than_in_training_is_gray_and_says_so():
    figure = PositionZoo().figure
    (region,) = figure.select_shapes({"name": "longer"})
    assert (region.x0, region.visible) == (63.5, True)
    labels = [label.text for label in figure.select_annotations({"name": "region"})]
    assert labels == ["seen in training", "longer than in training"]


# Clicks


def click(app, name, point):
    """Click a point of a trace."""
    trace = named_trace(app.figure, name)
    (callback,) = trace._click_callbacks
    callback(trace, SimpleNamespace(point_inds=[point]), None)


def test_a_click_on_the_curve_chooses_the_distance():
    app = PositionZoo(method="alibi")
    click(app, "curve", 17)
    assert app.distance == 17


@pytest.mark.parametrize("name", ["waves", "new waves"])
def test_a_click_on_the_barcode_chooses_the_position(name):
    app = PositionZoo(method="sinusoidal")
    click(app, name, (30, 99))  # row, column
    assert app.distance == 99
