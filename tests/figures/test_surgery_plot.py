"""The surgery figure shows a model before and after a change."""

import math

import pytest

from alibi_viz.figures.surgery_plot import AFTER, BEFORE, SurgeryShapes, SurgeryTraces, blank, draw

TRAINING_LENGTH = 32
LOSSES = {32: 2.5, 64: 2.6, 128: 3.5}
CHANGED_LOSSES = {32: 2.4, 64: 7.7, 128: math.nan}  # not defined at 128
DISTANCES = [[3.0, 9.0], [4.0, 40.0]]
CHANGED_DISTANCES = [[300.0, 0.0], [1.0, 1.0]]


def before_and_after():
    figure = blank()
    draw(
        figure,
        TRAINING_LENGTH,
        "bytes",
        before=(LOSSES, DISTANCES),
        after=(CHANGED_LOSSES, CHANGED_DISTANCES),
    )
    return figure


def with_heads(layers, heads):
    figure = blank()
    draw(figure, TRAINING_LENGTH, "bytes", before=(LOSSES, [[1.0] * heads] * layers))
    return figure


def test_lines_show_the_losses_of_both_models_where_they_are_defined():
    traces = SurgeryTraces(*before_and_after().data)
    assert list(traces.losses_before.x) == [32, 64, 128]
    assert traces.losses_before.y.tolist() == [2.5, 2.6, 3.5]
    assert list(traces.losses_after.x) == [32, 64]
    assert traces.losses_after.y.tolist() == [2.4, 7.7]


def test_markers_show_the_distance_of_each_head_layer_by_layer():
    traces = SurgeryTraces(*before_and_after().data)
    assert traces.distances_before.x.tolist() == [1, 2, 3, 4]
    assert traces.distances_before.y.tolist() == [3.0, 9.0, 4.0, 40.0]


def test_distance_zero_is_drawn_at_a_tenth_and_exact_in_the_hover_text():
    head = 1  # the second one of the first layer
    markers = SurgeryTraces(*before_and_after().data).distances_after
    assert markers.y[head] == 0.1
    assert list(markers.customdata[head]) == [1, 2, 0.0]


def test_both_plots_show_a_model_in_the_same_color_and_the_models_in_two():
    traces = SurgeryTraces(*before_and_after().data)
    assert traces.losses_before.line.color == traces.distances_before.marker.color
    assert traces.losses_after.line.color == traces.distances_after.marker.color
    assert traces.losses_before.line.color != traces.losses_after.line.color


def test_the_legend_names_each_model_once():
    figure = before_and_after()
    in_legend = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert in_legend == [BEFORE, AFTER]


def test_the_training_length_is_marked_in_both_plots_and_what_is_longer_is_shaded():
    figure = before_and_after()
    shapes = SurgeryShapes(*figure.layout.shapes)
    assert shapes.training_length_of_distances.y0 == TRAINING_LENGTH
    assert shapes.training_length_of_losses.x0 == TRAINING_LENGTH
    assert shapes.longer_than_training.x0 == TRAINING_LENGTH
    right_end = 10 ** figure.layout.xaxis2.range[1]
    assert shapes.longer_than_training.x1 == pytest.approx(right_end)


def test_yardsticks_within_the_axis_of_losses_are_labeled_lines():
    figure = blank()
    draw(
        figure,
        TRAINING_LENGTH,
        "bytes",
        before=(LOSSES, DISTANCES),
        yardsticks={"letter frequencies": 5.5, "letter pairs": 3.25},
    )
    assert figure.layout.yaxis2.range == (0, 5)
    pairs, frequencies = SurgeryShapes(*figure.layout.shapes).yardsticks
    assert (pairs.visible, pairs.y0, pairs.y1) == (True, 3.25, 3.25)
    assert pairs.label.text.strip() == "letter pairs alone, 3.25"
    assert not frequencies.visible


def test_without_yardsticks_there_are_no_such_lines():
    shapes = SurgeryShapes(*before_and_after().layout.shapes)
    assert not any(shape.visible for shape in shapes.yardsticks)


def test_lengths_and_distances_are_on_logarithmic_axes_and_losses_on_a_linear_one():
    layout = before_and_after().layout
    assert layout.xaxis2.type == "log"
    assert layout.yaxis.type == "log"
    assert layout.yaxis2.type is None


def test_lengths_are_labeled_as_multiples_of_the_training_length():
    layout = before_and_after().layout
    assert layout.xaxis2.ticktext == ("32<br>L", "64<br>2 L", "128<br>4 L")
    assert layout.xaxis2.title.text == "length of the test sequences, bytes"


def test_a_few_heads_have_their_number_and_the_first_of_a_layer_its_layer():
    labels = with_heads(layers=2, heads=2).layout.xaxis.ticktext
    assert labels == ("1<br>layer 1", "2", "1<br>layer 2", "2")


def test_of_many_heads_only_layers_are_labeled():
    labels = with_heads(layers=2, heads=9).layout.xaxis.ticktext
    assert labels == ("<br>1", *[""] * 8, "<br>2", *[""] * 8)


def test_the_axis_of_losses_includes_those_of_both_models():
    assert before_and_after().layout.yaxis2.range == (0, 8)


def test_the_axis_of_losses_starts_at_zero_and_stays_while_losses_are_low():
    figure = blank()
    for losses in ({32: 0.7, 64: 0.6}, {32: 2.7, 64: 4.6}):
        draw(figure, TRAINING_LENGTH, "bytes", before=(losses, DISTANCES))
        assert figure.layout.yaxis2.range == (0, 5)


def test_a_redraw_without_a_change_removes_the_changed_model():
    figure = before_and_after()
    draw(figure, 64, "tokens", before=({64: 5.3}, [[1.0]]))
    traces = SurgeryTraces(*figure.data)
    assert traces.losses_before.y.tolist() == [5.3]
    assert traces.distances_before.y.tolist() == [1.0]
    assert traces.losses_after.y.tolist() == []
    assert traces.distances_after.y.tolist() == []
    assert not traces.losses_after.showlegend
    assert figure.layout.yaxis2.range == (0, 6)
