"""Every argument of a public function that has the wrong type is named in the error, whatever function."""

import inspect
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import alibi_viz as av
from alibi_viz import check, figures, gallery, lab, lessons
from alibi_viz.lab.attention_stats import attention_stats
from alibi_viz.lab.evaluation import known_words
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
    "content": "to be or not", "function": lambda *_: [1.0, 2.0], "bias": torch.zeros(2, 4, 4), "rows": "query",
    "masked": torch.zeros(4, 4).bool(), "initial": torch.ones(2), "weights": {"mine": torch.eye(3)},
}  # fmt: skip
OTHERS = {("window_table", "text"): "to be or not", ("window_table", "source"): MODEL, ("compare", "text"): None}
OTHERS |= {("accuracy", "model"): lab.make_model(vocabulary=NEEDLE.vocabulary, **SMALL)}  # each of one function
STARTS_WORK = {"compare", "measure"}
FREE = {  # what libraries check, or nobody
    *("progress", "out", "custom", "label", "device", "method", "rows"),
    *(("slope_figure", "name"), ("bias_figure", "masked")),
}
FLOATS = {"learning_rate", "scale", "dropout", "tolerance", "bias_max", "slope_scale", "seconds"}
FUNCTIONS: tuple[Any, ...] = (
    *(lab.Run, lab.accuracy, lab.compare, lab.continuations, lab.evaluation_lengths, lab.find_question, lab.load_run),
    *(lab.load_text, lab.loss_by_length, lab.loss_by_position, lab.make_model, lab.measure, lab.modify, lab.race),
    *(lab.read_results, lab.sweep, lab.tales_text, lab.train, lab.window_table, attention_stats),
    *(known_words, check.attention, check.bias, check.check_vectors, check.slopes, figures.bias_figure),
    *(figures.slope_figure, figures.weights_html, gallery.compare_slope_rules, lessons.grade_slopes),
    *(av.AlibiBias, av.AlibiSelfAttention, av.LearnedSlopes, av.TransformerConfig, av.alibi_attention, av.alibi_bias),
    *(av.alibi_slopes, av.attention_trace, av.causal_mask, av.choose_backend, av.fold, av.half_life),
)
PUBLIC: dict[str, Any] = {each.__name__: each for each in FUNCTIONS}


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
        if not {parameter.name, (function, parameter.name)} & FREE and parameter.kind is not parameter.VAR_KEYWORD
    ]


NUMBERS = [
    (function, argument)
    for function, argument in arguments()
    if inspect.signature(PUBLIC[function]).parameters[argument].annotation in (int, float)
]


@pytest.mark.parametrize("function", sorted(set(PUBLIC) - {"compare"}))
def test_the_valid_arguments_are_accepted(function: str) -> None:
    """Otherwise the tests below would say nothing. Streams are not consumed."""
    with suppress(FileNotFoundError):  # `path` leads nowhere
        PUBLIC[function](**valid(function))


@pytest.mark.parametrize(("function", "argument"), arguments())
def test_an_argument_of_a_wrong_type_is_named_at_the_call(function: str, argument: str) -> None:
    simple = "fast" if argument in FLOATS or function in ("half_life", "modify") else 1.5
    for wrong in (Odd(), simple, *[torch.eye(2).to_sparse()] * (argument in ("lengths", "runs"))):
        with pytest.raises((TypeError, ValueError)) as error:
            PUBLIC[function](**{**valid(function), argument: wrong})
        name = {"methods": "method", "content": "text"}.get(argument, argument).rstrip("s")
        name = "question" if function == "find_question" else name
        assert name in str(error.value), f"{function}({argument}={wrong!r}): {error.value}"


@pytest.mark.parametrize(("function", "argument"), NUMBERS)
def test_a_number_below_its_range_is_named_at_the_call(function: str, argument: str) -> None:
    wrong = -(2**63) - 1 if argument == "seed" else -1  # seeds have 64 bits
    with pytest.raises((TypeError, ValueError), match=rf"\b{argument}\b.*{wrong}"):
        PUBLIC[function](**{**valid(function), argument: wrong})


HOSTILE: tuple[Any, ...] = (
    *(None, True, 10**30, -(10**30), 2**31, 1e300, complex(1, 2), {"a": 1}, {1, 2}, range(3), math.sqrt, Odd(), Odd),
    *(["a", None], Path("nowhere"), torch.float16, torch.tensor(math.nan), torch.full((2,), math.inf), TEXT, MODEL),
    *(torch.zeros(2, dtype=torch.complex64), torch.zeros(1, 2, 5, 8).to_sparse(), np.int64(2), np.array([None])),
)
SHAPES = st.lists(st.integers(0, 8), max_size=4)
DTYPES = st.sampled_from([torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64])
ANYTHING = st.one_of(
    *(st.sampled_from(HOSTILE), st.integers(-2, 40), st.floats(), st.text(max_size=20), st.binary(max_size=20)),
    *(st.lists(st.floats() | st.integers(-2, 9), max_size=4), st.builds(torch.ones, SHAPES, dtype=DTYPES)),
)


@pytest.mark.parametrize("function", sorted(set(PUBLIC) - STARTS_WORK))
@settings(max_examples=int(os.environ.get("EXAMPLES", "25")), deadline=None, derandomize=True)
@given(data=st.data())
def test_no_value_ends_in_an_error_from_inside(function: str, data: st.DataObject) -> None:
    """EXAMPLES=1000 tries a thousand for each function."""
    chosen = st.sets(st.sampled_from([name for each, name in arguments() if each == function]), min_size=1, max_size=2)
    values = {name: data.draw(ANYTHING, name) for name in sorted(data.draw(chosen, "arguments"))}
    with suppress(TypeError, ValueError, MemoryError, OSError):  # others come from code that trusts its arguments
        PUBLIC[function](**{**valid(function), **values})
