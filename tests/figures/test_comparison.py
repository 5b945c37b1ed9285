"""The sheet of the published comparison: slots for any seven methods."""

import pytest

from alibi_viz.figures import comparison
from alibi_viz.figures.panel import Curves
from alibi_viz.figures.race_panels import length_panel

FIXED = ("alibi", "rotary", "none")


def test_a_fixed_method_keeps_its_slot_whoever_else_is_shown() -> None:
    assert comparison.in_slots(["none", "t5"], FIXED) == ["", "", "none", "t5", "", "", ""]
    assert comparison.in_slots(["none", "alibi"], FIXED) == ["alibi", "", "none", "", "", "", ""]


def test_slots_left_by_fixed_methods_are_taken_last() -> None:
    slots = comparison.in_slots(["none", *"abcdef"], FIXED)
    assert slots == ["f", "e", "none", "a", "b", "c", "d"]


def test_an_eighth_method_is_refused() -> None:
    with pytest.raises(ValueError, match="there is room for 7 methods, got 8"):
        comparison.in_slots([*"abcdefgh"], FIXED)


def test_a_method_that_is_no_longer_shown_leaves_the_sheet() -> None:
    figure = comparison.blank()
    for name in ("a", "b"):
        curves = {name: Curves({64: 2.0, 128: 3.0}, [{64: 2.0, 128: 3.0}])}
        comparison.draw(figure, comparison.in_slots([name], FIXED), length_panel(curves, 64, [64, 128]))
    assert [trace.name for trace in figure.data if trace.visible] == ["b", "b"]
