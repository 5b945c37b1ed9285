"""Situations that were reported in public, and what the checker answers.

Each function is a re-creation of our own, in a few lines. A wrong one is named with the condition
under which it is wrong; a right one is not accused.
"""

import math

import pytest
import torch

from alibi_viz import alibi_slopes, check
from tests.check.faulty import names
from tests.check.plain_alibi import as_if_contiguous, attend, linear, steps
from tests.rows import each_case

# The usual 300 keys only where a fault needs so many: they take ten times as long.
SHORT = {"length": 16}


def masked(query, key, value, mask=None):
    return attend(query, key, value, mask=mask)


def encoder(query, key, value, mask=None):
    return attend(query, key, value, mask=mask, causal=False)


# Wrong for some calls


def mask_forgotten_for_one_query(query, key, value, mask=None):
    return attend(query, key, value, mask=None if query.shape[2] == 1 else mask)


def mask_forgotten_for_a_batch_of_one(query, key, value, mask=None):
    return attend(query, key, value, mask=None if len(query) == 1 else mask)


def strides_ignored(query, key, value):
    return attend(as_if_contiguous(query), as_if_contiguous(key), as_if_contiguous(value))


def strides_of_queries_ignored(query, key, value):
    return attend(as_if_contiguous(query), key, value)


def scale_of_64_channels(query, key, value):
    return attend(query, key, value, scale=0.125)


def first_64_channels(query, key, value):
    return attend(query[..., :64], key[..., :64], value, scale=query.shape[-1] ** -0.5)


def no_bias_for_a_batch_of_one(query, key, value):
    bias = torch.zeros(1, 1, 1) if len(query) == 1 else None
    return attend(query, key, value, bias=bias)


def no_bias_for_few_queries_and_many_keys(query, key, value):
    is_special = 1 < query.shape[2] < 8 and key.shape[2] > 100
    return attend(query, key, value, bias=torch.zeros(1, 1, 1) if is_special else None)


def reversed_beyond_a_block(query, key, value):
    _, heads, queries, _ = query.shape
    keys = key.shape[2]
    is_special = 128 < queries < keys
    return attend(query, key, value, bias=-linear(heads, queries, keys) if is_special else None)


