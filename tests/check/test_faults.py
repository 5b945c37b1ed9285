"""Faults that no exhibit of the gallery has, in every combination and in half precision.

The tables below have one line per faulty function: its fault, and the options of the check.
"""

import math
import sys
from functools import partial

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, check, gallery
from tests.check import faulty
from tests.check.faulty import PARTS, attend, bias_of, names, with_faults
from tests.check.wrong_functions import (
    WRONG,
    neither_bias_nor_mask,
    own_value,
    reversed_while_decoding,
    right_bias,
    right_in,
    scaled_and_without_mask,
    without_the_largest_logits,
)
from tests.rows import each_case

# Faults that others can hide: beyond a window no key shows a cap, and a rounding is small.
HIDDEN = {"length cap", "imprecise slopes"}


# Functions that return slopes


# {what the slopes are: (the fault, the function, options of the check)}


# Functions that return a bias, for numbers of heads, queries and keys


# As SLOPES, with a length of 16 unless a fault needs a longer one


# Attention functions


# As BIASES, with 8 heads unless the options have others


FAR = {"length cap", "first keys only"}  # beyond the 16 keys of a short check
ALONE = [fault for faults in PARTS.values() for fault in faults if fault]


@pytest.mark.parametrize("fault", ALONE)
def test_fault_of_one_part_is_the_only_one_named(fault):
    length = 64 if fault in FAR else 16
    assert names(check.attention(with_faults(fault), num_heads=[12], length=length)) == {fault}


