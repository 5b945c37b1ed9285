"""The figure of rounded biases shows the steps of one query and the errors of all weights."""

import numpy as np
import pytest

from alibi_viz.figures.precision_plot import SMALLEST, blank, draw, traces_of

KEYS = [7, 8, 9, 10]
EXACT = [-3.0, -2.0, -1.0, 0.0]
ROUNDED = [-2.5, -2.5, -1.0, 0.0]
SHARED = [True, True, False, False]
ERRORS = np.array([[0.0, np.nan], [0.01, 1e-9]])  # NaN: masked
CELL_SIZE = 8  # queries and keys of a cell of the map


@pytest.fixture(scope="module")
def figure():
    drawn = blank()
    draw(drawn, KEYS, EXACT, ROUNDED, SHARED, errors=ERRORS, size=CELL_SIZE)
    return drawn


def test_lines_show_the_exact_and_the_rounded_bias_of_each_key(figure):
    traces = traces_of(figure)
    assert traces.exact.x.tolist() == KEYS
    assert traces.exact.y.tolist() == EXACT
    assert traces.rounded.x.tolist() == KEYS
    assert traces.rounded.y.tolist() == ROUNDED


def test_biases_that_neighbors_share_are_marked_in_another_color(figure):
    traces = traces_of(figure)
    assert traces.shared.x.tolist() == [7, 8]
    assert traces.shared.y.tolist() == [-2.5, -2.5]
    assert traces.distinct.x.tolist() == [9, 10]
    assert traces.distinct.y.tolist() == [-1.0, 0.0]
    assert traces.shared.marker.color != traces.distinct.marker.color


def test_the_legend_names_the_lines_and_markers(figure):
    traces = traces_of(figure)
    assert [trace.name for trace in traces[:4]] == ["exact", "rounded", "distinct", "shared"]


def test_colors_are_powers_of_ten_with_a_floor_and_gaps_where_masked(figure):
    powers = traces_of(figure).errors.z.tolist()
    smallest_power = np.log10(SMALLEST)
    assert powers == [[smallest_power, None], [-2.0, smallest_power]]
    assert figure.layout.coloraxis.cmin == smallest_power
    assert figure.layout.coloraxis.cmax == 0


def test_hover_texts_of_the_map_give_the_exact_error(figure):
    assert traces_of(figure).errors.customdata.tolist() == [[0.0, None], [0.01, 1e-9]]
    assert "8 queries around" in traces_of(figure).errors.hovertemplate


def test_cells_of_the_map_are_centered_on_their_tokens_with_query_0_at_the_top(
    figure,
):
    assert traces_of(figure).errors.x.tolist() == [3.5, 11.5]
    assert traces_of(figure).errors.y.tolist() == [3.5, 11.5]
    assert figure.layout.xaxis2.range == (-0.5, 15.5)
    assert figure.layout.yaxis2.range == (15.5, -0.5)


def test_axes_of_the_bias_include_every_key_and_bias(figure):
    assert figure.layout.xaxis.range == (6.5, 10.5)
    assert figure.layout.yaxis.range == pytest.approx((-3.15, 0.15))


def test_the_title_names_the_query(figure):
    assert figure.layout.annotations[0].text == "bias of query 10"
