"""The figure of the slopes: its points, its two axes, and redrawing in place."""

import math

import numpy as np
import pytest

from alibi_viz import alibi_slopes, figures, half_life
from alibi_viz.figures import slopes as picture
from alibi_viz.slopes import SCHEMES


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("heads", [1, 2, 7, 12, 64])
def test_points_are_the_slopes_and_lie_inside_the_axes(heads, scheme):
    slopes = alibi_slopes(heads, scheme)
    figure = picture.slope_figure(slopes, scheme, alibi_slopes(heads), other_name="official")
    main, other = figure.data[:2]
    assert np.array_equal(main.x, np.arange(1, heads + 1))
    assert np.array_equal(main.y, slopes.numpy())
    assert np.array_equal(other.y, alibi_slopes(heads).numpy())
    assert (main.name, other.name, other.visible) == (scheme, "official", True)
    (left, right), (low, high) = figure.layout.xaxis.range, figure.layout.yaxis.range
    assert left < 1 and right > heads
    for y in (main.y, other.y):
        assert low < np.log10(y.min()) and high > np.log10(y.max())


def test_hover_texts_give_half_life_and_reach():
    slopes = alibi_slopes(12)
    trace = picture.slope_figure(slopes).data[0]
    np.testing.assert_allclose(trace.customdata[:, 0], half_life(slopes).numpy(), rtol=1e-6)
    np.testing.assert_allclose(trace.customdata[:, 1], (4 / slopes).numpy(), rtol=1e-6)
    assert "half-life %{customdata[0]" in trace.hovertemplate
    assert "below 2% beyond %{customdata[1]" in trace.hovertemplate


@pytest.mark.parametrize(("heads", "scheme"), [(8, "official"), (64, "halving")])
def test_token_axis_matches_the_slope_axis(heads, scheme):
    """A token count on the right stands at the height of the slope that has this half-life."""
    layout = picture.slope_figure(alibi_slopes(heads, scheme)).layout

    def height(axis, value):
        bottom, top = axis.range
        return (math.log10(value) - bottom) / (top - bottom)

    assert len(layout.yaxis2.tickvals) >= 4
    for tokens in layout.yaxis2.tickvals:
        assert height(layout.yaxis2, tokens) == pytest.approx(height(layout.yaxis, math.log(2) / tokens))
    for power, words in zip(np.log2(layout.yaxis.tickvals), layout.yaxis.ticktext, strict=True):
        assert power == round(power)
        assert words in (f"1/{2 ** round(-power)}", f"2<sup>{power:.0f}</sup>", "1")


@pytest.mark.parametrize("heads", [8, 12, 64])
def test_labels_of_the_token_axis_are_the_values_of_its_ticks(heads):
    axis = picture.slope_figure(alibi_slopes(heads, "halving")).layout.yaxis2
    values = [eval(text.replace(",", "").replace("<sup>", "**").replace("</sup>", "")) for text in axis.ticktext]
    assert values == pytest.approx(axis.tickvals)


def test_drawing_again_changes_the_figure_in_place():
    figure = picture.slope_figure(alibi_slopes(8), "official", alibi_slopes(8, "halving"), other_name="halving")
    traces = figure.data
    picture.draw(figure, alibi_slopes(3))
    assert figure.data is traces or all(new is old for new, old in zip(figure.data, traces, strict=True))
    assert len(figure.data[0].y) == 3
    assert figure.data[1].visible is False


def test_slopes_that_require_gradients_can_be_drawn():
    assert figures.slope_figure(alibi_slopes(8).requires_grad_()).data[0].y[0] == 0.5