@settings(max_examples=settings().max_examples // 20)  # each takes half a second
@example(("", "", "wrong corner of the cache", "", "content too weak"))
@example(("", "", "wrong corner of the cache", "query can't see itself", "content too weak"))
@example(("", "", "wrong corner of the cache", "window", "content too weak"))
@example(("", "", "wrong corner of the cache", "first keys only", ""))
@example(("", "sign reversed", "wrong corner of the cache", "future not masked", ""))
@example(("", "sign reversed", "wrong corner of the cache", "window", ""))
@example(("geometric slopes", "sign reversed", "wrong corner of the cache", "window", ""))
@given(st.tuples(*(st.sampled_from(list(faults)) for faults in PARTS.values())))
def test_faults_that_come_together_are_all_named_and_no_other(faults):
    expected = set(faults) - {""}
    if "causal mask in the wrong corner" in expected:
        # Where both take the first rows, the weights are the same.
        expected -= {"wrong corner of the cache"}
    found = names(check.attention(with_faults(*faults), num_heads=[12], length=64))
    assert expected - HIDDEN <= found
    assert found <= expected
    assert bool(found) == bool(expected), "a hidden fault alone is not hidden"


def test_every_fault_has_a_test():
    tested = {wrong.fault for wrong in WRONG.values()} | set(ALONE)
    tested |= {exhibit.fault for exhibit in gallery.EXHIBITS}
    elsewhere = {
        "cache not read",
        "content depends on position",
        "content scaled twice",
        "does not finish",
        "keys in another order",
        "mirrored keys",
        "wrong slopes",
        "wrong bias",
        "wrong attention",
        "outside of what this checker knows",
        "padding changes the bias",
        "soft cap",
        "random result",
        "slopes of another number of heads",
        "wrong gradient",
        "wrong kind of function",
        "wrong mask",
    }
    assert tested | elsewhere == set(check.FAULTS)


@each_case(
    ("function", "expected"),
    {
        "rotated": (faulty.rotated, {"content depends on position", "no bias"}),
        "twice, without mask": (scaled_and_without_mask, {"added twice", "rewarded future"}),
        "neither bias nor mask": (neither_bias_nor_mask, {"no bias", "future not masked"}),
        "own value": (own_value, {"window"}),
    },
)
def test_faults_with_one_cause_are_told_apart(function, expected):
    assert names(check.attention(function, num_heads=[8], length=64)) == expected


# Half precision


def test_attention_in_bfloat16_is_right_within_its_rounding():
    report = check.attention(faulty.in_half_precision, num_heads=[4], length=33)
    assert report.ok
    assert "Right within the rounding of bfloat16" in str(report)


def test_wrong_attention_is_not_explained_by_rounding():
    assert not check.attention(faulty.rotated, num_heads=[4], length=33).ok


@each_case(
    ("dtype", "num_heads", "length"),
    {
        "distances that bfloat16 can't tell apart": (torch.bfloat16, [2], 300),
        "slopes of some heads": (torch.bfloat16, [12, 8], 64),
        "float16": (torch.float16, [12, 8], 64),
    },
)
def test_bias_in_half_precision_is_right_within_its_rounding(dtype, num_heads, length):
    report = check.bias(right_in(dtype), num_heads, length=length)
    assert report.ok
    assert f"Right within the rounding of {str(dtype)[6:]}" in str(report)


half_precision = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


@half_precision
@each_case(
    ("fault", "factor", "length"),
    {
        "reversed": ("sign reversed", -1, 64),
        "divided": ("bias before scaling", 1 / 8, 16),
    },
)
def test_factor_of_the_bias_is_named_in_half_precision(dtype, fault, factor, length):
    attention = partial(attend, factor=factor)
    report = check.attention(attention, num_heads=[4], head_dim=64, dtype=dtype, length=length)
    assert names(report) == {fault}


@half_precision
def test_rewarded_future_is_named_in_half_precision(dtype):
    attention = partial(attend, hidden=0)
    report = check.attention(attention, num_heads=[4], dtype=dtype, length=33)
    assert names(report) == {"rewarded future"}


@half_precision
def test_factor_of_the_content_is_observed_in_half_precision(dtype):
    def weaker_content(query, key, value):
        return attend(0.9 * query, key, value)

    (finding,) = check.attention(
        weaker_content, num_heads=[4], dtype=dtype, head_dim=64, length=33
    ).findings
    assert "as with a scale of 0.11" in finding.evidence  # 0.9 / 8


@half_precision
def test_reversed_bias_is_named_in_half_precision(dtype):
    def rewarding(heads, queries, keys):
        return -right_bias(heads, queries, keys).to(dtype)

    assert names(check.bias(rewarding, length=33)) == {"sign reversed"}


@half_precision
@each_case(
    ("units", "faults"),
    {
        "half a unit": (0.5, set()),
        "four units": (4, {"bias multiplied"}),
    },
)
def test_slopes_may_be_off_by_less_than_a_unit_in_the_last_place(dtype, units, faults):
    def bias(heads, queries, keys):
        slopes = alibi_slopes(heads).double() * (1 + units * torch.finfo(dtype).eps)
        return alibi_bias(slopes, queries, keys, dtype=dtype)

    assert names(check.bias(bias, [8], length=64)) == faults


@half_precision
def test_rounded_slopes_are_imprecise_unless_they_are_powers_of_two(dtype):
    def rounded(heads):
        return alibi_slopes(heads).to(dtype).float()

    assert names(check.bias(bias_of(rounded), [12], length=64)) == {"imprecise slopes"}
    assert check.bias(bias_of(rounded), [8], length=64).ok


@half_precision
def test_faults_of_rounded_slopes_are_all_named(dtype):
    def rounded_reversed_doubled(heads):
        return -2 * alibi_slopes(heads).to(dtype).float()

    faults = {"imprecise slopes", "negative slopes", "added twice"}
    assert names(check.slopes(rounded_reversed_doubled)) == faults


@half_precision
def test_unknown_fault_in_half_precision_mentions_rounded_logits(dtype):
    report = check.attention(without_the_largest_logits, num_heads=[4], dtype=dtype, length=16)
    assert f"perhaps logits are rounded to {dtype}" in str(report)


def test_halving_slopes_that_start_with_one_have_two_faults():
    def halving_from_one(heads):
        return 0.5 ** torch.arange(heads)

    assert names(check.slopes(halving_from_one)) == {"halving slopes", "first slope is 1"}


# Small differences


def test_a_wrong_last_slope_is_found():
    def last_of_128_is_off(heads):
        return alibi_slopes(heads) * (1 + 0.01 * (torch.arange(heads) == 127))

    assert "head 128 of 128" in str(check.slopes(last_of_128_is_off))


def test_a_slope_that_is_off_by_a_ten_thousandth_is_found():
    slopes = alibi_slopes(12) * (1 + 1.44e-4 * (torch.arange(12) == 3))

    def attention(query, key, value):
        return alibi_attention(query, key, value, slopes)

    report = check.attention(attention, num_heads=[12], head_dim=64, length=140)
    assert names(report) == {"other slopes"}


@each_case(
    ("change", "fault"),
    {
        "other bias": (-1.0, "unknown fault"),
        "masked": (-math.inf, "wrong mask"),
    },
)
def test_a_single_wrong_weight_far_away_is_found(change, fault):
    def last_row_differs(heads, queries, keys):
        bias = alibi_bias(alibi_slopes(heads), queries, keys)
        if keys == 300:
            bias[-1, -1, 0] += change
        return bias

    report = check.bias(last_row_differs, num_heads=[4], decoding=False)
    assert names(report) == {fault}
    assert report.comparison is not None
    _, query, key = report.comparison.place
    assert (query, key) == (299, 0)


# Reports


@pytest.fixture
def reversed_sign():
    return check.bias(gallery.biases.attention_gym_2024, num_heads=[8], length=64)


def test_report_ends_with_the_weights_that_differ_most(reversed_sign):
    weights = "head 1 gives key 0 the weight 0.394 for query 15, expected 0.000218"
    call = "with 8 heads, 16 queries, 16 keys"
    assert f"\nWeights at equal content: {call}, {weights}\nTried: " in str(reversed_sign)


def test_report_in_a_notebook_has_bold_names_and_pictures(reversed_sign):
    # Drawn with plotly, which is not installed wherever the checker is
    pictures = pytest.importorskip(
        "alibi_viz.figures.matrices_html",
        reason="pip install 'alibi-viz[figures]'",
        exc_type=ImportError,
    )
    html = reversed_sign._repr_html_()
    comparison = reversed_sign.comparison
    assert comparison is not None
    assert "<b>ALiBi check of attention_gym_2024: 1 fault</b>" in html
    assert "<b>sign reversed:</b>" in html
    assert html.endswith(pictures.comparison_html(comparison.wanted, comparison.got, (0, 15, 0)))


def test_report_without_faults_has_no_pictures():
    html = check.bias(right_bias, [8], length=16)._repr_html_()
    assert "no fault found" in html
    assert "<img" not in html


def test_name_of_the_function_is_escaped():
    html = check.bias(right_bias, [8], length=16)._repr_html_()
    assert "&lt;locals&gt;.&lt;lambda&gt;" in html


def test_report_without_plotly_names_the_extra_with_which_it_has_pictures(
    reversed_sign, monkeypatch
):
    monkeypatch.setitem(sys.modules, "alibi_viz.figures.matrices_html", None)
    html = reversed_sign._repr_html_()
    assert "<b>sign reversed:</b>" in html
    assert "<img" not in html
    assert html.endswith("<code>pip install 'alibi-viz[figures]'</code></p>")


WHILE_DECODING = "(only with fewer queries than keys)"
WITH_SOME_QUERIES = "(only with 1 or 5 queries)"


@each_case(
    ("with_one_query", "with_five_queries", "worst"),
    {"5 and -2": (5, -2, 5), "-2 and 3": (-2, 3, -2)},
)
def test_factor_of_the_content_in_some_calls_says_in_which(
    with_one_query, with_five_queries, worst
):
    factors = {1: with_one_query, 5: with_five_queries}

    def attention(query, key, value):
        return attend(factors.get(query.shape[2], 1) * query, key, value)

    (finding,) = check.attention(attention, num_heads=[8], length=16).findings
    assert finding.name == "content multiplied"
    assert f"q . k counts {worst} times" in finding.evidence
    assert finding.evidence.endswith(WITH_SOME_QUERIES)


def test_factor_of_the_content_in_all_calls_names_none():
    def attention(query, key, value):
        return attend(5 * query, key, value)

    assert "only with" not in str(check.attention(attention, length=33))


def test_fault_of_the_bias_in_some_calls_says_in_which():
    (finding,) = check.bias(reversed_while_decoding, [8], length=16).findings
    assert finding.evidence == f"head 1 of 8 has slope -0.5, expected 0.5 {WHILE_DECODING}"


# Calls


@each_case(
    ("base", "shown"),
    {
        "less than half": (1.5, "1 head, 20 queries, 20 keys"),
        "more than half": (2, "1 head, 16 queries, 16 keys"),
    },
)
def test_a_short_call_is_shown_if_it_has_half_of_the_largest_difference(base, shown):
    def bias(heads, queries, keys):
        """Weights 1 / base^distance for 16 keys, and 1 / 4^distance for others."""
        return math.log(base if keys == 16 else 4) * alibi_bias(torch.ones(heads), queries, keys)

    def almost_flat(heads):
        return [1e-9]

    comparison = check.bias(bias, [1], slopes=almost_flat, length=20).comparison
    assert comparison is not None
    assert comparison.title == shown
