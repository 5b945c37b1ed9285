"""Two heatmaps of weights side by side."""

import numpy as np
import plotly.graph_objects as go

from alibi_viz.figures import weight_pair as picture

CORRECT, OTHER = np.array([[1.0, 0.0], [0.5, 1.0]]), np.array([[1.0, 0.0], [1.0, 0.25]])


def draw(figure: go.Figure, row_name: str = "query") -> go.Figure:
    picture.draw(figure, CORRECT, OTHER, rows=[6, 7], keys=[6, 7], row_name=row_name, names=("right", "wrong"))
    return figure


def test_heatmaps_show_the_weights_at_their_positions_and_gaps_where_masked() -> None:
    left, right = draw(picture.blank()).data
    assert [list(row) for row in left.z] == [[1.0, None], [0.5, 1.0]]
    assert [list(row) for row in right.z] == [[1.0, None], [1.0, 0.25]]
    assert list(left.x) == list(left.y) == list(right.x) == [6, 7]


def test_both_share_one_color_scale_from_0_to_1() -> None:
    figure = draw(picture.blank())
    assert {trace.coloraxis for trace in figure.data} == {"coloraxis"}
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (0, 1)


def test_titles_and_hover_texts_name_the_two_and_the_rows() -> None:
    figure = draw(picture.blank(), row_name="head")
    assert [note.text for note in figure.layout.annotations] == ["<b>right</b>", "<b>wrong</b>"]
    assert figure.layout.yaxis.title.text == "head"
    assert figure.data[1].hovertemplate.startswith("head %{y}, key %{x}")
    assert figure.data[1].hovertemplate.endswith("<extra>wrong</extra>")


def test_first_row_is_at_the_top_and_all_cells_are_inside() -> None:
    layout = draw(picture.blank()).layout
    assert tuple(layout.yaxis.range) == tuple(layout.yaxis2.range) == (7.5, 5.5)
    assert tuple(layout.xaxis.range) == tuple(layout.xaxis2.range) == (5.5, 7.5)


def test_last_position_always_has_a_label() -> None:
    figure = picture.blank()
    weights = np.ones((1, 48))
    picture.draw(figure, weights, weights, rows=[1], keys=range(2000, 2048))
    assert figure.layout.xaxis.tickvals[-1] == 2047
    assert len(figure.layout.xaxis.tickvals) <= 8
