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
from alibi_viz.check.probe import Observation
from tests.check import faulty
from tests.check.faulty import PARTS, attend, bias_of, names, raises, with_faults
from tests.rows import each_case

# Faults that others can hide: beyond a window no key shows a cap, and a rounding is small.
HIDDEN = {"length cap", "imprecise slopes"}
SHORT = {"length": 16}
HEAD_DIMS = (8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256)  # of models in use

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


SLOPES = [
    pytest.param("heads share a slope", all_equal, {"num_heads": 12}, id="all heads equal"),
    pytest.param("other slopes", random_slopes, {"num_heads": 12}, id="random"),
    pytest.param("first slope is 1", doubled, {"num_heads": 8}, id="twice, with 8 heads"),
    pytest.param(
        "first slope is 1", both_parts_from_one, {"num_heads": [8, 12]}, id="both parts from 1"
    ),
    pytest.param(
        "slopes of a head slice", first_half_twice, {"num_heads": [8, 12]}, id="first half twice"
    ),
    pytest.param("geometric slopes", geometric_above_eight_heads, {}, id="above 8 heads"),
    pytest.param("bias multiplied", times_1_001, {}, id="times 1.001"),
    pytest.param("negative slopes", negative, {}, id="negative"),
    pytest.param("raises an error", raises, {}, id="KeyError"),
    pytest.param("wrong type", an_object, {}, id="an object"),
    pytest.param("wrong shape", none_at_all, {}, id="an empty list"),
]


@pytest.mark.parametrize(("fault", "function", "options"), SLOPES)
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


def divided_by_model_width(heads, queries, keys):
    return right_bias(heads, queries, keys) / (64 * heads) ** 0.5


def divided_by_head_dim(head_dim, heads, queries, keys):
    return right_bias(heads, queries, keys) / head_dim**0.5


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


def bias_case(fault, function, case, **options):  # a ParameterSet
    options.setdefault("length", 64)
    return pytest.param(fault, function, options, id=f"{fault}: {case}")


BIASES = [
    bias_case("other slopes", bias_of(reciprocal_slopes), "1 / head"),
    bias_case("other slopes", bias_of(shifted_slopes), "0.001 more", num_heads=8, length=16),
    bias_case("sign reversed in one branch", reversed_while_decoding, "while decoding"),
    bias_case("length cap", wrapping_index, "index wraps around", num_heads=4, length=140),
    bias_case(
        "right up to a distance, then a jump", wrapping_distance, "at 64", num_heads=4, length=140
    ),
    bias_case("distance in steps", in_steps_of_3, "of 3"),
    bias_case("length cap", bias_of(alibi_slopes, cap=1), "at 1", length=3),
    bias_case("length cap", bias_of(alibi_slopes, cap=255), "at 255", length=257),
    bias_case("no bias", only_while_decoding, "except while decoding", **SHORT),
    bias_case("no bias", no_bias, "0", **SHORT),
    bias_case("added twice", twice_while_decoding, "while decoding", **SHORT),
    bias_case("bias before scaling", divided_by_model_width, "by sqrt(d_model)"),
    *(
        bias_case(
            "bias before scaling", partial(divided_by_head_dim, head_dim), f"{head_dim}", **SHORT
        )
        for head_dim in HEAD_DIMS
    ),
    *(
        bias_case(
            "colliding positions",
            partial(faulty.colliding, form, torch.bfloat16, of=flat_and_uneven_slopes),
            f"bfloat16, form {form}",
            num_heads=2,
            slopes=flat_and_uneven_slopes,
            length=300,
        )
        for form in range(6)
    ),
    *(
        bias_case(
            "colliding positions",
            partial(faulty.colliding, form, torch.float16, of=flat_and_uneven_slopes),
            f"float16, form {form}",
            num_heads=2,
            slopes=flat_and_uneven_slopes,
            length=2500,
        )
        for form in range(6)
    ),
    bias_case(
        "colliding positions",
        partial(faulty.colliding, 0, torch.bfloat16),
        "in an encoder",
        causal=False,
        length=300,
    ),
    bias_case("colliding positions", rounded_for_one_query, "for one query", length=300),
    bias_case(
        "colliding positions",
        partial(faulty.colliding, 5, torch.bfloat16, of=without_the_first),
        "with a slope of 0",
        slopes=without_the_first,
    ),
    bias_case("bias multiplied", partial(times, 1 + 2**-14), "times 1.00006"),
    bias_case("bias multiplied", partial(times, 1 + 2**-10), "times 1.001"),
    bias_case("bias multiplied", partial(times, 1 / 2), "halved"),
    bias_case(
        "bias multiplied", partial(times, 1 / 160), "times 1 / 160", num_heads=[8], length=16
    ),
    bias_case(
        "bias multiplied", divided_by_keys, "by the number of keys", num_heads=[8], length=20
    ),
    bias_case("one direction only", only_earlier_keys_count, "later keys get 0", causal=False),
    bias_case("raises an error", raises, "always"),
    bias_case(
        "raises an error", error_for_one_query_and_many_keys, "while decoding far", length=140
    ),
    bias_case("returns NaN", all_nan, "everywhere"),
    bias_case("wrong shape", twice_as_many_heads, "twice as many heads"),
    bias_case("unknown fault", every_third_key_larger, "every third key", **SHORT),
]


