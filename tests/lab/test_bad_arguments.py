"""Arguments that are slightly wrong raise at the call, with the argument's name, its value and what is expected."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from alibi_viz import lab, laws

TEXT = lab.load_text()
NEEDLE = lab.TASKS["needle"]
NO_LISTS = {"number": 8, "string": "alibi", "function": laws.square_root, "tensor without an axis": torch.tensor(8)}
LISTS: list[tuple[str, Callable[[Any], object]]] = [
    ("methods", lambda value: lab.compare(value, seeds=1)),
    ("methods", lambda value: lab.race(value, TEXT)),
    ("methods", lambda value: lab.Scoreboard(value, steps=1, lengths=[8])),
    ("lengths", lambda value: lab.Scoreboard(["none"], steps=1, lengths=value)),
    ("lengths", lambda value: lab.race(["none"], TEXT, lengths=value)),
    ("lengths", lambda value: lab.length_curve(torch.nn.Linear(2, 2), str, TEXT, value)),
    ("lengths", lambda value: lab.loss_by_length(lab.make_model(), TEXT, value)),
    ("contexts", lambda value: lab.loss_by_context(lab.make_model(), TEXT, value)),
    ("distances", lambda value: lab.needle_margins(lab.make_model(vocabulary=NEEDLE.vocabulary), value)),
    ("runs", lab.sweep),
    ("passages", lambda value: lab.known_words(value, TEXT)),
    ("labels", lambda value: lab.summary(lab.published_results(), "gap", value)),
    ("xs", lambda value: lab.summary(lab.published_results(), "gap", None, value)),
]


@pytest.mark.parametrize(("name", "call"), LISTS)
@pytest.mark.parametrize("value", NO_LISTS.values(), ids=NO_LISTS)
def test_what_is_not_a_list_is_named(name: str, call: Callable[[Any], object], value: object) -> None:
    with pytest.raises(TypeError) as error:
        list(call(value))  # type: ignore[call-overload]
    assert str(error.value).startswith(f"{name} must be a list of ")
    assert str(error.value).endswith(f", got {value!r}")


def test_a_generator_is_a_list() -> None:
    laps = lab.race((name for name in ["none"]), TEXT, length=8, steps=1, lengths=(n for n in (8, 16)), checkpoints=1)
    assert list(laps)[-1].scores.keys() == {8, 16}
