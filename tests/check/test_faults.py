"""Faults that no exhibit of the gallery has, in every combination and in half precision.

The tables below have one line per faulty function: its fault, and the options of the check.
"""

import math
import sys
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, check, gallery
from alibi_viz.bias import mask_future
from tests.check import faulty
from tests.check.faulty import PARTS, attend, bias_of, names, raises, with_faults
from tests.rows import each_case

# Faults that others can hide: beyond a window no key shows a cap, and a rounding is small.
HIDDEN = {"length cap", "imprecise slopes"}
SHORT = {"length": 16}

right_bias = bias_of(alibi_slopes)


# Functions that return slopes


def all_equal(heads):
    return [0.125] * heads


def random_slopes(heads):
    return torch.rand(heads, generator=torch.Generator().manual_seed(0))


def doubled(heads):
    return 2 * alibi_slopes(heads)


def times_1_001(heads):
    return 1.001 * alibi_slopes(heads)


def negative(heads):
    return -alibi_slopes(heads)


def both_parts_from_one(heads):
    """Powers of 1/2 from 1 on, for the first 8 heads and for the others."""
    return [2.0**-head for head in (*range(8), *range(heads - 8))]


def first_half_twice(heads):
    return alibi_slopes(heads)[: heads // 2].repeat(2)


def geometric_above_eight_heads(heads):
    return alibi_slopes(heads, "geometric" if heads > 8 else "official")


def an_object(heads):
    return object()


def none_at_all(heads):
    return []


# {what the slopes are: (the fault, the function, options of the check)}
SLOPES = {
    "all heads equal": ("heads share a slope", all_equal, {"num_heads": 12}),
    "random": ("other slopes", random_slopes, {"num_heads": 12}),
    "twice, with 8 heads": ("first slope is 1", doubled, {"num_heads": 8}),
    "both parts from 1": ("first slope is 1", both_parts_from_one, {"num_heads": [8, 12]}),
    "first half twice": ("slopes of a head slice", first_half_twice, {"num_heads": [8, 12]}),
    "above 8 heads": ("geometric slopes", geometric_above_eight_heads, {}),
    "times 1.001": ("bias multiplied", times_1_001, {}),
    "negative": ("negative slopes", negative, {}),
    "KeyError": ("raises an error", raises, {}),
    "an object": ("wrong type", an_object, {}),
    "an empty list": ("wrong shape", none_at_all, {}),
}


@each_case(("fault", "function", "options"), SLOPES)
def test_fault_of_slopes_is_the_only_one_named(fault, function, options):
    assert names(check.slopes(function, **options)) == {fault}


# Functions that return a bias, for numbers of heads, queries and keys


def reciprocal_slopes(heads):
    return 1 / torch.arange(1.0, heads + 1)


def shifted_slopes(heads):
    return alibi_slopes(heads) + 0.001


def flat_and_uneven_slopes(heads):
    """Two of the slopes of 12 heads: one that sees far, and one that is no power of two."""
    assert heads == 2
    return alibi_slopes(12)[[7, 11]]


def without_the_first(heads):
    """Correct slopes, but the first head has none."""
    return alibi_slopes(heads) * (torch.arange(heads) > 0)


def times(factor, heads, queries, keys):
    return factor * right_bias(heads, queries, keys)


def reversed_while_decoding(heads, queries, keys):
    sign = 1 if queries == keys else -1
    return sign * right_bias(heads, queries, keys)


def distances(queries, keys):
    """[query, key], where the queries are the last positions."""
    return (torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)).abs()


def wrapping_index(heads, queries, keys):
    """A table of 128 distances, whose index wraps around."""
    return right_bias(heads, 1, 128).repeat(1, 1, 3)[..., :keys]


def wrapping_distance(heads, queries, keys):
    return -alibi_slopes(heads)[:, None, None] * (distances(queries, keys) % 64)


