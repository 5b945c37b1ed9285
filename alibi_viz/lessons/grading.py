"""Grade the functions that a reader writes in the lesson "Build it yourself": slopes, bias, attention and more.

A grade says whether the function is right. If not, it adds a hint to each fault that `alibi_viz.check` finds: where to
look, not what to write.
"""

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from alibi_viz import check
from alibi_viz.bias import causal_mask
from alibi_viz.check import FAULTS, Report
from alibi_viz.check.api import SLOPE_HEADS
from alibi_viz.check.call import Unusable
from alibi_viz.check.report import notebook_html
from alibi_viz.lessons.bugs import View
from alibi_viz.slopes import alibi_slopes

SECONDS = 20.0  # time limit of a call
# {exercise: {mistake: hint}}, and "any" for all exercises
HINTS: dict[str, dict[str, str]] = tomllib.loads((files("alibi_viz.lessons") / "hints.toml").read_text("utf-8"))


class Exercise(NamedTuple):
    """How a function is checked: the kind of check, the call whose weights a notebook shows, and what was tested."""

    kind: str
    view: View
    tested: str
    options: Mapping[str, Any] = MappingProxyType({})


_QUERIES, _DECODING = View(head=2), {"decoding": False}
_SIZES = "8 heads and up to 300 tokens, with 12 heads and 16"
EXERCISES = {
    "slopes": Exercise(
        "slopes",
        View(num_heads=12),
        f"{len(SLOPE_HEADS)} head counts from 1 to {max(SLOPE_HEADS)}, powers of two and others",
    ),
    "bias": Exercise("bias", _QUERIES, f"{_SIZES}, and with fewer queries than keys"),
    "attention": Exercise("attention", _QUERIES, f"{_SIZES}, and with fewer queries than keys"),
    "decoding row": Exercise(
        "bias", View(query_length=1), "8 heads and caches of 1 to 300 keys, and with 12 heads and 1 to 16", _DECODING
    ),
    "fold": Exercise("attention", _QUERIES, _SIZES.replace(",", ", and"), _DECODING),
}


@dataclass(frozen=True)
class Grade:
    """What a reader is told about a try at an exercise, as text; a notebook also shows weights at equal content.

    Attributes:
        name: of the reader's function.
        mistakes: (what is wrong, a hint) for each mistake, empty if the function is right.
        praise: what was tested, for a right function.
        report: the checker's report, or None if the checker was not run.
        is_written: False while the blank is still in the function.
        weights: {"correct" or "yours": float64 [rows, keys]}, each relative to the largest of its row.
        rows: what a row of the weights is.
    """

    name: str
    mistakes: tuple[tuple[str, str], ...] = ()
    praise: str = ""
    report: Report | None = None
    is_written: bool = True
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    rows: str = ""

    @property
    def ok(self) -> bool:
        """Whether the function is written and right."""
        return self.is_written and not self.mistakes

    def __repr__(self) -> str:
        if not self.is_written:
            return f"{self.name} isn't written yet. Replace the three dots, and run its cell again."
        if self.ok:
            return f"{self.name} is right. {self.praise}"
        mistakes = [f"  {problem}\n  Hint: {hint}" for problem, hint in self.mistakes]
        return "\n".join([f"{self.name} isn't right yet.", *mistakes])

    def _repr_html_(self) -> str:
        if self.mistakes or not self.weights:
            return notebook_html(str(self), self.report.comparison if self.report else None)
        from alibi_viz.figures import weights_html  # noqa: PLC0415  # a test of a solution shouldn't load plotly

        return notebook_html(str(self), None) + weights_html(self.weights, self.rows)


def grade_slopes(function: Callable[[int], Any]) -> Grade:
    """Grade a function num_heads -> slopes [heads].

    >>> lessons.grade_slopes(lambda num_heads: [2 ** (-8 * head / num_heads) for head in range(num_heads)])
    <lambda> isn't right yet.
      first slope is 1: head 1 of 1 has slope 1, expected 0.00390625
      Hint: With which number do you start to count the heads?
    """
    return _grade("slopes", function, (8,), function)


def grade_bias(function: Callable[[int, int, int], Any]) -> Grade:
    """Grade a function (num_heads, query_length, key_length) -> bias, broadcastable to [heads, query, key].

    >>> lessons.grade_bias(lambda heads, queries, keys: alibi_bias(alibi_slopes(heads), queries, keys)).ok
    True
    """
    return _grade("bias", function, (8, 4, 4), function)


def grade_attention(function: Callable[[Tensor, Tensor, Tensor], Any]) -> Grade:
    """Grade a function (query, key, value) -> output, each [batch, heads, length, head_dim].

    >>> lessons.grade_attention(lambda q, k, v: alibi_attention(q, k, v, alibi_slopes(q.shape[1]))).ok
    True
    """
    return _grade("attention", function, (*torch.zeros(3, 1, 8, 4, 4),), function)


def grade_decoding_row(function: Callable[[int, int], Any]) -> Grade:
    """Grade a function (num_heads, key_length) -> the bias [heads, key] of one new token, the last of the keys.

    >>> lessons.grade_decoding_row(lambda num_heads, key_length: torch.zeros(num_heads, key_length))
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

    return _grade("decoding row", function, (8, 4), bias)


def grade_fold(function: Callable[[Tensor, Tensor, Tensor], Any]) -> Grade:
    """Grade a function (query, key, slopes) -> wider query and key, whose plain dot products are ALiBi's logits.

    Query and key are [batch, heads, length, head_dim] and of one length, and slopes are [heads]. The dot products are
    not scaled, so the scale belongs in the wider query. A constant added to all logits of a query does no harm.

    >>> lessons.grade_fold(lambda query, key, slopes: av.fold(query * query.shape[-1] ** -0.5, key, slopes, scale=1)).ok
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

    example = *torch.zeros(2, 1, 8, 4, 4), alibi_slopes(8)
    return _grade("fold", function, example, attention)


