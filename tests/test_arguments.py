"""Every argument of a public function that has the wrong type is named in the error, whatever function."""

import inspect
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import alibi_viz as av
from alibi_viz import lab
from alibi_viz.lab.attention_stats import attention_stats
from alibi_viz.lab.evaluation import known_words
from alibi_viz.lab.tasks import evaluation_distances
from tests.tables import SMALL

TEXT, NEEDLE = lab.load_text(), lab.TASKS["needle"]
MODEL = lab.make_model("alibi", **SMALL)
QUERY = torch.randn(1, 2, 5, 8)
VALUES: dict[str, Any] = {  # valid arguments, by name
    "model": MODEL, "text": TEXT, "source": TEXT, "task": NEEDLE, "length": 16, "lengths": [16],
    "trained": 8, "distance": 3, "distances": [3], "methods": ["none"],
    "run": lab.Run("none", length=8, steps=1, longest=0),
    "query": QUERY, "key": QUERY, "value": QUERY, "slopes": av.alibi_slopes(2), "query_length": 4, "num_heads": 2,
    "d_model": 16, "runs": [], "passages": ["to be"], "position": "none", "name": "gap", "path": "nowhere", "window": 8,
}  # fmt: skip
OTHERS = {  # of one function
    ("accuracy", "model"): lab.make_model(vocabulary=NEEDLE.vocabulary, **SMALL),
    ("compare", "text"): None,
}
FREE = {"progress", "out", "custom", "label", "device"}  # flags, and what libraries or `Path` check
FLOATS = {"learning_rate", "scale", "dropout", "tolerance", "bias_max", "slope_scale"}
NAMES = (
    *("Run", "accuracy", "compare", "continuations", "evaluation_lengths", "find_question"),
    *("loss_by_length", "loss_by_position", "make_model", "measure", "race", "sweep", "tales_text", "train"),
)
PUBLIC: dict[str, Any] = {name: getattr(lab, name) for name in NAMES}
FURTHER: tuple[Any, ...] = (attention_stats, evaluation_distances, known_words)
FURTHER += (
    av.AlibiBias,
    av.AlibiSelfAttention,
    av.TransformerConfig,
    av.alibi_attention,
    av.alibi_bias,
    av.alibi_slopes,
)
FURTHER += (av.attention_trace, av.causal_mask, av.choose_backend, av.fold, av.half_life)
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
    for wrong in (Odd(), "fast" if argument in FLOATS or function == "half_life" else 1.5):
        with pytest.raises((TypeError, ValueError)) as error:
            PUBLIC[function](**{**valid(function), argument: wrong})
        name = {"name": "question", "methods": "method"}.get(argument, argument).rstrip("s")
        assert name in str(error.value), f"{function}({argument}={wrong!r}): {error.value}"


@pytest.mark.parametrize(("function", "argument"), NUMBERS)
def test_a_number_below_its_range_is_named_at_the_call(function: str, argument: str) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"\b{argument}\b.*-1"):
        PUBLIC[function](**{**valid(function), argument: -1})


def raising(*_: object) -> None:
    raise RuntimeError("mine")


HOSTILE: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**30, -(10**30), 2**31, 1e300, math.nan, math.inf, complex(1, 2), "", "ü\0\u202e<script>"),
    *(
        b"\xff\x00",
        [],
        (),
        {},
        {"a": 1},
        {1, 2},
        [math.nan],
        ["a", None],
        range(3),
        raising,
        Odd(),
        Odd,
        Path("nowhere"),
    ),
    *(torch.tensor(math.nan), torch.zeros(0), torch.full((2,), math.inf), torch.zeros(2, dtype=torch.complex64)),
    *(torch.zeros(1, 2, 0, 8), torch.zeros(1, 2, 5, 0), torch.zeros(0, 2, 5, 8), torch.zeros(1, 2, 5, 8).to_sparse()),
    *(np.zeros(3), np.int64(2), np.array([None]), torch.float16, TEXT, MODEL),
)


@pytest.mark.parametrize(("function", "argument"), [pair for pair in arguments() if pair[0] in dir(av)])
def test_no_value_ends_in_an_error_from_inside(function: str, argument: str) -> None:
    for value in HOSTILE:
        with suppress(TypeError, ValueError, MemoryError, OSError):  # others come from code that trusts its arguments
            PUBLIC[function](**{**valid(function), argument: value})


@pytest.mark.parametrize("text", ["mine.txt", b"bytes", TEXT])
def test_a_text_to_compare_on_is_a_path(text: Any) -> None:
    with pytest.raises(TypeError, match=r"text must be a pathlib\.Path, .* got "):
        lab.compare(["none"], text=text)