@pytest.mark.parametrize(("fault", "function", "options"), BIASES)
def test_fault_of_a_bias_is_the_only_one_named(fault, function, options):
    assert names(check.bias(function, **options)) == {fault}


# Attention functions


def no_bias_below_600_keys(query, key, value):
    has_bias = key.shape[2] < 600
    return attend(query, key, value, factor=float(has_bias))


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


def attention_case(fault, function, **options):
    function_name = getattr(function, "__name__", "partial")
    options.setdefault("length", 64)
    return pytest.param(fault, function, options, id=f"{fault}: {function_name}")


ATTENTION = [
    # Not "while decoding", although the long calls have few queries
    attention_case("no bias", no_bias_below_600_keys, num_heads=[4], head_dim=64, length=640),
    attention_case("bias multiplied", bias_divided_by_keys),
    attention_case("future not masked", faulty.lower_triangle_without_a_mask),
    attention_case("mask too weak for some heads", weak_mask),
    attention_case("one key ahead", one_key_ahead),
    attention_case("only earlier keys", attend, causal=False),
    attention_case("wrong keys", key_of_the_first_head),
    attention_case("padding not masked", padding_ignored, padding=True),
    attention_case(
        "padding changes the bias", faulty.padded, num_heads=[8], padding=True, causal=False
    ),
    attention_case("raises an error", raises),
    attention_case("raises an error", attend, dtype=torch.bfloat16, convert=Tensor.numpy),
    attention_case("wrong type", two_tensors),
    attention_case("wrong shape", heads_joined),
    attention_case("not a weighted average", mean_subtracted, **SHORT),
    attention_case("not a weighted average", partial(scaled_by_position, 0.5), **SHORT),
    attention_case("not a weighted average", partial(scaled_by_position, 1.5), **SHORT),
    attention_case("unknown fault", faulty.in_half_precision),
    # These show with random inputs only.
    attention_case("unknown fault", queries_of_another_sequence),
    attention_case("wrong keys", keys_of_another_head_while_decoding),
    attention_case(
        "content multiplied",
        larger_content_beyond_100_keys,
        num_heads=[4],
        head_dim=32,
        length=140,
    ),
    attention_case(
        "unknown fault",
        values_of_another_sequence_beyond_100_keys,
        num_heads=[4],
        head_dim=64,
        length=140,
    ),
]


@pytest.mark.parametrize(("fault", "function", "options"), ATTENTION)
def test_fault_of_attention_is_the_only_one_named(fault, function, options):
    assert names(check.attention(function, **options)) == {fault}


ALONE = [fault for faults in PARTS.values() for fault in faults if fault]


@pytest.mark.parametrize("fault", ALONE)
def test_fault_of_one_part_is_the_only_one_named(fault):
    assert names(check.attention(with_faults(fault), length=64)) == {fault}


@settings(max_examples=9, deadline=None, derandomize=True)
@given(st.tuples(*(st.sampled_from(list(faults)) for faults in PARTS.values())))
def test_faults_that_come_together_are_all_named_and_no_other(faults):
    expected = set(faults) - {""}
    if "causal mask in the wrong corner" in expected:
        # Where both take the first rows, the weights are the same.
        expected -= {"wrong corner of the cache"}
    found = names(check.attention(with_faults(*faults), length=64))
    assert expected - HIDDEN <= found
    assert found <= expected
    assert bool(found) == bool(expected), "a hidden fault alone is not hidden"


def test_every_fault_has_a_test():
    tested = {case.values[0] for case in (*SLOPES, *BIASES, *ATTENTION)}
    tested |= set(ALONE)
    tested |= {exhibit.fault for exhibit in gallery.EXHIBITS}
    elsewhere = {
        "cache not read",
        "content depends on position",
        "content scaled twice",
        "does not finish",
        "mirrored keys",
        "missing case",
        "outside of what this checker knows",
        "random result",
        "slopes of another number of heads",
        "wrong layout",
        "wrong mask",
    }
    assert tested | elsewhere == set(check.FAULTS)


def scaled_and_without_mask(query, key, value):
    return attend(query, key, value, factor=2, hidden=0)


def neither_bias_nor_mask(query, key, value):
    return attend(query, key, value, factor=0, hidden=0)


