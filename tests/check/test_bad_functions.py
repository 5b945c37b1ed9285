"""Functions that raise, hang or return nonsense are findings; invalid arguments of the checker
raise."""

import math
from functools import cache, partial
from threading import Event

import pytest
import torch

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, check
from tests.check.faulty import attend, names
from tests.largest_tensor import LargestTensor
from tests.rows import each_case


def attend_without_a_mask(query, key, value):
    return attend(query, key, value)


@pytest.fixture
def end_of_test():
    """What a function that hangs waits for, so that its thread ends."""
    event = Event()
    yield event
    event.set()


# A checker that waits for a function fails the test after this time, and does not hang it.
LONGEST_WAIT = 600.0


def test_function_that_hangs_is_a_finding(end_of_test):
    def hang(query, key, value):
        end_of_test.wait(LONGEST_WAIT)

    assert names(check.attention(hang, seconds=0.1)) == {"does not finish"}


def test_the_checker_does_not_wait_for_a_function_that_hangs(end_of_test):
    returned = Event()

    def hang(query, key, value):
        end_of_test.wait(LONGEST_WAIT)
        returned.set()

    check.attention(hang, seconds=0.1)
    assert not returned.is_set()


def test_functions_run_on_the_cpu_whatever_the_caller_has_set():
    devices = set()

    def slopes(heads):
        devices.add(torch.zeros(()).device.type)
        return alibi_slopes(heads)

    with torch.device("meta"):
        check.slopes(slopes).raise_for_faults()
    assert devices == {"cpu"}


def test_functions_run_in_full_precision_whatever_the_caller_has_set():
    is_autocast = set()

    def slopes(heads):
        is_autocast.add(torch.is_autocast_enabled("cpu"))
        return alibi_slopes(heads)

    with torch.autocast("cpu"):
        check.slopes(slopes).raise_for_faults()
    assert is_autocast == {False}


@each_case(
    "value",
    {
        "tensor without values": torch.zeros(8, device="meta"),
        "text": "text",
        "lists of different lengths": [[1], [1, 2]],
        "booleans": torch.zeros(8, dtype=torch.bool),
        "complex numbers": torch.zeros(8, dtype=torch.complex64),
    },
)
def test_result_that_is_no_array_of_numbers_is_a_finding(value):
    def slopes(heads):
        return value

    assert names(check.slopes(slopes, num_heads=[8])) == {"wrong type"}


def slopes_of_zero_lengths(heads):
    return alibi_slopes(heads) / 0


def infinite_bias(heads, queries, keys):
    return torch.full((heads, queries, keys), math.inf)


def infinite_output(query, key, value):
    return torch.full_like(query, math.inf)


@each_case(
    ("checker", "function"),
    {
        "slopes": (check.slopes, slopes_of_zero_lengths),
        "bias": (check.bias, infinite_bias),
        "attention": (check.attention, infinite_output),
    },
)
def test_infinite_numbers_are_told_apart_from_numbers(checker, function):
    (finding,) = checker(function, num_heads=[8]).findings
    assert finding.name == "returns NaN"
    assert finding.evidence.endswith("are infinite")


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def test_an_error_whose_text_raises_is_told_by_its_type():
    def slopes(heads):
        raise UnprintableError

    (finding,) = check.slopes(slopes, num_heads=[8]).findings
    assert finding.evidence.startswith("8 heads: UnprintableError, in slopes (")


def first_helper(table):
    return table["slopes"]


def test_an_error_is_told_with_the_deepest_line_of_the_callers_code():
    def slopes(heads):
        return first_helper({})

    report = check.slopes(slopes, num_heads=[8])
    (finding,) = report.findings
    line = first_helper.__code__.co_firstlineno + 1
    place = f"in first_helper (test_bad_functions.py, line {line})"
    assert finding.evidence == f"8 heads: KeyError: 'slopes', {place}"
    with pytest.raises(check.AlibiFaultError) as raised:
        report.raise_for_faults()
    assert isinstance(raised.value.__cause__, KeyError)


class AttentionModule(torch.nn.Module):
    def forward(self, query, key, value):
        return attend(query, key, value)


