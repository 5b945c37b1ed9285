"""The colors of biases and weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz.figures.theme import NUM_COLORS, WEIGHT_SCALE, ColorScale

KINDS = ("linear", "logarithmic")
ends = st.floats(-1000, 1000, allow_nan=False, width=32)


@given(ends, ends, st.sampled_from(KINDS))
def test_scale_around_zero_contains_all_values_and_labels_both_ends_and_zero(one, other, kind):
    low, high = min(one, other), max(one, other)
    scale = ColorScale.around_zero(low, high, kind)
    assert scale.low <= low <= scale.high or low > 0
    assert scale.high >= high or high < 0
    assert scale.low == 0 or scale.high == 0 or scale.low == -scale.high
    assert scale.palette[scale.indices(np.zeros(1))[0]].tolist() == [255, 255, 255]
    places = scale.axis["colorbar_tickvals"]
    assert (places[0], places[-1]) == (0, pytest.approx(1)) and places == sorted(places)
    assert float(scale.fraction([0.0])[0]) in places
    assert scale.axis["colorbar_ticktext"][0] == f"{scale.low:.3g}".replace("-", "\N{MINUS SIGN}")


@given(st.floats(0.01, 1000), st.sampled_from(KINDS), st.sampled_from([(-1, 0), (0, 1), (-1, 1)]))
def test_color_runs_from_blue_below_zero_to_orange_above(size, kind, ends):
    low, high = size * ends[0], size * ends[1]
    scale = ColorScale.around_zero(low, high, kind)
    indices = scale.indices(np.linspace(low, high, 101)).astype(int)
    assert (np.diff(indices) >= 0).all() and (indices[0], indices[-1]) == (0, NUM_COLORS - 1)
    for value in {low, high} - {0.0}:
        red, _, blue = scale.palette[scale.indices(np.array([value]))[0]].tolist()
        assert (blue > red) == (value < 0)
        both = ColorScale(-size, size, kind)
        assert both.palette[both.indices(np.array([value]))[0]].tolist()[::2] == [red, blue], "whatever the other side"


@pytest.mark.parametrize("scale", [WEIGHT_SCALE, ColorScale(-2, 2), ColorScale(0, 3), ColorScale(-3, 0, "logarithmic")])
def test_stops_of_the_axis_have_the_colors_of_the_palette(scale):
    stops = scale.axis["colorscale"]
    assert (stops[0][0], stops[-1][0]) == (0, 1)
    for place, color in stops:
        expected = scale.palette[round(place * (NUM_COLORS - 1))].astype(int)
        assert np.abs(expected - list(bytes.fromhex(color[1:]))).max() <= 1
