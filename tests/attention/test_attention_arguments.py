"""Arguments of `alibi_attention` that don't fit are named, with what was expected."""

import math

import numpy as np
import pytest
import torch

from alibi_viz import alibi_attention, alibi_slopes, attention_trace, choose_backend
from tests.attention.cases import qkv
from tests.rows import each_case

QUERY, KEY, VALUE = qkv(6, heads=2, dim=3, batch=2)
VALID = {
    "query": QUERY,
    "key": KEY,
    "value": VALUE,
    "slopes": alibi_slopes(2),
    "key_padding_mask": torch.ones(2, 6, dtype=torch.bool),
    "attn_mask": torch.ones(2, 1, 6, 6, dtype=torch.bool),
    "positions": torch.arange(6),
}


def one_axis_more(tensor):
    return tensor[None]


def of_another_kind(tensor):
    return tensor.long() if tensor.is_floating_point() else tensor.float()


def three_times_as_long(tensor):
    return torch.cat((tensor, tensor, tensor), dim=-1)


def on_another_device(tensor):
    return tensor.to("meta")


def wrong_tensors():
    """A row of a table for each tensor and each fault."""
    for name in VALID:
        faults = [one_axis_more, of_another_kind]
        if name != "query":  # which may have any length and device: the others must fit it
            faults += [three_times_as_long, on_another_device]
        for fault in faults:
            yield pytest.param(name, fault, id=f"{name} {fault.__name__.replace('_', ' ')}")


def assert_named(name, wrong):
    with pytest.raises((TypeError, ValueError), match=f"^{name}.* must .*"):
        alibi_attention(**(VALID | {name: wrong}))


def test_the_valid_arguments_are_accepted():
    """Otherwise the next two tests would say nothing."""
    alibi_attention(**VALID)


@pytest.mark.parametrize(("name", "fault"), list(wrong_tensors()))
def test_a_tensor_that_does_not_fit_is_named(name, fault):
    assert_named(name, fault(VALID[name]))


@each_case(
    ("name", "wrong"),
    {
        "query without batch": ("query", QUERY[0]),
        "query without channels": ("query", QUERY[..., :0]),
        "query longer than keys": ("query", QUERY.repeat(1, 1, 2, 1)),
        "nested query": ("query", torch.nested.nested_tensor([QUERY] * 2)),
        "key of another dtype": ("key", KEY.half()),
        "sparse key": ("key", KEY.to_sparse()),
        "more key heads than heads": ("key", KEY.repeat(1, 3, 1, 1)),
        "key of a smaller batch": ("key", KEY[:1]),
        "value of a smaller batch": ("value", VALUE[:1]),
        "too few slopes": ("slopes", VALID["slopes"][:1]),
        "infinite slopes": ("slopes", VALID["slopes"] * math.inf),
        "slopes that are NaN": ("slopes", VALID["slopes"] * math.nan),
        "nested slopes": ("slopes", torch.nested.nested_tensor([VALID["slopes"]] * 2)),
        "padding, batch": ("key_padding_mask", VALID["key_padding_mask"][:1]),
        "too few positions": ("positions", VALID["positions"][:1]),
        "scale that is NaN": ("scale", math.nan),
        "scale that is a bool": ("scale", True),
        "dropout of everything": ("dropout", 1),
        "tolerance 0": ("tolerance", 0),
        "tolerance 1": ("tolerance", 1),
        "unknown backend": ("backend", "flash"),
    },
)
def test_a_wrong_argument_is_named_with_what_was_expected(name, wrong):
    assert_named(name, wrong)


def test_a_tolerance_of_1_is_said_to_be_too_large():
    message = r"^tolerance must be above 0 and below 1, or None, got 1\.0$"
    with pytest.raises(ValueError, match=message):
        alibi_attention(**(VALID | {"tolerance": 1.0}))


@pytest.mark.parametrize("function", [choose_backend, attention_trace])
def test_an_option_that_a_function_does_not_take_is_named(function):
    with pytest.raises(TypeError, match="backend"):
        function(QUERY, KEY, VALID["slopes"], backend="mask")


# The last three would not change a trace, which shows all weights.
@pytest.mark.parametrize("option", ["causal", "key_padding_mask", "attn_mask", "positions"])
def test_an_option_that_fits_is_taken(option):
    options = {option: VALID.get(option, False)}
    choose_backend(QUERY, KEY, VALID["slopes"], **options)
    attention_trace(QUERY, KEY, VALID["slopes"], **options)


def test_numbers_of_numpy_are_numbers():
    options = {"scale": np.float32(0.3), "dropout": np.float64(0), "tolerance": np.float16(0.25)}
    output = alibi_attention(QUERY, KEY, VALUE, alibi_slopes(np.int64(2)), **options)
    python = {name: float(number) for name, number in options.items()}
    assert torch.equal(output, alibi_attention(QUERY, KEY, VALUE, alibi_slopes(2), **python))


def test_slopes_of_another_number_of_heads_show_the_axes_of_the_query():
    query = torch.zeros(1, 16, 8, 4)  # [batch, length, heads, head_dim]
    message = (
        r"\[16\], got shape \[8\], with a query .* of \[1, 16, 8, 4\]: "
        r"is it \[batch, length, heads, head_dim\]\?$"
    )
    with pytest.raises(ValueError, match=message):
        alibi_attention(query, query, query, alibi_slopes(8))


def test_a_trace_is_shown_by_its_shapes():
    trace = attention_trace(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 5, 4), alibi_slopes(2))
    assert repr(trace).startswith("AttentionTrace(content=[1, 2, 3, 5], bias=")
