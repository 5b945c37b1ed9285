"""Curves are drawn completely: means, intervals, seeds and losses are read back from the figure."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alibi_viz import lab
from alibi_viz.figures import curve_plot as picture
from alibi_viz.figures.curve_plot import (
    MAX_METHODS,
    MAX_POINTS,
    CurveShapes,
    assign_slots,
    curve_figure,
    draw,
    traces_by_slot,
)
from alibi_viz.figures.token_labels import literal
from alibi_viz.measure.table import over_seeds
from tests.rows import each_case
from tests.tables import table

LABELS = ["alibi", "rotary", "none", "rotary, window", "forget", "t5", "<b>fire</b>"]
FIXED = ("alibi", "rotary", "none")
REUSED = picture.blank(400)  # for all examples of a test: nothing of an earlier one may stay


@pytest.fixture(autouse=True)
def _reuse_a_figure_of_its_own_in_each_test(monkeypatch):
    monkeypatch.setitem(globals(), "REUSED", picture.blank(400))


def axes_of(rows):
    return lab.find_question(rows["question"][0]).axes(31, sorted(rows["x"].unique()))


def drawn(rows):
    draw(REUSED, assign_slots(list(rows["label"].unique()), FIXED), axes_of(rows), rows)
    return REUSED


def traces_of(figure, label):
    """The traces of a label that is shown."""
    (found,) = (
        traces
        for traces in traces_by_slot(figure)
        if traces.mean.visible and traces.mean.legendgroup == label
    )
    return found


# Any table

LENGTHS = st.lists(st.sampled_from([31, 62, 124, 248]), min_size=1, unique=True).map(sorted)
VALUES = st.one_of(st.floats(-5, 10), st.just(math.nan))


@st.composite
def tables(draw_from):
    """Rows of one question: up to seven labels, each with its own lengths and seeds, and with
    values undefined."""
    question = draw_from(st.sampled_from(["longer sequences", "needle", "gap"]))
    labels = draw_from(st.lists(st.sampled_from(LABELS), min_size=1, unique=True))
    curves = {}
    for label in labels:
        lengths = draw_from(LENGTHS)
        seeds = draw_from(st.integers(1, 4))
        curves[label] = [{x: draw_from(VALUES) for x in lengths} for _ in range(seeds)]
    return table(question, curves)


any_table = given(tables())


@settings(max_examples=8)
@any_table
def test_exactly_the_labels_of_the_table_are_shown(rows):
    shown = [
        traces.mean.legendgroup for traces in traces_by_slot(drawn(rows)) if traces.mean.visible
    ]
    assert sorted(shown) == sorted(rows["label"].unique())


@settings(max_examples=8)
@any_table
def test_a_mean_has_every_length_at_which_it_is_defined(rows):
    figure = drawn(rows)
    summary = over_seeds(rows, limits=axes_of(rows).limits)
    for label in rows["label"].unique():
        mean = traces_of(figure, label).mean
        defined = summary.loc[label].dropna(subset="mean")
        if defined.empty:
            # plotly leaves a trace without points out of the legend.
            assert len(mean.x) == 1
            assert np.isnan(mean.y).all()
        else:
            np.testing.assert_allclose(mean.x, defined.index)
            np.testing.assert_allclose(mean.y, defined["mean"])


@settings(max_examples=8)
@any_table
def test_the_legend_says_where_a_mean_ends(rows):
    figure = drawn(rows)
    summary = over_seeds(rows, limits=axes_of(rows).limits)
    for label in rows["label"].unique():
        of_label = summary.loc[label]
        defined = of_label.dropna(subset="mean")
        ends = ""
        if defined.empty:
            ends = " (not defined)"
        elif len(defined) < len(of_label):
            ends = f" (to {defined.index.max():,} only)"
        assert traces_of(figure, label).mean.name == literal(label) + ends


@settings(max_examples=8)
@any_table
def test_a_mean_has_its_interval_from_three_seeds_on(rows):
    figure = drawn(rows)
    summary = over_seeds(rows, limits=axes_of(rows).limits)
    for label in rows["label"].unique():
        bars = traces_of(figure, label).mean.error_y
        defined = summary.loc[label].dropna(subset="mean")
        has_interval = defined["seeds"] >= 3
        assert bool(bars.visible) == has_interval.any()
        if len(defined):
            above = (defined["high"] - defined["mean"]).where(has_interval)
            below = (defined["mean"] - defined["low"]).where(has_interval)
            np.testing.assert_allclose(bars.array, above)
            np.testing.assert_allclose(bars.arrayminus, below)


@settings(max_examples=8)
@any_table
def test_several_seeds_are_drawn_as_lines_of_their_own(rows):
    figure = drawn(rows)
    for label in rows["label"].unique():
        seeds = traces_of(figure, label).seeds
        of_label = rows[rows["label"] == label].dropna(subset="value")
        number = of_label["seed"].nunique()
        assert not seeds.showlegend
        assert seeds.visible == (number > 1)
        if number > 1:
            is_gap = np.isnan(seeds.y)  # without gaps, a line would connect two seeds
            assert is_gap.sum() == number
            np.testing.assert_allclose(seeds.x[~is_gap], of_label["x"])
            np.testing.assert_allclose(seeds.y[~is_gap], of_label["value"])


@settings(max_examples=8)
@any_table
def test_the_axis_holds_every_value_and_interval(rows):
    low, high = drawn(rows).layout.yaxis2.range
    summary = over_seeds(rows, limits=axes_of(rows).limits)
    with_interval = summary[summary["seeds"] >= 3].dropna(subset="mean")
    assert low < high
    assert rows["value"].dropna().between(low, high).all()
    assert with_interval["low"].between(low, high).all()
    assert with_interval["high"].between(low, high).all()


@settings(max_examples=5)
@any_table
def test_without_losses_no_training_is_shown(rows):
    figure = drawn(rows)
    assert not any(traces.training.visible for traces in traces_by_slot(figure))
    assert not figure.layout.xaxis.visible


# The loss while training


def with_losses(losses, steps):
    """A figure of one method, "none", with its loss at each step."""
    rows = table("longer sequences", {"none": [dict(enumerate(losses, start=1))]})
    axes = lab.find_question("longer sequences").axes(64)
    slots = ["", "none", "", "", "", "", ""]
    draw(REUSED, slots, axes, rows[:0], training=rows, steps=steps)
    return REUSED


def training_trace(figure):
    return traces_by_slot(figure)[1].training


LOSSES = st.lists(st.floats(0, 1e12), min_size=1, max_size=300)


def test_few_losses_are_drawn_as_they_are():
    trace = training_trace(with_losses([8.0, 4.0, 2.0], steps=80))
    assert list(trace.x) == [1, 2, 3]
    assert list(trace.y) == [8, 4, 2]


def test_many_losses_are_averaged_in_groups():
    # 240 steps are three times as many as points, so each point is the mean of three.
    trace = training_trace(with_losses([9.0, 6.0, 3.0, 5.0, 4.0, 3.0, 7.0], steps=3 * MAX_POINTS))
    assert list(trace.x) == [2, 5, 7]
    assert list(trace.y) == [6, 4, 7]


@settings(max_examples=8)
@given(st.integers(1, 2000), LOSSES)
def test_any_losses_make_at_most_80_points_of_the_same_mean(steps, losses):
    losses = losses[:steps]
    trace = training_trace(with_losses(losses, steps))
    group_size = math.ceil(steps / MAX_POINTS)
    sizes = np.full(len(trace.y), group_size)
    sizes[-1] = len(losses) - group_size * (len(trace.y) - 1)
    assert len(trace.y) <= MAX_POINTS
    assert np.average(trace.y, weights=sizes) == pytest.approx(np.mean(losses))


@settings(max_examples=8)
@given(st.integers(1, 2000), LOSSES)
def test_the_axis_of_losses_holds_them(steps, losses):
    figure = with_losses(losses[:steps], steps)
    low, high = 10 ** np.array(figure.layout.yaxis.range)
    drawn_losses = training_trace(figure).y.clip(0.05)  # zero has no logarithm
    assert low < drawn_losses.min()
    assert drawn_losses.max() < high


def test_the_axis_of_steps_ends_with_the_training():
    figure = with_losses([3.0], steps=700)
    assert figure.layout.xaxis.visible
    assert figure.layout.xaxis.range == (0, 700)


def test_the_two_plots_do_not_overlap():
    layout = with_losses([3.0], steps=10).layout
    assert layout.xaxis.domain[1] < layout.xaxis2.domain[0], "plotly would draw no shapes there"


def test_without_any_loss_yet_no_curve_is_shown():
    assert training_trace(with_losses([], steps=10)).visible is False


# What a question says about its axes


def figure_of(question, points, length=32):
    axes = lab.find_question(question).axes(length, sorted(points))
    return curve_figure(table(question, {"a": [points]}), axes)


def shapes_of(figure):
    return CurveShapes(*figure.layout.shapes)


def test_keys_beyond_the_training_length_are_shaded():
    shapes = shapes_of(figure_of("needle", {32: 1.0, 512: 0.5}))
    assert shapes.longer_than_training.x0 == 32
    assert (shapes.training_length.x0, shapes.training_length.x1) == (32, 32)


def test_the_level_of_chance_is_marked_with_its_share():
    chance = shapes_of(figure_of("needle", {32: 1.0, 512: 0.5})).chance
    assert (chance.y0, chance.y1) == (1 / 16, 1 / 16)
    assert chance.label.text == " chance, 6.2%"


def test_a_question_without_length_and_chance_has_no_marks():
    shapes = figure_of("gap", {150: -0.37, 600: 2.36}).layout.shapes
    assert not any(shape.visible for shape in shapes)


def test_an_empty_figure_shows_no_trace():
    assert not any(trace.visible for trace in picture.blank(300).data)


@each_case(
    ("question", "points", "text"),
    {
        "needle": (
            "needle",
            {32: 1.0, 512: 0.5},
            "%{fullData.name}, examples of %{x} tokens<br>%{y:.0%}<extra></extra>",
        ),
        "gap": (
            "gap",
            {150: -0.37, 600: 2.36},
            "%{fullData.name}, step %{x}<br>%{y:+.2f} bits per byte<extra></extra>",
        ),
    },
)
def test_hover_texts_have_the_unit_of_the_question(question, points, text):
    assert figure_of(question, points).data[0].hovertemplate == text


def test_ticks_say_how_many_training_lengths_they_are():
    axes = lab.find_question("needle").axes(32, [32, 64])
    assert axes.ticks == {32: "32<br>L", 64: "64<br>2 L"}
    layout = curve_figure(table("needle", {"a": [{32: 1.0}]}), axes).layout
    assert list(layout.xaxis2.tickvals) == [32, 64]


def test_shares_have_an_axis_from_0_to_more_than_1():
    assert figure_of("needle", {32: 1.0, 512: 0.5}).layout.yaxis2.range == (0, 1.1)


def test_steps_have_a_linear_axis():
    layout = figure_of("gap", {150: -0.37, 600: 2.36}).layout
    assert layout.xaxis2.type == "linear"
    assert layout.xaxis2.range == (0, 600)


def test_the_axis_of_values_ends_at_whole_steps_beyond_the_values():
    layout = figure_of("gap", {150: -0.37, 600: 2.36}).layout
    assert layout.yaxis2.range == (-0.5, 2.5)


def test_two_values_of_one_point_are_refused():
    rows = table("gap", {"a": [{9: 1.0}]})
    axes = lab.find_question("gap").axes(32, [9])
    with pytest.raises(ValueError, match="one value for a label, seed and x: choose a question"):
        curve_figure(pd.concat([rows, rows]), axes)


# Losses of models that only count

YARDSTICKS = {"letter frequencies": 4.492, "letter pairs": 3.292}


def compared(losses, yardsticks=YARDSTICKS):
    """The losses of one method, "a", beside yardsticks."""
    axes = lab.find_question("longer sequences").axes(32, sorted(losses))
    axes = replace(axes, yardsticks=yardsticks)
    return curve_figure(table("longer sequences", {"a": [losses]}), axes)


def lines(shapes):
    """{label: height} of the lines that are shown."""
    shown = {}
    for shape in shapes:
        if shape.visible:
            assert shape.y0 == shape.y1
            shown[shape.label.text.strip()] = shape.y0
    return shown


def test_yardsticks_within_the_axis_are_labeled_lines():
    figure = compared({32: 1.0, 512: 6.0})
    assert lines(shapes_of(figure).yardsticks) == {
        "letter frequencies alone, 4.49": 4.492,
        "letter pairs alone, 3.29": 3.292,
    }


def test_a_yardstick_above_the_axis_is_not_drawn():
    figure = compared({32: 1.0, 512: 3.4})
    assert figure.layout.yaxis2.range == (0, 3.5)
    assert lines(shapes_of(figure).yardsticks) == {"letter pairs alone, 3.29": 3.292}


def test_the_axis_is_not_stretched_for_yardsticks():
    figure = compared({32: 1.0, 512: 0.9})
    assert figure.layout.yaxis2.range == (0, 2)
    assert lines(shapes_of(figure).yardsticks) == {}


def test_without_yardsticks_those_of_an_earlier_drawing_disappear():
    figure = compared({32: 1.0, 512: 6.0})
    rows = table("longer sequences", {"a": [{32: 1.0, 512: 6.0}]})
    draw(figure, assign_slots(["a"]), axes_of(rows), rows)
    assert lines(shapes_of(figure).yardsticks) == {}


def test_a_yardstick_without_a_number_is_not_drawn():
    figure = compared({32: 1.0, 512: 6.0}, {"letter pairs": math.nan})
    assert lines(shapes_of(figure).yardsticks) == {}


def test_the_loss_while_training_has_yardsticks_of_its_own():
    rows = table("longer sequences", {"a": [{1: 8.0, 2: 4.0}]})
    axes = replace(lab.find_question("longer sequences").axes(64), yardsticks=YARDSTICKS)
    figure = picture.blank(400)
    draw(figure, assign_slots(["a"]), axes, rows[:0], training=rows, steps=2)
    shapes = shapes_of(figure)
    assert list(lines(shapes.yardsticks_in_training).values()) == [4.492, 3.292]
    assert lines(shapes.yardsticks) == {}, "the axis of the tests ends at 2 bits"


def test_without_the_loss_while_training_it_has_no_yardsticks():
    shapes = shapes_of(compared({32: 1.0, 512: 6.0}))
    assert lines(shapes.yardsticks_in_training) == {}


@each_case(
    ("losses", "place"),
    {
        "rises at the end": ({32: 1.0, 128: 1.0, 512: 6.0}, "start"),
        "falls from there": ({32: 3.3, 128: 1.0, 512: 1.0}, "middle"),
        "falls at the end": ({32: 3.3, 128: 3.3, 512: 1.0}, "end"),
    },
)
def test_a_label_stands_where_no_curve_runs(losses, place):
    figure = compared(losses, {"letter pairs": 3.2})
    assert shapes_of(figure).first_yardstick.label.textposition == place


@each_case(
    ("bits", "side"),
    {
        "above its line": (1.5, "bottom"),
        "below its line, at the end of the plot": (1.95, "top"),
    },
)
def test_a_label_stays_inside_the_plot(bits, side):
    figure = compared({32: 1.0, 512: 1.0}, {"letter pairs": bits})
    assert figure.layout.yaxis2.range == (0, 2)
    assert shapes_of(figure).first_yardstick.label.yanchor == side


# The axis and the arrangement of a live race


def steady(losses):
    """The losses of one method, on an axis from 0 to 8 that is to stay."""
    axes = lab.find_question("longer sequences").axes(32, sorted(losses))
    axes = replace(axes, low=0.0, high=8.0, is_steady=True)
    return curve_figure(table("longer sequences", {"a": [losses]}), axes)


@pytest.mark.parametrize("highest", [0.9, 4.4, 7.99])
def test_a_steady_axis_stays_as_long_as_it_includes_all_values(highest):
    assert steady({32: 0.5, 512: highest}).layout.yaxis2.range == (0, 8)


def test_a_steady_axis_grows_for_values_beyond_it():
    assert steady({32: 0.5, 512: 9.2}).layout.yaxis2.range == (0, 9.5)


def test_a_compact_figure_has_its_legend_beside_its_title():
    figure = picture.blank(400)
    picture.arrange(figure, 200, compact=True)
    assert figure.layout.height == 200
    assert figure.layout.legend.xanchor == "right"


def test_a_figure_that_is_compact_no_longer_is_as_it_was():
    figure = picture.blank(400)
    picture.arrange(figure, 400)
    before = figure.layout.to_plotly_json()
    picture.arrange(figure, 200, compact=True)
    picture.arrange(figure, 400)
    assert figure.layout.to_plotly_json() == before


# Slots


@each_case(
    ("methods", "slots"),
    {
        "one fixed": (["none", "t5"], ["", "", "none", "t5", "", "", ""]),
        "free slots first": (["none", *"abcdef"], ["f", "e", "none", "a", "b", "c", "d"]),
    },
)
def test_a_fixed_method_keeps_its_slot_and_others_get_the_rest(methods, slots):
    assert assign_slots(methods, FIXED) == slots


@each_case(
    "arguments",
    {
        "methods": (list("abcdefgh"), FIXED),
        "fixed": (["a"], list("abcdefgh")),
    },
)
def test_more_than_seven_methods_are_refused(arguments):
    with pytest.raises(ValueError, match=f"at most {MAX_METHODS} methods can be drawn, got 8"):
        assign_slots(*arguments)
