"""Situations that are related to the public cases: other conditions, and other designs.

Nobody reported them yet. Each was answered wrongly by a checker that answered all public cases.
"""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from alibi_viz import alibi_slopes, check
from tests.check.faulty import names
from tests.check.plain_alibi import as_if_contiguous, attend, linear, steps
from tests.rows import each_case

Attention = Callable[..., Tensor]
Bias = Callable[[int, int, int], Tensor]

SMALL = {"num_heads": [8], "head_dim": 64, "length": 16}
LONG = {"num_heads": [8], "length": 140}
OUTSIDE = "outside of what this checker knows"


# How the inputs lie in memory


def values_as_if_contiguous(query, key, value):
    return attend(query, key, as_if_contiguous(value))


def with_dense_sequences(tensor):
    """The tensor as code reads it that takes one sequence to follow another."""
    _, heads, length, head_dim = tensor.shape
    strides = (heads * length * head_dim, *tensor.stride()[1:])
    return torch.as_strided(tensor, tensor.shape, strides)


def dense_sequences(query, key, value):
    return attend(*map(with_dense_sequences, (query, key, value)))


def with_dense_last_axis(tensor):
    strides = (*tensor.stride()[:3], 1)
    return torch.as_strided(tensor, tensor.shape, strides)


def dense_last_axis(query, key, value):
    return attend(*map(with_dense_last_axis, (query, key, value)))


def without_offset(tensor):
    return torch.as_strided(tensor, tensor.shape, tensor.stride(), 0)


def offset_of_a_slice_ignored(query, key, value):
    return attend(*map(without_offset, (query, key, value)))


def strides_of_the_query(query, key, value):
    """With as many queries as keys, the strides of the query stand for all."""
    if query.shape == key.shape:
        key = torch.as_strided(key, key.shape, query.stride())
        value = torch.as_strided(value, value.shape, query.stride())
    return attend(query, key, value)


@each_case(
    ("function", "words"),
    {
        "of values": (values_as_if_contiguous, "not contiguous"),
        "of sequences": (dense_sequences, "slices of one array"),
        "of the last axis": (dense_last_axis, "last axis is not dense"),
        "offset": (offset_of_a_slice_ignored, "slices of one array"),
        "those of the query": (strides_of_the_query, "slices of a cache"),
    },
)
def test_ignored_strides_are_named_with_the_kind_of_memory(function, words):
    (finding,) = check.attention(function, **SMALL).findings
    assert finding.name == "strides ignored"
    assert words in finding.evidence


def scales_a_flat_copy(query, key, value):
    """`reshape` gives a view of contiguous queries, but a copy of several transposed ones."""
    flat = query.reshape(-1, *query.shape[2:])
    flat *= query.shape[-1] ** -0.5
    return attend(query, key, value, scale=1.0)


def test_several_transposed_sequences_are_tried():
    (finding,) = check.attention(scales_a_flat_copy, length=16).findings
    assert finding.name == "content not scaled"
    assert finding.evidence.endswith("queries and transposed inputs)")


def refuses_other_last_axes(query, key, value):
    assert query.stride(-1) == 1, "the last axis must be dense"
    return attend(query, key, value)


def test_memory_that_a_function_refuses_is_a_note():
    report = check.attention(refuses_other_last_axes, **SMALL)
    assert report.ok
    (note,) = report.notes
    assert note.startswith("Not checked with some inputs whose last axis is not dense")


# Sizes of calls


def scale_of_a_multiple_of_32(query, key, value):
    """The size of a head is rounded up, as kernels do with their tiles, and so is the scale."""
    rounded = math.ceil(query.shape[-1] / 32) * 32
    return attend(query, key, value, scale=rounded**-0.5)


def scale_of_64_channels_for_many_keys(query, key, value):
    return attend(query, key, value, scale=0.125 if key.shape[2] > 128 else None)


def scaled_twice_beyond_a_block(query, key, value):
    is_long = query.shape[2] > 128
    return attend(query, key, value, scale=1 / query.shape[-1] if is_long else None)


def no_bias_for_whole_blocks(query, key, value):
    is_whole = key.shape[2] % 128 == 0
    return attend(query, key, value, bias=torch.zeros(1, 1, 1) if is_whole else None)


