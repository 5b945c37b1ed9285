"""The picture of an operation, read back."""

import math

import numpy as np

from alibi_viz.figures.surgery import blank, draw, surgery_figure

BEFORE = {32: 2.5, 64: 2.6, 128: 3.5}
DISTANCE = [[3.0, 9.0], [4.0, 40.0]]


def test_an_untouched_model_has_one_line_and_one_marker_a_head() -> None:
    figure = surgery_figure(length=32, distance=DISTANCE, before=BEFORE)
    looks, changed_looks, before, after = figure.data
    assert looks.y.tolist() == [3.0, 9.0, 4.0, 40.0]
    assert [list(place) for place in looks.customdata] == [[1, 1], [1, 2], [2, 1], [2, 2]]
    assert len(changed_looks.y) == 0
    assert dict(zip(before.x.tolist(), before.y.tolist(), strict=True)) == BEFORE
    assert np.isnan(after.y).all()


def test_a_change_is_drawn_beside_it_and_both_fit_into_the_axes() -> None:
    after = {32: 2.4, 64: 7.9, 128: math.nan}
    figure = surgery_figure(
        length=32, distance=DISTANCE, before=BEFORE, changed_distance=[[300.0, 0.1], [1.0, 1.0]], after=after
    )
    assert figure.data[1].y.tolist() == [300.0, 0.1, 1.0, 1.0]
    assert figure.data[3].y[:2].tolist() == [2.4, 7.9]
    assert np.isnan(figure.data[3].y[2])
    low, high = (10**end for end in figure.layout.yaxis.range)
    assert low <= 0.1
    assert high >= 300
    low, high = figure.layout.yaxis2.range
    assert low <= 2.4
    assert high >= 7.9


def test_the_training_length_is_marked_in_both_panels_and_what_lies_beyond_is_shaded() -> None:
    figure = surgery_figure(length=32, distance=DISTANCE, before=BEFORE)
    unseen, line, level = figure.layout.shapes
    assert (unseen.x0, line.x0, line.x1, level.y0, level.y1) == (32, 32, 32, 32, 32)
    assert unseen.x1 >= 128
    assert "dotted: L" in figure.layout.yaxis.title.text
    assert list(figure.layout.xaxis2.ticktext) == ["32<br>L", "64<br>2 L", "128<br>4 L"]


def test_a_sheet_is_used_again() -> None:
    figure = blank()
    draw(figure, length=32, distance=DISTANCE, before=BEFORE, changed_distance=DISTANCE, after=BEFORE)
    draw(figure, length=64, distance=[[1.0]], before={64: 5.0})
    assert figure.data[0].y.tolist() == [1.0]
    assert len(figure.data[1].y) == 0
    assert np.isnan(figure.data[3].y).all()
    assert list(figure.layout.xaxis.ticktext) == ["1<br>layer 1"]


def test_of_many_heads_only_the_layers_are_numbered() -> None:
    few = surgery_figure(length=32, distance=np.ones((2, 4)), before=BEFORE).layout.xaxis.ticktext
    assert few[:2] + few[4:5] == ("1<br>layer 1", "2", "1<br>layer 2")
    many = surgery_figure(length=32, distance=np.ones((4, 16)), before=BEFORE).layout.xaxis.ticktext
    assert [text for text in many if text] == ["<br>1", "<br>2", "<br>3", "<br>4"]
