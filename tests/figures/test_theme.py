"""The colors have the properties that theme.py claims."""

import numpy as np
import plotly.graph_objects as go
import pytest

from alibi_viz.figures import theme


def luminance(color: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("color", theme.COLORS)
def test_color_has_enough_contrast_in_both_themes(color):
    for background in ("#FFFFFF", "#111111"):  # JupyterLab's light and dark theme
        low, high = sorted((luminance(color), luminance(background)))
        assert (high + 0.05) / (low + 0.05) >= 3


def test_diverging_scale_is_white_at_zero_and_darkens_to_both_sides():
    middle = len(theme.DIVERGING) // 2
    assert theme.DIVERGING[middle] == "#FFFFFF"
    light = [luminance(color) for color in theme.DIVERGING]
    assert light[: middle + 1] == sorted(light[: middle + 1])
    assert light[middle:] == sorted(light[middle:], reverse=True)


def test_masked_differs_from_every_color_of_the_diverging_scale():
    """By at least 20 in some channel, on a white and on a near-black page."""
    red, green, blue, alpha = theme.MASKED_RGBA
    share = alpha / 255
    assert f"rgba({red}, {green}, {blue}, {round(share, 2)})" == theme.MASKED
    for background in (255, 17):
        seen = np.array([red, green, blue]) * share + background * (1 - share)
        assert np.abs(theme.ColorScale(-1, 1).palette.astype(int) - seen).max(axis=1).min() >= 20


def test_on_white_returns_a_copy_without_random_ids():
    live = go.FigureWidget(theme.blank(300)).add_scatter(x=[1], y=[2])
    copy = theme.on_white(live)
    assert live.data[0].uid and copy.data[0].uid is None
    assert (live.layout.paper_bgcolor, copy.layout.paper_bgcolor) == (None, "white")
