"""A panel is drawn completely: every part of the data is read back from the figure."""

import math

import numpy as np
import pytest

from alibi_viz.figures import panel as panels
from alibi_viz.figures.panel import assign_slots, panel_figure
from alibi_viz.lab import find_question
from alibi_viz.panel import Curves, Panel

METHODS = ["alibi", "rotary", "none"]
FIXED = tuple(METHODS)
MEAN, SEEDS, PUBLISHED = (slice(7 * kind, 7 * kind + 7) for kind in range(3))


def panel_of(question, curves, length, xs, marks=None) -> Panel:
    return find_question(question).layout(curves, length, xs, marks or {})


def drawn(panel: Panel):
    figure = panels.blank(400)
    panels.draw(figure, assign_slots([*panel.curves], METHODS), panel)
    return figure


def test_mean_and_seeds_have_a_trace_each() -> None:
    curves = Curves({32: 2.0, 64: 3.0}, [{32: 1.0, 64: 2.0}, {32: 3.0, 64: 9.0}])
    figure = drawn(panel_of("longer windows", {"alibi": curves}, 32, [32, 64]))
    mean, seeds = figure.data[MEAN][0], figure.data[SEEDS][0]
    assert mean.y.tolist() == [2.0, 3.0]
    assert seeds.x[:2].tolist() == seeds.x[3:].tolist() == [32, 64]
    assert seeds.y[:2].tolist() + seeds.y[3:].tolist() == [1.0, 2.0, 3.0, 9.0]
    assert np.isnan(seeds.y[2]), "otherwise a line would connect two seeds"
    assert figure.layout.yaxis2.range[1] >= 9, "the axis includes single seeds"
    assert all(trace.visible is False for trace in figure.data[MEAN][1:])
    assert not any(trace.showlegend for trace in figure.data[SEEDS])


def test_notes_are_a_line_of_the_hover_text_of_the_mean() -> None:
    curves = {"alibi": Curves({31: 1.0, 63: 0.5}, notes={31: "one", 63: "two"}), "rotary": Curves({31: 1.0})}
    figure = drawn(panel_of("needle", curves, 32, [31, 63]))
    alibi, rotary = figure.data[MEAN][:2]
    assert list(alibi.customdata) == ["<br>one", "<br>two"]
    assert alibi.hovertemplate == "%{fullData.name}, distance %{x}<br>accuracy %{y:.0%}%{customdata}<extra></extra>"
    assert "customdata" not in rotary.hovertemplate


def test_the_legend_names_methods_that_are_not_defined() -> None:
    figure = drawn(panel_of("longer windows", {"rotary": Curves({32: math.nan})}, 32, [32, 64]))
    assert figure.data[MEAN][1].name == "rotary (not defined)"
    assert figure.data[SEEDS][1].visible is False


def test_marks_are_drawn_at_their_x_if_it_is_inside_the_axis() -> None:
    marks = {"alibi 1/m": 256.0, "alibi 4/m": 1024.0}
    figure = drawn(panel_of("same targets", {}, 32, [32, 512], marks))
    _, length, near, far, chance = figure.layout.shapes
    assert (length.x0, near.x0, near.visible, far.visible, chance.visible) == (32, 256, True, False, False)
    label = figure.layout.annotations[1]
    low, high = figure.layout.xaxis2.range
    share = (math.log10(256) - low) / (high - low)
    assert (label.text, label.x, label.visible) == ("alibi 1/m", pytest.approx(share), True)
    assert label.xref == "x2 domain", "plotly misplaces data coordinates when an axis switches to log"
    assert figure.layout.annotations[2].visible is False


@pytest.mark.parametrize("kind", ["mean", "seeds"])
@pytest.mark.parametrize("losses", [[5.5], [2.3], [2.3, 3.0, 5.8], [2.2, 2.9, 3.6, 4.3, 5.0, 5.7]])
def test_the_label_of_a_mark_avoids_curves(losses: list[float], kind: str) -> None:
    curves = {}
    for name, loss in zip("abcdef", losses, strict=False):
        points = {64: loss, 128: loss}
        given = {"mean": points, "seeds": [points]}
        curves[name] = Curves(**{"mean": {}, kind: given[kind]})
    figure = drawn(panel_of("longer windows", curves, 64, [64, 128, 256], {"alibi 1/m": 128}))
    label, (low, high) = figure.layout.annotations[1], figure.layout.yaxis2.range
    shares = [(loss - low) / (high - low) for loss in losses]
    half = 0.07 if len(losses) == 6 else 0.1  # half of the label's height; six curves leave no more
    assert all(abs(label.y - share) > half for share in shares)
    assert half <= label.y <= 1 - half
    if losses == [5.5]:
        assert label.y < 0.2, "near the axis, so that it stays there while curves come down"


def test_the_label_of_a_mark_avoids_lines_between_points() -> None:
    curves = {"alibi": Curves({}, seeds=[{64: 2.0, 256: 2.6}])}
    figure = drawn(panel_of("longer windows", curves, 64, [64, 128, 256], {"alibi 1/m": 128}))
    label, (low, high) = figure.layout.annotations[1], figure.layout.yaxis2.range
    assert abs(label.y - (2.3 - low) / (high - low)) > 0.1


def test_chance_is_drawn_with_its_label() -> None:
    figure = drawn(panel_of("needle", {"alibi": Curves({31: 1.0})}, 32, [31, 63]))
    chance, label = figure.layout.shapes[4], figure.layout.annotations[3]
    assert (chance.y0, chance.y1, chance.visible) == (1 / 16, 1 / 16, True)
    assert label.text == "chance, 6.2%"
    assert list(figure.layout.xaxis2.ticktext) == ["31<br>L", "63<br>2 L"]
    low, high = figure.layout.yaxis2.range
    assert low <= 0
    assert high >= 1


