"""Your own position methods in LengthLab: functions of the distance and subclasses of Position."""

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from alibi_viz import lab
from alibi_viz.models import POSITIONS, Position
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.core.traits import BadValue
from tests.custom_laws import root
from tests.widgets.race.small_race import DEADLINE, control, controls, lanes, message, small


def ends_in_nan(distance: Tensor, head: int, num_heads: int) -> Tensor:
    return (7.0 - distance).sqrt()


class Offset(Position):
    """A learned bias for the current token."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()))

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        diagonal = torch.eye(key_length)[key_length - query_length :]
        return self.value * diagonal


class Broken(Position):
    """A method whose constructor fails."""

    def __init__(self) -> None:
        raise KeyError("no such table")


pytestmark = pytest.mark.usefixtures("forget_custom_methods")


def test_function_and_class_are_trained_beside_alibi_and_saved(tmp_path: Path) -> None:
    app = small(methods=["alibi", root, Offset])
    assert app.methods == ("alibi", "root", "Offset")
    assert [control(app, f"s-{name}").value for name in ("alibi", "root", "Offset", "rotary")] == [True] * 3 + [False]
    assert repr(app).startswith("LengthLab(methods=('alibi', 'root', 'Offset'), length=8")
    app.train().result(DEADLINE)
    assert set(app.means) == {"alibi", "root", "Offset"}
    assert "root" in lanes(app)
    assert {trace.name for trace in app.figure.data if trace.visible} >= {"alibi", "root", "Offset"}
    assert app.models["Offset"].transformer.position.value != 0, "a learned parameter is trained"
    app.save_models(tmp_path)
    loaded = lab.load_run(tmp_path / "root", root)
    assert torch.equal(loaded.model.head.weight, app.models["root"].head.weight)
    assert set(loaded.results["method"]) == {"root"}


def test_methods_set_later_are_offered_and_can_be_unchecked() -> None:
    app = small()
    app.methods = ["alibi", root]
    box = control(app, "s-root")
    assert (box.value, box.disabled) == (True, False)
    box.value = False
    assert app.methods == ("alibi",)
    box.value = True
    assert app.methods == ("alibi", "root")
    app.methods = ["alibi", root, "none"]
    assert sum("s-root" in getattr(widget, "_dom_classes", ()) for widget in controls(app)) == 1
    assert control(LengthLab(methods=["none"]), "s-root").value is False, "a later app offers it too"


def test_method_set_during_a_race_is_locked_until_its_end(long_race: LengthLab) -> None:
    long_race.methods = ["alibi", root]
    assert control(long_race, "s-root").disabled
    long_race.stop()
    long_race._background.join(DEADLINE)
    assert not control(long_race, "s-root").disabled


def test_at_most_seven_methods_also_with_own_ones() -> None:
    app = small()
    with pytest.raises(BadValue, match="at most 7 different names"):
        app.methods = [*list(POSITIONS)[:7], root]
    assert app.methods == ("alibi", "none")


@pytest.mark.parametrize("value", [[3], ["alibi", None], [lambda distance, head, num_heads: distance]])
def test_value_that_is_not_a_method_is_named_and_changes_nothing(value: list[object]) -> None:
    app = small()
    with pytest.raises(BadValue, match="position method"):
        app.methods = value
    assert app.methods == ("alibi", "none")


def test_law_that_fails_is_named_and_the_app_stays_usable() -> None:
    app = small(methods=["alibi", ends_in_nan])
    control(app, "s-train").click()
    expected = "law 'ends_in_nan', head 1 of 8: the bias at distance 8 is nan, expected a number or -inf"
    assert expected in message(app).replace("&#x27;", "'")
    with pytest.raises(BadValue, match=re.escape(expected)):
        app.train()
    control(app, "s-ends-in-nan").value = False
    app.train().result(DEADLINE)
    assert message(app) == ""
    assert set(app.means) == {"alibi"}


def test_class_that_fails_is_named() -> None:
    app = small(methods=["alibi", Broken])
    control(app, "s-train").click()
    assert "position method" in message(app) and "no such table" in message(app)


def test_law_that_fails_at_a_tested_length_ends_the_race_with_its_message() -> None:
    def short(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -torch.arange(2000.0)[: len(distance)] if len(distance) <= 2000 else distance.new_tensor([])

    app = small(methods=["alibi", short], length=128)
    app.train()
    with pytest.raises(ValueError, match=r"law 'short', head 1 of 8: for distances \[\d+\] it must return a tensor"):
        app._background.result(DEADLINE)
    assert "must return a tensor" in message(app)
    assert not control(app, "s-train").disabled
