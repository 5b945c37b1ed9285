"""The picture of a race: what is in it, and what is left out."""

import math

import numpy as np
import pytest

from alibi_viz.figures import race
from alibi_viz.figures.panel import Curves
from alibi_viz.figures.race import MOST_POINTS, race_figure, thinned
from alibi_viz.figures.race_panels import length_panel

METHODS = ["alibi", "learned", "none"]


def figure(**changes):
    given = {
        "length": 32,
        "steps": 4,
        "losses": {"alibi": [8.0, 4.0, 3.0], "learned": [8.0, 5.0, 4.0]},
        "by_length": {"alibi": {32: 3.0, 64: 3.1}, "learned": {32: 4.0, 64: math.nan}},
    }
    return race_figure(METHODS, **given | changes)


def test_each_method_has_a_curve_in_both_panels() -> None:
    left, right = figure().data[0], figure().data[3]
    assert (list(left.x), list(left.y)) == ([1, 2, 3], [8, 4, 3])
    assert (list(right.x), list(right.y)) == ([32, 64], [3.0, 3.1])
    assert (left.name, right.name, left.line.color) == ("alibi", "alibi", right.line.color)
    assert right.xaxis == "x2"
    assert left.legendgroup == right.legendgroup  # a click on the legend hides both


def test_who_does_not_take_part_is_not_drawn() -> None:
    assert [trace.visible for trace in figure().data] == [True, True, False] * 2 + [False] * 9


def test_a_line_that_ends_says_why_in_the_legend() -> None:
    learned = figure().data[4]
    assert (list(learned.x), list(learned.y)) == ([32], [4.0])
    assert learned.name == "learned (to 32 only)"


def test_before_the_first_test_the_legend_is_there_already() -> None:
    right = figure(by_length={}).data[3]
    assert right.visible
    assert right.showlegend is not False
    assert len(right.x) == 1, "plotly leaves a trace without points out of the legend"
    assert np.isnan(right.y).all()


def test_the_training_length_is_marked_and_what_is_longer_shaded() -> None:
    unseen, line = figure().layout.shapes[:2]
    assert (unseen.x0, line.x0, line.x1) == (32, 32, 32)
    assert unseen.x1 > 64
    axis = figure().layout.xaxis2
    assert axis.type == "log"
    assert (axis.tickvals, axis.ticktext) == ((32, 64), ("32<br>L", "64<br>2 L"))


def test_axes_hold_every_point() -> None:
    layout = figure(losses={"alibi": [9.9, 0.3]}, by_length={"alibi": {32: 1.2, 64: 7.7}}).layout
    low, high = layout.yaxis.range
    assert 10**low <= 0.3
    assert 10**high >= 9.9
    assert layout.yaxis2.range[0] <= 1.2
    assert layout.yaxis2.range[1] >= 7.7
    assert layout.xaxis.range == (0, 4)


@pytest.mark.parametrize("losses", [[8.0, 0.0], [8.0, 1e12], []])
def test_axes_are_finite_whatever_the_losses(losses) -> None:
    """A text like "yyyy" is learned to zero bits, and a training that diverges leaves every scale."""
    layout = figure(losses={"alibi": losses}).layout
    assert all(math.isfinite(end) for end in layout.yaxis.range)
    assert layout.yaxis.range[0] < layout.yaxis.range[1]
    assert len(layout.yaxis.tickvals) == len(layout.yaxis.ticktext)


def test_redrawing_uses_the_same_traces() -> None:
    sheet = race.blank(METHODS)
    before = [id(trace) for trace in sheet.data]
    for losses in ({"alibi": [8.0]}, {"none": [7.0, 6.0]}):
        panel = length_panel({name: Curves({}) for name in losses}, 16, [16, 32])
        race.draw(sheet, METHODS, steps=9, losses=losses, panel=panel)
    assert [id(trace) for trace in sheet.data] == before
    assert [trace.visible for trace in sheet.data] == [False, False, True] * 2 + [False] * 9
    assert list(sheet.data[2].y) == [7.0, 6.0]


def test_a_curve_has_few_points_which_stay_where_they_are() -> None:
    values = list(np.random.default_rng(0).random(2000))
    whole, early = (figure(steps=2000, losses={"alibi": values[:count]}).data[0] for count in (2000, 1000))
    assert len(whole.x) <= MOST_POINTS
    assert list(early.y) == list(whole.y[: len(early.y)])


def test_thinned_is_the_mean_of_each_group() -> None:
    middles, means = thinned([1.0, 2.0, 3.0, 4.0, 50.0], group=2)
    assert (list(middles), list(means)) == ([1.5, 3.5, 5.0], [1.5, 3.5, 50.0])
    assert [len(part) for part in thinned([], group=3)] == [0, 0]


def test_another_question_has_the_whole_width_and_gives_it_back() -> None:
    sheet = race.blank(METHODS)
    panel = length_panel({"alibi": Curves({16: 3.0})}, 16, [16, 32])
    race.draw(sheet, METHODS, steps=9, losses={"alibi": [8.0]}, panel=panel, alone=True)
    assert (sheet.data[0].visible, sheet.layout.xaxis.visible, sheet.layout.yaxis.visible) == (False, False, False)
    left, right = sheet.layout.xaxis.domain, sheet.layout.xaxis2.domain
    assert left[1] < right[0] < 0.01, "plotly draws no shapes where plots overlap"
    race.draw(sheet, METHODS, steps=9, losses={"alibi": [8.0]}, panel=panel)
    assert (sheet.data[0].visible, sheet.layout.xaxis.visible) == (True, True)
    assert sheet.layout.xaxis2.domain[0] > sheet.layout.xaxis.domain[1] > 0.4