@each_case(
    ("checker", "function", "words"),
    {
        "slopes": (check.attention, alibi_slopes, "is called with (query, key, value): too many"),
        "one number": (check.bias, lambda heads: heads, "called with (num_heads, query_length"),
        "no mask": (partial(check.attention, padding=True), attend_without_a_mask, "value, mask)"),
        "class": (check.attention, AttentionModule, "AttentionModule is a class"),
    },
)
def test_a_function_of_another_kind_is_told_so(checker, function, words):
    (finding,) = checker(function).findings
    assert finding.name == "wrong kind of function"
    assert words in finding.evidence


def test_a_module_is_a_function():
    check.attention(AttentionModule(), num_heads=[8], length=16).raise_for_faults()


def test_an_error_of_many_lines_is_quoted_in_one():
    def slopes(heads):
        raise ValueError("expected\n    8 heads\n    or 16")

    (finding,) = check.slopes(slopes, num_heads=[8]).findings
    assert finding.evidence.startswith("8 heads: ValueError: expected 8 heads or 16, in slopes (")


@pytest.fixture
def noise():
    """A function that returns other numbers each time, from 0 to 1."""
    return partial(torch.rand, generator=torch.Generator().manual_seed(0))


def test_a_random_bias_is_said_to_be_random(noise):
    def bias(heads, queries, keys):
        return noise(heads, queries, keys)

    report = check.bias(bias, num_heads=[8], length=16)
    assert [finding.name for finding in report.findings] == ["random result"]


def test_attention_with_dropout_is_said_to_be_random(noise):
    def attention(query, key, value):
        output = attend(query, key, value)
        return output.masked_fill(noise(output.shape) < 0.1, 0.0)

    report = check.attention(attention, num_heads=[8], head_dim=64, length=16)
    assert [finding.name for finding in report.findings] == ["random result"]


def test_failing_numbers_of_heads_are_told():
    def slopes(heads):
        if heads > 4:
            raise ValueError("too many")
        return alibi_slopes(heads)

    (finding,) = check.slopes(slopes, num_heads=[1, 2, 4, 5, 6, 7, 8]).findings
    assert finding.evidence.endswith("(only with 5 or more heads)")


def too_few_slopes(heads):
    return [1.0]


def slopes_that_are_nan(heads):
    return [math.nan] * heads


def infinite_slopes(heads):
    return torch.full((heads,), math.inf)


def a_word(heads):
    return "abc"


def complex_slopes(heads):
    return torch.ones(heads, dtype=torch.complex64)


@each_case(
    ("arguments", "message"),
    {
        "no number of heads": ({"num_heads": []}, "num_heads must have at least one integer"),
        "NaN seconds": ({"seconds": math.nan}, "seconds must be a positive, finite number"),
        "head_dim too large": (
            {"head_dim": 2**16 + 1, "length": 16},
            "head_dim must be between 1 and 65536, got 65537",
        ),
        "layout": ({"layout": "bhl"}, "layout must contain each of b, h, l and d once"),
        "padding": (
            {"padding": "both"},
            "padding must be True, False, 'left' or 'right', got 'both'",
        ),
        "scale 0": ({"scale": 0}, "scale must be a finite number other than 0, got 0"),
        "infinite scale": (
            {"scale": math.inf},
            "scale must be a finite number other than 0, got inf",
        ),
        "unknown scheme": (
            {"slopes": "other"},
            "slopes must be one of official, geometric, halving",
        ),
        "too few slopes": (
            {"slopes": too_few_slopes},
            r"slopes\(8\) must return \[8\], got shape \[1\]",
        ),
        "slopes that are NaN": (
            {"slopes": slopes_that_are_nan},
            r"slopes\(8\) must return finite numbers, got \[nan, ",
        ),
        "infinite slopes": (
            {"slopes": infinite_slopes},
            r"slopes\(8\) must return finite numbers, got \[inf, ",
        ),
    },
)
def test_invalid_argument_of_the_checker_raises(arguments, message):
    with pytest.raises(ValueError, match=message):
        check.attention(attend, **arguments)


