"""Check the functions that a reader writes in the lesson "Build it yourself": slopes, bias, attention and more.

Each check runs `alibi_viz.check` on the function, and adds a hint to what it finds. The hint says where to look, not
what to write.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from alibi_viz import check
from alibi_viz.bias import causal_mask
from alibi_viz.check import FAULTS, Finding, Report
from alibi_viz.check.call import Unusable
from alibi_viz.check.functions import SLOPE_HEADS
from alibi_viz.lessons.answer import Answer, is_written, name_of
from alibi_viz.lessons.hints import HINTS, WINDOW_MISTAKES
from alibi_viz.slopes import alibi_slopes

__all__ = ["check_attention", "check_bias", "check_decoding_row", "check_fold", "check_slopes", "check_window"]

SECONDS = 20.0  # time limit of a call
_SIZES = "Tested with 8 heads and up to 300 tokens, with 12 heads and 16, and with fewer queries than keys."


def check_slopes(function: Callable[[int], Any]) -> Answer:
    """Check a function num_heads -> slopes [heads].

    >>> lessons.check_slopes(lambda num_heads: [2 ** (-8 * head / num_heads) for head in range(num_heads)])
    <lambda> isn't right yet.
      first slope is 1: head 1 of 1 has slope 1, expected 0.00390625
      Hint: With which number do you start to count the heads?
    """
    return _answer(
        "slopes",
        function,
        (8,),
        lambda: check.slopes(function, seconds=SECONDS),
        f"Tested with {len(SLOPE_HEADS)} head counts from 1 to {max(SLOPE_HEADS)}, powers of two and others.",
    )


def check_bias(function: Callable[[int, int, int], Any]) -> Answer:
    """Check a function (num_heads, query_length, key_length) -> bias, broadcastable to [heads, query, key].

    >>> lessons.check_bias(lambda heads, queries, keys: alibi_bias(alibi_slopes(heads), queries, keys)).ok
    True
    """
    return _answer(
        "bias",
        function,
        (8, 4, 4),
        lambda: check.bias(function, seconds=SECONDS),
        _SIZES,
    )


def check_attention(function: Callable[[Tensor, Tensor, Tensor], Any]) -> Answer:
    """Check a function (query, key, value) -> output, each [batch, heads, length, head_dim].

    >>> lessons.check_attention(lambda q, k, v: alibi_attention(q, k, v, alibi_slopes(q.shape[1]))).ok
    True
    """
    return _answer(
        "attention",
        function,
        torch.zeros(3, 1, 8, 4, 4).unbind(),
        lambda: check.attention(function, seconds=SECONDS),
        _SIZES,
    )


def check_decoding_row(function: Callable[[int, int], Any]) -> Answer:
    """Check a function (num_heads, key_length) -> the bias [heads, key] of one new token, the last of the keys.

    >>> lessons.check_decoding_row(lambda num_heads, key_length: torch.zeros(num_heads, key_length))
    <lambda> isn't right yet.
      no bias: head 1 of 8 has slope 0, expected 0.5
      Hint: Does the result depend on the position of the key?
    """

    def bias(num_heads: int, query_length: int, key_length: int) -> Tensor:
        """The rows that the function gives while the last `query_length` tokens are decoded one by one."""
        rows = torch.full((num_heads, query_length, key_length), -math.inf)
        for index, keys in enumerate(range(key_length - query_length + 1, key_length + 1)):
            row = torch.as_tensor(function(num_heads, keys))
            if row.shape != (num_heads, keys):
                expected = f"expected [{num_heads}, {keys}]"
                raise Unusable("wrong shape", f"with {keys} keys: returned {list(row.shape)}, {expected}")
            rows[:, index, :keys] = row
        return rows

    return _answer(
        "decoding row",
        function,
        (8, 4),
        lambda: check.bias(bias, decoding=False, seconds=SECONDS),
        "Tested with 8 heads and caches of 1 to 300 keys, and with 12 heads and 1 to 16.",
    )


def check_fold(function: Callable[[Tensor, Tensor, Tensor], Any]) -> Answer:
    """Check a function (query, key, slopes) -> wider query and key, whose plain dot products are ALiBi's logits.

    Query and key are [batch, heads, length, head_dim] and of one length, and slopes are [heads]. The dot products are
    not scaled, so the scale belongs in the wider query. A constant added to all logits of a query does no harm.

    >>> lessons.check_fold(lambda query, key, slopes: av.fold(query * query.shape[-1] ** -0.5, key, slopes, scale=1)).ok
    True
    """

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        result = function(query, key, alibi_slopes(query.shape[1]))
        if not (isinstance(result, tuple) and len(result) == 2 and all(isinstance(part, Tensor) for part in result)):
            raise Unusable("wrong type", f"returned {type(result).__name__}, expected a tuple of two tensors")
        wide_query, wide_key = result
        expected = [*query.shape[:3], wide_key.shape[-1]]
        for name, wide in (("query", wide_query), ("key", wide_key)):
            if list(wide.shape) != expected:
                raise Unusable("wrong shape", f"the wider {name} is {list(wide.shape)}, expected {expected}")
        logits = (wide_query @ wide_key.mT).masked_fill(~causal_mask(query.shape[2], key.shape[2]), -math.inf)
        return logits.softmax(-1) @ value

    return _answer(
        "fold",
        function,
        (*torch.zeros(2, 1, 8, 4, 4).unbind(), alibi_slopes(8)),
        lambda: check.attention(attention, decoding=False, seconds=SECONDS),
        "Tested with 8 heads and up to 300 tokens, and with 12 heads and 16.",
    )


def check_window(function: Callable[[float, float], Any]) -> Answer:
    """Check a function (slope, share) -> window, the number of steps back beyond which nothing matters.

    It is the smallest integer such that, in a text of any length with equal content, all keys more than so many steps
    back *together* get at most `share` of the weight.

    >>> lessons.check_window(lambda slope, share: math.ceil(4 / slope))  # doctest: +ELLIPSIS
    <lambda> isn't right yet.
      for slope 1/2 and share 0.01 it returns 8, expected 9...
    """
    name = name_of(function)
    if not is_written(function, 0.5, 0.01):
        return Answer(name, is_written=False)
    cases = [(2.0**-power, share) for power in range(1, 9) for share in (0.01, 0.001, 2.0**-24)]
    got: dict[tuple[float, float], Any] = {}
    for case in cases:
        try:
            got[case] = value = function(*case)
            if int(value) != value:
                raise ValueError(f"returned {value!r}, expected an integer")
        except Exception as error:
            problem = f"{_describe(*case)}: {type(error).__name__}: {error}"
            return Answer(name, ((problem, HINTS["window"]["raises an error"]),))
    wrong = next((case for case in cases if got[case] != window(*case)), None)
    if wrong is None:
        return Answer(name, praise=f"Tested with {len(cases)} slopes and shares.")
    problem = f"{_describe(*wrong)} it returns {got[wrong]}, expected {window(*wrong)}"
    hints = [hint for hint, rule in WINDOW_MISTAKES if all(got[case] == rule(*case) for case in cases)]
    return Answer(name, ((problem, hints[0] if hints else HINTS["window"]["unknown fault"]),))


def _describe(slope: float, share: float) -> str:
    return f"for slope 1/{1 / slope:g} and share {share:.3g}"


def window(slope: float, share: float) -> int:
    """The window that `check_window` asks for.

    At equal content, a key d steps back has weight proportional to e^(-m d), so all keys more than w steps back
    together have the share e^(-m (w + 1)) of a text without end, and less of a shorter one.

    >>> window(1 / 2, 0.01)
    9
    """
    return max(0, math.ceil(-math.log(share) / slope) - 1)


def _answer(
    exercise: str, function: Callable[..., Any], example: tuple[Any, ...], run: Callable[[], Report], praise: str
) -> Answer:
    """Run a check, unless the function still has its blank, and add a hint to each fault that it found."""
    name = name_of(function)
    if not is_written(function, *example):
        return Answer(name, is_written=False)
    report = run()
    mistakes = tuple((f"{finding.name}: {finding.evidence}", _hint(exercise, finding)) for finding in report.findings)
    return Answer(name, mistakes, praise, report)


def _hint(exercise: str, finding: Finding) -> str:
    """The hint of this exercise for a fault, or a general one; for faults without a hint, what the fault is."""
    for hints in (HINTS[exercise], HINTS["any"]):
        if finding.name in hints:
            return hints[finding.name]
    problem = FAULTS[finding.name].problem
    return f"{problem[0].upper()}{problem[1:]}."
