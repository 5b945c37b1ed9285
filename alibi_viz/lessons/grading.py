"""Grade the functions that a reader writes in the lesson "Build it yourself".

A grade says whether the function is right. If not, it adds a hint to each fault that
`alibi_viz.check` finds.
"""

import math
import tomllib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from typing import Any

import torch
from torch import Tensor

from alibi_viz import check
from alibi_viz.bias import causal_mask
from alibi_viz.check import Finding, Report
from alibi_viz.check.call import Unusable, call, to_tensor
from alibi_viz.check.report import notebook_html
from alibi_viz.lessons.bugs import CaseView
from alibi_viz.slopes import alibi_slopes

SECONDS = 60.0  # time limit of a call; loops over single numbers take half of it
_TEXTS = tomllib.loads((files("alibi_viz.lessons") / "hints.toml").read_text("utf-8"))
# {exercise: how it is checked, and what is tested}
EXERCISES: dict[str, dict[str, Any]] = _TEXTS.pop("exercises")
# {exercise: {mistake: hint}}, and "any" for all exercises
HINTS: dict[str, dict[str, str]] = _TEXTS


@dataclass(frozen=True, repr=False)
class Grade:
    """What a reader is told about a try at an exercise.

    It is a text; a notebook also shows weights at equal content.

    Attributes:
        text: whether the function is written and right, and if not, each mistake with a hint.
        report: the checker's report, or None if the function isn't written.
        weights: {"correct" or "yours": float64 [rows, keys]}, each relative to the largest of its
            row.
        rows: what a row of the weights is.
    """

    text: str
    report: Report | None
    weights: dict[str, Tensor]
    rows: str

    @property
    def ok(self) -> bool:
        """Whether the function is written and right."""
        return self.report is not None and self.report.ok

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        comparison = self.report.comparison if self.report else None
        page = notebook_html(self.text, comparison)
        if self.weights and comparison is None:
            # Here, because a test of a solution shouldn't load plotly.
            from alibi_viz.figures import weights_html  # noqa: PLC0415

            page += weights_html(self.weights, self.rows)
        return page


def grade_slopes(function: Callable[[int], Any]) -> Grade:
    """Grade a function num_heads -> slopes [heads].

    >>> from alibi_viz import lessons
    >>> def my_slopes(num_heads):
    ...     return [2 ** (-8 * head / num_heads) for head in range(num_heads)]
    >>> lessons.grade_slopes(my_slopes)
    my_slopes isn't right yet.
      first slope is 1: head 1 of 1 has slope 1, expected 0.00390625
      Hint: With which number do you start to count the heads?
    """

    def slopes(num_heads: int) -> Any:
        result = function(num_heads)
        tensor, _ = to_tensor(result, "the slopes")
        shape = list(tensor.shape)
        if shape != [num_heads]:
            raise Unusable("wrong shape", f"returned {shape}, expected {[num_heads]}")
        return result

    return _grade("slopes", function, (8,), slopes)


def grade_bias(function: Callable[[int, int, int], Any]) -> Grade:
    """Grade a function (num_heads, query_length, key_length) -> bias, broadcastable to [heads,
    query, key].

    >>> import alibi_viz as av
    >>> from alibi_viz import lessons
    >>> def my_bias(num_heads, query_length, key_length):
    ...     return av.alibi_bias(av.alibi_slopes(num_heads), query_length, key_length)
    >>> lessons.grade_bias(my_bias).ok
    True
    """
    return _grade("bias", function, (8, 4, 4))


def grade_attention(function: Callable[[Tensor, Tensor, Tensor], Any]) -> Grade:
    """Grade a function (query, key, value) -> output, each [batch, heads, length, head_dim].

    >>> import alibi_viz as av
    >>> from alibi_viz import lessons
    >>> def my_attention(query, key, value):
    ...     return av.alibi_attention(query, key, value, av.alibi_slopes(query.shape[1]))
    >>> lessons.grade_attention(my_attention).ok
    True
    """
    return _grade("attention", function, torch.zeros(3, 1, 8, 4, 4))


def grade_fold(function: Callable[[Tensor, Tensor, Tensor], Any]) -> Grade:
    """Grade a function (query, key, slopes) -> wider query and key, whose plain dot products are
    ALiBi's logits.

    Query and key are [batch, heads, length, head_dim] and of one length, and slopes are [heads].
    The dot products are not scaled, so the scale belongs in the wider query. A constant added to
    all logits of a query does no harm.

    >>> import alibi_viz as av
    >>> from alibi_viz import lessons
    >>> def my_fold(query, key, slopes):
    ...     return av.fold(query * query.shape[-1] ** -0.5, key, slopes, scale=1)
    >>> lessons.grade_fold(my_fold).ok
    True
    """

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        result = function(query, key, alibi_slopes(query.shape[1]))
        parts = result if isinstance(result, tuple | list) else [result]
        is_pair = len(parts) == 2 and all(isinstance(part, Tensor) for part in parts)
        if not is_pair:
            got = " and ".join(type(part).__name__ for part in parts)
            raise Unusable("wrong type", f"returned {got}, expected two tensors")

        wide_query, wide_key = parts
        expected = [*query.shape[:3], wide_key.shape[-1]]
        for name, wide in (("query", wide_query), ("key", wide_key)):
            if list(wide.shape) != expected:
                raise Unusable(
                    "wrong shape", f"the wider {name} is {list(wide.shape)}, expected {expected}"
                )

        visible = causal_mask(query.shape[2], key.shape[2])
        logits = (wide_query @ wide_key.mT).masked_fill(~visible, -math.inf)
        return logits.softmax(-1) @ value

    return _grade("fold", function, (*torch.zeros(2, 1, 8, 4, 4), alibi_slopes(8)), attention)