@each_case(
    ("arguments", "message"),
    {
        "dtype of integers": (
            {"dtype": torch.int64},
            "dtype must be a floating-point torch.dtype, got torch.int64",
        ),
        "padding": ({"padding": 3}, "padding must be True, False, 'left' or 'right', got 3"),
        "layout": ({"layout": 3}, "layout must be a string such as 'bhld', got 3"),
        "word for slopes": ({"slopes": a_word}, r"slopes\(8\) must return numbers, got 'abc'"),
        "complex slopes": (
            {"slopes": complex_slopes},
            r"slopes\(8\) must return numbers, got tensor",
        ),
    },
)
def test_argument_of_a_wrong_type_raises(arguments, message):
    with pytest.raises(TypeError, match=message):
        check.attention(attend, **arguments)


def test_wrong_slopes_are_refused_before_the_function_is_called():
    calls = []
    with pytest.raises(ValueError, match="must return finite numbers"):
        check.slopes(calls.append, slopes=slopes_that_are_nan)
    assert not calls


def test_a_check_of_many_keys_makes_no_matrix_of_all_pairs():
    with LargestTensor() as largest:
        report = check.attention(attend, num_heads=[1], head_dim=64, length=1700)
    report.raise_for_faults()
    assert largest.numel < 1700**2 / 4


def test_a_fault_that_only_the_first_call_shows_is_a_random_result():
    factors_of_the_bias = iter([0.0])

    def first_call_without_bias(query, key, value):
        return attend(query, key, value, factor=next(factors_of_the_bias, 1.0))

    report = check.attention(first_call_without_bias, num_heads=[8], head_dim=64, length=33)
    assert [finding.name for finding in report.findings] == ["random result"]


def equal_slopes_for_at_most_8_heads(query, key, value):
    """For tensors in the layout hld."""
    heads = len(query)
    if heads > 8:
        raise ValueError("at most 8 heads")
    slopes = torch.full((heads,), 0.1)
    return alibi_attention(query[None], key[None], value[None], slopes)[0]


@cache
def report_of_two_faults():
    return check.attention(equal_slopes_for_at_most_8_heads, "hld", num_heads=[8, 12], length=33)


def test_two_faults_are_both_named():
    report = report_of_two_faults()
    found = [finding.name for finding in report.findings]
    assert found == ["raises an error", "heads share a slope"]


def test_an_error_is_quoted_with_the_numbers_of_heads_that_raise_it():
    report = report_of_two_faults()
    error = report.findings[0]
    assert "ValueError: at most 8 heads" in error.evidence
    assert error.evidence.endswith("(only with 12 heads)")


# Layouts


def attention_of(layout):
    """Correct attention for tensors in this layout."""
    standard = "bhld" if "b" in layout else "hld"

    def attention(*tensors):
        query, key, value = (torch.einsum(f"{layout}->{standard}", tensor) for tensor in tensors)
        shape = query.shape
        with_batch = [tensor.reshape(-1, *tensor.shape[-3:]) for tensor in (query, key, value)]
        output = attend(*with_batch).reshape(shape)
        return torch.einsum(f"{standard}->{layout}", output)

    return attention


@pytest.mark.parametrize("layout", ["bhld", "blhd", "lbhd", "hld", "lhd"])
def test_a_function_is_right_with_its_own_layout(layout):
    check.attention(
        attention_of(layout), layout=layout, num_heads=[12], length=16
    ).raise_for_faults()


def test_a_bias_that_is_wrong_once_is_a_random_result():
    factors = iter([0.0])

    def bias(heads, queries, keys):
        return next(factors, 1.0) * alibi_bias(alibi_slopes(heads), queries, keys)

    assert names(check.bias(bias, num_heads=[8], length=33)) == {"random result"}


@pytest.mark.parametrize("again", [False, True], ids=["once", "each time"])
def test_an_error_for_large_content_is_a_finding(again):
    errors = iter([ValueError("too large")] if not again else [ValueError("too large")] * 99)

    def attention(query, key, value):
        if query.abs().max() > 20:
            error = next(errors, None)
            if error is not None:
                raise error
        return attend(query, key, value)

    (finding,) = check.attention(attention, num_heads=[8], length=16).findings
    assert finding.name == "raises an error"
    assert "large content" in finding.evidence