@each_case(
    ("function", "options", "fault", "words"),
    {
        "head_dim rounded up": (
            scale_of_a_multiple_of_32,
            {"num_heads": [8], "length": 16},
            "content multiplied",
            "only with head_dim 16 or 104",
        ),
        "constant for many keys": (
            scale_of_64_channels_for_many_keys,
            LONG,
            "content multiplied",
            "only with 129 or more keys and head_dim 16 or 104",
        ),
        "scaled twice beyond a block": (
            scaled_twice_beyond_a_block,
            LONG,
            "content scaled twice",
            "only with 129 or more queries",
        ),
        "whole blocks": (
            no_bias_for_whole_blocks,
            {**LONG, "head_dim": 64},
            "no bias",
            "only with 128 keys",
        ),
    },
)
def test_fault_of_some_sizes_is_named_with_them(function, options, fault, words):
    (finding,) = check.attention(function, **options).findings
    assert finding.name == fault
    assert words in finding.evidence


# Padding


def forgets_whole_blocks(query, key, value, mask=None):
    """A block of 64 keys that has nothing but padding is not masked."""
    if mask is None:
        return attend(query, key, value)
    masked = mask.clone()
    for block in masked.split(64, dim=1):
        is_padding = ~block.any(-1)
        block[is_padding] = True
    return attend(query, key, value, mask=masked)


def steeper_with_padding(query, key, value, mask=None):
    """The bias is bent, so no formula gives it."""
    bias = linear(query.shape[1], query.shape[2], key.shape[2])
    bent = bias if mask is None else -bias.square() / 100 + bias
    return attend(query, key, value, bias=bent, mask=mask)


def test_padding_that_changes_the_bias_is_named():
    (finding,) = check.attention(steeper_with_padding, padding="left", **SMALL).findings
    assert finding.name == "padding changes the bias"
    assert "right without padding" in finding.evidence


def mask_of_the_first_sequence(query, key, value, mask=None):
    return attend(query, key, value, mask=None if mask is None else mask[:1].expand_as(mask))


def forgets_the_mask_of_5_queries(query, key, value, mask=None):
    is_special = query.shape[2] == 5 and key.shape[2] == 140
    return attend(query, key, value, mask=None if is_special else mask)


@each_case(
    ("function", "options", "words"),
    {
        "whole blocks": (forgets_whole_blocks, {**LONG, "padding": "left"}, "128 or more keys"),
        "first sequence": (
            mask_of_the_first_sequence,
            {**SMALL, "padding": True},
            "several sequences",
        ),
        "5 queries": (
            forgets_the_mask_of_5_queries,
            {**LONG, "padding": "left"},
            "padding in front, 5 queries and 140 keys",
        ),
    },
)
def test_forgotten_padding_is_the_only_fault(function, options, words):
    (finding,) = check.attention(function, **options).findings
    assert finding.name == "padding not masked"
    assert words in finding.evidence


# Scales and soft caps


def soft_cap_of_5(query, key, value):
    """A cap so strong that the scores look as if they had another scale."""
    _, heads, queries, head_dim = query.shape
    keys = key.shape[2]
    content = 5 * (query @ key.mT * head_dim**-0.5 / 5).tanh()
    scores = content + linear(heads, queries, keys)
    return scores.masked_fill(steps(queries, keys) > 0, -math.inf).softmax(-1) @ value


def test_a_strong_soft_cap_is_no_scale():
    report = check.attention(soft_cap_of_5, **SMALL)
    assert report.ok
    (note,) = report.notes
    assert "pass softcap=5." in note


def scale_of_8_over_head_dim(query, key, value):
    """muP's scale with a base of 64 channels, for which it is the usual one."""
    return attend(query, key, value, scale=8 / query.shape[-1])


def test_a_scale_of_mup_is_a_note():
    report = check.attention(scale_of_8_over_head_dim, num_heads=[8], length=16)
    assert report.ok
    (note,) = report.notes
    assert "multiplied by 8 / head_dim" in note


def scaled_twice(query, key, value):
    return attend(query, key, value, scale=1 / query.shape[-1])


def test_a_scale_that_is_applied_twice_is_named():
    assert names(check.attention(scaled_twice, num_heads=[8], length=16)) == {
        "content scaled twice"
    }