def own_value(query, key, value):
    return value[:, :, -query.shape[2] :]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (faulty.rotated, {"content depends on position", "no bias"}),
        (scaled_and_without_mask, {"added twice", "rewarded future"}),
        (neither_bias_nor_mask, {"no bias", "future not masked"}),
        (own_value, {"window"}),
    ],
)
def test_faults_with_one_cause_are_told_apart(function, expected):
    assert names(check.attention(function, length=64)) == expected


# Half precision

BFLOAT16_HINT = "right within the rounding of bfloat16"


def right_in_bfloat16(heads, queries, keys):
    return right_bias(heads, queries, keys).bfloat16().float()


def test_attention_in_bfloat16_gets_a_hint():
    finding = check.attention(faulty.in_half_precision, num_heads=[4], length=64).findings[0]
    assert BFLOAT16_HINT in finding.evidence


def test_wrong_attention_gets_no_hint_on_bfloat16():
    finding = check.attention(faulty.rotated, num_heads=[4], length=64).findings[0]
    assert BFLOAT16_HINT not in finding.evidence


@each_case(
    ("num_heads", "length"),
    {
        "distances that bfloat16 can't tell apart": ([2], 300),
        "slopes of some heads": ([12, 8], 64),
    },
)
def test_bias_in_bfloat16_gets_a_hint(num_heads, length):
    (finding,) = check.bias(right_in_bfloat16, num_heads, length=length).findings
    assert finding.name == "unknown fault"
    assert BFLOAT16_HINT in finding.evidence


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
    assert note.startswith("Observed: q . k is multiplied with 0.112")  # 0.9 / 8


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

    assert names(check.bias(bias, [8])) == faults


@half_precision
def test_rounded_slopes_are_imprecise_unless_they_are_powers_of_two(dtype):
    def rounded(heads):
        return alibi_slopes(heads).to(dtype).float()

    assert names(check.bias(bias_of(rounded), num_heads=[12])) == {"imprecise slopes"}
    assert check.bias(bias_of(rounded), num_heads=[8]).ok


@half_precision
def test_faults_of_rounded_slopes_are_all_named(dtype):
    def rounded_reversed_doubled(heads):
        return -2 * alibi_slopes(heads).to(dtype).float()

    faults = {"imprecise slopes", "negative slopes", "added twice"}
    assert names(check.slopes(rounded_reversed_doubled)) == faults


@half_precision
def test_unknown_fault_in_half_precision_mentions_rounded_logits(dtype):
    report = check.attention(queries_of_another_sequence, num_heads=[4], dtype=dtype, length=16)
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

    assert names(check.attention(attention, num_heads=[12])) == {"other slopes"}


@each_case(
    ("change", "fault"),
    {
        "other bias": (-1.0, "length cap"),
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
    assert str(reversed_sign).endswith(f"\nWeights at equal content: {call}, {weights}")


def test_report_in_a_notebook_has_bold_names_and_pictures(reversed_sign):
    # Drawn by the lab, which is not installed wherever the checker is
    pictures = pytest.importorskip("alibi_viz.figures.matrices_html", exc_type=ImportError)
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
    assert finding.evidence.endswith(WHILE_DECODING)


def test_factor_of_the_content_in_all_calls_names_none():
    def attention(query, key, value):
        return attend(5 * query, key, value)

    assert "only with" not in str(check.attention(attention, length=64))


def test_fault_of_the_bias_in_some_calls_says_in_which():
    (finding,) = check.bias(reversed_while_decoding, [8], length=16).findings
    assert finding.evidence == f"head 1 of 8 has slope -0.5, expected 0.5 {WHILE_DECODING}"


def test_factor_that_depends_on_the_length_is_shown_for_two_calls():
    report = str(check.bias(divided_by_keys, [8], decoding=False))
    assert "slope 0.0294118, expected 0.5 with 8 heads, 17 queries" in report
    assert "slope 0.00166667, expected 0.5 with 8 heads, 300 queries" in report
    assert "only with" not in report


# Calls


@each_case(
    ("base", "shown"),
    {
        "less than half": (1.5, "1 head, 17 queries, 17 keys"),
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


def test_unknown_fault_is_diagnosed_without_comparing_every_row_with_each_rule(
    monkeypatch,
):
    compared = []
    agrees = Observation.agrees

    def count(observation, bias, *rows):
        compared.append(bias.numel())
        return agrees(observation, bias, *rows)

    def power_law(heads, queries, keys):
        return -(right_bias(heads, queries, keys).abs() ** 1.3)

    monkeypatch.setattr(Observation, "agrees", count)
    report = check.bias(power_law, num_heads=[4], length=256)
    assert names(report) == {"outside of what this checker knows"}
    assert sum(compared) < 8 * 4 * 256**2, "all rules times all rows would be 70 times"
