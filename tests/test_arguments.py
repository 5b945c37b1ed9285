"""Every argument of a public function that has the wrong type is named in the error, whatever
function.

The functions and their arguments are read from the library. The tables say what is valid.
"""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import alibi_viz as av
from alibi_viz import check, figures, gallery, lab, lessons, models, study, widgets
from alibi_viz.measure.attention_statistics import attention_stats
from alibi_viz.measure.continuations import known_words
from tests.custom_laws import root
from tests.pretrained_models import ByteTokenizer, small_model
from tests.tables import SMALL

RESULTS = study.published_results()
TABLE = study.verdict_table(RESULTS)
TEXT = lab.load_text()
NEEDLE = lab.TASKS["needle"]
MODEL = lab.make_model("alibi", **SMALL)
BLOOM = small_model("bloom")
QUERY = torch.randn(1, 2, 5, 8)


def two_slopes(*_: object) -> list[float]:
    return [1.0, 2.0]


# Valid arguments, by name
VALUES: dict[str, Any] = {
    "model": MODEL,
    "text": TEXT,
    "source": TEXT,
    "task": NEEDLE,
    "length": 16,
    "lengths": [16],
    "trained": 8,
    "distance": 3,
    "distances": [3],
    "methods": ["none"],
    "run": lab.Run("none", length=8, steps=1, longest=0),
    "query": QUERY,
    "key": QUERY,
    "value": QUERY,
    "slopes": av.alibi_slopes(2),
    "query_length": 4,
    "num_heads": 2,
    "d_model": 16,
    "runs": [],
    "passages": ["to be"],
    "position": "none",
    "name": "gap",
    "path": "/proc/nowhere",
    "content": "to be or not",
    "function": two_slopes,
    "bias": torch.zeros(2, 4, 4),
    "rows": "query",
    "masked": torch.zeros(4, 4).bool(),
    "initial": torch.ones(2),
    "weights": {"mine": torch.eye(3)},
    "config": MODEL.config,
    "tokenizer": ByteTokenizer(),
    "results": RESULTS,
    "table": TABLE,
    "question": "gap",
    "axes": lab.find_question("gap").axes(16),
    "figure": figures.forest_figure(TABLE),
    "figures": {},
    "guesses": {},
    "options": ["a", "b"],
    "items": ["a", "b"],
    "answer": ["b", "a"],
    "x": [1, 2, 3],
    "truth": [1, 2, 3],
    "low": 0,
    "high": 4,
    "otherwise": root,
    "app": widgets.SlopeExplorer(),
    "traits": ["num_heads"],
    "write": dict,
    "texts": {"a": "b"},
    "repair": "",
    "method": "alibi",
    "window": 8,
}
# Valid arguments of one function, where those above are not: {(function, argument): value}
OTHERS: dict[tuple[str, str], Any] = {
    ("window_table", "text"): "to be or not",
    ("window_table", "source"): MODEL,
    ("compare", "text"): None,
    ("accuracy", "model"): lab.make_model(vocabulary=NEEDLE.vocabulary, **SMALL),
    ("model", "model"): BLOOM,
    ("length_curve", "model"): BLOOM,
    ("PretrainedModel", "model"): BLOOM,
    ("guess_choice", "key"): "key",
    ("guess_curve", "key"): "key",
    ("guess_order", "key"): "key",
    ("guess_choice", "answer"): "a",
    ("guess_grid", "guesses"): [],
    ("curve_figure", "rows"): RESULTS.head(1),
    ("try_repair", "name"): "case 1",
    ("published_model", "name"): "alibi",
    ("SelfAttention", "position"): MODEL.transformer.position,
}
STARTS_WORK = {"compare", "measure"}

# What libraries check, or nobody
UNCHECKED = {
    "custom",
    "device",
    "label",
    "out",
    "progress",
    "rows",
    "tokenizer",
    "write",
    "x_title",
    "y_title",
}
UNCHECKED_IN_ONE_FUNCTION = {
    ("slope_figure", "name"),
    ("bias_figure", "masked"),
    ("save_run", "path"),
    ("load_run", "method"),
}
FLOATS = {
    "learning_rate",
    "scale",
    "dropout",
    "tolerance",
    "bias_max",
    "slope_scale",
    "seconds",
    "low",
    "high",
}
RECORDS = {
    "AttentionTrace",
    "Bug",
    "Claim",
    "Comparison",
    "Exhibit",
    "Fault",
    "Finding",
    "Grade",
    "KeyValueCache",
    "Report",
    "Term",
    "Text",
    "Verdict",
}
ERRORS = {"AlibiFaultError", "TrainingDiverged"}
UNTRIED = {
    *RECORDS,
    *ERRORS,
    "Position",  # a base class
    "if_written",  # takes anything
    "reproduce",  # works for hours, as does the next
    "train_published_models",
    "write_report",  # only writes a file, as does the next
    "write_vectors",
}
MODULES = (av, check, figures, gallery, lab, lessons, models, study)


def public_functions() -> dict[str, Any]:
    """{name: function or class} for all that take an argument."""
    functions = {}
    for module in MODULES:
        for name in module.__all__:
            member = getattr(module, name)
            if name not in UNTRIED and callable(member) and signature(member).parameters:
                functions[name] = member
    return functions | {"attention_stats": attention_stats, "known_words": known_words}


PUBLIC = public_functions()


