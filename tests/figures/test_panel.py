"""One panel with all that may be in it, read back."""

import math

import numpy as np
import pytest

from alibi_viz.figures import comparison, race, race_panels
from alibi_viz.figures.panel import Curves, Panel

METHODS = ["alibi", "rotary", "none"]
MEAN, SEEDS, PUBLISHED, GUESSES = (slice(3 * kind, 3 * kind + 3) for kind in range(1, 5))


def drawn(panel: Panel):
    figure = race.blank(METHODS)
    race.draw(figure, METHODS, steps=10, losses={}, panel=panel)
    return figure


def test_mean_seeds_published_and_guesses_are_traces_of_their_own() -> None:
    curves = Curves({32: 2.0, 64: 3.0}, [{32: 1.0, 64: 2.0}, {32: 3.0, 64: 4.0}], [{32: 5.0}], {64: 9.0})
    figure = drawn(race_panels.length_panel({"alibi": curves}, 32, [32, 64]))
    mean, seeds = figure.data[MEAN][0], figure.data[SEEDS][0]
    assert mean.y.tolist() == [2.0, 3.0]
    assert seeds.x[:2].tolist() == seeds.x[3:].tolist() == [32, 64]
    assert seeds.y[:2].tolist() + seeds.y[3:].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert np.isnan(seeds.y[2]), "or a line would run from the end of one seed to the start of the next"
    assert figure.data[PUBLISHED][0].y.tolist() == [5.0]
    assert figure.data[GUESSES][0].y.tolist() == [9.0]
    assert figure.layout.yaxis2.range[1] >= 9, "the axis holds guesses too"
    assert all(trace.visible is False for trace in figure.data[MEAN][1:])
    assert not any(trace.showlegend for trace in figure.data[SEEDS] + figure.data[PUBLISHED] + figure.data[GUESSES])


def test_what_is_not_defined_anywhere_is_said_in_the_legend() -> None:
    figure = drawn(race_panels.length_panel({"rotary": Curves({32: math.nan})}, 32, [32, 64]))
    assert figure.data[MEAN][1].name == "rotary (not defined)"
    assert figure.data[SEEDS][1].visible is False


def test_marks_stand_where_they_belong_and_only_inside_the_axis() -> None:
    marks = {"alibi 1/m": 256.0, "alibi 4/m": 1024.0}
    figure = drawn(race_panels.context_panel({}, 32, [32, 512], marks))
    _, length, near, far, chance = figure.layout.shapes
    assert (length.x0, near.x0, near.visible, far.visible, chance.visible) == (32, 256, True, False, False)
    label = figure.layout.annotations[2]
    low, high = figure.layout.xaxis2.range
    share = (math.log10(256) - low) / (high - low)
    assert (label.text, label.x, label.visible) == ("alibi 1/m", pytest.approx(share), True)
    assert label.xref == "x2 domain", "a page converts what stands at a number when the axis becomes logarithmic"
    assert figure.layout.annotations[3].visible is False


@pytest.mark.parametrize("kind", ["mean", "seeds", "published", "guesses"])
@pytest.mark.parametrize("losses", [[5.5], [2.3], [2.3, 3.0, 5.8], [2.2, 2.9, 3.6, 4.3, 5.0, 5.7]])
def test_a_mark_is_named_near_the_axis_or_where_no_curve_is(losses: list[float], kind: str) -> None:
    curves = {}
    for name, loss in zip("abcdef", losses, strict=False):
        points = {64: loss, 128: loss}
        given = {"mean": points, "seeds": [points], "published": [points], "guesses": points}
        curves[name] = Curves(**{"mean": {}, kind: given[kind]})
    figure = drawn(race_panels.length_panel(curves, 64, [64, 128, 256], {"alibi 1/m": 128}))
    label, (low, high) = figure.layout.annotations[2], figure.layout.yaxis2.range
    shares = [(loss - low) / (high - low) for loss in losses]
    half = 0.08 if len(losses) == 6 else 0.1  # of its words; six curves leave no more
    assert all(abs(label.y - share) > half for share in shares)
    assert half <= label.y <= 1 - half
    if losses == [5.5]:
        assert label.y < 0.2, "near the axis, and still, while curves come down"


def test_a_line_that_only_passes_a_mark_is_seen_too() -> None:
    curves = {"alibi": Curves({}, guesses={64: 2.0, 256: 2.6})}
    figure = drawn(race_panels.length_panel(curves, 64, [64, 128, 256], {"alibi 1/m": 128}))
    label, (low, high) = figure.layout.annotations[2], figure.layout.yaxis2.range
    assert abs(label.y - (2.3 - low) / (high - low)) > 0.1


def test_chance_is_drawn_and_named() -> None:
    figure = drawn(race_panels.distance_panel({"alibi": Curves({31: 1.0})}, 32, [31, 63], 1 / 16))
    chance, label = figure.layout.shapes[4], figure.layout.annotations[4]
    assert (chance.y0, chance.y1, chance.visible) == (1 / 16, 1 / 16, True)
    assert label.text == "chance, 6.2%"
    assert list(figure.layout.xaxis2.ticktext) == ["31<br>L", "63<br>2 L"]
    low, high = figure.layout.yaxis2.range
    assert low <= 0
    assert high >= 1


def test_an_axis_of_steps_is_linear_and_has_no_training_length() -> None:
    figure = drawn(race_panels.gap_panel({"alibi": Curves({150: 0.1, 600: 2.4})}, 32, 600))
    assert (figure.layout.xaxis2.type, figure.layout.xaxis2.range) == ("linear", (0, 600))
    assert [shape.visible for shape in figure.layout.shapes] == [False] * 5
    assert figure.layout.xaxis2.tickvals == (100, 200, 300, 400, 500, 600)
    assert figure.layout.yaxis2.range[1] >= 2.4


@pytest.mark.parametrize("steps", [10, 11, 300, 1999])
def test_ticks_of_steps_end_at_the_last(steps: int) -> None:
    ticks = list(race_panels.gap_panel({}, 32, steps).ticks)
    assert ticks[-1] == steps
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= 8


def test_positions_in_a_window_are_in_powers_of_two_with_the_training_length_named() -> None:
    figure = drawn(race_panels.position_panel({"alibi": Curves({1: 5.0, 300: 2.0})}, 24, 384))
    labels = dict(zip(figure.layout.xaxis2.tickvals, figure.layout.xaxis2.ticktext, strict=True))
    assert labels[24] == "24<br>L"
    assert labels[384] == "384<br>16 L"
    assert labels[8] == "8"
    assert figure.layout.shapes[1].x0 == 24


def test_a_mark_stands_clear_of_the_words_on_the_level_of_chance() -> None:
    figure = drawn(race_panels.distance_panel({}, 128, [127, 255, 4095], 1 / 16, {"alibi 1/m": 256}))
    assert figure.layout.annotations[2].y > 1 / 16 + 0.05 + 0.08


def test_a_legend_of_many_rows_gets_the_room_it_needs() -> None:
    figure = comparison.blank()
    names = [
        "sinusoidal trained at 2L",
        "rotary trained at 16L",
        "alibi, learned slopes",
        "kerple-log",
        "forget",
        "fire",
    ]
    slots = comparison.in_slots(names, ())
    panel = race_panels.length_panel({name: Curves({64: 3.0}) for name in names}, 64, [64, 128])
    margins = []
    for width in (1600, 880, 560):
        figure.layout.width = width
        comparison.draw(figure, slots, panel)
        margins.append(figure.layout.margin.t)
    assert margins == sorted(set(margins))
