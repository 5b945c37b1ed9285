import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz import alibi_bias, alibi_slopes, causal_mask
from alibi_viz.bias import FORMS, right_aligned
from tests.reference import reference_bias
from tests.rows import each_case

LENGTHS = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted)
INTEGERS = (torch.int64, torch.int32, torch.int8, torch.uint8)
FAR = st.integers(-(2**40), 2**40) | st.integers(-500, 500)


@given(LENGTHS)
def test_queries_are_the_last_keys(lengths):
    query_length, key_length = lengths
    queries, keys = right_aligned(query_length, key_length)
    assert queries.dtype == torch.int64
    assert keys.dtype == torch.int64
    assert keys.tolist() == list(range(key_length))
    assert queries.tolist() == list(range(key_length - query_length, key_length))


def test_causal_mask_shows_keys_up_to_the_query_itself():
    assert causal_mask(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]


@pytest.mark.parametrize("form", FORMS)
@given(lengths=LENGTHS, heads=st.integers(1, 7))
def test_every_form_matches_its_formula(form, lengths, heads):
    query_length, key_length = lengths
    slopes = alibi_slopes(heads)
    keys = list(range(key_length))
    expected = reference_bias(slopes, keys[key_length - query_length :], keys, form)
    actual = alibi_bias(slopes, query_length, key_length, form=form)
    assert actual.dtype == torch.float32
    rows = 1 if form in ("key", "end") else query_length  # these are the same for all queries
    assert actual.shape == (heads, rows, key_length)
    assert torch.equal(actual.double().expand_as(expected), expected)
    assert not actual[actual == 0].signbit().any(), "no -0."


@given(st.sampled_from(FORMS), st.lists(FAR, max_size=5), st.data(), st.sampled_from(INTEGERS))
def test_far_and_negative_positions_of_any_integer_dtype_match_the_formula(form, keys, data, dtype):
    keys = [int(torch.tensor(key).to(dtype)) for key in keys]  # wraps around
    query_length = data.draw(st.integers(0, len(keys)))
    slopes = torch.tensor([0.3, 0.0101, 2.0, 1 / 256])
    expected = reference_bias(slopes, keys[len(keys) - query_length :], keys, form)
    positions = torch.tensor(keys, dtype=dtype)
    actual = alibi_bias(slopes, query_length, positions=positions, form=form, dtype=torch.float64)
    assert torch.allclose(actual.expand_as(expected), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("form", FORMS)
def test_positions_with_a_batch_axis_give_a_bias_per_row(form):
    slopes = alibi_slopes(3)
    positions = [[0, 4, 9], [-3, 1, 2]]
    actual = alibi_bias(slopes, 2, positions=torch.tensor(positions), form=form)
    expected = torch.stack([reference_bias(slopes, keys[1:], keys, form) for keys in positions])
    assert torch.equal(actual.double().expand_as(expected), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@each_case(
    "slopes",
    {
        "8 heads": alibi_slopes(8),
        "12 heads": alibi_slopes(12),
        "others": torch.tensor([0.3, 0.0101]),
    },
)
def test_half_precision_bias_is_rounded_once_and_last(slopes, dtype):
    steps = torch.arange(2048)
    exact = -slopes[:, None, None] * (steps[:, None] - steps)
    assert torch.equal(alibi_bias(slopes, 2048, dtype=dtype), exact.to(dtype))


SLOPES = alibi_slopes(4)
POSITIONS = torch.arange(3)


@each_case(
    ("name", "wrong"),
    {
        "slopes that are a list": ("slopes", [0.5]),
        "integer slopes": ("slopes", SLOPES.long()),
        "slopes with two axes": ("slopes", SLOPES[None]),
        "slopes that are NaN": ("slopes", SLOPES * math.nan),
        "negative query_length": ("query_length", -1),
        "more queries than keys": ("query_length", 4),
        "float query_length": ("query_length", 2.0),
        "float key_length": ("key_length", 3.0),
        "float positions": ("positions", POSITIONS.float()),
        "positions without an axis": ("positions", POSITIONS[0]),
        "too many positions": ("positions", torch.arange(4)),
        "integer dtype": ("dtype", torch.int64),
        "dtype as text": ("dtype", "float32"),
        "unknown form": ("form", "absolute"),
    },
)
def test_invalid_argument_is_named(name, wrong):
    arguments = {"slopes": SLOPES, "query_length": 3, "key_length": 3, name: wrong}
    with pytest.raises((TypeError, ValueError), match=f"^{name} must .*, got "):
        alibi_bias(**arguments)
