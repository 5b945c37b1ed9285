import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz import AlibiBias, alibi_bias, alibi_slopes, causal_mask
from alibi_viz.bias import FORMS
from tests.rows import each_case

LENGTHS = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted)


@given(
    st.lists(LENGTHS, max_size=6),
    st.sampled_from(FORMS),
    st.sampled_from([torch.float32, torch.float16]),
)
def test_cached_bias_equals_a_new_one_at_any_lengths(requests, form, dtype):
    cached = AlibiBias(3, form=form)
    for rows, columns in requests:
        fresh = alibi_bias(alibi_slopes(3), rows, columns, form=form, dtype=dtype)
        assert torch.equal(cached(rows, columns, dtype=dtype).expand_as(fresh), fresh)


def memory_of(bias):
    """Where the numbers lie that this tensor is a view of."""
    return bias.untyped_storage().data_ptr()


def test_cache_grows_by_doubling():
    bias = AlibiBias(2)
    addresses = [memory_of(bias(length)) for length in range(1, 130)]
    new_at = [
        length
        for length, (before, after) in enumerate(pairwise(addresses), start=2)
        if before != after
    ]
    assert new_at == [2, 3, 5, 9, 17, 33, 65, 129]


def test_cache_has_few_rows_for_few_queries():
    bias = AlibiBias(2)(1, 3000)
    assert bias.untyped_storage().nbytes() == 2 * 1 * 4096 * 4  # heads, queries, keys, bytes


def test_causal_module_includes_the_mask():
    expected = alibi_bias(alibi_slopes(2), 3, 5).masked_fill(~causal_mask(3, 5), -math.inf)
    assert torch.equal(AlibiBias(2, causal=True)(3, 5), expected)


def test_module_copies_the_slopes_it_is_given():
    slopes = torch.tensor([0.3, 0.1])
    module = AlibiBias(2, slopes=slopes)
    slopes.zero_()
    assert torch.equal(module(4), alibi_bias(torch.tensor([0.3, 0.1]), 4))


def test_module_has_an_empty_state_dict():
    assert list(AlibiBias(2).state_dict()) == []


def test_module_says_what_it_is():
    assert str(AlibiBias(2)) == "AlibiBias(2 heads, form='relative', causal=False)"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_module_keeps_float32_slopes_in_a_model_of_any_dtype(dtype):
    slopes = torch.tensor([0.3, 0.1])
    module = AlibiBias(2, slopes=slopes).to(dtype)
    assert module(5).dtype == torch.float32
    assert torch.equal(module.slopes, slopes)


def test_module_on_the_meta_device_keeps_its_values():
    slopes = torch.tensor([0.3, 0.1])
    module = AlibiBias(2, slopes=slopes).to("meta")
    assert torch.equal(module(4), alibi_bias(slopes, 4))
    assert torch.equal(module.to_empty(device="cpu")(5), alibi_bias(slopes, 5))


def test_slopes_cannot_be_assigned():
    module = AlibiBias(2)
    with pytest.raises(AttributeError, match="slopes"):
        module.slopes = torch.ones(2)  # type: ignore[misc]


def test_invalid_arguments_of_the_module_raise_with_their_name():
    with pytest.raises(ValueError, match="causal=True needs form 'relative', got 'symmetric'"):
        AlibiBias(4, form="symmetric", causal=True)
    with pytest.raises(ValueError, match=r"slopes must be \[num_heads\] = \[3\], got shape \[4\]"):
        AlibiBias(3, slopes=alibi_slopes(4))


def test_heads_beyond_num_heads_have_no_bias():
    bias = AlibiBias(6, total_heads=8)(3, 5)
    assert bias.shape == (8, 3, 5)
    assert torch.equal(bias[:6], alibi_bias(alibi_slopes(6), 3, 5)), "the slopes of num_heads"
    assert not bias[6:].any()


def test_heads_beyond_num_heads_are_masked_like_the_others():
    bias = AlibiBias(1, causal=True, total_heads=2)(3)
    assert torch.equal(bias[1] == -math.inf, ~causal_mask(3))


def test_given_slopes_are_those_of_the_first_heads():
    module = AlibiBias(2, slopes=torch.tensor([0.5, 0.25]), total_heads=3)
    assert module.slopes.tolist() == [0.5, 0.25, 0.0]


@each_case(
    ("wrong", "error", "message"),
    {
        "below num_heads": (3, ValueError, "total_heads must be between 4 and"),
        "float": (8.0, TypeError, "total_heads must be an integer, got 8.0"),
    },
)
def test_wrong_total_heads_are_named(wrong, error, message):
    with pytest.raises(error, match=message):
        AlibiBias(4, total_heads=wrong)