def test_an_axis_of_steps_is_linear_and_has_no_training_length() -> None:
    figure = drawn(panel_of("gap", {"alibi": Curves({150: 0.1, 600: 2.4})}, 32, [600]))
    assert (figure.layout.xaxis2.type, figure.layout.xaxis2.range) == ("linear", (0, 600))
    assert [shape.visible for shape in figure.layout.shapes] == [False] * 5
    assert figure.layout.xaxis2.tickvals == (100, 200, 300, 400, 500, 600)
    assert figure.layout.yaxis2.range[1] >= 2.4


@pytest.mark.parametrize("steps", [10, 11, 300, 1999])
def test_ticks_of_steps_end_at_the_last(steps: int) -> None:
    ticks = list(panel_of("gap", {}, 32, [steps]).ticks)
    assert ticks[-1] == steps
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= 8


def test_positions_have_ticks_at_powers_of_two_and_at_the_training_length() -> None:
    figure = drawn(panel_of("by position", {"alibi": Curves({1: 5.0, 300: 2.0})}, 24, [1, 300]))
    labels = dict(zip(figure.layout.xaxis2.tickvals, figure.layout.xaxis2.ticktext, strict=True))
    assert labels[24] == "24<br>L"
    assert labels[384] == "384<br>16 L"
    assert labels[8] == "8"
    assert figure.layout.shapes[1].x0 == 24


def test_the_label_of_a_mark_avoids_the_label_of_chance() -> None:
    figure = drawn(panel_of("needle", {}, 128, [127, 255, 4095], {"alibi 1/m": 256}))
    assert figure.layout.annotations[1].y > 1 / 16 + 0.05 + 0.08


def test_a_legend_with_more_rows_gets_more_room() -> None:
    names = [
        "sinusoidal trained at 2L",
        "rotary trained at 16L",
        "alibi, learned slopes",
        "kerple-log",
        "forget",
        "fire",
    ]
    figure = panels.blank(430)
    panel = panel_of("longer windows", {name: Curves({64: 3.0}) for name in names}, 64, [64, 128])
    margins = []
    for width in (1600, 880, 560):
        figure.layout.width = width
        panels.draw(figure, assign_slots(names, ()), panel)
        margins.append(figure.layout.margin.t)
    assert margins == sorted(set(margins))


def test_a_fixed_method_keeps_its_slot_whatever_else_is_shown() -> None:
    assert assign_slots(["none", "t5"], FIXED) == ["", "", "none", "t5", "", "", ""]
    assert assign_slots(["none", "alibi"], FIXED) == ["alibi", "", "none", "", "", "", ""]


def test_slots_of_absent_fixed_methods_are_used_last() -> None:
    assert assign_slots(["none", *"abcdef"], FIXED) == ["f", "e", "none", "a", "b", "c", "d"]


def test_an_eighth_method_raises() -> None:
    with pytest.raises(ValueError, match="at most 7 methods can be drawn, got 8"):
        assign_slots([*"abcdefgh"], FIXED)


def test_a_method_that_is_no_longer_in_the_panel_is_hidden() -> None:
    figure = panels.blank(430)
    for name in ("a", "b"):
        curves = {name: Curves({64: 2.0, 128: 3.0}, [{64: 2.0, 128: 3.0}])}
        panels.draw(figure, assign_slots([name], FIXED), panel_of("longer windows", curves, 64, [64, 128]))
    assert [trace.name for trace in figure.data if trace.visible] == ["b", "b"]


def test_a_figure_of_one_panel_shows_all_its_methods() -> None:
    figure = panel_figure(panel_of("gap", {"a": Curves({10: 0.1}), "b": Curves({10: 0.2})}, 64, [10]))
    assert [(trace.name, trace.y.tolist()) for trace in figure.data if trace.visible] == [("a", [0.1]), ("b", [0.2])]


def test_fixed_methods_have_the_same_color_in_several_figures() -> None:
    def colors(*names: str) -> dict[str, str]:
        panel = panel_of("gap", {name: Curves({10: 0.1}) for name in names}, 64, [10])
        figure = panel_figure(panel, fixed=["alibi", "rotary"])
        return {trace.name: trace.line.color for trace in figure.data if trace.visible}

    together, alone = colors("alibi", "rotary"), colors("rotary", "rotary, pi", "rotary, ntk")
    assert alone["rotary"] == together["rotary"]
    assert len(set(alone.values())) == 3


def test_intervals_are_bars_around_the_mean_and_inside_the_axis() -> None:
    intervals = {64: (2.4, 2.6), 128: (1.3, 4.5)}
    curves = {"a": Curves({64: 2.5, 128: 3.0}, intervals=intervals), "b": Curves({64: 2.0, 128: 2.2})}
    panel = panel_of("longer windows", curves, 64, [64, 128])
    figure = panel_figure(panel)
    with_bars, without = (trace for trace in figure.data if trace.visible)
    assert list(with_bars.error_y.array) == pytest.approx([0.1, 1.5])
    assert list(with_bars.error_y.arrayminus) == pytest.approx([0.1, 1.7])
    assert with_bars.error_y.visible is True
    assert without.error_y.visible is False
    low, high = figure.layout.yaxis2.range
    assert low <= 1.3 and high >= 4.5
    panels.draw(figure, assign_slots(["a"], ()), panel_of("longer windows", {"a": Curves({64: 2.5})}, 64, [64]))
    assert figure.data[0].error_y.visible is False, "bars of an earlier panel are hidden"