class Odd:
    """An object that nothing accepts."""

    def __repr__(self) -> str:
        return "<odd>"


def parameters(function: str) -> list[Parameter]:
    """The named parameters of a public function."""
    without_name = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    return [
        parameter
        for parameter in signature(PUBLIC[function]).parameters.values()
        if parameter.kind not in without_name
    ]


def valid(function: str) -> dict[str, Any]:
    """The required arguments of a public function."""
    arguments = {}
    for parameter in parameters(function):
        if parameter.default is parameter.empty:
            value = VALUES.get(parameter.name)
            arguments[parameter.name] = OTHERS.get((function, parameter.name), value)
    return arguments


def checked_arguments(function: str) -> list[str]:
    """The names of the arguments that a public function itself checks."""
    return [
        parameter.name
        for parameter in parameters(function)
        if parameter.name not in UNCHECKED
        and (function, parameter.name) not in UNCHECKED_IN_ONE_FUNCTION
    ]


def all_arguments() -> Iterator[tuple[str, str]]:
    """(function, argument) for everything that is checked."""
    for function in PUBLIC:
        for name in checked_arguments(function):
            yield function, name


def all_numbers() -> Iterator[tuple[str, str]]:
    """(function, argument) for the numbers that have a range."""
    for function in PUBLIC:
        annotations = {parameter.name: parameter.annotation for parameter in parameters(function)}
        for name in checked_arguments(function):
            if annotations[name] in (int, float) and name != "low":
                yield function, name


def name_in_errors(function: str, argument: str) -> str:
    """How an error names an argument: often one of its elements."""
    if function == "find_question":
        return "question"
    if argument == "methods":
        return "method"
    if argument == "content":
        return "text"
    return argument.removesuffix("s")


def assert_named(function: str, argument: str, wrong: object) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        PUBLIC[function](**{**valid(function), argument: wrong})
    name = name_in_errors(function, argument)
    assert name in str(error.value), f"{function}({argument}={wrong!r}): {error.value}"


@pytest.mark.parametrize("function", sorted(set(PUBLIC) - {"compare"}))
def test_the_valid_arguments_are_accepted(function: str) -> None:
    """Otherwise the tests below would say nothing. Streams are not consumed."""
    with suppress(OSError):  # `path` leads nowhere
        PUBLIC[function](**valid(function))


@pytest.mark.parametrize(("function", "argument"), list(all_arguments()))
def test_an_object_that_fits_nothing_is_named_at_the_call(function: str, argument: str) -> None:
    assert_named(function, argument, Odd())


@pytest.mark.parametrize(("function", "argument"), list(all_arguments()))
def test_a_number_or_text_of_a_wrong_type_is_named(function: str, argument: str) -> None:
    takes_floats = argument in FLOATS or function in ("half_life", "modify")
    assert_named(function, argument, "fast" if takes_floats else 1.5)


@pytest.mark.parametrize(
    ("function", "argument"),
    [pair for pair in all_arguments() if pair[1] in ("lengths", "runs")],
)
def test_a_sparse_tensor_in_place_of_a_list_is_named(function: str, argument: str) -> None:
    assert_named(function, argument, torch.eye(2).to_sparse())


@pytest.mark.parametrize(("function", "argument"), list(all_numbers()))
def test_a_number_below_its_range_is_named_at_the_call(function: str, argument: str) -> None:
    wrong = -(2**63) - 1 if argument == "seed" else -1  # seeds have 64 bits
    with pytest.raises((TypeError, ValueError), match=rf"\b{argument}\b.*{wrong}"):
        PUBLIC[function](**{**valid(function), argument: wrong})


ODD_VALUES: Sequence[Any] = (
    None,
    True,
    10**30,
    -(10**30),
    1e300,
    complex(1, 2),
    {"a": 1},
    {1, 2},
    range(3),
    math.sqrt,
    Odd(),
    Odd,
    ["a", None],
    Path("nowhere"),
    torch.float16,
    torch.tensor(math.nan),
    torch.full((2,), math.inf),
    TEXT,
    MODEL,
    torch.zeros(2, dtype=torch.complex64),
    torch.zeros(1, 2, 5, 8).to_sparse(),
    np.int64(2),
    np.array([None]),
)
SHAPES = st.lists(st.integers(0, 8), max_size=4)
DTYPES = st.sampled_from(
    [torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
ANYTHING = st.one_of(
    st.sampled_from(ODD_VALUES),
    st.integers(-2, 40),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.lists(st.floats() | st.integers(-2, 9), max_size=4),
    st.builds(torch.ones, SHAPES, dtype=DTYPES),
)


@pytest.mark.parametrize("function", sorted(set(PUBLIC) - STARTS_WORK))
@settings(max_examples=int(os.environ.get("EXAMPLES", "25")), deadline=None, derandomize=True)
@given(data=st.data())
def test_no_value_ends_in_an_error_from_inside(function: str, data: st.DataObject) -> None:
    """EXAMPLES=1000 tries a thousand for each function."""
    some_names = st.sets(st.sampled_from(checked_arguments(function)), min_size=1, max_size=2)
    names = sorted(data.draw(some_names, "arguments"))
    values = {name: data.draw(ANYTHING, name) for name in names}
    # Other errors come from code that trusts its arguments.
    with suppress(TypeError, ValueError, OSError):
        PUBLIC[function](**{**valid(function), **values})
