"""Curves are drawn completely: every table is read back from its figure."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alibi_viz import lab
from alibi_viz.figures import curve_plot as picture
from alibi_viz.figures.curve_plot import MAX_METHODS, MAX_POINTS, assign_slots, curve_figure, draw
from alibi_viz.figures.token_labels import literal
from alibi_viz.measure.table import over_seeds
from tests.tables import table

LABELS = ["alibi", "rotary", "none", "rotary, window", "forget", "t5", "<b>fire</b>"]
FIXED = ("alibi", "rotary", "none")
MEANS, SEEDS, LOSSES = (slice(MAX_METHODS * kind, MAX_METHODS * (kind + 1)) for kind in range(3))
FIGURE = picture.blank(400)  # drawn again and again: nothing of an earlier drawing may stay
NUMBERS = st.one_of(st.floats(-5, 10), st.just(math.nan))


@st.composite
def tables(draw_from: st.DrawFn) -> pd.DataFrame:
    """Rows of one question: up to seven labels, each with its own lengths and seeds, and with
    values undefined."""
    question = draw_from(st.sampled_from(["longer sequences", "needle", "gap"]))
    xs, values = (
        st.lists(st.sampled_from([31, 62, 124, 248]), min_size=1, unique=True).map(sorted),
        {},
    )
    for label in draw_from(st.lists(st.sampled_from(LABELS), min_size=1, unique=True)):
        points, seeds = draw_from(xs), draw_from(st.integers(1, 4))
        values[label] = [{x: draw_from(NUMBERS) for x in points} for _ in range(seeds)]
    return table(question, values)


@settings(max_examples=25)
@given(tables())
def test_any_table_is_read_back_from_its_figure(rows: pd.DataFrame) -> None:
    axes = lab.find_question(rows["question"][0]).axes(31, sorted(rows["x"].unique()))
    figure, summary = FIGURE, over_seeds(rows, limits=axes.limits)
    draw(figure, slots := assign_slots(rows["label"].unique().tolist(), FIXED), axes, rows)
    low, high = figure.layout.yaxis2.range
    shown = {
        trace.legendgroup: number
        for number, trace in enumerate(figure.data[MEANS])
        if trace.visible
    }
    assert shown == {label: slot for slot, label in enumerate(slots) if label} and {*shown} == {
        *rows["label"]
    }
    for label, number in shown.items():
        mean, thin = figure.data[MEANS][number], figure.data[SEEDS][number]
        defined = summary.loc[label].dropna(subset="mean")
        ends = f" (to {defined.index.max():,} only)" if len(defined) else " (not defined)"
        assert mean.name == literal(label) + (
            "" if len(defined) == len(summary.loc[label]) else ends
        )
        if defined.empty:  # plotly leaves a trace without points out of the legend
            assert len(mean.x) == 1 and np.isnan(mean.y).all()
        else:
            np.testing.assert_allclose([mean.x, mean.y], [defined.index, defined["mean"]])
            decided = defined["seeds"] >= 3
            assert bool(mean.error_y.visible) == decided.any()
            np.testing.assert_allclose(
                mean.error_y.array, (defined["high"] - defined["mean"]).where(decided)
            )
            np.testing.assert_allclose(
                mean.error_y.arrayminus, (defined["mean"] - defined["low"]).where(decided)
            )
            ends_of_bars = defined.loc[decided, ["low", "high"]].to_numpy()
            assert ((low <= ends_of_bars) & (ends_of_bars <= high)).all()
        own = rows[rows["label"] == label].dropna(subset="value")
        assert thin.visible == (own["seed"].nunique() > 1) and not thin.showlegend
        if thin.visible:
            gaps = np.isnan(thin.y)  # without them, a line would connect two seeds
            assert gaps.sum() == own["seed"].nunique()
            np.testing.assert_allclose([thin.x[~gaps], thin.y[~gaps]], own[["x", "value"]].T)
    assert (
        not any(trace.visible for trace in figure.data[LOSSES]) and not figure.layout.xaxis.visible
    )
    assert rows["value"].dropna().between(low, high).all() and low < high
    assert list(figure.layout.xaxis2.tickvals) == list(axes.ticks)


@settings(max_examples=25)
@given(st.integers(1, 2000), st.lists(st.floats(0, 1e12), max_size=300))
def test_the_training_loss_is_averaged_in_groups_on_an_axis_that_holds_them(
    steps: int, losses: list[float]
) -> None:
    losses = losses[:steps]
    rows = table("longer sequences", {"none": [dict(enumerate(losses, start=1))]})
    figure, axes = FIGURE, lab.find_question("longer sequences").axes(64)
    draw(figure, ["", "none", "", "", "", "", ""], axes, rows[:0], training=rows, steps=steps)
    trace, group = figure.data[LOSSES][1], math.ceil(steps / MAX_POINTS)
    groups = [losses[start : start + group] for start in range(0, len(losses), group)]
    means = [sum(each) / len(each) for each in groups]
    assert trace.visible == bool(losses) and len(means) <= MAX_POINTS
    if losses:
        np.testing.assert_allclose(trace.y, means)
        np.testing.assert_allclose(
            trace.x, [at * group + (len(each) + 1) / 2 for at, each in enumerate(groups)]
        )
    held = [2.1, 8.5, *(max(each, 0.05) for each in means)]  # zero has no logarithm
    np.testing.assert_allclose(
        10 ** np.array(figure.layout.yaxis.range), [0.97 * min(held), 1.03 * max(held)]
    )
    assert figure.layout.xaxis.range == (0, steps) and figure.layout.xaxis.visible
    assert figure.layout.xaxis.domain[1] < figure.layout.xaxis2.domain[0], (
        "where plots overlap, shapes are missing"
    )


def test_the_training_length_chance_hover_texts_and_ends_of_the_axes_are_those_of_the_question() -> (
    None
):
    shown = curve_figure(
        table("needle", {"a": [{32: 1.0, 512: 0.5}]}),
        lab.find_question("needle").axes(32, [32, 512]),
    )
    shade, length, chance = shown.layout.shapes
    assert (length.x0, shade.x0, chance.y0, chance.label.text) == (32, 32, 1 / 16, " chance, 6.2%")
    assert (
        shown.data[0].hovertemplate
        == "%{fullData.name}, examples of %{x} tokens<br>%{y:.0%}<extra></extra>"
    )
    assert lab.find_question("needle").axes(32, [32, 64]).ticks == {32: "32<br>L", 64: "64<br>2 L"}
    gap = curve_figure(
        table("gap", {"a": [{150: -0.37, 600: 2.36}]}), lab.find_question("gap").axes(32, [600])
    )
    ends = (
        shown.layout.yaxis2.range,
        gap.layout.xaxis2.range,
        gap.layout.yaxis2.range,
    )  # a fifth of a step from a point
    assert (gap.layout.xaxis2.type, *ends) == ("linear", (0, 1.1), (0, 600), (-0.5, 2.5))
    assert (
        gap.data[0].hovertemplate
        == "%{fullData.name}, step %{x}<br>%{y:+.2f} bits per byte<extra></extra>"
    )
    with pytest.raises(ValueError, match="one value for a label, seed and x: choose a question"):
        curve_figure(
            pd.concat([table("gap", {"a": [{9: 1.0}]})] * 2), lab.find_question("gap").axes(32, [9])
        )
    assert not any(each.visible for each in (*gap.layout.shapes, *picture.blank(300).data))


def test_a_fixed_method_keeps_its_color_whatever_else_is_shown() -> None:
    assert assign_slots(["none", "t5"], FIXED) == ["", "", "none", "t5", "", "", ""]
    assert assign_slots(["none", *"abcdef"], FIXED) == ["f", "e", "none", "a", "b", "c", "d"], (
        "free slots first"
    )
    for methods, fixed in (([*"abcdefgh"], FIXED), (["a"], [*"abcdefgh"])):
        with pytest.raises(ValueError, match="at most 7 methods can be drawn, got 8"):
            assign_slots(methods, fixed)
