"""Your own position methods in LengthLab: functions of the distance and subclasses of Position."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alibi_viz.lab import load_text
from alibi_viz.models import Position
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.race.state import RaceState
from tests.custom_laws import root
from tests.widgets.race.small_race import (
    DEADLINE,
    ENGLISH,
    control,
    controls,
    message,
    small,
    stop,
    trained,
)


def ends_in_nan(distance: Tensor, head: int, num_heads: int) -> Tensor:
    return (7.0 - distance).sqrt()


class Offset(Position):  # a learned bias for the current token
    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()))

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        return (
            self.value
            * torch.eye(key_length, device=self.value.device)[key_length - query_length :]
        )


class Broken(Position):
    def __init__(self) -> None:
        raise KeyError("no such table")


def test_a_function_and_a_class_are_trained_beside_alibi() -> None:
    app = trained(methods=["alibi", root, Offset])
    assert app.methods == ("alibi", "root", "Offset")
    assert [control(app, f"s-{name}").value for name in ("alibi", "root", "Offset", "rotary")] == [
        True
    ] * 3 + [False]
    assert [*app.means] == ["alibi", "root", "Offset"] and "root" in control(app, "s-lanes").value
    assert {trace.name for trace in app.figure.data if trace.visible} >= {"alibi", "root", "Offset"}
    assert app.models["Offset"].transformer.position.value != 0, "a learned parameter is trained"


def test_methods_set_later_are_offered_once_by_this_and_later_apps_and_locked_in_a_race(
    long_race: LengthLab,
) -> None:
    long_race.methods = ["alibi", root]
    box = control(long_race, "s-root")
    assert (box.value, box.disabled) == (True, True)
    stop(long_race)
    assert not box.disabled
    box.value = False
    assert long_race.methods == ("alibi",)
    long_race.methods = ["alibi", root, "none"]
    assert (
        sum("s-root" in getattr(widget, "_dom_classes", ()) for widget in controls(long_race)) == 1
    )
    assert control(LengthLab(methods=["none"]), "s-root").value is False


def test_settings_differ_once_the_text_or_a_law_is_another() -> None:
    first = RaceState("text", ("alibi",), 8, 10, 0, 1, load_text(ENGLISH))
    assert (
        first
        == replace(first, text=load_text(ENGLISH))
        != replace(first, text=load_text(ENGLISH + "."))
    )

    def law(power: int) -> Any:
        def edited(distance: Tensor, head: int, num_heads: int) -> Tensor:
            return -(distance.float() ** power)

        return edited

    app = trained(methods=["alibi", law(1)])
    assert "changed since" not in app.caption
    app.methods = ["alibi", law(2)]
    assert "changed since" in app.caption


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (
            ends_in_nan,
            "law 'ends_in_nan', head 1 of 8: the bias at distance 8 is nan, expected a number or "
            "-inf",
        ),
        (Broken, "no such table"),
    ],
)
def test_a_method_that_fails_is_named_and_the_app_stays_usable(method: Any, words: str) -> None:
    app = small(methods=["alibi", method])
    control(app, "s-train").click()
    assert words in message(app).replace("&#x27;", "'")
    app.methods = ["alibi"]
    app.train().result(DEADLINE)
    assert (message(app), set(app.means)) == ("", {"alibi"})
