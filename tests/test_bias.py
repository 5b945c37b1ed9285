import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedConfig, PreTrainedModel

from alibi_viz import AlibiBias, alibi_bias, alibi_slopes, causal_mask
from alibi_viz.bias import FORMS, right_aligned
from tests.reference import reference_bias

LENGTHS = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted)
INTEGERS = (torch.int64, torch.int32, torch.int8, torch.uint8)
FAR = st.integers(-(2**40), 2**40) | st.integers(-500, 500)


@given(LENGTHS)
def test_queries_are_the_last_keys_and_see_those_up_to_themselves(lengths: list[int]) -> None:
    rows, columns = lengths
    queries, keys = right_aligned(rows, columns)
    assert queries.dtype == keys.dtype == torch.int64 and keys.tolist() == list(range(columns))
    assert queries.tolist() == list(range(columns))[columns - rows :]
    assert causal_mask(rows, columns).tolist() == [
        [j <= i for j in range(columns)] for i in queries.tolist()
    ]


@pytest.mark.parametrize("form", FORMS)
@given(lengths=LENGTHS, heads=st.integers(1, 7))
def test_every_form_matches_its_formula(form: str, lengths: list[int], heads: int) -> None:
    rows, columns = lengths
    slopes = alibi_slopes(heads)
    expected = reference_bias(
        slopes, list(range(columns))[columns - rows :], list(range(columns)), form
    )
    actual = alibi_bias(slopes, rows, columns, form=form)
    assert actual.dtype == torch.float32
    assert actual.shape == (
        (heads, 1, columns) if form in ("key", "end") else (heads, rows, columns)
    )
    assert torch.equal(actual.double().expand_as(expected), expected)
    assert not actual[actual == 0].signbit().any(), "no -0."


