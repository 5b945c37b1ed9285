"""Curves have their names at their right ends, and the lowest ones a close-up."""

import pandas as pd

from alibi_viz import lab
from alibi_viz.figures import curve_labels
from alibi_viz.figures.curve_plot import assign_slots, curve_picture
from alibi_viz.formatting import in_prose

LENGTHS = [64, 128, 256]
# Two of them lie on one line, far below the third.
CURVES = {"alibi": [0.80, 0.78, 0.76], "t5": [0.81, 0.80, 0.79], "rotary": [0.8, 3.0, 6.0]}


def drawn(curves, page_width=900):
    """The layout of a picture of curves with their names, and the curves in its close-up."""
    points = []
    for label, values in curves.items():
        for x, value in zip(LENGTHS, values, strict=False):
            points.append({"label": label, "seed": 0, "x": x, "value": value})
    rows = pd.DataFrame(points)
    axes = lab.find_question("longer sequences").axes(64, LENGTHS)
    picture = curve_picture(
        assign_slots(list(curves)), axes, rows, names=True, height=376, page_width=page_width
    )
    close_up = [list(trace["y"]) for trace in picture["data"] if trace["name"] == "close-up"]
    return picture["layout"], close_up


def names(layout):
    """{name: height of the name in the plot, from 0 to 1}."""
    return {
        note["text"].partition("</span> ")[2]: note["y"]
        for note in layout["annotations"]
        if note["name"] == "name of a curve"
    }


def test_every_curve_has_its_name_at_the_height_of_its_end_in_place_of_a_legend():
    layout, _ = drawn(CURVES)
    low, high = layout["yaxis"]["range"]
    assert set(names(layout)) == {in_prose(name) for name in CURVES}
    assert names(layout)["rotary"] == (6.0 - low) / (high - low)
    assert not layout["showlegend"]


def test_names_of_curves_on_one_line_do_not_overlap():
    layout, _ = drawn(CURVES)
    pixels = 376 - 34 - 70  # of the plot
    assert (names(layout)["T5"] - names(layout)["ALiBi"]) * pixels >= 14


def test_a_curve_that_ends_early_says_where():
    layout, _ = drawn({**CURVES, "learned": [0.9]})
    assert "learned, to 64" in names(layout)


def test_the_close_up_has_the_curves_that_lie_on_one_line():
    layout, close_up = drawn(CURVES)
    low, high = layout["yaxis2"]["range"]
    assert close_up == [CURVES["alibi"], CURVES["t5"]]
    assert 0.75 < low < 0.76
    assert 0.81 < high < 0.82
    assert layout["xaxis"]["domain"][1] < layout["xaxis2"]["domain"][0]


def test_curves_that_all_lie_on_one_line_have_a_close_up():
    _, close_up = drawn({"alibi": CURVES["alibi"], "t5": CURVES["t5"]})
    assert close_up == [CURVES["alibi"], CURVES["t5"]]


def test_one_low_curve_has_no_close_up():
    layout, close_up = drawn({"alibi": CURVES["alibi"], "rotary": CURVES["rotary"]})
    assert close_up == []
    assert "xaxis2" not in layout


def test_a_narrow_page_has_a_legend_instead():
    layout, close_up = drawn(CURVES, page_width=480)
    assert layout["showlegend"]
    assert names(layout) == {}
    assert close_up == []


def test_names_that_would_leave_the_plot_move_down():
    assert curve_labels.spread([1.0, 1.0, 0.2], gap=0.1).tolist() == [0.9, 1.0, 0.2]
