import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz import AlibiBias, alibi_bias, alibi_slopes, bias_from_positions, causal_mask, grid_bias
from alibi_viz.bias import FORMS, grid_distance
from tests.reference import reference_bias

LENGTHS = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted)


@given(LENGTHS, st.integers(1, 7), st.sampled_from(FORMS))
def test_every_form_matches_the_reference_loop(lengths: list[int], heads: int, form: str) -> None:
    rows, columns = lengths
    slopes = alibi_slopes(heads)
    expected = reference_bias(slopes, list(range(columns - rows, columns)), list(range(columns)), form)
    actual = alibi_bias(slopes, rows, columns, form=form)
    assert actual.dtype == torch.float32
    assert actual.shape == ((heads, 1, columns) if form in ("key", "end") else (heads, rows, columns))
    assert torch.equal(actual.double().expand_as(expected), expected)


@given(st.sampled_from(FORMS), st.lists(st.integers(0, 500), max_size=5), st.lists(st.integers(0, 500), max_size=5))
def test_bias_of_explicit_positions_matches_the_reference_loop(form: str, queries: list[int], keys: list[int]) -> None:
    slopes = alibi_slopes(6)
    expected = reference_bias(slopes, queries, keys, form)
    positions = (torch.tensor(queries, dtype=torch.long), torch.tensor(keys, dtype=torch.long))
    actual = bias_from_positions(slopes, *positions, form=form, dtype=torch.float64)
    assert torch.equal(actual.expand_as(expected), expected)


def test_positions_with_a_batch_axis_give_a_bias_per_row() -> None:
    slopes = alibi_slopes(3)
    queries, keys = torch.tensor([[4, 9], [1, 2]]), torch.tensor([[0, 4, 9], [0, 1, 2]])
    actual = bias_from_positions(slopes, queries, keys)
    assert actual.shape == (2, 3, 2, 3)
    for row in range(2):
        expected = reference_bias(slopes, queries[row].tolist(), keys[row].tolist(), "relative")
        assert torch.equal(actual[row].double(), expected)


def test_future_slopes_apply_to_later_keys() -> None:
    past, future = torch.tensor([0.5, 0.25]), torch.tensor([1.0, 0.0])
    bias = alibi_bias(past, 4, form="symmetric", future_slopes=future)
    for h in range(2):
        for i in range(4):
            for j in range(4):
                slope = future[h] if j > i else past[h]
                assert float(bias[h, i, j]) == -float(slope) * abs(i - j)


@pytest.mark.parametrize("causal", [True, False])
def test_relative_key_and_end_give_the_same_weights(causal: bool) -> None:
    slopes, length = alibi_slopes(6), 40
    masked = ~causal_mask(length) & causal
    relative, key, end = (
        alibi_bias(slopes, length, form=form, dtype=torch.float64)
        .expand(6, length, length)
        .masked_fill(masked, -math.inf)
        for form in ("relative", "key", "end")
    )
    assert torch.allclose(relative.softmax(-1), key.softmax(-1), atol=1e-12)
    assert torch.allclose(relative.softmax(-1), end.softmax(-1), atol=1e-12)
    symmetric = alibi_bias(slopes, length, form="symmetric", dtype=torch.float64).masked_fill(masked, -math.inf)
    assert torch.allclose(relative.softmax(-1), symmetric.softmax(-1), atol=1e-12) == causal
    # the rows of the two forms differ by the constant m i
    constant = slopes.double()[:, None] * torch.arange(length)
    assert torch.allclose(key.logsumexp(-1) - relative.logsumexp(-1), constant, atol=1e-12)


def test_without_a_mask_relative_prefers_the_last_key_and_symmetric_the_query() -> None:
    slopes = torch.tensor([0.5])
    assert int(alibi_bias(slopes, 8)[0, 0].argmax()) == 7
    assert int(alibi_bias(slopes, 8, form="symmetric")[0, 3].argmax()) == 3


