"""Every argument of a public function of the lab that has the wrong type is named in the error, whatever function."""

import inspect
from typing import Any

import pytest

from alibi_viz import lab
from alibi_viz.lab.attention_stats import attention_stats
from alibi_viz.lab.evaluation import known_words
from alibi_viz.lab.tasks import evaluation_distances
from tests.tables import SMALL

TEXT, NEEDLE = lab.load_text(), lab.TASKS["needle"]
MODEL = lab.make_model("alibi", **SMALL)
VALUES: dict[str, Any] = {  # valid arguments, by name
    "model": MODEL, "text": TEXT, "source": TEXT, "task": NEEDLE, "length": 16, "lengths": [16],
    "trained": 8, "distance": 3, "distances": [3], "methods": ["none"],
    "run": lab.Run("none", length=8, steps=1, longest=0),
    "runs": [], "passages": ["to be"], "position": "none", "name": "gap", "path": "nowhere", "window": 8,
}  # fmt: skip
OTHERS = {  # of one function
    ("accuracy", "model"): lab.make_model(vocabulary=NEEDLE.vocabulary, **SMALL),
    ("compare", "text"): None,
}
FREE = {"progress", "out", "custom", "label"}  # flags, and what libraries or `Path` check
NAMES = (
    *("Run", "accuracy", "compare", "continuations", "evaluation_lengths", "find_question"),
    *("loss_by_length", "loss_by_position", "make_model", "measure", "race", "sweep", "tales_text", "train"),
)
PUBLIC: dict[str, Any] = {name: getattr(lab, name) for name in NAMES}
FURTHER = (attention_stats, evaluation_distances, known_words)
PUBLIC |= {each.__name__: each for each in FURTHER}


class Odd:
    """An object that nothing accepts."""

    def __repr__(self) -> str:
        return "<odd>"


def valid(function: str) -> dict[str, Any]:
    """The required arguments of a public function."""
    parameters = inspect.signature(PUBLIC[function]).parameters.values()
    required = [each.name for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    return {name: OTHERS.get((function, name), VALUES[name]) for name in required}


def arguments() -> list[tuple[str, str]]:
    return [
        (function, parameter.name)
        for function, call in PUBLIC.items()
        for parameter in inspect.signature(call).parameters.values()
        if parameter.name not in FREE and parameter.kind is not parameter.VAR_KEYWORD
    ]


NUMBERS = [
    (function, argument)
    for function, argument in arguments()
    if argument != "seed" and inspect.signature(PUBLIC[function]).parameters[argument].annotation in (int, float)
]


@pytest.mark.parametrize("function", sorted(set(PUBLIC) - {"compare"}))
def test_the_valid_arguments_are_accepted(function: str) -> None:
    """Otherwise the tests below would say nothing. Streams are not consumed."""
    if function == "find_question":
        assert PUBLIC[function]("gap").name == "gap"
    else:
        PUBLIC[function](**valid(function))


@pytest.mark.parametrize(("function", "argument"), arguments())
def test_an_argument_of_a_wrong_type_is_named_at_the_call(function: str, argument: str) -> None:
    for wrong in (Odd(), 1.5) if argument not in ("learning_rate",) else (Odd(), "fast"):
        with pytest.raises((TypeError, ValueError)) as error:
            PUBLIC[function](**{**valid(function), argument: wrong})
        name = {"name": "question", "methods": "method"}.get(argument, argument).rstrip("s")
        assert name in str(error.value), f"{function}({argument}={wrong!r}): {error.value}"


@pytest.mark.parametrize(("function", "argument"), NUMBERS)
def test_a_number_below_its_range_is_named_at_the_call(function: str, argument: str) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"\b{argument}\b.*-1"):
        PUBLIC[function](**{**valid(function), argument: -1})


@pytest.mark.parametrize("text", ["mine.txt", b"bytes", TEXT])
def test_a_text_to_compare_on_is_a_path(text: Any) -> None:
    with pytest.raises(TypeError, match=r"text must be a pathlib\.Path, .* got "):
        lab.compare(["none"], text=text)
