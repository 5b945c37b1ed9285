"""The surgery figure shows a model before and after a change."""

import math

import numpy as np

from alibi_viz.figures.surgery import AFTER, BEFORE, blank, draw, surgery_figure
from alibi_viz.lab import find_question
from alibi_viz.panel import Curves, Panel

LOSSES = {32: 2.5, 64: 2.6, 128: 3.5}
MEANS, HEADS = slice(0, 2), slice(-2, None)
DISTANCE = [[3.0, 9.0], [4.0, 40.0]]


def panel(before: dict[int, float] = LOSSES, after: dict[int, float] | None = None, length: int = 32) -> Panel:
    curves = {BEFORE: Curves(before)} | ({AFTER: Curves(after)} if after else {})
    return find_question("longer windows").layout(curves, length, sorted(before), {})


def test_a_model_without_changes_has_one_line_and_one_marker_per_head() -> None:
    figure = surgery_figure(panel(), DISTANCE)
    (before, after), (heads, changed_heads) = figure.data[MEANS], figure.data[HEADS]
    assert heads.y.tolist() == [3.0, 9.0, 4.0, 40.0]
    assert [list(numbers) for numbers in heads.customdata] == [[1, 1], [1, 2], [2, 1], [2, 2]]
    assert len(changed_heads.y) == 0
    assert dict(zip(before.x.tolist(), before.y.tolist(), strict=True)) == LOSSES
    assert after.visible is False


def test_a_changed_model_is_drawn_as_well_and_the_axes_include_both() -> None:
    after = {32: 2.4, 64: 7.9, 128: math.nan}
    figure = surgery_figure(panel(after=after), DISTANCE, [[300.0, 0.1], [1.0, 1.0]])
    changed, heads = figure.data[MEANS][1], figure.data[HEADS][1]
    assert heads.y.tolist() == [300.0, 0.1, 1.0, 1.0]
    assert (changed.y.tolist(), changed.name) == ([2.4, 7.9], "changed (to 64 only)")
    assert (changed.line.color, changed.legendgroup) == (heads.marker.color, heads.legendgroup)
    low, high = (10**end for end in figure.layout.yaxis.range)
    assert low <= 0.1
    assert high >= 300
    low, high = figure.layout.yaxis2.range
    assert low <= 2.4
    assert high >= 7.9


def test_the_training_length_is_marked_in_both_plots_and_longer_windows_are_shaded() -> None:
    figure = surgery_figure(panel(), DISTANCE)
    shade, line, *_, level = figure.layout.shapes
    assert (shade.x0, line.x0, line.x1, level.y0, level.y1) == (32, 32, 32, 32, 32)
    assert shade.x1 >= 128
    assert "dotted: L" in figure.layout.yaxis.title.text
    assert list(figure.layout.xaxis2.ticktext) == ["32<br>L", "64<br>2 L", "128<br>4 L"]


def test_redrawing_replaces_the_model_that_was_shown() -> None:
    figure = blank()
    draw(figure, panel(after=LOSSES), DISTANCE, DISTANCE)
    draw(figure, panel({64: 5.0}, length=64), [[1.0]])
    assert [trace.y.tolist() for trace in figure.data[HEADS]] == [[1.0], []]
    assert [trace.visible for trace in figure.data[MEANS]] == [True, False]
    assert list(figure.layout.xaxis.ticktext) == ["1<br>layer 1"]


def test_with_many_heads_only_the_layers_are_numbered() -> None:
    few = surgery_figure(panel(), np.ones((2, 4))).layout.xaxis.ticktext
    assert few[:2] + few[4:5] == ("1<br>layer 1", "2", "1<br>layer 2")
    many = surgery_figure(panel(), np.ones((4, 16))).layout.xaxis.ticktext
    assert [text for text in many if text] == ["<br>1", "<br>2", "<br>3", "<br>4"]