def test_grid_bias_is_slope_times_grid_distance() -> None:
    slopes = alibi_slopes(4)
    for metric in ("manhattan", "euclidean"):
        distance = grid_distance(3, 5, metric)
        bias = grid_bias(slopes, 3, 5, metric)
        for h in range(4):
            assert torch.equal(bias[h], -slopes[h] * distance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_bias_is_rounded_last(dtype: torch.dtype) -> None:
    """Near the query all biases are different at any position; in form "key" many are rounded to the same value."""
    slopes, length = alibi_slopes(8), 2048
    exact = alibi_bias(slopes, length, dtype=torch.float64)
    assert torch.equal(alibi_bias(slopes, length, dtype=dtype), exact.to(torch.float32).to(dtype))

    near = alibi_bias(slopes, 1, length, dtype=dtype)[0, 0, -64:]
    assert len(near.unique()) == 64
    keys = alibi_bias(slopes, 1, length, form="key", dtype=torch.bfloat16)[0, 0, -64:]
    shared = sum(int((keys == key).sum()) > 1 for key in keys)
    assert shared >= 56  # at least 56 of the 64 nearest keys have the same bias as a neighbor


@given(
    st.lists(LENGTHS, min_size=1, max_size=6), st.sampled_from(FORMS), st.sampled_from([torch.float32, torch.float16])
)
def test_cached_bias_equals_alibi_bias_for_any_sequence_of_lengths(
    requests: list[list[int]], form: str, dtype: torch.dtype
) -> None:
    cached = AlibiBias(3, form=form)
    for rows, columns in requests:
        fresh = alibi_bias(alibi_slopes(3), rows, columns, form=form, dtype=dtype)
        assert torch.equal(cached(rows, columns, dtype=dtype).expand_as(fresh), fresh)


def test_cache_is_reused_and_grows_by_doubling() -> None:
    bias = AlibiBias(2)
    storages = [bias(length).untyped_storage().data_ptr() for length in range(1, 130)]
    changes = sum(first != second for first, second in pairwise(storages))
    assert changes == 8  # at 2, 3, 5, 9, 17, 33, 65, 129
    assert bias(7, 100).untyped_storage().data_ptr() == storages[-1]


def test_few_queries_with_many_keys_do_not_build_the_full_square() -> None:
    bias = AlibiBias(2)
    assert bias(1, 3000).untyped_storage().nbytes() == 2 * 1 * 4096 * 4
    assert bias(100, 1000).untyped_storage().nbytes() == 2 * 128 * 1024 * 4
    assert bias(1, 2500).untyped_storage().nbytes() == 2 * 1 * 4096 * 4


def test_cache_drops_what_a_larger_bias_contains() -> None:
    bias = AlibiBias(2)
    for lengths in ((4, 64), (8, 8), (1, 128), (64, 64), (64, 128)):
        bias(*lengths)
    (cached,) = bias._cache.values()
    assert [tuple(entry.shape) for entry in cached] == [(2, 64, 128)]


def test_causal_module_includes_the_mask() -> None:
    bias = AlibiBias(2, causal=True)(3, 5)
    assert torch.equal(bias == -math.inf, ~causal_mask(3, 5).expand(2, 3, 5))


def test_module_keeps_float32_slopes_and_an_empty_state_dict() -> None:
    module = AlibiBias(12, total_heads=14)
    module(4)
    assert list(module.state_dict()) == []
    for moved in (module.half(), module.to(torch.bfloat16), module.double()):
        assert moved.slopes.dtype == torch.float32
        assert torch.equal(moved.slopes, alibi_slopes(12, total_heads=14))
        assert moved(5).dtype == torch.float32
    assert bool((module(5)[12:] == 0).all())
    on_meta = module.to("meta")
    assert on_meta(4).device.type == "meta"


def test_explicit_slopes_replace_the_scheme() -> None:
    slopes = torch.tensor([0.3, 0.1])
    assert torch.equal(AlibiBias(2, slopes=slopes)(4), alibi_bias(slopes, 4))
    with pytest.raises(ValueError, match=r"slopes must be \[num_heads\] = \[3\]"):
        AlibiBias(3, slopes=slopes)


@pytest.mark.parametrize("length", [0, 1])
@pytest.mark.parametrize("form", FORMS)
def test_empty_and_single_lengths_give_bias_zero(form: str, length: int) -> None:
    bias = alibi_bias(alibi_slopes(2), length, form=form)
    assert bias.shape[-1] == length
    assert bool((bias == 0).all())


def test_invalid_arguments_raise_with_their_name_and_shape() -> None:
    slopes = alibi_slopes(4)
    with pytest.raises(ValueError, match=r"form must be one of relative, .*, got 'absolute'"):
        alibi_bias(slopes, 3, form="absolute")
    with pytest.raises(TypeError, match=r"slopes must be a floating-point tensor \[heads\], got list"):
        alibi_bias([0.5], 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"got torch\.int64"):
        alibi_bias(torch.tensor([1]), 3)
    with pytest.raises(ValueError, match=r"slopes must be \[heads\], got shape \[2, 2\]"):
        alibi_bias(torch.ones(2, 2), 3)
    with pytest.raises(ValueError, match=r"slopes must be finite, got \[0\.5, nan\]"):
        alibi_bias(torch.tensor([0.5, math.nan]), 3)
    with pytest.raises(ValueError, match="future_slopes need form 'symmetric'"):
        alibi_bias(slopes, 3, future_slopes=slopes)
    with pytest.raises(
        TypeError, match=r"key_positions must be an integer tensor \[\.\.\., length\], got torch\.float32"
    ):
        bias_from_positions(slopes, torch.arange(3), torch.arange(3.0))
    with pytest.raises(ValueError, match="0-dimensional"):
        bias_from_positions(slopes, torch.tensor(3), torch.arange(3))
    with pytest.raises(ValueError, match="causal=True needs form 'relative', got 'symmetric'"):
        AlibiBias(4, form="symmetric", causal=True)
    with pytest.raises(ValueError, match="query_length must be at most key_length=2"):
        AlibiBias(4)(3, 2)


def test_heads_beyond_num_heads_get_bias_zero_in_form_split() -> None:
    bias = AlibiBias(2, 4, form="split")(3)
    assert torch.equal(bias[:2], alibi_bias(alibi_slopes(2), 3, form="split"))
    assert bool((bias[2:] == 0).all())


def test_module_created_on_the_meta_device_can_be_materialized() -> None:
    with torch.device("meta"):
        module = AlibiBias(4)
    assert module.slopes.is_meta
    assert torch.equal(module.to_empty(device="cpu")(5), AlibiBias(4)(5))
    with torch.device("meta"):
        without_values = AlibiBias(4, slopes=alibi_slopes(4))
    with pytest.raises(ValueError, match="slopes were given on the meta device"):
        without_values.to_empty(device="cpu")


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64, "float32"])
def test_dtypes_that_are_not_floating_point_raise(dtype: object) -> None:
    with pytest.raises(TypeError, match=r"dtype must be a floating-point torch\.dtype, got"):
        alibi_bias(alibi_slopes(2), 3, dtype=dtype)
    with pytest.raises(TypeError, match=r"dtype must be a floating-point torch\.dtype, got"):
        AlibiBias(2)(3, dtype=dtype)


@pytest.mark.parametrize("form", ["relative", "key", "symmetric", "split"])
def test_positions_with_different_batches_raise(form: str) -> None:
    with pytest.raises(ValueError, match=r"must broadcast in all axes but the last, got shapes \[2, 3\] and \[3, 5\]"):
        bias_from_positions(alibi_slopes(2), torch.arange(6).view(2, 3), torch.arange(15).view(3, 5), form=form)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
def test_positions_of_small_integer_dtypes_do_not_overflow(dtype: torch.dtype) -> None:
    queries, keys = torch.tensor([5], dtype=dtype), torch.tensor([3, 4, 5], dtype=dtype)
    assert bias_from_positions(torch.tensor([1.0]), queries, keys)[0, 0].tolist() == [-2, -1, 0]


def test_grid_size_that_is_not_an_integer_raises() -> None:
    with pytest.raises(TypeError, match=r"height must be an integer, got 2\.5"):
        grid_bias(alibi_slopes(2), 2.5, 3)
