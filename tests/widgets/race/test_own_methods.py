"""Your own position methods in LengthLab: functions of the distance and subclasses of Position."""

import html

import pytest
import torch
from torch import nn

from alibi_viz.models import Position
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.core.own_methods import remember_method
from tests.custom_laws import root
from tests.rows import each_case
from tests.widgets.race.small_race import (
    bars,
    control,
    controls,
    message,
    small,
    trained,
)


def ends_in_nan(distance, head, num_heads):
    return (7.0 - distance).sqrt()


class Offset(Position):
    """A learned bias for the current token."""

    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()))

    def bias(self, query_length, key_length, x=None):
        is_current = torch.eye(key_length, device=self.value.device)[key_length - query_length :]
        return self.value * is_current


class Broken(Position):
    def __init__(self):
        raise KeyError("no such table")


# A race of a function and a class beside a method of the library


@pytest.fixture(scope="module")
def finished(small_models):
    """A race that has ended."""
    return trained(methods=["alibi", root, Offset])


@pytest.fixture
def app_after_race(finished):
    """The same, with its own methods, which are forgotten after each test."""
    remember_method(root)
    remember_method(Offset)
    return finished


def test_function_and_class_are_trained_beside_alibi(app_after_race):
    assert list(app_after_race.means) == ["alibi", "root", "Offset"]


def test_function_and_class_have_a_curve_and_a_bar(app_after_race):
    names = {trace.name for trace in app_after_race.figure.data}
    assert names == {"ALiBi", "root", "Offset"}
    assert bars(app_after_race) == {"alibi": 10, "root": 10, "Offset": 10}


def test_learned_parameter_of_a_class_is_trained(app_after_race):
    assert app_after_race.models["Offset"].transformer.position.value != 0


# Methods that are set later


def test_method_that_is_set_later_is_offered_once():
    app = small()
    app.methods = ["alibi", root]
    app.methods = ["alibi"]
    app.methods = ["alibi", root, "none"]
    boxes = [widget for widget in controls(app) if "s-root" in getattr(widget, "_dom_classes", ())]
    assert len(boxes) == 1
    boxes[0].value = False
    assert app.methods == ("alibi", "none")


def test_method_is_offered_by_later_apps():
    small(methods=["alibi", root])
    assert control(LengthLab(methods=["none"]), "s-root").value is False


def test_method_that_is_set_during_a_race_is_locked_until_its_end(pace):
    app = small()
    pace.train(app)
    app.methods = ["alibi", root]
    box = control(app, "s-root")
    assert box.value is True
    assert box.disabled

    pace.stop(app)
    assert not box.disabled


# A law that has changed although its name has not


def power_law(power):
    """Functions of one name with different values, as when a cell is edited and run again."""

    def edited(distance, head, num_heads):
        return -(distance.float() ** power)

    return edited


def test_caption_says_that_a_law_was_edited_since_the_race():
    app = trained(methods=[power_law(1)])
    assert "changed since" not in app.caption
    app.methods = [power_law(2)]
    app.refresh()
    assert "changed since" in app.caption


# Methods that fail


@each_case(
    ("method", "words"),
    {
        "a law that gives NaN": (
            ends_in_nan,
            "law 'ends_in_nan', head 1 of 4: the bias at distance 8 is nan, expected a number or "
            "-inf",
        ),
        "a class that raises": (Broken, "no such table"),
    },
)
def test_message_tells_why_a_method_fails_and_another_race_can_be_started(method, words, pace):
    app = small(methods=["alibi", method])
    control(app, "s-train").click()
    assert words in html.unescape(message(app))
    app.methods = ["alibi"]
    pace.click_train(app)
    assert message(app) == ""
    assert app.running
