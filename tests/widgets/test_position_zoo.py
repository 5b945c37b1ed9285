"""PositionZoo: the logits of its methods, its pictures, captions, clicks and drags."""

import numpy as np
import pytest
import torch

import alibi_viz as av
from alibi_viz.models.positions.biases import KerpleLog
from alibi_viz.widgets import PositionZoo
from tests.figures.reading import named_trace
from tests.rows import each_case
from tests.widgets.race.small_race import control

DISTANCE = torch.arange(256)


# The logits


def curve(method):
    """The logits at the distances from 0 to 255."""
    return named_trace(PositionZoo(method=method).figure, "curve").y


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


def test_the_last_step_of_t5_is_as_in_a_model_trained_on_64_tokens():
    np.testing.assert_array_equal(curve("t5"), -DISTANCE.clamp(max=15) / 16)


# The pictures


@each_case(
    ("method", "names"),
    {
        "a curve": ("alibi", ["curve", "distance"]),
        "waves": ("sinusoidal", ["waves", "waves now"]),
        "clocks": (
            "rotary",
            [
                "curve",
                "distance",
                "turns of training",
                "new turns",
                "clocks",
                "known hands",
                "new hands",
            ],
        ),
    },
)
def test_each_kind_of_method_has_its_picture(method, names):
    app = PositionZoo()
    app.method = method
    assert [trace.name for trace in app.figure.data] == names


def hands(app, name):
    """How many hands a trace has: each is two points and a gap."""
    return len(named_trace(app.figure, name).x) // 3


def test_distance_and_base_reach_the_clocks():
    app = PositionZoo(method="rotary", distance=64)
    assert (hands(app, "known hands"), hands(app, "new hands")) == (2, 2)
    app.base = 8
    assert (hands(app, "known hands"), hands(app, "new hands")) == (4, 0)


def test_the_position_reaches_the_barcode():
    app = PositionZoo(method="sinusoidal", distance=99)
    (line,) = app.figure.select_shapes({"name": "position"})
    assert line.x0 == 99


# The captions


def test_the_caption_counts_the_new_waves():
    app = PositionZoo(method="sinusoidal", distance=200)
    assert f" {len(named_trace(app.figure, 'waves now').y)} of 32 waves" in app.caption


# The controls


@pytest.mark.parametrize("method", ["alibi", "sinusoidal", "rotary"])
def test_only_rotary_has_a_menu_of_bases(method):
    menu = control(PositionZoo(method=method), "s-base")
    assert (menu.layout.display != "none") == (method == "rotary")


@pytest.mark.parametrize(
    ("method", "trace", "point"),
    [("alibi", "curve", {"x": 17, "y": -1.0}), ("sinusoidal", "waves", {"x": 17, "y": 30})],
)
def test_a_click_chooses_the_distance(method, trace, point):
    app = PositionZoo(method=method)
    app.plot.clicks(trace, point)
    assert app.distance == 17


@pytest.mark.parametrize("method", ["alibi", "rotary", "sinusoidal"])
def test_a_dragged_distance_stays_in_the_picture(method):
    app = PositionZoo(method=method)
    app.plot.dragged = {"handle": 0, "place": 99.4}
    assert app.distance == 99
    app.plot.dragged = {"handle": 0, "place": -5.0}
    assert app.distance == 0
