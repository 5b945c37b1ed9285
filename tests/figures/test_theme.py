"""The colors have the properties that theme.py claims, and the scales show every value in its
color."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz.figures import theme
from alibi_viz.figures.theme import NUM_COLORS, WEIGHT_SCALE, ColorScale

ends = st.floats(-1000, 1000, allow_nan=False, width=32)


def luminance(color):
    """Relative luminance, as WCAG 2 defines it."""
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("color", theme.COLORS)
def test_color_has_enough_contrast_in_both_themes(color):
    for background in ("#FFFFFF", "#111111"):  # JupyterLab's light and dark theme
        low, high = sorted((luminance(color), luminance(background)))
        assert (high + 0.05) / (low + 0.05) >= 3


def test_diverging_scale_is_white_at_zero_darkens_to_both_sides_and_has_no_color_like_masked():
    middle = len(theme.DIVERGING) // 2
    assert theme.DIVERGING[middle] == "#FFFFFF"
    light = [luminance(color) for color in theme.DIVERGING]
    assert light[: middle + 1] == sorted(light[: middle + 1])
    assert light[middle:] == sorted(light[middle:], reverse=True)
    # The color of masked cells differs by at least 20 in some channel, on a white and on a
    # near-black page.
    red, green, blue, alpha = theme.MASKED_RGBA
    share = alpha / 255
    assert f"rgba({red}, {green}, {blue}, {round(share, 2)})" == theme.MASKED
    for background in (255, 17):
        seen = np.array([red, green, blue]) * share + background * (1 - share)
        assert np.abs(theme.ColorScale(-1, 1).palette.astype(int) - seen).max(axis=1).min() >= 20


@given(ends, ends)
def test_scale_around_zero_contains_all_values_and_labels_both_ends_and_zero(one, other):
    low, high = min(one, other), max(one, other)
    scale = ColorScale.around_zero(low, high)
    assert (scale.low <= low <= scale.high or low > 0) and (scale.high >= high or high < 0)
    assert scale.low == 0 or scale.high == 0 or scale.low == -scale.high
    assert scale.palette[scale.indices(np.zeros(1))[0]].tolist() == [255, 255, 255]
    places = scale.color_axis()["colorbar"]["tickvals"]
    assert (places[0], places[-1]) == (0, pytest.approx(1)) and places == sorted(places)
    assert float(scale.fraction([0.0])[0]) in places
    assert scale.color_axis()["colorbar"]["ticktext"][0] == f"{scale.low:.3g}".replace(
        "-", "\N{MINUS SIGN}"
    )


@given(st.floats(0.01, 1000), st.sampled_from([(-1, 0), (0, 1), (-1, 1)]))
def test_color_runs_from_blue_below_zero_to_orange_above(size, ends):
    low, high = size * ends[0], size * ends[1]
    scale = ColorScale.around_zero(low, high)
    indices = scale.indices(np.linspace(low, high, 101)).astype(int)
    assert (np.diff(indices) >= 0).all() and (indices[0], indices[-1]) == (0, NUM_COLORS - 1)
    for value in {low, high} - {0.0}:
        red, _, blue = scale.palette[scale.indices(np.array([value]))[0]].tolist()
        assert (blue > red) == (value < 0)
        both = ColorScale(-size, size)
        assert both.palette[both.indices(np.array([value]))[0]].tolist()[::2] == [red, blue], (
            "whatever the other side"
        )


@pytest.mark.parametrize(
    "scale", [WEIGHT_SCALE, ColorScale(-2, 2), ColorScale(0, 3), ColorScale(-3, 0)]
)
def test_stops_of_the_axis_have_the_colors_of_the_palette_and_labels_their_values(scale):
    stops = scale.color_axis()["colorscale"]
    count, style = (5, ".0%") if scale.weights else (3, "g")
    labels = [
        f"{value:{style}}".replace("-", "\N{MINUS SIGN}")
        for value in np.linspace(scale.low, scale.high, count)
    ]
    assert (
        scale.color_axis()["colorbar"]["tickvals"],
        scale.color_axis()["colorbar"]["ticktext"],
    ) == (
        [*np.linspace(0, 1, count)],
        labels,
    )
    assert scale.indices(np.array([scale.low - 9, scale.high + 9])).tolist() == [0, NUM_COLORS - 1]
    assert (stops[0][0], stops[-1][0]) == (0, 1)
    for place, color in stops:
        expected = scale.palette[round(place * (NUM_COLORS - 1))].astype(int)
        assert np.abs(expected - list(bytes.fromhex(color[1:]))).max() <= 1
