"""Every argument of a public function that has the wrong type is named in the error, whatever
function."""

import math
import os
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
TEXT, NEEDLE = lab.load_text(), lab.TASKS["needle"]
MODEL = lab.make_model("alibi", **SMALL)
QUERY = torch.randn(1, 2, 5, 8)
VALUES: dict[str, Any] = {  # valid arguments, by name
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
    "passages": [("to be")],
    "position": "none",
    "name": "gap",
    "path": "/proc/nowhere",
    "content": ("to be or not"),
    "function": lambda *_: [1.0, 2.0],
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
OTHERS = {  # of one function
    ("window_table", "text"): ("to be or not"),
    ("window_table", "source"): MODEL,
    ("compare", "text"): None,
    ("accuracy", "model"): lab.make_model(vocabulary=NEEDLE.vocabulary, **SMALL),
    **{
        (function, "model"): small_model("bloom")
        for function in ("model", "length_curve", "PretrainedModel")
    },
    **{(f"guess_{kind}", "key"): "key" for kind in ("choice", "curve", "order")},
    ("guess_choice", "answer"): "a",
    ("guess_grid", "guesses"): [],
    ("curve_figure", "rows"): RESULTS.head(1),
    ("try_repair", "name"): "case 1",
    ("published_model", "name"): "alibi",
    ("SelfAttention", "position"): MODEL.transformer.position,
}
STARTS_WORK = {"compare", "measure"}
FREE = {  # what libraries check, or nobody
    *(
        "progress",
        "out",
        "custom",
        "label",
        "device",
        "rows",
        "tokenizer",
        "write",
        "x_title",
        "y_title",
    ),
    *(
        ("slope_figure", "name"),
        ("bias_figure", "masked"),
        ("save_run", "path"),
        ("load_run", "method"),
    ),
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
# Records; a base class; errors; what takes anything, works for hours, or only writes a file
UNTRIED = {
    *(
        "AttentionTrace",
        "KeyValueCache",
        "Comparison",
        "Fault",
        "Finding",
        "Report",
        "Exhibit",
        "Bug",
        "Grade",
        "Text",
    ),
    *("Claim", "Term", "Verdict", "Position", "AlibiFaultError", "TrainingDiverged"),
    *("if_written", "reproduce", "train_published_models", "write_report", "write_vectors"),
}
MODULES = (av, check, figures, gallery, lab, lessons, models, study)
NAMED = {
    name: getattr(module, name)
    for module in MODULES
    for name in module.__all__
    if name not in UNTRIED
}
PUBLIC: dict[str, Any] = {
    name: each for name, each in NAMED.items() if callable(each) and signature(each).parameters
}
PUBLIC |= {"attention_stats": attention_stats, "known_words": known_words}


class Odd:
    """An object that nothing accepts."""

    def __repr__(self) -> str:
        return "<odd>"


def parameters(function: str) -> list[Parameter]:
    several = Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL
    return [
        each for each in signature(PUBLIC[function]).parameters.values() if each.kind not in several
    ]


def valid(function: str) -> dict[str, Any]:
    """The required arguments of a public function."""
    required = [each.name for each in parameters(function) if each.default is each.empty]
    return {name: OTHERS.get((function, name), VALUES.get(name)) for name in required}


def arguments() -> list[tuple[str, str]]:
    names = [(function, each.name) for function in PUBLIC for each in parameters(function)]
    return [(function, name) for function, name in names if not {name, (function, name)} & FREE]


TYPES = {
    (function, each.name): each.annotation for function in PUBLIC for each in parameters(function)
}
NUMBERS = [each for each in arguments() if TYPES[each] in (int, float) and each[1] != "low"]


@pytest.mark.parametrize("function", sorted(set(PUBLIC) - {"compare"}))
def test_the_valid_arguments_are_accepted(function: str) -> None:
    """Otherwise the tests below would say nothing. Streams are not consumed."""
    with suppress(OSError):  # `path` leads nowhere
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
    *(
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
    ),
    *(
        ["a", None],
        Path("nowhere"),
        torch.float16,
        torch.tensor(math.nan),
        torch.full((2,), math.inf),
        TEXT,
        MODEL,
    ),
    *(
        torch.zeros(2, dtype=torch.complex64),
        torch.zeros(1, 2, 5, 8).to_sparse(),
        np.int64(2),
        np.array([None]),
    ),
)
SHAPES = st.lists(st.integers(0, 8), max_size=4)
DTYPES = st.sampled_from(
    [torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
ANYTHING = st.one_of(
    *(
        st.sampled_from(HOSTILE),
        st.integers(-2, 40),
        st.floats(),
        st.text(max_size=20),
        st.binary(max_size=20),
    ),
    *(
        st.lists(st.floats() | st.integers(-2, 9), max_size=4),
        st.builds(torch.ones, SHAPES, dtype=DTYPES),
    ),
)


@pytest.mark.parametrize("function", sorted(set(PUBLIC) - STARTS_WORK))
@settings(max_examples=int(os.environ.get("EXAMPLES", "25")), deadline=None, derandomize=True)
@given(data=st.data())
def test_no_value_ends_in_an_error_from_inside(function: str, data: st.DataObject) -> None:
    """EXAMPLES=1000 tries a thousand for each function."""
    chosen = st.sets(
        st.sampled_from([name for each, name in arguments() if each == function]),
        min_size=1,
        max_size=2,
    )
    values = {name: data.draw(ANYTHING, name) for name in sorted(data.draw(chosen, "arguments"))}
    # Other errors come from code that trusts its arguments.
    with suppress(TypeError, ValueError, OSError):
        PUBLIC[function](**{**valid(function), **values})
