"""The colors of biases and weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz.figures.color_scale import NUM_COLORS, SCALES, WEIGHT_SCALE, ColorScale

WHITE = [255, 255, 255]
ends = st.floats(-1000, 1000, allow_nan=False, width=32)


@given(ends, ends, st.sampled_from(SCALES))
def test_scale_around_zero_contains_all_values_and_zero_is_white(one, other, kind):
    low, high = min(one, other), max(one, other)
    scale = ColorScale.around_zero(low, high, kind)
    assert scale.low <= low <= scale.high or low > 0
    assert scale.high >= high or high < 0
    assert scale.low == 0 or scale.high == 0 or scale.low == -scale.high
    assert scale.palette[scale.indices(np.zeros(1))[0]].tolist() == WHITE


@given(st.floats(0.01, 1000), st.sampled_from(SCALES), st.sampled_from([(-1, 0), (0, 1), (-1, 1)]))
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


def test_logarithmic_scale_separates_small_values_that_share_a_linear_color():
    small = np.array([-0.25, 0.0])
    linear, logarithmic = (ColorScale.around_zero(-127.5, 0, kind).indices(small).astype(int) for kind in SCALES)
    assert np.diff(linear) <= 1
    assert np.diff(logarithmic) >= 40


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize(("low", "high"), [(-214, 0), (0, 3), (-0.003, 0.001), (0, 0)])
def test_color_bar_labels_both_ends_and_zero_at_their_colors(low, high, kind):
    scale = ColorScale.around_zero(low, high, kind)
    ticks = scale.ticks()
    assert ticks == sorted(set(ticks))
    assert (ticks[0], ticks[-1]) == (scale.low, scale.high)
    assert 0.0 in ticks
    assert scale.bar["ticktext"][0] == f"{scale.low:.3g}".replace("-", "\N{MINUS SIGN}")
    check_bar_and_axis(scale)


def test_weight_scale_goes_from_0_to_100_percent_with_increasing_lightness():
    assert WEIGHT_SCALE.bar["ticktext"] == ["0%", "25%", "50%", "75%", "100%"]
    assert WEIGHT_SCALE.indices(np.array([0.0, 0.5, 1.0])).tolist() == [0, 126, NUM_COLORS - 1]
    lightness = WEIGHT_SCALE.palette @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(lightness) >= -1).all() and lightness[-1] - lightness[0] > 150
    check_bar_and_axis(WEIGHT_SCALE)


def check_bar_and_axis(scale: ColorScale) -> None:
    """The labels of the color bar and the stops of the axis have the colors of the palette."""
    for place, tick in zip(scale.bar["tickvals"], scale.ticks(), strict=True):
        assert place * (NUM_COLORS - 1) == pytest.approx(scale.indices(np.array([tick]))[0], abs=0.5)
    stops = scale.axis["colorscale"]
    assert [stop for stop, _ in (stops[0], stops[-1])] == [0, 1]
    for stop, color in stops:
        red, green, blue = scale.palette[round(stop * (NUM_COLORS - 1))].tolist()
        assert color == f"rgb({red},{green},{blue})"