def in_steps_of_3(heads, queries, keys):
    return -alibi_slopes(heads)[:, None, None] * (distances(queries, keys) // 3)


def only_while_decoding(heads, queries, keys):
    return right_bias(heads, queries, keys) * (queries < keys)


def no_bias(*_):
    return 0.0


def twice_while_decoding(heads, queries, keys):
    factor = 2 if queries < keys else 1
    return factor * right_bias(heads, queries, keys)


def divided_by_keys(heads, queries, keys):
    """For 16 keys, this is 1 / sqrt(256)."""
    return right_bias(heads, queries, keys) / keys


def rounded_for_one_query(heads, queries, keys):
    if queries == 1:
        return faulty.colliding(0, torch.bfloat16, heads, queries, keys)
    return right_bias(heads, queries, keys)


def only_earlier_keys_count(heads, queries, keys):
    return right_bias(heads, queries, keys).clamp(max=0)


def error_for_one_query_and_many_keys(heads, queries, keys):
    if queries == 1 and keys > 100:
        raises()
    return right_bias(heads, queries, keys)


def all_nan(heads, queries, keys):
    return torch.full((heads, queries, keys), math.nan)


def twice_as_many_heads(heads, queries, keys):
    return alibi_bias(alibi_slopes(2 * heads), queries, keys)


def every_third_key_larger(heads, queries, keys):
    return right_bias(heads, queries, keys) * (1 + 0.1 * (torch.arange(keys) % 3))


def colliding(form, dtype, of=flat_and_uneven_slopes):
    """A bias that rounds positions, or their products with slopes, to a dtype."""
    return partial(faulty.colliding, form, dtype, of=of)


FLAT_AND_UNEVEN = {"num_heads": 2, "slopes": flat_and_uneven_slopes}
# As SLOPES, with a length of 16 unless a fault needs a longer one
BIASES = {
    "1 / head": ("other slopes", bias_of(reciprocal_slopes), {}),
    "0.001 more": ("other slopes", bias_of(shifted_slopes), {"num_heads": 8}),
    "reversed while decoding": ("sign reversed in one branch", reversed_while_decoding, {}),
    "index wraps around": ("unknown fault", wrapping_index, {"num_heads": 4, "length": 140}),
    "jump at 64": (
        "right up to a distance, then a jump",
        wrapping_distance,
        {"num_heads": 4, "length": 140},
    ),
    "steps of 3": ("distance in steps", in_steps_of_3, {}),
    "cap at 1": ("length cap", bias_of(alibi_slopes, cap=1), {"length": 3}),
    "cap at 255": ("length cap", bias_of(alibi_slopes, cap=255), {"length": 257}),
    "only while decoding": ("no bias", only_while_decoding, {}),
    "0": ("no bias", no_bias, {}),
    "twice while decoding": ("added twice", twice_while_decoding, {}),
    "positions in bfloat16": (
        "colliding positions",
        colliding(1, torch.bfloat16),
        {**FLAT_AND_UNEVEN, "length": 300},
    ),
    "products in bfloat16": (
        "colliding positions",
        colliding(3, torch.bfloat16),
        {**FLAT_AND_UNEVEN, "length": 300},
    ),
    "slopes and positions in bfloat16": (
        "colliding positions",
        colliding(4, torch.bfloat16),
        {**FLAT_AND_UNEVEN, "length": 300},
    ),
    "products in float16": (
        "colliding positions",
        colliding(2, torch.float16),
        {**FLAT_AND_UNEVEN, "length": 2500},
    ),
    "rounded, in an encoder": (
        "colliding positions",
        colliding(0, torch.bfloat16, of=alibi_slopes),
        {"causal": False, "length": 300},
    ),
    "rounded for one query": ("colliding positions", rounded_for_one_query, {"length": 300}),
    "rounded, with a slope of 0": (
        "colliding positions",
        colliding(5, torch.bfloat16, of=without_the_first),
        {"slopes": without_the_first},
    ),
    "times 1.00006": ("bias multiplied", partial(times, 1 + 2**-14), {"length": 64}),
    "times 1.001": ("bias multiplied", partial(times, 1 + 2**-10), {}),
    "halved": ("bias multiplied", partial(times, 1 / 2), {}),
    "times 1 / 160": ("bias multiplied", partial(times, 1 / 160), {"num_heads": [8]}),
    "by the number of keys": (
        "bias multiplied",
        divided_by_keys,
        {"num_heads": [8], "length": 20},
    ),
    "later keys get 0": ("one direction only", only_earlier_keys_count, {"causal": False}),
    "error": ("raises an error", raises, {}),
    "error while decoding far": (
        "raises an error",
        error_for_one_query_and_many_keys,
        {"length": 140},
    ),
    "NaN": ("returns NaN", all_nan, {}),
    "twice as many heads": ("wrong shape", twice_as_many_heads, {}),
    "every third key": ("unknown fault", every_third_key_larger, {}),
}


@each_case(("fault", "function", "options"), BIASES)
def test_fault_of_a_bias_is_the_only_one_named(fault, function, options):
    assert names(check.bias(function, **{**SHORT, **options})) == {fault}


# Attention functions


def no_bias_below_600_keys(query, key, value):
    has_bias = key.shape[2] < 600
    return attend(query, key, value, factor=float(has_bias))


def bias_divided_by_model_width(query, key, value):
    width = query.shape[1] * query.shape[3]
    return attend(query, key, value, factor=width**-0.5)


def bias_divided_by_keys(query, key, value):
    return attend(query, key, value, factor=1 / key.shape[2])


def weak_mask(query, key, value):
    return attend(query, key, value, hidden=-20)


def one_key_ahead(query, key, value):
    return attend(query, key, value, first=2)


def key_of_the_first_head(query, key, value):
    return attend(query, key[:, :1], value[:, :1])


def padding_ignored(query, key, value, mask=None):
    return attend(query, key, value)


def two_tensors(query, key, value):
    return query, key


def heads_joined(query, key, value):
    return value.flatten(2)


def mean_subtracted(query, key, value):
    return 2 * attend(query, key, value) - value.mean(2)[:, :, None]


def scaled_by_position(last, query, key, value):
    """The output of the first query is right, and that of the last is multiplied."""
    factors = torch.linspace(1, last, query.shape[2])[:, None]
    return attend(query, key, value) * factors


def queries_of_another_sequence(query, key, value):
    return attend(query.roll(1, 0), key, value)


def keys_of_another_head_while_decoding(query, key, value):
    is_decoding = query.shape[2] < key.shape[2]
    return attend(query, key.roll(1, 1) if is_decoding else key, value)


def larger_content_beyond_100_keys(query, key, value):
    factor = 8 if key.shape[2] > 100 else 1
    return attend(factor * query, key, value)


def values_of_another_sequence_beyond_100_keys(query, key, value):
    return attend(query, key, value.roll(1, 0) if key.shape[2] > 100 else value)


# As BIASES, with 8 heads unless the options have others
ATTENTION = {
    "divided by sqrt(d_model)": ("bias before scaling", bias_divided_by_model_width, {}),
    # Not "while decoding", although the long calls have few queries
    "no bias below 600 keys": (
        "no bias",
        no_bias_below_600_keys,
        {"num_heads": [4], "head_dim": 64, "length": 640},
    ),
    "bias divided by keys": ("bias multiplied", bias_divided_by_keys, {}),
    "lower triangle, no mask": ("future not masked", faulty.lower_triangle_without_a_mask, {}),
    "weak mask": ("mask too weak for some heads", weak_mask, {"length": 64}),
    "one key ahead": ("one key ahead", one_key_ahead, {}),
    "only earlier keys": ("only earlier keys", attend, {"causal": False}),
    "key of the first head": ("wrong keys", key_of_the_first_head, {}),
    "padding ignored": ("padding not masked", padding_ignored, {"padding": True}),
    "queries count padding": (
        "queries at other positions",
        faulty.padded,
        {"padding": True, "causal": False},
    ),
    "error": ("raises an error", raises, {}),
    "numpy has no bfloat16": (
        "raises an error",
        attend,
        {"dtype": torch.bfloat16, "convert": Tensor.numpy},
    ),
    "two tensors": ("wrong type", two_tensors, {}),
    "heads joined": ("wrong shape", heads_joined, {}),
    "mean subtracted": ("not a weighted average", mean_subtracted, {}),
    "smaller by position": ("not a weighted average", partial(scaled_by_position, 0.5), {}),
    "larger by position": ("not a weighted average", partial(scaled_by_position, 1.5), {}),
    # These show with random inputs only.
    "queries of another sequence": ("batch rows mixed", queries_of_another_sequence, {}),
    "keys of another head": ("wrong keys", keys_of_another_head_while_decoding, {}),
    "larger content far": (
        "content multiplied",
        larger_content_beyond_100_keys,
        {"num_heads": [4], "head_dim": 32, "length": 140},
    ),
    "values of another sequence far": (
        "batch rows mixed",
        values_of_another_sequence_beyond_100_keys,
        {"num_heads": [4], "head_dim": 64, "length": 140},
    ),
}


@each_case(("fault", "function", "options"), ATTENTION)
def test_fault_of_attention_is_the_only_one_named(fault, function, options):
    options = {"num_heads": [8], **SHORT, **options}
    assert names(check.attention(function, **options)) == {fault}


FAR = {"length cap", "first keys only"}  # beyond the 16 keys of a short check
ALONE = [fault for faults in PARTS.values() for fault in faults if fault]


@pytest.mark.parametrize("fault", ALONE)
def test_fault_of_one_part_is_the_only_one_named(fault):
    length = 64 if fault in FAR else 16
    assert names(check.attention(with_faults(fault), num_heads=[12], length=length)) == {fault}


@settings(max_examples=settings().max_examples // 20)  # each takes half a second
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
    tested = set()
    for table in (SLOPES, BIASES, ATTENTION):
        tested |= {fault for fault, _, _ in table.values()}
    tested |= set(ALONE)
    tested |= {exhibit.fault for exhibit in gallery.EXHIBITS}
    elsewhere = {
        "cache not read",
        "content depends on position",
        "content scaled twice",
        "does not finish",
        "keys in another order",
        "mirrored keys",
        "missing case",
        "outside of what this checker knows",
        "padding changes the bias",
        "random result",
        "slopes of another number of heads",
        "wrong gradient",
        "wrong kind of function",
        "wrong mask",
    }
    assert tested | elsewhere == set(check.FAULTS)


def scaled_and_without_mask(query, key, value):
    return attend(query, key, value, factor=2, hidden=0)


def neither_bias_nor_mask(query, key, value):
    return attend(query, key, value, factor=0, hidden=0)


def own_value(query, key, value):
    return value[:, :, -query.shape[2] :]


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


def right_in(dtype):
    """A bias that is rounded to this dtype, and returned in float32."""
    return lambda heads, queries, keys: right_bias(heads, queries, keys).to(dtype).float()


def test_attention_in_bfloat16_is_right_within_its_rounding():
    report = check.attention(faulty.in_half_precision, num_heads=[4], length=64)
    assert report.ok
    assert "Right within the rounding of bfloat16" in str(report)


def test_wrong_attention_is_not_explained_by_rounding():
    assert not check.attention(faulty.rotated, num_heads=[4], length=64).ok


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
    report = check.attention(attention, num_heads=[4], dtype=dtype, length=64)
    assert names(report) == {"rewarded future"}


@half_precision
def test_factor_of_the_content_is_observed_in_half_precision(dtype):
    def weaker_content(query, key, value):
        return attend(0.9 * query, key, value)

    (note,) = check.attention(
        weaker_content, num_heads=[4], dtype=dtype, head_dim=64, length=64
    ).notes
    assert note.startswith("Observed: q . k is multiplied by 0.11")  # 0.9 / 8


@half_precision
def test_reversed_bias_is_named_in_half_precision(dtype):
    def rewarding(heads, queries, keys):
        return -right_bias(heads, queries, keys).to(dtype)

    assert names(check.bias(rewarding, length=64)) == {"sign reversed"}


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


def without_the_largest_logits(query, key, value):
    """Content is cut off, so neither a factor nor a soft cap explains it."""
    logits = (query @ key.mT * query.shape[-1] ** -0.5).clamp(-1, 1)
    heads, queries, keys = logits.shape[1:]
    return (logits + mask_future(right_bias(heads, queries, keys))).softmax(-1).to(value) @ value


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
    # Drawn by the lab, which is not installed wherever the checker is
    pictures = pytest.importorskip(
        "alibi_viz.figures.matrices_html",
        reason="pip install 'alibi-viz[lab]'",
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


def test_report_without_plotly_has_no_pictures(reversed_sign, monkeypatch):
    monkeypatch.setitem(sys.modules, "alibi_viz.figures.matrices_html", None)
    html = reversed_sign._repr_html_()
    assert "<b>sign reversed:</b>" in html
    assert "<img" not in html


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

    assert "only with" not in str(check.attention(attention, length=64))


def test_fault_of_the_bias_in_some_calls_says_in_which():
    (finding,) = check.bias(reversed_while_decoding, [8], length=16).findings
    assert finding.evidence == f"head 1 of 8 has slope -0.5, expected 0.5 {WHILE_DECODING}"


def test_factor_that_depends_on_the_length_is_shown_for_two_calls():
    report = str(check.bias(divided_by_keys, [8], decoding=False))
    assert "slope 0.03125, expected 0.5 with 8 heads, 16 queries" in report
    assert "slope 0.00166667, expected 0.5 with 8 heads, 300 queries" in report
    assert "only with" not in report


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
