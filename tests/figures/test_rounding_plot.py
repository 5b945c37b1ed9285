"""The figure of rounded biases has a plot for each way to compute them, with the exact line."""

import numpy as np
import pytest

from alibi_viz import figures

# Of the same four keys, the last of which is the query's own
BIASES = {"key": [254.0, 256.0, 256.0, 258.0], "relative": [-3.0, -2.0, -1.0, 0.0]}


@pytest.fixture(scope="module")
def figure():
    return figures.rounding_figure(BIASES, slope=1.0)


def trace(figure, name, column):
    """The line whose name begins so, in a plot."""
    in_column = figure.select_traces(lambda trace: trace.name.startswith(name), col=column)
    return next(in_column)


@pytest.mark.parametrize("column", [1, 2])
def test_the_exact_bias_is_a_line_that_ends_at_the_own_key(figure, column):
    exact = trace(figure, "exact", column)
    assert list(exact.x) == [-3, -2, -1, 0]
    assert list(exact.y) == [-3.0, -2.0, -1.0, 0.0]


def test_rounded_biases_are_drawn_as_differences_to_that_of_the_own_key(figure):
    assert list(trace(figure, "rounded", 1).y) == [-4.0, -2.0, -2.0, 0.0]
    assert list(trace(figure, "rounded", 2).y) == [-3.0, -2.0, -1.0, 0.0]


def test_keys_that_share_their_bias_with_a_neighbor_are_squares_of_another_color(figure):
    marker = trace(figure, "rounded", 1).marker
    assert list(marker.symbol) == ["circle", "square", "square", "circle"]
    assert marker.color[0] != marker.color[1] == marker.color[2]
    assert set(trace(figure, "rounded", 2).marker.symbol) == {"circle"}


def test_each_plot_has_the_name_of_its_biases_and_one_of_them_the_legend(figure):
    assert [title.text for title in figure.layout.annotations] == ["key", "relative"]
    assert [drawn.showlegend for drawn in figure.data] == [True, True, False, False]


def test_hover_texts_have_the_rounded_and_the_exact_bias(figure):
    rounded = trace(figure, "rounded", 1)
    assert (rounded.text[0], rounded.customdata[0]) == ("−4", "−3")  # noqa: RUF001


def test_a_bias_that_is_no_number_is_named():
    with pytest.raises(TypeError, match=r"biases\['key'\] must be an array of numbers"):
        figures.rounding_figure({"key": np.array(["a", "b"])}, slope=1.0)
