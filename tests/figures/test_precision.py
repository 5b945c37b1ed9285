"""The steps of a rounded bias and the map of errors."""

import numpy as np
import plotly.graph_objects as go

from alibi_viz.figures import precision as picture

CELLS = np.array([[0.01, np.nan], [0.0, 1.0]])


def draw(figure: go.Figure) -> go.Figure:
    keys, exact, rounded = [4, 5, 6], [4.0, 5.0, 6.0], [4.0, 6.0, 6.0]
    picture.draw(figure, keys, exact, rounded, [False, True, True], cells=CELLS, size=4, length=7, query=6)
    return figure


def test_shared_and_distinct_keys_are_different_traces() -> None:
    exact, steps, distinct, shared, _ = draw(picture.blank()).data
    assert (list(exact.y), list(steps.y)) == ([4, 5, 6], [4, 6, 6])
    assert (list(distinct.x), list(shared.x), list(shared.y)) == ([4], [5, 6], [6, 6])
    assert distinct.marker.symbol != shared.marker.symbol


def test_map_shows_powers_of_ten_with_a_lower_end_and_gaps_where_masked() -> None:
    cells = draw(picture.blank()).data[4]
    assert [list(row) for row in cells.z] == [[-2.0, None], [np.log10(picture.SMALLEST), 0.0]]
    assert list(cells.x) == list(cells.y) == [1.5, 5.5]


def test_hover_names_the_queries_and_keys_of_a_cell() -> None:
    texts = draw(picture.blank()).data[4].customdata
    assert texts[1][0] == "query 4 to 6<br>key 0 to 3<br>largest error 0"
    assert texts[0][1] is None


def test_colors_keep_their_range_so_that_two_maps_can_be_compared() -> None:
    axis = picture.blank().layout.coloraxis
    assert (axis.cmin, axis.cmax) == (-6, 0)
    assert list(axis.colorbar.tickvals) == list(range(-6, 1))
    assert draw(picture.blank()).layout.coloraxis == axis


def test_first_query_is_at_the_top_and_every_point_inside() -> None:
    layout = draw(picture.blank()).layout
    assert tuple(layout.yaxis2.range) == (7.5, -0.5) and tuple(layout.xaxis2.range) == (-0.5, 7.5)
    assert layout.yaxis.range[0] < 4 and layout.yaxis.range[1] > 6


def test_a_single_key_has_an_axis_of_some_height() -> None:
    figure = picture.precision_figure([0], [0.0], [0.0], [False], cells=[[0.0]], size=1, length=1, query=0)
    low, high = figure.layout.yaxis.range
    assert low < 0 < high
