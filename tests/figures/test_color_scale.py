"""Signed values and their colours."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz.figures.color_scale import COLORS, SCALES, ColorScale

WHITE = [255, 255, 255]
ends = st.floats(-1000, 1000, allow_nan=False, width=32)


@given(ends, ends, st.sampled_from(SCALES))
def test_zero_is_white_and_every_value_is_on_the_scale(one, other, kind):
    low, high = min(one, other), max(one, other)
    scale = ColorScale.around_zero(low, high, kind)
    assert scale.low <= low <= scale.high or low > 0
    assert scale.high >= high or high < 0
    assert scale.low == 0 or scale.high == 0 or scale.low == -scale.high
    assert scale.palette[scale.indices(np.zeros(1))[0]].tolist() == WHITE


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize(("low", "high"), [(-31.5, 0), (0, 31.5), (-31.5, 31.5)])
def test_a_larger_value_never_gets_a_lower_colour(low, high, kind):
    scale = ColorScale.around_zero(low, high, kind)
    indices = scale.indices(np.linspace(low, high, 1001)).astype(int)
    assert (np.diff(indices) >= 0).all()
    assert (indices[0], indices[-1]) == (0, COLORS - 1)


def test_below_zero_is_blue_and_above_orange_whatever_the_range():
    for low, high in ((-8.0, 0.0), (0.0, 8.0), (-8.0, 8.0)):
        scale = ColorScale.around_zero(low, high)
        for value in {low, high} - {0.0}:
            red, _, blue = scale.palette[scale.indices(np.array([value]))[0]].tolist()
            assert (blue > red) == (value < 0)
    both, one = (ColorScale.around_zero(-8, high) for high in (8, 0))
    assert both.palette[0].tolist() == one.palette[0].tolist()  # the same value, the same colour


def test_the_logarithmic_scale_shows_what_the_linear_one_hides():
    small = np.array([-0.25, 0.0])
    linear, logarithmic = (ColorScale.around_zero(-127.5, 0, kind).indices(small).astype(int) for kind in SCALES)
    assert np.diff(linear) <= 1
    assert np.diff(logarithmic) >= 40


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize(("low", "high"), [(-214, 0), (0, 3), (-0.003, 0.001), (0, 0)])
def test_the_colour_bar_names_both_ends_and_zero_where_their_colours_are(low, high, kind):
    scale = ColorScale.around_zero(low, high, kind)
    ticks = scale.ticks()
    assert ticks == sorted(set(ticks))
    assert (ticks[0], ticks[-1]) == (scale.low, scale.high)
    assert 0.0 in ticks
    axis = scale.axis
    assert axis["colorbar.ticktext"][0] == f"{scale.low:.3g}".replace("-", "\N{MINUS SIGN}")
    for place, tick in zip(axis["colorbar.tickvals"], ticks, strict=True):
        assert place * (COLORS - 1) == pytest.approx(scale.indices(np.array([tick]))[0], abs=0.5)
    stops = axis["colorscale"]
    assert [stop for stop, _ in (stops[0], stops[-1])] == [0, 1]
    for stop, color in stops:
        red, green, blue = scale.palette[round(stop * (COLORS - 1))].tolist()
        assert color == f"rgb({red},{green},{blue})"
