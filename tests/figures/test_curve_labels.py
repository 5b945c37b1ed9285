"""Curves have their names at their right ends, and the lowest ones a close-up."""

import pandas as pd

from alibi_viz import lab
from alibi_viz.figures import curve_labels
from alibi_viz.figures import curve_plot as picture
from alibi_viz.figures.curve_plot import assign_slots

LENGTHS = [64, 128, 256]
# Two of them lie on one line, far below the third.
CURVES = {"alibi": [0.80, 0.78, 0.76], "t5": [0.81, 0.80, 0.79], "rotary": [0.8, 3.0, 6.0]}


def drawn(curves, page_width=900):
    """A figure of curves with their names."""
    points = []
    for label, values in curves.items():
        for x, value in zip(LENGTHS, values, strict=False):
            points.append({"label": label, "seed": 0, "x": x, "value": value})
    rows = pd.DataFrame(points)
    figure = picture.blank(376)
    curve_labels.add_labels(figure)
    axes = lab.find_question("longer sequences").axes(64, LENGTHS)
    slots = assign_slots(list(curves))
    picture.draw(figure, slots, axes, rows)
    curve_labels.draw_labels(figure, slots, axes, rows, page_width=page_width)
    return figure


def names(figure):
    """{name: height of the name in the plot, from 0 to 1}."""
    annotations = figure.select_annotations({"name": "name of a curve"})
    return {note.text.partition("</span> ")[2]: note.y for note in annotations if note.visible}


def close_up(figure):
    """The curves that are drawn in the close-up."""
    return [trace for trace in figure.select_traces({"name": "close-up"}) if trace.visible]


def test_every_curve_has_its_name_in_place_of_a_legend():
    figure = drawn(CURVES)
    assert set(names(figure)) == set(CURVES)
    assert not figure.layout.showlegend


def test_a_name_is_at_the_height_of_the_end_of_its_curve():
    figure = drawn(CURVES)
    low, high = figure.layout.yaxis2.range
    assert names(figure)["rotary"] == (6.0 - low) / (high - low)


def test_names_of_curves_on_one_line_do_not_overlap():
    heights = names(drawn(CURVES))
    pixels = 376 - 34 - 70  # of the plot
    assert (heights["t5"] - heights["alibi"]) * pixels >= 14


def test_a_curve_that_ends_early_says_where():
    assert "learned, to 64" in names(drawn({**CURVES, "learned": [0.9]}))


def test_the_close_up_has_the_curves_that_lie_on_one_line():
    lower = close_up(drawn(CURVES))
    assert [list(trace.y) for trace in lower] == [CURVES["alibi"], CURVES["t5"]]


def test_the_axis_of_the_close_up_ends_just_beyond_its_curves():
    low, high = drawn(CURVES).layout.yaxis3.range
    assert 0.75 < low < 0.76
    assert 0.81 < high < 0.82


def test_the_close_up_is_right_of_the_names():
    layout = drawn(CURVES).layout
    assert layout.xaxis2.domain[1] < layout.xaxis3.domain[0]


def test_curves_that_are_all_alike_have_no_close_up():
    assert close_up(drawn({"alibi": CURVES["alibi"], "t5": CURVES["t5"]})) == []


def test_one_low_curve_has_no_close_up():
    assert close_up(drawn({"alibi": CURVES["alibi"], "rotary": CURVES["rotary"]})) == []


def test_a_narrow_page_has_a_legend_instead():
    figure = drawn(CURVES, page_width=480)
    assert figure.layout.showlegend
    assert names(figure) == {}
    assert close_up(figure) == []


def test_names_that_would_leave_the_plot_move_down():
    assert curve_labels.spread([1.0, 1.0, 0.2], gap=0.1).tolist() == [0.9, 1.0, 0.2]
