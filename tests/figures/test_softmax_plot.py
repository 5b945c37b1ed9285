"""Logits and their weights as numbers in two matrices."""

import math

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from alibi_viz import figures
from alibi_viz.figures import theme
from alibi_viz.figures.softmax_plot import softmax_picture
from tests.figures.reading import named_trace

LOGITS = torch.tensor([[0.5, -math.inf], [-2.0, 0.0]])


def test_pictures_are_plotly_figures():
    go.Figure(softmax_picture(LOGITS.numpy(), LOGITS.softmax(-1).numpy(), "column", 1))


def test_cells_are_logits_and_weights_and_masked_ones_are_gaps():
    figure = figures.softmax_figure(LOGITS)
    left = named_trace(figure, "logits")
    np.testing.assert_array_equal(left.z, [[0.5, math.nan], [-2, 0]])
    assert [list(row) for row in left.text] == [["0.5", ""], ["\N{MINUS SIGN}2.0", "0.0"]]
    expected = LOGITS.softmax(-1).numpy()
    expected[0, 1] = math.nan
    np.testing.assert_allclose(named_trace(figure, "weights").z, expected, rtol=1e-6)


def test_a_logit_of_zero_is_white_and_a_weight_has_the_color_of_its_share():
    figure = figures.softmax_figure(LOGITS)
    logits = named_trace(figure, "logits")
    assert logits.zmin == -logits.zmax
    assert dict(logits.colorscale)[0.5] == "#FFFFFF"
    weights = named_trace(figure, "weights")
    assert (weights.zmin, weights.zmax) == (0, 1)
    assert [color for _, color in weights.colorscale] == list(theme.SEQUENTIAL)


@pytest.mark.parametrize(
    ("where", "edges"), [("row", (-0.5, 1.5, 0.5, 1.5)), ("column", (0.5, 1.5, -0.5, 1.5))]
)
def test_a_row_or_a_column_of_both_matrices_has_a_frame(where, edges):
    frames = list(figures.softmax_figure(LOGITS, where, 1).select_shapes({"name": "frame"}))
    assert [frame.xref for frame in frames] == ["x", "x2"]
    for frame in frames:
        assert (frame.x0, frame.x1, frame.y0, frame.y1) == edges


@pytest.mark.parametrize("logits", [[1.0, 2.0], [[math.nan]], [[math.inf]]], ids=str)
def test_logits_without_a_softmax_are_refused(logits):
    with pytest.raises(ValueError, match=r"logits must be \[tokens, tokens\], finite or minus"):
        figures.softmax_figure(logits)
