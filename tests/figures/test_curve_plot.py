"""Curves are drawn completely: means, intervals, seeds and losses are read from the picture."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alibi_viz import lab
from alibi_viz.figures.curve_plot import (
    MAX_METHODS,
    assign_slots,
    curve_figure,
    curve_picture,
)
from alibi_viz.figures.token_labels import literal
from alibi_viz.formatting import in_prose
from alibi_viz.measure.table import over_seeds
from tests.rows import each_case
from tests.tables import table

LABELS = ["alibi", "rotary", "none", "rotary, window", "forget", "t5", "<b>fire</b>"]
FIXED = ("alibi", "rotary", "none")


def axes_of(rows):
    return lab.find_question(rows["question"][0]).axes(31, sorted(rows["x"].unique()))


def drawn(rows):
    return curve_picture(assign_slots(list(rows["label"].unique()), FIXED), axes_of(rows), rows)


def means_of(picture):
    """{label: the trace of its mean}."""
    traces = picture["data"]
    return {trace["legendgroup"]: trace for trace in traces if "markers" in trace["mode"]}


def lines_of(picture):
    """{label: its trace without markers, of single seeds or of the training}."""
    traces = picture["data"]
    return {trace["legendgroup"]: trace for trace in traces if trace["mode"] == "lines"}


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
    assert sorted(means_of(drawn(rows))) == sorted(rows["label"].unique())


@settings(max_examples=8)
@any_table
def test_a_mean_has_every_length_at_which_it_is_defined(rows):
    means = means_of(drawn(rows))
    summary = over_seeds(rows, limits=axes_of(rows).limits)
    for label, mean in means.items():
        defined = summary.loc[label].dropna(subset="mean")
        if defined.empty:
            # plotly leaves a trace without points out of the legend.
            assert len(mean["x"]) == 1
            assert np.isnan(mean["y"]).all()
        else:
            np.testing.assert_allclose(mean["x"], defined.index)
            np.testing.assert_allclose(mean["y"], defined["mean"])


@settings(max_examples=8)
@any_table
def test_the_legend_says_where_a_mean_ends(rows):
    means = means_of(drawn(rows))
    summary = over_seeds(rows, limits=axes_of(rows).limits)
    for label, mean in means.items():
        of_label = summary.loc[label]
        defined = of_label.dropna(subset="mean")
        ends = ""
        if defined.empty:
            ends = " (not defined)"
        elif len(defined) < len(of_label):
            ends = f" (to {defined.index.max():,} only)"
        assert mean["name"] == literal(in_prose(label)) + ends


@settings(max_examples=8)
@any_table
def test_a_mean_has_its_interval_from_three_seeds_on(rows):
    means = means_of(drawn(rows))
    summary = over_seeds(rows, limits=axes_of(rows).limits)
    for label, mean in means.items():
        defined = summary.loc[label].dropna(subset="mean")
        has_interval = defined["seeds"] >= 3
        assert ("error_y" in mean) == has_interval.any()
        if has_interval.any():
            above = (defined["high"] - defined["mean"]).where(has_interval)
            below = (defined["mean"] - defined["low"]).where(has_interval)
            np.testing.assert_allclose(mean["error_y"]["array"], above)
            np.testing.assert_allclose(mean["error_y"]["arrayminus"], below)


@settings(max_examples=8)
@any_table
def test_several_seeds_are_drawn_as_lines_of_their_own(rows):
    lines = lines_of(drawn(rows))
    for label in rows["label"].unique():
        of_label = rows[rows["label"] == label].dropna(subset="value")
        number = of_label["seed"].nunique()
        assert (label in lines) == (number > 1)
        if number > 1:
            seeds = lines[label]
            assert not seeds["showlegend"]
            is_gap = np.isnan(seeds["y"])  # without gaps, a line would connect two seeds
            assert is_gap.sum() == number
            np.testing.assert_allclose(seeds["x"][~is_gap], of_label["x"])
            np.testing.assert_allclose(seeds["y"][~is_gap], of_label["value"])


@settings(max_examples=8)
@any_table
def test_the_axis_holds_every_value_and_interval(rows):
    low, high = drawn(rows)["layout"]["yaxis"]["range"]
    summary = over_seeds(rows, limits=axes_of(rows).limits)
    with_interval = summary[summary["seeds"] >= 3].dropna(subset="mean")
    assert low < high
    assert rows["value"].dropna().between(low, high).all()
    assert with_interval["low"].between(low, high).all()
    assert with_interval["high"].between(low, high).all()


@settings(max_examples=5)
@any_table
def test_plotly_accepts_the_picture(rows):
    go.Figure(drawn(rows))


# What a question says about its axes


def picture_of(question, points, length=32):
    axes = lab.find_question(question).axes(length, sorted(points))
    return curve_picture(["a"] + [""] * 6, axes, table(question, {"a": [points]}))


def shapes_of(picture):
    """{name: shape}."""
    return {shape["name"]: shape for shape in picture["layout"]["shapes"]}


def test_lengths_beyond_training_are_shaded_and_chance_is_a_labeled_line():
    shapes = shapes_of(picture_of("needle", {32: 1.0, 512: 0.5}))
    assert shapes["longer than training"]["x0"] == 32
    assert shapes["training length"]["x0"] == shapes["training length"]["x1"] == 32
    assert shapes["chance"]["y0"] == shapes["chance"]["y1"] == 1 / 16
    assert shapes["chance"]["label"]["text"] == " chance, 6.2%"


def test_a_question_without_length_and_chance_has_no_marks():
    assert shapes_of(picture_of("gap", {150: -0.37, 600: 2.36})) == {}


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
    assert means_of(picture_of(question, points))["a"]["hovertemplate"] == text


def test_ticks_say_how_many_training_lengths_they_are():
    layout = picture_of("needle", {32: 1.0, 64: 1.0})["layout"]
    assert layout["xaxis"]["tickvals"] == [32, 64]
    assert layout["xaxis"]["ticktext"] == ["32<br>L", "64<br>2 L"]


def test_shares_have_an_axis_from_0_to_more_than_1():
    assert picture_of("needle", {32: 1.0, 512: 0.5})["layout"]["yaxis"]["range"] == [0, 1.1]


def test_steps_have_a_linear_axis_and_values_one_that_ends_at_whole_steps():
    layout = picture_of("gap", {150: -0.37, 600: 2.36})["layout"]
    assert layout["xaxis"]["type"] == "linear"
    assert layout["xaxis"]["range"] == [0, 600]
    assert layout["yaxis"]["range"] == [-0.5, 2.5]


def test_figure_refuses_two_values_of_one_point():
    rows = table("gap", {"a": [{9: 1.0}]})
    axes = lab.find_question("gap").axes(32, [9])
    with pytest.raises(ValueError, match="one value for a label, seed and x: choose a question"):
        curve_figure(pd.concat([rows, rows]), axes)


# Losses of models that only count

YARDSTICKS = {"letter frequencies": 4.492, "letter pairs": 3.292}


def compared(losses, yardsticks=YARDSTICKS, **changes):
    """The losses of one method, "a", beside yardsticks."""
    axes = lab.find_question("longer sequences").axes(32, sorted(losses))
    axes = replace(axes, yardsticks=yardsticks, **changes)
    return curve_picture(assign_slots("a"), axes, table("longer sequences", {"a": [losses]}))


def yardsticks_of(picture, axis="y"):
    """The yardsticks in the plot of an axis."""
    shapes = picture["layout"]["shapes"]
    return [shape for shape in shapes if shape["name"] == "yardstick" and shape["yref"] == axis]


def heights(lines):
    return {line["label"]["text"].strip(): line["y0"] for line in lines if line["y0"] == line["y1"]}


@each_case(
    ("losses", "shown"),
    {
        "all within the axis": (
            {32: 1.0, 512: 6.0},
            {"letter frequencies alone, 4.49": 4.492, "letter pairs alone, 3.29": 3.292},
        ),
        "one above it": ({32: 1.0, 512: 3.4}, {"letter pairs alone, 3.29": 3.292}),
        "the axis is not stretched": ({32: 1.0, 512: 0.9}, {}),
    },
)
def test_yardsticks_within_the_axis_are_labeled_lines(losses, shown):
    assert heights(yardsticks_of(compared(losses))) == shown


def test_a_yardstick_without_a_number_is_not_drawn():
    picture = compared({32: 1.0, 512: 6.0}, {"letter pairs": math.nan})
    assert yardsticks_of(picture) == []


@each_case(
    ("losses", "place"),
    {
        "rises at the end": ({32: 1.0, 128: 1.0, 512: 6.0}, "start"),
        "falls from there": ({32: 3.3, 128: 1.0, 512: 1.0}, "middle"),
        "falls at the end": ({32: 3.3, 128: 3.3, 512: 1.0}, "end"),
    },
)
def test_a_label_stands_where_no_curve_runs(losses, place):
    (line,) = yardsticks_of(compared(losses, {"letter pairs": 3.2}))
    assert line["label"]["textposition"] == place


@each_case(
    ("bits", "side"),
    {
        "above its line": (1.5, "bottom"),
        "below its line, at the end of the plot": (1.95, "top"),
    },
)
def test_a_label_stays_inside_the_plot(bits, side):
    (line,) = yardsticks_of(compared({32: 1.0, 512: 1.0}, {"letter pairs": bits}))
    assert line["label"]["yanchor"] == side


# The axis and the arrangement of a live race


@each_case(
    ("highest", "end"),
    {
        "includes all values": (7.99, 8),
        "grows for values beyond it": (9.2, 9.5),
    },
)
def test_a_steady_axis_stays_as_long_as_it_includes_all_values(highest, end):
    picture = compared({32: 0.5, 512: highest}, {}, low=0.0, high=8.0, is_steady=True)
    assert picture["layout"]["yaxis"]["range"] == [0, end]


def test_a_compact_picture_has_its_legend_beside_its_title():
    axes = lab.find_question("longer sequences").axes(64)
    rows = table("longer sequences", {"none": [{64: 2.0}]})
    picture = curve_picture(assign_slots(["none"]), axes, rows, compact=True, height=200)
    assert picture["layout"]["height"] == 200
    assert picture["layout"]["legend"]["xanchor"] == "right"


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
