"""Every argument of a public function that has the wrong type is named in the error, whatever
function."""

import math
from contextlib import suppress
from inspect import Parameter, signature
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import alibi_viz as av
from alibi_viz import check, figures, gallery, lab, lessons, models, study, widgets
from alibi_viz.arguments import check_choice
from alibi_viz.measure.attention_statistics import attention_stats
from alibi_viz.measure.continuations import known_words
from tests.custom_laws import root
from tests.pretrained_models import ByteTokenizer, small_model
from tests.tables import SMALL

# The public functions

# These are not called with bad arguments: they take anything, work for hours, or only write a file.
UNTRIED_FUNCTIONS = {
    "if_written",
    "measure_far_keys",
    "retrain",
    "train_published_models",
    "write_report",
    "write_vectors",
}
# Records, errors, and a base class
UNTRIED_CLASSES = {
    "AlibiFaultError",
    "AttentionTrace",
    "Bug",
    "Claim",
    "Comparison",
    "Exhibit",
    "Fault",
    "Finding",
    "Grade",
    "KeyValueCache",
    "Position",
    "Report",
    "Setting",
    "Term",
    "Text",
    "TrainingDiverged",
}


def public_functions():
    """Functions and classes with parameters that a module lists in `__all__`, by name."""
    functions = {}
    for module in (av, check, figures, gallery, lab, lessons, models, study):
        for name in module.__all__:
            value = getattr(module, name)
            if name in UNTRIED_FUNCTIONS | UNTRIED_CLASSES or not callable(value):
                continue
            if signature(value).parameters:
                functions[name] = value
    # Lessons import these two from their modules.
    functions["attention_stats"] = attention_stats
    functions["known_words"] = known_words
    return functions


PUBLIC = public_functions()


def parameters(function):
    """The parameters of a public function, without * and **."""
    several = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    all_parameters = signature(PUBLIC[function]).parameters.values()
    return [parameter for parameter in all_parameters if parameter.kind not in several]


# Valid arguments


def two_slopes(*_):
    return [1.0, 2.0]


RESULTS = study.published_results()
TABLE = study.verdict_table(RESULTS)
REACH = study.reach_table(TABLE)
TEXT = lab.load_text()
NEEDLE = lab.TASKS["needle"]
MODEL = lab.make_model("alibi", **SMALL)
BLOOM = small_model("bloom")
QUERY = torch.randn(1, 2, 5, 8)
TRACE = av.attention_trace(QUERY, QUERY, av.alibi_slopes(2))
# By name, for all functions
VALUES = {
    "answer": ["b", "a"],
    "app": widgets.SlopeExplorer(),
    "axes": lab.find_question("gap").axes(16),
    "bias": torch.zeros(2, 4, 4),
    "biases": {"key": [-1.0, 0.0]},
    "config": MODEL.config,
    "content": "to be or not",
    "d_model": 16,
    "distance": 3,
    "distances": [3],
    "figure": figures.claims_figure(TABLE, REACH),
    "figures": {},
    "function": two_slopes,
    "guesses": {},
    "high": 4,
    "initial": torch.ones(2),
    "items": {"a": "head a", "b": "head b"},
    "key": QUERY,
    "length": 16,
    "lengths": [16],
    "logits": -np.arange(256.0),
    "low": 0,
    "masked": torch.zeros(4, 4).bool(),
    "method": "alibi",
    "methods": ["none"],
    "model": MODEL,
    "models": {"a": MODEL},
    "name": "gap",
    "num_heads": 2,
    "options": {"a": "head a", "b": "head b"},
    "other": TRACE,
    "otherwise": root,
    "passages": ["to be"],
    "path": "/proc/nowhere",
    "position": "none",
    "query": QUERY,
    "query_length": 4,
    "question": "gap",
    "repair": "",
    "results": RESULTS,
    "rows": "query",
    "run": lab.Run("none", length=8, steps=1, longest=0),
    "runs": [],
    "slope": 0.5,
    "slopes": av.alibi_slopes(2),
    "source": TEXT,
    "speeds": [1.0, 0.1],
    "spans": lab.window_table(MODEL, "to be or not"),
    "reach": REACH,
    "table": TABLE,
    "task": NEEDLE,
    "text": TEXT,
    "texts": {"a": ["b", "c"]},
    "tokenizer": ByteTokenizer(),
    "tokens": list("to be"),
    "trace": TRACE,
    "trained": 8,
    "traits": ["num_heads"],
    "truth": [1, 2, 3],
    "value": QUERY,
    "weights": {"mine": torch.eye(3)},
    "window": 8,
    "words": ["a", "b"],
    "write": dict,
    "x": [1, 2, 3],
}
# By function and name, where a function needs another one
VALUES_OF_FUNCTION = {
    ("PretrainedModel", "model"): BLOOM,
    ("SelfAttention", "position"): MODEL.transformer.position,
    ("compare", "text"): None,
    ("curve_figure", "rows"): RESULTS.head(1),
    ("far_share_figure", "rows"): study.far_keys(),
    ("forgetting_figure", "half_life"): 4,
    ("guess_choice", "answer"): "a",
    ("guess_choice", "key"): "key",
    ("guess_curve", "key"): "key",
    ("guess_grid", "guesses"): [],
    ("guess_order", "key"): "key",
    ("length_curve", "model"): BLOOM,
    ("model", "model"): BLOOM,
    ("published_model", "name"): "alibi",
    ("softmax_figure", "logits"): torch.eye(2),
    ("weights_figure", "weights"): torch.eye(2)[None],
    ("weights_figure", "titles"): ["weights"],
    ("surgery_figure", "distances"): [[[3.0, 9.0]]],
    ("surgery_figure", "losses"): [{16: 2.5}],
    ("try_repair", "name"): "case 1",
    ("tug_figure", "content"): 4,
    ("waves_figure", "position"): 0,
    ("window_table", "source"): MODEL,
    ("window_table", "text"): "to be or not",
}


