"""The figure of the slopes reads back: its points, its two axes, and redrawing in place."""

import math

import numpy as np
import pytest
import torch

from alibi_viz import alibi_slopes, figures, half_life
from alibi_viz.figures import slopes as picture
from alibi_viz.slopes import SCHEMES


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("heads", [1, 2, 7, 12, 64])
def test_points_are_the_slopes_and_lie_inside_both_axes(heads: int, scheme: str) -> None:
    slopes, official = alibi_slopes(heads, scheme), alibi_slopes(heads)
    figure = figures.slope_figure(slopes.requires_grad_(), scheme, official, other_name="official")
    main, other, tokens = figure.data
    for trace, name, values in ((main, scheme, slopes.detach()), (other, "official", official)):
        assert (list(trace.x), trace.name, trace.visible) == (list(range(1, heads + 1)), name, trace.visible)
        assert np.array_equal(trace.y, values.numpy())
        lives = torch.stack([half_life(values), 4 / values], dim=1)
        np.testing.assert_allclose(trace.customdata, lives, rtol=1e-6)
        (left, right), (low, high) = figure.layout.xaxis.range, figure.layout.yaxis.range
        assert left < 1 and right > heads and low < np.log10(trace.y.min()) and high > np.log10(trace.y.max())
    axis = figure.layout.yaxis2
    np.testing.assert_allclose(axis.range, [math.log10(math.log(2)) - end for end in figure.layout.yaxis.range])
    assert tokens.yaxis == "y2" and tokens.y[0] == pytest.approx(math.log(2) / main.y[0])
    for value, text in zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True):
        assert eval(text.replace("<sup>", "**").replace("</sup>", "")) == value  # such as 1/256 or 2<sup>-20</sup>


def test_drawing_again_changes_the_figure_in_place() -> None:
    figure = picture.slope_figure(alibi_slopes(8), "official", alibi_slopes(8, "halving"), other_name="halving")
    traces = list(figure.data)
    picture.draw(figure, alibi_slopes(3))
    assert all(new is old for new, old in zip(figure.data, traces, strict=True)) and figure.data[1].visible is False
