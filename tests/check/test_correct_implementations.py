"""Correct implementations get no finding, whatever form they have."""

import numpy as np
import pytest
import torch

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, causal_mask, check
from alibi_viz.check.gallery.published_slopes import bloom, fairseq, mpt
from tests.check.faulty import attend, bias_of, names
from tests.rows import each_case

# Slopes


@pytest.mark.parametrize("rule", [fairseq, bloom, mpt])
def test_slopes_of_published_code_are_right(rule):
    check.slopes(rule).raise_for_faults()


def test_slopes_are_tried_with_the_head_counts_of_published_models():
    tried = set()

    def recorded(heads):
        tried.add(heads)
        return alibi_slopes(heads)

    check.slopes(recorded)
    assert tried >= {*range(1, 33), 40, 64, 71, 112, 128}


def in_float16_of_numpy(heads):
    return alibi_slopes(heads).numpy().astype(np.float16)


def in_bfloat16_with_further_axes(heads):
    return alibi_slopes(heads).bfloat16()[:, None, None]


@pytest.mark.parametrize("function", [in_float16_of_numpy, in_bfloat16_with_further_axes])
def test_slopes_may_be_rounded_to_the_dtype_that_they_have(function):
    check.slopes(function).raise_for_faults()


def geometric(heads):
    return alibi_slopes(heads, "geometric")


def steeper(heads):
    return alibi_slopes(heads, bias_max=16)


def flipped(heads):
    return alibi_slopes(heads).flip(0)


@each_case(
    ("function", "expected"),
    {
        "a scheme": (geometric, "geometric"),
        "a function": (steeper, steeper),
    },
)
def test_slopes_that_the_caller_expects_are_right(function, expected):
    check.slopes(function, slopes=expected).raise_for_faults()


def test_a_bias_with_the_slopes_that_the_caller_expects_is_right():
    check.bias(bias_of(flipped), slopes=flipped, length=16).raise_for_faults()


def test_expected_slopes_may_be_known_for_one_number_of_heads():
    trained = {12: flipped(12)}
    check.slopes(trained.__getitem__, [12], slopes=trained.__getitem__).raise_for_faults()


# Biases


def relative(heads, queries, keys):
    return alibi_bias(alibi_slopes(heads), queries, keys)


def key_form(heads, queries, keys):
    return alibi_bias(alibi_slopes(heads), queries, keys, form="key")


def symmetric(heads, queries, keys):
    return alibi_bias(alibi_slopes(heads), queries, keys, form="symmetric")


def constant_per_row(heads, queries, keys):
    return relative(heads, queries, keys) + torch.arange(queries)[:, None]


def cut_off_where_float32_shows_no_weight(heads, queries, keys):
    return relative(heads, queries, keys).clamp(min=-70)


def masked_by_the_lowest_number(heads, queries, keys):
    lowest = torch.finfo(torch.float32).min
    return relative(heads, queries, keys).masked_fill(~causal_mask(queries, keys), lowest)


def masked_by_ten_thousand(heads, queries, keys):
    return relative(heads, queries, keys).masked_fill(~causal_mask(queries, keys), -1e4)


def rounded_to_bfloat16(heads, queries, keys):
    slopes = alibi_slopes(heads).bfloat16()
    return alibi_bias(slopes, queries, keys, dtype=torch.bfloat16)


def in_float64(heads, queries, keys):
    return alibi_bias(alibi_slopes(heads), queries, keys, dtype=torch.float64)


def in_extended_precision(heads, queries, keys):
    return relative(heads, queries, keys).numpy().astype(np.longdouble)


def with_further_heads(heads, queries, keys):
    """Four heads more, which have no bias."""
    slopes = torch.cat([alibi_slopes(heads), torch.zeros(4)])
    return alibi_bias(slopes, queries, keys)


def with_further_heads_and_a_mask(heads, queries, keys):
    bias = with_further_heads(heads, queries, keys)
    return bias.masked_fill(~causal_mask(queries, keys), -1e9)


def sparse(heads, queries, keys):
    return relative(heads, queries, keys).to_sparse()


def with_a_batch_axis(heads, queries, keys):
    return relative(heads, queries, keys)[None]