def grade_window(function: Callable[[float, float], Any]) -> Grade:
    """Grade a function (slope, share) -> window, the number of steps back beyond which nothing matters.

    It is the smallest integer such that, in a text of any length with equal content, all keys more than so many steps
    back *together* get at most `share` of the weight.

    >>> lessons.grade_window(lambda slope, share: math.ceil(4 / slope))  # doctest: +ELLIPSIS
    <lambda> isn't right yet.
      for slope 1/2 and share 0.01 it returns 8, expected 9...
    """
    name, cases = _name(function), [(2.0**-power, share) for power in range(1, 9) for share in (0.01, 0.001, 2.0**-24)]
    if not _is_written(function, 0.5, 0.01):
        return Grade(name, is_written=False)

    def mistake(case: tuple[float, float], problem: str, hint: str) -> Grade:
        return Grade(name, ((f"for slope 1/{1 / case[0]:g} and share {case[1]:.3g}{problem}", HINTS["window"][hint]),))

    results: dict[tuple[float, float], Any] = {}
    for case in cases:
        try:
            results[case] = result = function(*case)
            if int(result) != result:
                raise ValueError(f"returned {result!r}, expected an integer")
        except Exception as error:
            return mistake(case, f": {type(error).__name__}: {error}", "raises an error")
    for case in cases:
        if results[case] != window(*case):
            rules = [(hint, rule) for hint, rules in WINDOW_MISTAKES.items() for rule in rules]
            hints = [hint for hint, rule in rules if all(results[each] == rule(*each) for each in cases)]
            problem = f" it returns {results[case]}, expected {window(*case)}"
            return mistake(case, problem, hints[0] if hints else "unknown fault")
    return Grade(name, praise=f"Tested with {len(cases)} slopes and shares.")


def window(slope: float, share: float) -> int:
    """The window that `grade_window` asks for.

    At equal content, a key d steps back has weight proportional to e^(-m d), so all keys more than w steps back
    together have the share e^(-m (w + 1)) of a text without end, and less of a shorter one.

    >>> from alibi_viz.lessons.grading import window
    >>> window(1 / 2, 0.01)
    9
    """
    return _steps(-math.log(share), slope)


def _steps(logarithm: float, slope: float) -> int:
    """The smallest window w >= 0 with slope * (w + 1) >= logarithm."""
    return max(0, math.ceil(logarithm / slope) - 1)


# {mistake: the rules (slope, share) -> window that make it}
WINDOW_MISTAKES: dict[str, list[Callable[[float, float], int]]] = {
    "one too many": [lambda m, s: window(m, s) + 1],
    "one too few": [lambda m, s: window(m, s) - 1],
    "another logarithm": [lambda m, s: _steps(-math.log2(s), m), lambda m, s: _steps(-math.log10(s), m)],
    "another proportion": [lambda m, s: window(1.0, s), lambda m, s: window(1 / m, s)],
    "a single key": [lambda m, s: _steps(math.log(-math.expm1(-m) / s), m)],
    "the nearest key": [lambda m, s: _steps(-math.log(-math.expm1(-m) * s), m)],
}


def if_written(function: Callable[[int], Any], otherwise: Callable[[int], Any]) -> Callable[[int], Any]:
    """The reader's function of num_heads, or another one, with a note, while it is not written.

    >>> slopes = lessons.if_written(lambda num_heads: ..., otherwise=av.alibi_slopes)
    <lambda> isn't written yet, so alibi_slopes is used.
    """
    if _is_written(function, 8):
        return function
    print(f"{_name(function)} isn't written yet, so {_name(otherwise)} is used.")
    return otherwise


def _grade(name: str, function: Callable[..., Any], example: tuple[Any, ...], checked: Callable[..., Any]) -> Grade:
    """Check the function of an exercise, unless it still has its blank, and add a hint to each fault that is found.

    A hint is that of this exercise, or a general one; for faults without a hint, it is what the fault is. `checked` is
    the function as the check expects it.
    """
    exercise, hints = EXERCISES[name], HINTS["any"] | HINTS[name]
    head, weights = exercise.view.head, {"correct": exercise.view.correct(causal=True)}
    rows = "The last query of each head" if head is None else f"The queries of head {head}"
    if not _is_written(function, *example):
        return Grade(_name(function), is_written=False, weights=weights, rows=rows)
    report = getattr(check, exercise.kind)(checked, seconds=SECONDS, **exercise.options)
    mistakes = []
    for finding in report.findings:
        problem = FAULTS[finding.name].problem
        hint = hints.get(finding.name, f"{problem[0].upper()}{problem[1:]}.")
        mistakes.append((f"{finding.name}: {finding.evidence}", hint))
    if not mistakes:
        weights["yours"] = exercise.view.weights(exercise.kind, checked, True, SECONDS)
    return Grade(
        _name(function), tuple(mistakes), f"Tested with {exercise.tested}.", report, weights=weights, rows=rows
    )


def _is_written(function: Callable[..., Any], *arguments: object) -> bool:
    """Whether a function returns something other than None or `...`, the blank of an exercise.

    A function that raises is written. So is one whose result is wrong.
    """
    try:
        result = function(*arguments)
    except Exception:
        return True
    parts = result if isinstance(result, tuple) else (result,)
    return not any(part is None or part is ... for part in parts)


def _name(function: Callable[..., Any]) -> str:
    """The name of a function; for another callable, such as a `functools.partial`, that of its type."""
    return str(getattr(function, "__name__", type(function).__name__))