@given(st.sampled_from(FORMS), st.lists(FAR, max_size=5), st.data(), st.sampled_from(INTEGERS))
def test_far_and_negative_positions_of_any_integer_dtype_match_the_formula(
    form: str, keys: list[int], data: st.DataObject, dtype: torch.dtype
) -> None:
    keys = [int(torch.tensor(key).to(dtype)) for key in keys]  # wraps around
    rows, slopes = data.draw(st.integers(0, len(keys))), torch.tensor([0.3, 0.0101, 2.0, 1 / 256])
    expected = reference_bias(slopes, keys[len(keys) - rows :], keys, form)
    actual = alibi_bias(
        slopes, rows, positions=torch.tensor(keys, dtype=dtype), form=form, dtype=torch.float64
    )
    assert torch.allclose(actual.expand_as(expected), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("form", FORMS)
def test_positions_with_a_batch_axis_give_a_bias_per_row(form: str) -> None:
    slopes, positions = alibi_slopes(3), torch.tensor([[0, 4, 9], [-3, 1, 2]])
    actual = alibi_bias(slopes, 2, positions=positions, form=form)
    expected = torch.stack(
        [reference_bias(slopes, keys[1:], keys, form) for keys in positions.tolist()]
    )
    assert torch.equal(actual.double().expand_as(expected), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("slopes", [alibi_slopes(8), alibi_slopes(12), torch.tensor([0.3, 0.0101])])
def test_half_precision_bias_is_rounded_once_and_last(
    slopes: torch.Tensor, dtype: torch.dtype
) -> None:
    steps = torch.arange(2048)
    exact = -slopes[:, None, None] * (steps[:, None] - steps)
    assert torch.equal(alibi_bias(slopes, 2048, dtype=dtype), exact.to(dtype))


@given(
    st.lists(LENGTHS, max_size=6),
    st.sampled_from(FORMS),
    st.sampled_from([torch.float32, torch.float16]),
)
def test_cached_bias_equals_a_new_one_at_any_lengths(
    requests: list[list[int]], form: str, dtype: torch.dtype
) -> None:
    cached = AlibiBias(3, form=form)
    for rows, columns in requests:
        fresh = alibi_bias(alibi_slopes(3), rows, columns, form=form, dtype=dtype)
        assert torch.equal(cached(rows, columns, dtype=dtype).expand_as(fresh), fresh)


def test_cache_grows_by_doubling_builds_few_rows_for_few_queries_and_drops_what_a_larger_bias_contains() -> (
    None
):
    bias = AlibiBias(2)
    storages = [bias(length).untyped_storage().data_ptr() for length in range(1, 130)]
    assert (
        sum(first != second for first, second in pairwise(storages)) == 8
    )  # at 2, 3, 5, 9, 17, 33, 65, 129
    assert bias(7, 100).untyped_storage().data_ptr() == storages[-1]
    assert bias(1, 3000).untyped_storage().nbytes() == 2 * 1 * 4096 * 4
    bias(256, 4096)
    assert [tuple(entry.shape) for entries in bias._cache.values() for entry in entries] == [
        (2, 256, 4096)
    ]


def test_causal_module_includes_the_mask() -> None:
    expected = alibi_bias(alibi_slopes(2), 3, 5).masked_fill(~causal_mask(3, 5), -math.inf)
    assert torch.equal(AlibiBias(2, causal=True)(3, 5), expected)


def test_module_keeps_float32_slopes_on_any_device_and_an_empty_state_dict() -> None:
    slopes = torch.tensor([0.3, 0.1])
    module = AlibiBias(2, slopes=(given_slopes := slopes.clone()))
    given_slopes.zero_()  # the module has copied them
    assert torch.equal(module(4), alibi_bias(slopes, 4))
    assert (
        list(module.state_dict()) == []
        and str(module) == "AlibiBias(2 heads, form='relative', causal=False)"
    )
    for moved in (module.half(), module.to(torch.bfloat16), module.double()):
        assert moved(5).dtype == torch.float32 and torch.equal(moved.slopes, slopes)
    assert module.to("meta")(4).device.type == "meta"
    assert torch.equal(module.to_empty(device="cpu")(5), alibi_bias(slopes, 5))
    with torch.device("meta"):
        without_values = AlibiBias(2, slopes=alibi_slopes(2))
        module.load_state_dict({})
    assert module.slopes.is_cpu, "a module with values stays where it is"
    without_values.to_empty(device="cpu")
    with pytest.raises(ValueError, match="slopes were given on the meta device"):
        without_values(4)


def test_slopes_cannot_be_assigned() -> None:
    module = AlibiBias(2)
    with pytest.raises(AttributeError, match="slopes"):
        module.slopes = torch.ones(2)  # type: ignore[misc]


class Pretrained(PreTrainedModel):
    config_class = PreTrainedConfig

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__(config)
        self.bias, self.linear = AlibiBias(2), torch.nn.Linear(1, 1)
        self.post_init()


def test_slopes_have_values_in_a_model_that_transformers_loads(tmp_path: Path) -> None:
    Pretrained(PreTrainedConfig()).save_pretrained(tmp_path)
    assert torch.equal(Pretrained.from_pretrained(tmp_path).bias(4), alibi_bias(alibi_slopes(2), 4))


SLOPES, POSITIONS = alibi_slopes(4), torch.arange(3)
INVALID: list[tuple[str, dict[str, Any]]] = [
    *(
        ("slopes", {"slopes": wrong})
        for wrong in ([0.5], SLOPES.long(), SLOPES[None], SLOPES * math.nan)
    ),
    *(("query_length", {"query_length": wrong}) for wrong in (-1, 4, 2.0)),
    ("key_length", {"key_length": 3.0}),
    *(
        ("positions", {"positions": wrong})
        for wrong in (POSITIONS.float(), POSITIONS[0], torch.arange(4))
    ),
    *(("dtype", {"dtype": wrong}) for wrong in (torch.int64, "float32")),
    ("form", {"form": "absolute"}),
]


@pytest.mark.parametrize(("name", "wrong"), INVALID)
def test_invalid_arguments_raise_with_their_name(name: str, wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{name} must .*, got "):
        alibi_bias(**{"slopes": SLOPES, "query_length": 3, "key_length": 3} | wrong)


def test_invalid_arguments_of_the_module_raise_with_their_name() -> None:
    with pytest.raises(ValueError, match="causal=True needs form 'relative', got 'symmetric'"):
        AlibiBias(4, form="symmetric", causal=True)
    with pytest.raises(ValueError, match=r"slopes must be \[num_heads\] = \[3\], got shape \[4\]"):
        AlibiBias(3, slopes=SLOPES)


def test_heads_beyond_num_heads_have_no_bias() -> None:
    bias = AlibiBias(6, total_heads=8)(3, 5)
    assert bias.shape == (8, 3, 5)
    assert torch.equal(bias[:6], alibi_bias(alibi_slopes(6), 3, 5)), "the slopes of num_heads"
    assert not bias[6:].any()


def test_heads_beyond_num_heads_are_masked_like_the_others() -> None:
    bias = AlibiBias(1, causal=True, total_heads=2)(3)
    assert torch.equal(bias[1] == -math.inf, ~causal_mask(3))


def test_given_slopes_are_those_of_the_first_heads() -> None:
    module = AlibiBias(2, slopes=torch.tensor([0.5, 0.25]), total_heads=3)
    assert module.slopes.tolist() == [0.5, 0.25, 0.0]


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        pytest.param(3, ValueError, "total_heads must be between 4 and", id="below num_heads"),
        pytest.param(8.0, TypeError, "total_heads must be an integer, got 8.0", id="float"),
    ],
)
def test_wrong_total_heads_are_named(wrong: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        AlibiBias(4, total_heads=wrong)