def as_tuples(heads, queries, keys):
    return tuple(relative(heads, queries, keys).tolist())


@pytest.mark.parametrize(
    "function",
    [
        relative,
        key_form,
        constant_per_row,
        cut_off_where_float32_shows_no_weight,
        masked_by_the_lowest_number,
        masked_by_ten_thousand,
        rounded_to_bfloat16,
        in_float64,
        in_extended_precision,
        with_further_heads,
        with_further_heads_and_a_mask,
    ],
)
def test_bias_of_a_decoder_is_right(function):
    check.bias(function, [12], length=140).raise_for_faults()


@pytest.mark.parametrize("function", [sparse, with_a_batch_axis, as_tuples])
def test_bias_may_come_in_another_container(function):
    check.bias(function, [12, 8], length=140).raise_for_faults()


def test_bias_of_an_encoder_is_right():
    check.bias(symmetric, [12, 8], causal=False, length=512).raise_for_faults()


def test_bias_is_right_for_many_keys():
    check.bias(key_form, [12], length=4_096).raise_for_faults()


# Attention

in_each_dtype = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str
)


# Each backend, and each dtype with a decoder and an encoder
@pytest.mark.parametrize(
    ("kind", "backend", "dtype"),
    [
        ("decoder", "eager", torch.float32),
        ("encoder", "eager", torch.bfloat16),
        ("encoder", "mask", torch.float32),
        ("decoder", "mask", torch.float16),
        ("decoder", "auto", torch.bfloat16),
        ("encoder", "auto", torch.float16),
    ],
    ids=str,
)
def test_our_attention_is_right(kind, backend, dtype):
    causal = kind == "decoder"

    def attention(query, key, value):
        slopes = alibi_slopes(query.shape[1])
        return alibi_attention(query, key, value, slopes, causal=causal, backend=backend)

    report = check.attention(attention, num_heads=[12], causal=causal, dtype=dtype, length=33)
    report.raise_for_faults()


@in_each_dtype
def test_our_folded_attention_is_right(dtype):
    def attention(query, key, value):
        slopes = alibi_slopes(query.shape[1])
        return alibi_attention(query, key, value, slopes, backend="folded")

    # It refuses fewer queries than keys, because torch's own causal mask starts at the first key.
    report = check.attention(attention, num_heads=[12], dtype=dtype, length=33, decoding=False)
    report.raise_for_faults()


def test_attention_of_numpy_is_right():
    def attention(*arrays):
        return attend(*map(torch.from_numpy, arrays)).numpy()

    check.attention(attention, num_heads=[12], convert=np.asarray, length=33).raise_for_faults()


@each_case(
    ("causal", "head_dim"),
    {"decoder": (True, 64), "encoder": (False, 8)},
)
def test_attention_with_a_padding_mask_is_right(causal, head_dim):
    def attention(query, key, value, mask=None):
        slopes = alibi_slopes(query.shape[1])
        return alibi_attention(query, key, value, slopes, causal=causal, key_padding_mask=mask)

    report = check.attention(
        attention, num_heads=[12], causal=causal, padding=True, head_dim=head_dim, length=33
    )
    report.raise_for_faults()


def test_attention_may_invert_its_padding_mask_in_place():
    """Each call gets a mask of its own."""

    def attention(query, key, value, mask=None):
        slopes = alibi_slopes(query.shape[1])
        if mask is None:
            return alibi_attention(query, key, value, slopes)
        is_padding = mask.logical_not_()
        return alibi_attention(query, key, value, slopes, key_padding_mask=~is_padding)

    report = check.attention(attention, num_heads=[12], padding=True, length=33)
    report.raise_for_faults()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_function_runs_in_the_mode_of_its_caller(mode):
    slopes = alibi_slopes(8).requires_grad_()

    def attention(*inputs):
        return alibi_attention(*inputs, slopes).numpy()  # an error if there were gradients

    with mode():
        check.attention(attention, num_heads=[8], length=20).raise_for_faults()


def scales_its_query_in_place(query, key, value):
    query *= query.shape[-1] ** -0.5
    return alibi_attention(query, key, value, alibi_slopes(query.shape[1]), scale=1.0)