def grade_window(function: Callable[[float, float], Any]) -> Grade:
    """Grade a function (slope, share) -> window, the number of steps back beyond which nothing
    matters.

    It is the smallest integer such that all keys further back *together* get at most `share` at
    equal content.

    >>> import math
    >>> from alibi_viz import lessons
    >>> lessons.grade_window(lambda slope, share: math.ceil(4 / slope))  # doctest: +ELLIPSIS
    <lambda> isn't right yet.
      unknown fault: slope 1/2 and share 0.01: returned 8, expected 9...
    """
    return _grade("window", function, (0.5, 0.01))


def _check_window(function: Callable[[float, float], Any], seconds: float) -> Report:
    """Compare 24 windows, up to the first mistake."""

    def compare(slope: float, share: float) -> None:
        steps = float(function(slope, share))
        expected = window(slope, share)
        if steps != expected:
            raise Unusable("unknown fault", f"returned {steps:g}, expected {expected}")

    slopes = [2.0**-power for power in range(1, 9)]
    shares = [0.01, 0.001, 2.0**-24]
    try:
        for slope, share in product(slopes, shares):
            what = f"slope 1/{1 / slope:g} and share {share:.3g}"
            call(compare, slope, share, seconds=seconds, description=what)
    except Unusable as error:
        return Report("the window", [Finding(error.fault, str(error))])
    return Report("the window", [])


def window(slope: float, share: float) -> int:
    """The window that `grade_window` asks for.

    At equal content, a key d steps back has weight proportional to e^(-m d), so all keys more than
    w steps back together have the share e^(-m (w + 1)) of a text without end, and less of a shorter
    one.

    >>> from alibi_viz.lessons.grading import window
    >>> window(1 / 2, 0.01)
    9
    """
    return max(0, math.ceil(-math.log(share) / slope) - 1)


def if_written(
    function: Callable[..., Any], otherwise: Callable[..., Any], *example: Any
) -> Callable[..., Any]:
    """The reader's function or, while it is not written, another one, with a note.

    `example` has the arguments of a call that tells; by default 8.

    >>> import alibi_viz as av
    >>> from alibi_viz import lessons
    >>> slopes = lessons.if_written(lambda num_heads: ..., otherwise=av.alibi_slopes)
    <lambda> isn't written yet, so alibi_slopes is used.
    """
    if _is_written(function, *(example or (8,))):
        return function
    print(f"{_name(function)} isn't written yet, so {_name(otherwise)} is used.")
    return otherwise


def _grade(
    exercise: str, function: Callable[..., Any], example: Iterable[Any], checked: Any = None
) -> Grade:
    """Check the function of an exercise, and add a hint to each fault that is found.

    Args:
        exercise: a key of `EXERCISES`.
        function: the reader's function.
        example: the arguments of a call that tells whether the function still has its blank.
        checked: the function as the check expects it, if that differs.
    """
    if not callable(function):
        raise TypeError(f"function must be callable, got {function!r}")
    facts = EXERCISES[exercise]
    name = _name(function)
    checked = checked or function

    view = CaseView(**facts["view"]) if "view" in facts else None
    weights = {}
    rows = "The last query of each head"
    if view:
        weights["correct"] = view.correct(causal=True)
        if view.head:
            rows = f"The queries of head {view.head}"

    if not _is_written(function, *example):
        text = (
            f"{name} isn't written yet, or returns nothing. Replace the three dots, and run "
            "its cell again."
        )
        return Grade(text, None, weights, rows)

    run_check = getattr(check, facts["check"]) if view else _check_window
    report = run_check(checked, seconds=SECONDS, **facts.get("options", {}))
    if report.ok:
        text = f"{name} is right. Tested with {facts['tested']}."
    else:
        text = f"{name} isn't right yet."
    for finding in report.findings:
        text += f"\n  {finding.name}: {finding.evidence}\n  Hint: {_hint(exercise, finding)}"

    # The report may have a comparison of its own, with the case that it found.
    if view and report.comparison is None:
        with suppress(Unusable):
            weights["yours"] = view.weights(facts["check"], checked, causal=True, seconds=SECONDS)
    return Grade(text, report, weights, rows)


def _hint(exercise: str, finding: Finding) -> str:
    """The hint of the exercise to a fault, or a general one, or what the fault is."""
    hints = HINTS["any"] | HINTS[exercise]
    hint = hints.get(finding.name) or f"{check.FAULTS[finding.name].problem}."
    return hint[0].upper() + hint[1:]


def _is_written(function: Callable[..., Any], *arguments: object) -> bool:
    """Whether a function returns something other than None or `...`, the blank of an exercise.

    A function that raises is written, too.
    """
    try:
        result = call(function, *arguments, seconds=SECONDS, description="the example")
    except Exception:
        return True
    parts = result if isinstance(result, tuple) else (result,)
    return any(part is not None and part is not ... for part in parts)


def _name(function: Callable[..., Any]) -> str:
    """The name of a function, or of the type of another callable, such as `functools.partial`."""
    return str(getattr(function, "__name__", type(function).__name__))
