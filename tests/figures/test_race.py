"""The race figure shows every curve, the training length and readable axes."""

import math

import numpy as np
import pytest

from alibi_viz.figures import race
from alibi_viz.figures.race import MAX_POINTS, group_means, race_figure
from alibi_viz.lab import find_question
from alibi_viz.panel import Curves, Panel

SLOTS = ["alibi", "learned", "none", "", "", "", ""]
LOSSES = slice(-7, None)


def length_panel(means: dict[str, dict[int, float]], length: int = 32) -> Panel:
    curves = {name: Curves(points) for name, points in means.items()}
    return find_question("longer windows").layout(curves, length, [length, 2 * length], {})


def figure(losses=None, means=None, steps=4):
    losses = {"alibi": [8.0, 4.0, 3.0], "learned": [8.0, 5.0, 4.0]} if losses is None else losses
    means = {"alibi": {32: 3.0, 64: 3.1}, "learned": {32: 4.0, 64: math.nan}} if means is None else means
    return race_figure(length_panel(means), losses, steps)


def test_each_method_has_a_curve_in_both_plots() -> None:
    left, right = figure().data[LOSSES][0], figure().data[0]
    assert (list(left.x), list(left.y)) == ([1, 2, 3], [8, 4, 3])
    assert (list(right.x), list(right.y)) == ([32, 64], [3.0, 3.1])
    assert (left.name, right.name, left.line.color) == ("alibi", "alibi", right.line.color)
    assert right.xaxis == "x2"
    assert left.legendgroup == right.legendgroup  # a click on the legend hides both


def test_empty_slots_are_not_drawn() -> None:
    visible = [trace.visible for trace in figure().data]
    assert visible == [True, True, *[False] * 12, True, True, *[False] * 5]


def test_the_legend_says_where_a_method_stops_being_defined() -> None:
    learned = figure().data[1]
    assert (list(learned.x), list(learned.y)) == ([32], [4.0])
    assert learned.name == "learned (to 32 only)"


def test_the_legend_is_complete_before_the_first_checkpoint() -> None:
    right = figure(means={"alibi": {}}).data[0]
    assert right.visible
    assert right.showlegend is not False
    assert len(right.x) == 1, "plotly leaves a trace without points out of the legend"
    assert np.isnan(right.y).all()


def test_the_training_length_is_marked_and_longer_windows_are_shaded() -> None:
    shade, line = figure().layout.shapes[:2]
    assert (shade.x0, line.x0, line.x1) == (32, 32, 32)
    assert shade.x1 > 64
    axis = figure().layout.xaxis2
    assert axis.type == "log"
    assert (axis.tickvals, axis.ticktext) == ((32, 64), ("32<br>L", "64<br>2 L"))


def test_axes_include_every_point() -> None:
    layout = figure(losses={"alibi": [9.9, 0.3]}, means={"alibi": {32: 1.2, 64: 7.7}}).layout
    low, high = layout.yaxis.range
    assert 10**low <= 0.3
    assert 10**high >= 9.9
    assert layout.yaxis2.range[0] <= 1.2
    assert layout.yaxis2.range[1] >= 7.7
    assert layout.xaxis.range == (0, 4)


@pytest.mark.parametrize("losses", [[8.0, 0.0], [8.0, 1e12], []])
def test_axes_are_finite_whatever_the_losses(losses) -> None:
    """A text like "yyyy" is learned to 0 bits, and a diverging training exceeds any scale."""
    layout = figure(losses={"alibi": losses}).layout
    assert all(math.isfinite(end) for end in layout.yaxis.range)
    assert layout.yaxis.range[0] < layout.yaxis.range[1]
    assert len(layout.yaxis.tickvals) == len(layout.yaxis.ticktext)


def test_redrawing_reuses_the_traces() -> None:
    sheet = race.blank()
    before = [id(trace) for trace in sheet.data]
    for losses in ({"alibi": [8.0]}, {"none": [7.0, 6.0]}):
        race.draw(sheet, SLOTS, length_panel({name: {} for name in losses}), losses=losses, steps=9)
    assert [id(trace) for trace in sheet.data] == before
    assert [number for number, trace in enumerate(sheet.data) if trace.visible] == [2, 16]
    assert list(sheet.data[LOSSES][2].y) == [7.0, 6.0]


def test_a_long_curve_is_averaged_in_groups_and_keeps_its_position() -> None:
    values = list(np.random.default_rng(0).random(2000))
    whole, early = (figure(steps=2000, losses={"alibi": values[:count]}).data[LOSSES][0] for count in (2000, 1000))
    assert len(whole.x) <= MAX_POINTS
    assert list(early.y) == list(whole.y[: len(early.y)])


def test_group_means_are_the_mean_of_each_group() -> None:
    middles, means = group_means([1.0, 2.0, 3.0, 4.0, 50.0], group=2)
    assert (list(middles), list(means)) == ([1.5, 3.5, 5.0], [1.5, 3.5, 50.0])
    assert [len(part) for part in group_means([], group=3)] == [0, 0]


def test_a_panel_without_losses_beside_it_has_the_whole_width() -> None:
    sheet = race.blank()
    panel = length_panel({"alibi": {32: 3.0}})
    race.draw(sheet, SLOTS, panel, losses=None, steps=9)
    assert (sheet.data[LOSSES][0].visible, sheet.layout.xaxis.visible, sheet.layout.yaxis.visible) == (
        False,
        False,
        False,
    )
    left, right = sheet.layout.xaxis.domain, sheet.layout.xaxis2.domain
    assert left[1] < right[0] < 0.01, "plotly draws no shapes where plots overlap"
    race.draw(sheet, SLOTS, panel, losses={"alibi": [8.0]}, steps=9)
    assert (sheet.data[LOSSES][0].visible, sheet.layout.xaxis.visible) == (True, True)
    assert sheet.layout.xaxis2.domain[0] > sheet.layout.xaxis.domain[1] > 0.4