def slopes_of_the_key_heads(query, key, value):
    """Four heads share a key head, and with one query also its slope."""
    _, heads, queries, _ = query.shape
    if queries > 1:
        return attend(query, key, value)
    slopes = alibi_slopes(heads // 4).repeat_interleave(4)
    return attend(query, key, value, bias=slopes[:, None, None] * steps(1, key.shape[2]))


def key_heads_in_turn(query, key, value):
    """Of the key heads of groups of four, neighbors take different ones."""
    return attend(query, key[:, ::4].repeat(1, 4, 1, 1), value[:, ::4].repeat(1, 4, 1, 1))


def additive_mask_of_20(query, key, value):
    """A mask that the bias of steep heads outweighs ahead."""
    _, heads, queries, head_dim = query.shape
    ahead = steps(queries, key.shape[2])
    bias = alibi_slopes(heads)[:, None, None] * ahead - 20.0 * (ahead > 0)
    return (query @ key.mT * head_dim**-0.5 + bias).softmax(-1) @ value


OF_8_HEADS = {"num_heads": [8], "length": 140}


@each_case(
    ("function", "options", "fault", "words"),
    {
        "mask forgotten for one query": (
            mask_forgotten_for_one_query,
            {**SHORT, "padding": True},
            "padding not masked",
            "padding in front and 1 query",
        ),
        "mask forgotten for a batch of one": (
            mask_forgotten_for_a_batch_of_one,
            {**SHORT, "padding": True},
            "padding not masked",
            "a batch of one",
        ),
        "strides ignored": (strides_ignored, SHORT, "strides ignored", "not contiguous"),
        "strides of queries ignored": (
            strides_of_queries_ignored,
            SHORT,
            "strides ignored",
            "transposed inputs, slices of one array or inputs whose last axis is not dense",
        ),
        "scale of 64 channels": (
            scale_of_64_channels,
            SHORT,
            "content multiplied",
            "head_dim 16 or 104",
        ),
        "first 64 channels": (first_64_channels, SHORT, "content multiplied", "head_dim 104"),
        "no bias for a batch of one": (
            no_bias_for_a_batch_of_one,
            SHORT,
            "no bias",
            "a batch of one",
        ),
        "no bias for few queries of many keys": (
            no_bias_for_few_queries_and_many_keys,
            OF_8_HEADS,
            "no bias",
            "5 queries and 140 keys",
        ),
        "reversed beyond a block": (
            reversed_beyond_a_block,
            OF_8_HEADS,
            "sign reversed in one branch",
            "130 queries",
        ),
        "slopes of the key heads": (
            slopes_of_the_key_heads,
            SHORT,
            "slopes of the key heads while decoding",
            "1 query",
        ),
        "key heads in turn": (
            key_heads_in_turn,
            {**SHORT, "group_size": 4},
            "key heads in another order",
            "take turns on 2 key heads",
        ),
        "additive mask": (
            additive_mask_of_20,
            {"num_heads": [8], "length": 64},
            "mask too weak for some heads",
            "sees keys after the query",
        ),
    },
)
def test_wrong_attention_is_named_with_its_condition(function, options, fault, words):
    (finding,) = check.attention(function, **options).findings
    assert finding.name == fault
    assert words in finding.evidence


# Wrong biases


def in_steps_of_25(heads, queries, keys):
    """FaceFormer's bias, by design: the distance in periods, rounded down."""
    periods = steps(queries, keys).abs() // 25
    return -alibi_slopes(heads)[:, None, None] * periods


def wrapping_at_256(heads, queries, keys):
    """Distances in an unsigned integer of 8 bits."""
    distance = steps(queries, keys).abs().to(torch.uint8)
    return -alibi_slopes(heads)[:, None, None] * distance


class CutFromTheStart:
    """A cached bias: a larger one is cut from the start, a smaller one is built again."""

    def __init__(self):
        self.bias = torch.empty(0, 0, 0)

    def __call__(self, heads, queries, keys):
        is_too_small = self.bias.shape[-1] < keys
        if len(self.bias) != heads or is_too_small:
            self.bias = linear(heads, keys, keys)
            return self.bias[:, -queries:]
        return self.bias[:, :queries, :keys]


def learned(heads, queries, keys):
    """A table of a number for each distance."""
    generator = torch.Generator().manual_seed(heads)
    table = 0.3 * torch.randn(heads, 1000, generator=generator).cumsum(-1)
    return table[:, steps(queries, keys).abs()]


@each_case(
    ("function", "length", "fault", "words"),
    {
        "steps": (in_steps_of_25, 140, "distance in steps", "at distance 25 for the first time"),
        "8 bits": (
            wrapping_at_256,
            300,
            "right up to a distance, then a jump",
            "right up to a distance of 255",
        ),
        "learned": (
            learned,
            16,
            "outside of what this checker knows",
            "depends on the distance alone",
        ),
    },
)
def test_wrong_bias_has_one_name(function, length, fault, words):
    (finding,) = check.bias(function, num_heads=[8], length=length).findings
    assert finding.name == fault
    assert words in finding.evidence


def test_a_smaller_bias_that_is_cut_from_the_start_of_a_cached_one_is_named():
    report = check.bias(CutFromTheStart(), length=64)
    assert names(report) == {"wrong corner of the cache"}


def one_slope(heads):
    return torch.full((heads,), 0.125)


def of_groups_of_four(heads):
    return alibi_slopes(heads // 4).repeat_interleave(4)


@pytest.mark.parametrize("function", [one_slope, of_groups_of_four])
def test_heads_that_share_a_slope_are_named(function):
    assert names(check.slopes(function, [8, 12, 16])) == {"heads share a slope"}


# Right by design


def soft_cap_of_50(query, key, value):
    _, heads, queries, head_dim = query.shape
    scores = query @ key.mT * head_dim**-0.5
    bias = linear(heads, queries, key.shape[2])
    capped = 50 * (scores / 50).tanh() + bias
    future = steps(queries, key.shape[2]) > 0
    return capped.masked_fill(future, -math.inf).softmax(-1) @ value


def scale_of_mup(query, key, value):
    return attend(query, key, value, scale=1 / 64)


def window_of_32(query, key, value):
    _, heads, queries, _ = query.shape
    keys = key.shape[2]
    bias = linear(heads, queries, keys)
    too_far = steps(queries, keys) <= -32
    return attend(query, key, value, bias=bias.masked_fill(too_far, -math.inf))


def window_of_one(query, key, value):
    """Each query sees its own key only, so content changes nothing."""
    return value[:, :, -query.shape[2] :]


def encoder_that_takes_lengths(query, key, value, mask=None):
    if mask is None:
        return encoder(query, key, value)
    lengths = mask.sum(-1, keepdim=True)
    is_real = torch.arange(key.shape[2]) < lengths
    return encoder(query, key, value, is_real)


def needs_64_channels(query, key, value):
    assert query.shape[-1] == 64, "64 channels"
    return attend(query, key, value)


def needs_contiguous_inputs(query, key, value):
    query.view(-1)
    return attend(query, key, value)


@each_case(
    ("function", "options"),
    {
        "ALiBi": (attend, {}),
        "padding on both sides": (masked, {"padding": True, "length": 64}),
        "padding in front": (masked, {"padding": "left", "length": 64}),
        "encoder": (encoder, {"padding": True, "causal": False, "length": 64}),
        "lengths, right": (
            encoder_that_takes_lengths,
            {"padding": "right", "causal": False, **SHORT},
        ),
        "lengths": (
            encoder_that_takes_lengths,
            {"padding": True, "causal": False, "length": 64},
        ),
        "soft cap": (soft_cap_of_50, {"softcap": 50, "length": 64}),
        "scale": (scale_of_mup, {"scale": 1 / 64, **SHORT}),
        "window": (window_of_32, {"window": 32, "length": 64}),
        "window of one": (window_of_one, {"window": 1, "scale": 0.5, "length": 16}),
        "one head_dim": (needs_64_channels, SHORT),
        "contiguous inputs only": (needs_contiguous_inputs, SHORT),
    },
)
def test_right_attention_is_not_accused(function, options):
    check.attention(function, **options).raise_for_faults()


@each_case(
    ("function", "options", "fault"),
    {
        "scale": (attend, {"scale": 1 / 64, **SHORT}, "content multiplied"),
        "a longer window": (window_of_32, {"window": 25, "length": 64}, "window"),
        "a shorter window": (window_of_32, {"window": 50, "length": 64}, "window"),
        "no window": (attend, {"window": 32, "length": 64}, "window"),
        "soft cap": (soft_cap_of_50, {"softcap": 30, **SHORT}, "unknown fault"),
        "side of padding": (
            encoder_that_takes_lengths,
            {"padding": "left", "causal": False, **SHORT},
            "padding not masked",
        ),
    },
)
def test_what_is_said_to_be_by_design_is_checked(function, options, fault):
    assert names(check.attention(function, **options)) == {fault}


@each_case(
    ("function", "words"),
    {
        "scale": (scale_of_mup, "pass scale=0.015625"),
        "soft cap": (soft_cap_of_50, "pass softcap=50"),
        "head_dim": (needs_64_channels, "Not checked with head_dim 104"),
        "memory": (needs_contiguous_inputs, "Not checked with some transposed"),
    },
)
def test_what_may_be_by_design_is_a_note(function, words):
    report = check.attention(function, **SHORT)
    assert report.ok
    (note,) = report.notes
    assert words in note


def with_sinks(query, key, value):
    """Each head has a logit more in its softmax, whose value is 0."""
    _, heads, queries, head_dim = query.shape
    keys = key.shape[2]
    scores = query @ key.mT * head_dim**-0.5 + linear(heads, queries, keys)
    scores = scores.masked_fill(steps(queries, keys) > 0, -math.inf)
    sinks = torch.linspace(-1, 1, heads)[:, None, None].expand(len(query), -1, queries, 1)
    return torch.cat([scores, sinks], dim=-1).softmax(-1)[..., :-1] @ value


def test_sinks_are_outside_of_what_the_checker_knows():
    (finding,) = check.attention(with_sinks, **SHORT).findings
    assert finding.name == "outside of what this checker knows"
    assert "attention sink" in finding.evidence


def not_normalized_for_one_query(query, key, value):
    """The bias multiplies weights that are not normalized again."""
    if query.shape[2] > 1:
        return attend(query, key, value)
    content = (query @ key.mT * query.shape[-1] ** -0.5).softmax(-1)
    return content * linear(query.shape[1], 1, key.shape[2]).exp() @ value


def test_sums_below_1_in_some_calls_are_no_sinks():
    (finding,) = check.attention(not_normalized_for_one_query, **SHORT).findings
    assert finding.name == "not a weighted average"
    assert finding.evidence.endswith("(only with 1 query)")