def test_a_function_that_changes_its_arguments_is_right_with_a_note():
    report = check.attention(scales_its_query_in_place, num_heads=[8], length=16)
    assert report.ok
    assert "Changes its arguments in place: query." in report.notes


def leaves_out_weights_below_float32(query, key, value):
    bias = alibi_bias(alibi_slopes(query.shape[1]), query.shape[2], key.shape[2])
    is_left_out = (bias < -20) | (bias > 0)
    logits = query @ key.mT / query.shape[-1] ** 0.5 + bias
    return logits.masked_fill(is_left_out, -torch.inf).softmax(-1) @ value


def differentiates(query, key, value):
    query = query.clone().requires_grad_()
    torch.autograd.grad((query @ key.mT).sum(), query)
    return attend(query, key, value)


def returns_bfloat16(query, key, value):
    return attend(query, key, value).bfloat16()


FEWER_CHANNELS_THAN_KEYS = {"length": 16, "head_dim": 4}


@each_case(
    ("function", "sizes"),
    {
        "scales its query": (scales_its_query_in_place, {"length": 140}),
        "leaves out small weights": (leaves_out_weights_below_float32, {"length": 140}),
        "differentiates": (differentiates, {"length": 16}),
        "returns bfloat16": (returns_bfloat16, {"length": 140}),
        "returns bfloat16, small heads": (returns_bfloat16, FEWER_CHANNELS_THAN_KEYS),
        "scales its query, small heads": (scales_its_query_in_place, FEWER_CHANNELS_THAN_KEYS),
    },
)
def test_attention_is_right_although_it(function, sizes):
    check.attention(function, **sizes).raise_for_faults()


# Groups of heads that share keys


def shares_keys_in_groups_of_four(query, key, value):
    slopes = alibi_slopes(query.shape[1])
    return alibi_attention(query, key[:, ::4], value[:, ::4], slopes)


def test_heads_may_share_keys():
    report = check.attention(shares_keys_in_groups_of_four, group_size=4, length=33)
    report.raise_for_faults()


@pytest.mark.parametrize("size", [1, 2])
def test_heads_that_share_keys_in_other_groups_are_wrong(size):
    report = check.attention(shares_keys_in_groups_of_four, group_size=size, length=16)
    assert names(report) == {"wrong keys"}
    assert "in groups of 4" in report.findings[0].evidence


def test_a_group_size_must_divide_the_number_of_heads():
    message = r"group_size must divide every head count of \[8, 12\], got 3"
    with pytest.raises(ValueError, match=message):
        check.attention(attend, group_size=3)


# Another library

INSTALL_X_TRANSFORMERS = "pip install x-transformers"


@pytest.fixture(scope="module")
def positions_of_x_transformers():
    """Its class for a bias, given a number of heads."""
    module = pytest.importorskip("x_transformers.x_transformers", reason=INSTALL_X_TRANSFORMERS)
    return module.AlibiPositionalBias


@pytest.fixture(scope="module")
def bias_of_x_transformers(
    positions_of_x_transformers,
):
    def bias(heads, queries, keys):
        module = positions_of_x_transformers(heads)
        module(keys, keys)  # fill its cache
        return module(queries, keys)

    return bias


def test_slopes_of_x_transformers_are_right(positions_of_x_transformers):
    check.slopes(positions_of_x_transformers._get_slopes).raise_for_faults()


@pytest.mark.parametrize("causal", [True, False], ids=["decoder", "encoder"])
def test_bias_of_x_transformers_is_right(bias_of_x_transformers, causal):
    check.bias(bias_of_x_transformers, causal=causal).raise_for_faults()


def test_attention_of_x_transformers_is_right(
    bias_of_x_transformers,
):
    module = pytest.importorskip("x_transformers.attend", reason=INSTALL_X_TRANSFORMERS)
    attend_with = module.Attend(causal=True)

    def attention(query, key, value):
        _, heads, queries, _ = query.shape
        bias = bias_of_x_transformers(heads, queries, key.shape[2])
        output, _ = attend_with(query, key, value, attn_bias=bias)
        return output

    check.attention(attention, length=33).raise_for_faults()