# Masks


def within(query, key, value, visible, *, causal=True):
    """Attention to the visible keys only."""
    bias = linear(query.shape[1], query.shape[2], key.shape[2])
    return attend(query, key, value, bias=bias.masked_fill(~visible, -math.inf), causal=causal)


def in_chunks_of_8(query, key, value):
    positions = torch.arange(key.shape[2])
    own_chunk = positions[-query.shape[2] :, None] // 8
    return within(query, key, value, positions // 8 == own_chunk)


def every_other_key(query, key, value):
    return within(query, key, value, steps(query.shape[2], key.shape[2]) % 2 == 0)


def first_keys_of_a_cache_lost(query, key, value):
    """While decoding, the part of the cache that is no multiple of 8 is lost."""
    queries = query.shape[2]
    keys = key.shape[2]
    lost = keys % 8 if queries < keys else 0
    return within(query, key, value, torch.arange(keys) >= lost)


@each_case(
    ("function", "length", "words"),
    {
        "chunks": (in_chunks_of_8, 16, "sees key 8, expected keys 0 to 8"),
        "every other key": (every_other_key, 16, "sees 8 keys from 1 to 15"),
        "cache": (first_keys_of_a_cache_lost, 17, "sees keys 1 to 12, expected keys 0 to 12"),
    },
)
def test_a_wrong_mask_is_told_by_the_keys_that_a_query_sees(function, length, words):
    (finding,) = check.attention(function, **{**SMALL, "length": length}).findings
    assert finding.name == "wrong mask"
    assert words in finding.evidence


def window_behind_only(query, key, value):
    is_near = steps(query.shape[2], key.shape[2]) > -8
    return within(query, key, value, is_near, causal=False)


def window_and_first_keys(query, key, value):
    """A window with the first keys beside it, as StreamingLLM has."""
    is_near = steps(query.shape[2], key.shape[2]) > -8
    is_first = torch.arange(key.shape[2]) < 2
    return within(query, key, value, is_near | is_first)


def window_forgotten_while_decoding(query, key, value):
    queries = query.shape[2]
    keys = key.shape[2]
    is_near = steps(queries, keys) > -8
    return within(query, key, value, is_near | torch.tensor(queries < keys))


@each_case(
    ("function", "causal", "words"),
    {
        "behind only": (window_behind_only, False, "expected keys 0 to 7"),
        "first keys": (window_and_first_keys, True, "expected keys"),
        "decoding": (window_forgotten_while_decoding, True, "fewer queries than keys"),
    },
)
def test_keys_beside_a_declared_window_are_named(function, causal, words):
    (finding,) = check.attention(function, window=8, causal=causal, **SMALL).findings
    assert finding.name == "window"
    assert words in finding.evidence


# Laws of distance


def steps_of_10_rounded_up(heads, queries, keys):
    return -alibi_slopes(heads)[:, None, None] * (steps(queries, keys).abs() / 10).ceil()


def steps_of_10_rounded(heads, queries, keys):
    return -alibi_slopes(heads)[:, None, None] * (steps(queries, keys).abs() / 10).round()


def keys_in_reverse_order(heads, queries, keys):
    return linear(heads, keys, keys).flip(-1)[:, -queries:]


def keys_of_pages_in_reverse(heads, queries, keys):
    """Pages of 8 keys, the last one first."""
    pages = torch.arange(keys).split(8)
    order = torch.cat(pages[::-1])
    distance = (torch.arange(keys - queries, keys)[:, None] - order).abs()
    return -alibi_slopes(heads)[:, None, None] * distance


def queries_that_restart(heads, queries, keys):
    """Each chunk of 32 queries counts from its own first one."""
    query = torch.arange(queries) % 32 + keys - queries
    distance = (query[:, None] - torch.arange(keys)).abs()
    return -alibi_slopes(heads)[:, None, None] * distance


def bent_by_tanh(heads, queries, keys):
    return 10 * (linear(heads, queries, keys) / 10).tanh()


@each_case(
    ("function", "fault", "words"),
    {
        "rounded up": (
            steps_of_10_rounded_up,
            "distance in steps",
            "at distance 1 for the first time",
        ),
        "rounded": (steps_of_10_rounded, "distance in steps", "at distance 6 for the first time"),
        "reverse order": (keys_in_reverse_order, "mirrored keys", ""),
        "pages": (keys_of_pages_in_reverse, "keys in another order", ""),
        "chunks of queries": (queries_that_restart, "queries at other positions", ""),
        "tanh": (bent_by_tanh, "unknown fault", ""),
    },
)
def test_another_law_of_distance_has_one_name(function, fault, words):
    (finding,) = check.bias(function, [8], length=140).findings
    assert finding.name == fault
    assert words in finding.evidence


def later_keys_count_twice(heads, queries, keys):
    bias = linear(heads, queries, keys)
    return torch.where(steps(queries, keys) > 0, 2 * bias, bias)


def earlier_keys_count_twice(heads, queries, keys):
    bias = linear(heads, queries, keys)
    return torch.where(steps(queries, keys) < 0, 2 * bias, bias)


@pytest.mark.parametrize("function", [later_keys_count_twice, earlier_keys_count_twice])
def test_a_bias_that_is_not_symmetric_is_said_to_be_another_law(function):
    (finding,) = check.bias(function, [8], causal=False, decoding=False, length=17).findings
    assert finding.name == OUTSIDE
    assert "depends on the distance alone" in finding.evidence


# Heads


def reading(heads_of_keys, heads_of_values):
    """Attention of 8 heads that read these heads' keys and values."""

    def attention(query, key, value):
        return attend(query, key[:, heads_of_keys], value[:, heads_of_values])

    return attention


NEIGHBORS = [0, 0, 0, 0, 4, 4, 4, 4]
IN_TURN = [0, 4, 0, 4, 0, 4, 0, 4]
REVERSED = [4, 4, 4, 4, 0, 0, 0, 0]


@each_case(
    ("heads_of_keys", "heads_of_values", "fault", "words"),
    {
        "reversed": (
            REVERSED,
            REVERSED,
            "key heads in another order",
            "heads read the key heads 2 2 2 2 1 1 1 1",
        ),
        "values in turn": (
            NEIGHBORS,
            IN_TURN,
            "wrong keys",
            "head 2 reads the keys of head 1, but the values of head 5",
        ),
        "keys in turn": (
            IN_TURN,
            NEIGHBORS,
            "wrong keys",
            "head 2 reads the keys of head 5, but the values of head 1",
        ),
    },
)
def test_heads_that_read_other_heads_are_told_which(heads_of_keys, heads_of_values, fault, words):
    function = reading(heads_of_keys, heads_of_values)
    (finding,) = check.attention(function, group_size=4, **SMALL).findings
    assert finding.name == fault
    assert words in finding.evidence


def first_two_share(heads):
    slopes = alibi_slopes(heads).clone()
    slopes[1] = slopes[0]
    return slopes


def pairs_share_the_steeper_slope(heads):
    return alibi_slopes(heads)[::2].repeat_interleave(2)


def of_the_next_power_of_two(heads):
    return alibi_slopes(2 ** math.ceil(math.log2(heads)))[:heads]


def of_the_power_of_two_below(heads):
    return alibi_slopes(2 ** int(math.log2(heads))).repeat(2)[:heads]


@each_case(
    ("function", "fault", "words"),
    {
        "two heads": (
            first_two_share,
            "heads share a slope",
            "heads 1 and 2 of 8 both have slope 0.5",
        ),
        "pairs": (
            pairs_share_the_steeper_slope,
            "heads share a slope",
            "heads 1 and 2 of 8 both have slope 0.5",
        ),
        "next power of two": (
            of_the_next_power_of_two,
            "slopes of another number of heads",
            "of 12",
        ),
        "power of two below": (
            of_the_power_of_two_below,
            "slopes of another number of heads",
            "of 12",
        ),
    },
)
def test_slopes_of_other_heads_are_named(function, fault, words):
    (finding,) = check.slopes(function, [8, 12]).findings
    assert finding.name == fault
    assert words in finding.evidence


def no_bias_beyond_16_heads(heads, queries, keys):
    return linear(heads, queries, keys) * (heads <= 16)


def test_a_number_of_heads_without_any_bias_has_no_bias():
    report = check.bias(no_bias_beyond_16_heads, [8, 20], length=16)
    assert names(report) == {"no bias"}