def valid_arguments(function):
    """The required arguments of a public function."""
    values = {}
    for parameter in parameters(function):
        if parameter.default is Parameter.empty:
            of_all = VALUES.get(parameter.name)
            values[parameter.name] = VALUES_OF_FUNCTION.get((function, parameter.name), of_all)
    return values


def call_with(function, **changed):
    """Call a function with some arguments changed."""
    PUBLIC[function](**{**valid_arguments(function), **changed})


# The arguments that are tried

# A library checks these, or nobody needs to.
FREE_ARGUMENTS = {
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
FREE_OF_FUNCTION = {
    ("bias_figure", "masked"),
    ("slope_figure", "name"),
}


def tried_arguments():
    """Functions and the names of their arguments."""
    tried = []
    for function in PUBLIC:
        for parameter in parameters(function):
            pair = (function, parameter.name)
            if parameter.name not in FREE_ARGUMENTS and pair not in FREE_OF_FUNCTION:
                tried.append(pair)
    return tried


TRIED = tried_arguments()


def number_arguments():
    """Those of the tried arguments that are numbers, none of which may be negative."""
    numbers = []
    for function in PUBLIC:
        for parameter in parameters(function):
            is_number = parameter.annotation in (int, float)
            pair = (function, parameter.name)
            if is_number and parameter.name != "low" and pair in TRIED:
                numbers.append(pair)
    return numbers


class Odd:
    """An object that nothing accepts."""

    def __repr__(self):
        return "<odd>"


# A fraction is right for these, so a text is tried instead.
FLOATS = {
    "bias_max",
    "dropout",
    "high",
    "learning_rate",
    "low",
    "rotary_base",
    "scale",
    "seconds",
    "slope",
    "slope_scale",
    "softcap",
    "tolerance",
}
TAKE_FLOATS = {"half_life", "modify", "tug_figure"}
TAKE_SEVERAL_FLOATS = {("half_life", "slopes"), ("modify", "slopes"), ("modify", "far_slope")}


def wrong_values(function, argument):
    """Values of a type that an argument doesn't take."""
    takes_floats = argument in FLOATS or function in TAKE_FLOATS
    values = [Odd(), "fast" if takes_floats else 1.5]
    if argument in ("lengths", "runs"):
        values.append(torch.eye(2).to_sparse())  # can't be iterated
    return values


def name_in_message(function, argument):
    """How an error calls an argument: "methods" may be one method, a name that of a question."""
    if function == "find_question":
        return "question"
    if function == "tug_figure":
        return argument
    names = {"methods": "method", "content": "text"}
    return names.get(argument, argument).rstrip("s")


@pytest.mark.parametrize("function", sorted(PUBLIC.keys() - {"compare"}))
def test_the_valid_arguments_are_accepted(function):
    """Otherwise the tests below would say nothing. Streams are not consumed."""
    with suppress(OSError):  # `path` leads nowhere
        call_with(function)


@pytest.mark.parametrize(("function", "argument"), TRIED)
def test_an_argument_of_a_wrong_type_is_named_at_the_call(function, argument):
    for wrong in wrong_values(function, argument):
        with pytest.raises((TypeError, ValueError)) as error:
            call_with(function, **{argument: wrong})
        message = str(error.value)
        assert name_in_message(function, argument) in message, f"{argument}={wrong!r}: {message}"


@pytest.mark.parametrize(("function", "argument"), number_arguments())
def test_a_number_below_its_range_is_named_at_the_call(function, argument):
    with pytest.raises((TypeError, ValueError), match=rf"\b{argument}\b.*-1"):
        call_with(function, **{argument: -1})


def float_arguments():
    """Those of the tried arguments that may be fractions."""
    return [
        (function, argument)
        for function, argument in TRIED
        if argument in FLOATS or (function, argument) in TAKE_SEVERAL_FLOATS
    ]


@pytest.mark.parametrize(("function", "argument"), float_arguments())
def test_an_integer_beyond_all_floats_is_named_at_the_call(function, argument):
    with pytest.raises(ValueError, match=rf"\b{argument}\b must be .*, got 10{{400}}$"):
        call_with(function, **{argument: 10**400})


def test_a_number_may_be_an_integer_beyond_those_of_torch():
    assert float(av.half_life(10**30)) == pytest.approx(math.log(2) / 1e30)


# Any value at all

HOSTILE_OBJECTS = [
    None,
    True,
    10**30,
    -(10**30),
    10**400,
    1e300,
    complex(1, 2),
    {"a": 1},
    {1, 2},
    range(3),
    ["a", None],
    math.sqrt,
    Odd(),
    Odd,
    Path("nowhere"),
    TEXT,
    MODEL,
]
HOSTILE_ARRAYS = [
    torch.float16,
    torch.tensor(math.nan),
    torch.full((2,), math.inf),
    torch.zeros(2, dtype=torch.complex64),
    torch.zeros(1, 2, 5, 8).to_sparse(),
    np.int64(2),
    np.array([None]),
]
SHAPES = st.lists(st.integers(0, 8), max_size=4)
DTYPES = st.sampled_from(
    [torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
ANYTHING = st.one_of(
    st.sampled_from([*HOSTILE_OBJECTS, *HOSTILE_ARRAYS]),
    st.integers(-2, 40),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.lists(st.floats() | st.integers(-2, 9), max_size=4),
    st.builds(torch.ones, SHAPES, dtype=DTYPES),
)
STARTS_WORK = {"compare", "measure"}


@pytest.mark.parametrize("function", sorted({function for function, _ in TRIED} - STARTS_WORK))
@settings(max_examples=settings().max_examples // 5)
@given(data=st.data())
def test_no_value_ends_in_an_error_from_inside(function, data):
    names = [argument for tried, argument in TRIED if tried == function]
    chosen = data.draw(st.sets(st.sampled_from(names), min_size=1, max_size=2), "arguments")
    values = {name: data.draw(ANYTHING, name) for name in sorted(chosen)}
    # Other errors come from code that trusts its arguments.
    with suppress(TypeError, ValueError, OSError):
        call_with(function, **values)


@pytest.mark.parametrize(
    ("name", "hint"), [("ALiBi", "'alibi'"), ("alibl", "'alibi'"), ("Rotry", "'rotary'")]
)
def test_a_near_miss_of_a_name_is_suggested(name, hint):
    with pytest.raises(ValueError, match=rf"got '{name}'; did you mean {hint}\?$"):
        check_choice("method", name, ["alibi", "rotary"])


def test_nothing_is_suggested_for_a_name_like_no_other():
    with pytest.raises(ValueError, match=r"got 'xyz'$"):
        check_choice("method", "xyz", ["alibi", "rotary"])
