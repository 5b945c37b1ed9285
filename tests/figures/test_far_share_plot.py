"""The map of the loss over the share of far keys: a dot for each setting."""

import math

import pandas as pd
import pytest

from alibi_viz.figures import far_share_figure, theme
from alibi_viz.figures.far_share_plot import far_share_picture, far_share_points
from tests.figures.reading import named_trace

NEVER = 1024
# Two models in two settings and with a window: stop, brake, and bits and far share of each
MEASURED = [
    (NEVER, 0.0, (4.0, 6.0), (0.9, 1.0)),
    (31, 0.0, (0.6, 0.8), (0.1, 0.3)),
    (NEVER, math.inf, (0.5, 0.7), (0.0, 0.0)),
]


def table():
    rows = []
    for stop, brake, bits, far_shares in MEASURED:
        setting = {"stop": stop, "brake": brake, "share_stop": stop}
        for seed in (0, 1):
            of_model = {"bits": bits[seed], "far_share": far_shares[seed]}
            rows.append({"seed": seed, **setting, **of_model})
    exchanged = {"seed": 0, "stop": 31, "brake": 0.0, "share_stop": NEVER}
    rows.append({**exchanged, "bits": 9.0, "far_share": 0.95})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def figure():
    return far_share_figure(table())


def places(trace):
    return list(zip(trace.x, trace.y, strict=True))


def test_a_setting_is_a_dot_at_its_mean_far_share_and_loss(figure):
    assert places(named_trace(figure, "unseen angles")) == [pytest.approx((0.95, 5.0))]
    assert places(named_trace(figure, "no unseen angle")) == [pytest.approx((0.2, 0.7))]


def test_single_models_are_small_dots_in_the_color_of_their_setting(figure):
    models = named_trace(figure, "models")
    assert places(models) == [(0.1, 0.6), (0.3, 0.8), (0.9, 4.0), (1.0, 6.0)]
    assert models.marker.color == (theme.BLUE, theme.BLUE, theme.ORANGE, theme.ORANGE)


def test_exchanged_shares_and_the_window_are_no_dots(figure):
    assert all(9.0 not in trace.y for trace in figure.data)
    (line,) = figure.select_shapes({"name": "window"})
    assert line.y0 == line.y1 == pytest.approx(0.6)


def test_only_visited_settings_have_dots_and_the_present_one_is_large():
    points, window = far_share_points(table())
    now = (31, 0.0)
    made = far_share_picture(points, now=now, visited=[now], window=window)
    figure = theme.figure(made)
    assert len(named_trace(figure, "unseen angles").x) == 0
    large = named_trace(figure, "now")
    assert places(large) == [pytest.approx((0.2, 0.7))]
    assert large.marker.size > named_trace(figure, "no unseen angle").marker.size


def test_axes_stay_when_more_settings_are_visited():
    points, window = far_share_points(table())

    def axes(visited):
        made = far_share_picture(points, now=None, visited=visited, window=window)
        return made["layout"]["xaxis"], made["layout"]["yaxis"]

    assert axes([]) == axes(points)


def test_a_table_without_a_setting_is_refused():
    with pytest.raises(ValueError, match="rows must have a setting besides the window"):
        far_share_figure(table().query("brake == inf"))
