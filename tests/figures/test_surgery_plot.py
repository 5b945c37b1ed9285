"""The picture of a surgery shows a model before and after a change."""

import math

import plotly.graph_objects as go
import pytest

from alibi_viz.figures.surgery_plot import AFTER, BEFORE, surgery_figure, surgery_picture
from tests.rows import each_case

TRAINING_LENGTH = 32
LOSSES = {32: 2.5, 64: 2.6, 128: 3.5}
CHANGED_LOSSES = {32: 2.4, 64: 7.7, 128: math.nan}  # not defined at 128
DISTANCES = [[3.0, 9.0], [4.0, 40.0]]
CHANGED_DISTANCES = [[300.0, 0.0], [1.0, 1.0]]


def drawn(losses=(LOSSES,), distances=(DISTANCES,), yardsticks=None, **options):
    return surgery_picture(
        TRAINING_LENGTH,
        losses,
        distances,
        unit="bytes",
        yardsticks=yardsticks or {},
        **options,
    )


def before_and_after(**options):
    return drawn([LOSSES, CHANGED_LOSSES], [DISTANCES, CHANGED_DISTANCES], **options)


def traces_of(picture, kind):
    """{name of a model: its trace} of its losses or its distances."""
    mode = {"losses": "lines+markers", "distances": "markers"}[kind]
    return {trace["name"]: trace for trace in picture["data"] if trace["mode"] == mode}


def test_lines_show_the_losses_of_both_models_where_they_are_defined():
    losses = traces_of(before_and_after(), "losses")
    assert losses[BEFORE]["x"] == [32, 64, 128]
    assert losses[BEFORE]["y"] == [2.5, 2.6, 3.5]
    assert losses[AFTER]["x"] == [32, 64]
    assert losses[AFTER]["y"] == [2.4, 7.7]


def test_markers_show_the_distance_of_each_head_layer_by_layer():
    distances = traces_of(before_and_after(), "distances")
    assert distances[BEFORE]["x"].tolist() == [1, 2, 3, 4]
    assert distances[BEFORE]["y"].tolist() == [3.0, 9.0, 4.0, 40.0]


def test_distance_zero_is_drawn_at_a_tenth_and_exact_in_the_hover_text():
    head = 1  # the second one of the first layer
    markers = traces_of(before_and_after(), "distances")[AFTER]
    assert markers["y"][head] == 0.1
    assert markers["customdata"][head] == [1, 2, 0.0]


def test_without_a_change_there_is_one_model():
    picture = drawn()
    assert [*traces_of(picture, "losses"), *traces_of(picture, "distances")] == [BEFORE, BEFORE]


def test_both_plots_show_a_model_in_the_same_color_and_the_models_in_two():
    losses, distances = (traces_of(before_and_after(), kind) for kind in ("losses", "distances"))
    colors = [losses[name]["marker"]["color"] for name in (BEFORE, AFTER)]
    assert colors == [distances[name]["marker"]["color"] for name in (BEFORE, AFTER)]
    assert colors[0] != colors[1]


def test_the_training_length_is_marked_in_both_plots_and_what_is_longer_is_shaded():
    layout = before_and_after()["layout"]
    as_far_back, as_long, longer = layout["shapes"]
    assert as_far_back["y0"] == as_far_back["y1"] == TRAINING_LENGTH
    assert as_long["x0"] == as_long["x1"] == longer["x0"] == TRAINING_LENGTH
    right_end = 10 ** layout["xaxis2"]["range"][1]
    assert longer["x1"] == pytest.approx(right_end)


def test_yardsticks_within_the_axis_of_losses_are_labeled_lines():
    picture = drawn(yardsticks={"letter frequencies": 5.5, "letter pairs": 3.25})
    (pairs,) = [shape for shape in picture["layout"]["shapes"] if shape["name"] == "yardstick"]
    assert (pairs["yref"], pairs["y0"], pairs["y1"]) == ("y2", 3.25, 3.25)
    assert pairs["label"]["text"].strip() == "letter pairs alone, 3.25"


def test_lengths_are_labeled_as_multiples_of_the_training_length():
    axis = before_and_after()["layout"]["xaxis2"]
    assert axis["ticktext"] == ["32<br>L", "64<br>2 L", "128<br>4 L"]
    assert axis["title"]["text"] == "length of the test sequences, bytes"


@each_case(
    ("heads", "labels"),
    {
        "a few": (2, ["1<br>layer 1", "2", "1<br>layer 2", "2"]),
        "many": (9, ["<br>1", *[""] * 8, "<br>2", *[""] * 8]),
    },
)
def test_heads_are_labeled_if_they_are_few_and_the_first_of_a_layer_has_its_layer(heads, labels):
    picture = drawn(distances=[[[1.0] * heads] * 2])
    assert picture["layout"]["xaxis"]["ticktext"] == labels


@each_case(
    ("losses", "end"),
    {
        "low ones": ([{32: 0.7, 64: 4.6}], 5),
        "a high one": ([{64: 5.3}], 6),
        "of both models": ([LOSSES, CHANGED_LOSSES], 8),
    },
)
def test_the_axis_of_losses_goes_from_zero_to_a_whole_bit_and_at_least_5(losses, end):
    picture = drawn(losses, [DISTANCES] * len(losses))
    assert picture["layout"]["yaxis2"]["range"] == [0, end]


def test_the_losses_are_below_on_a_narrow_page():
    layout = before_and_after(page_width=468)["layout"]
    assert layout["yaxis2"]["domain"][1] < layout["yaxis"]["domain"][0]
    assert layout["xaxis2"]["domain"] == [0, 1]


def test_plotly_accepts_the_picture():
    go.Figure(drawn())
    go.Figure(before_and_after(yardsticks={"letter pairs": 3.25}, page_width=468))


@each_case(
    ("losses", "distances", "message"),
    {
        "no model": ([], [], "one or two models"),
        "no losses": ([{}], [DISTANCES], "one or two models"),
        "distances of one model": ([LOSSES, LOSSES], [DISTANCES], "one or two models"),
        "other heads": ([LOSSES, LOSSES], [DISTANCES, [[1.0]]], r"\[layers, heads\]"),
    },
)
def test_figure_refuses_what_does_not_fit(losses, distances, message):
    with pytest.raises(ValueError, match=message):
        surgery_figure(TRAINING_LENGTH, losses, distances)
