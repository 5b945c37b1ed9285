"""Grade the functions that a reader writes in the lesson "Build it yourself".

A grade says whether the function is right. If not, it adds a hint to each fault that
`alibi_viz.check` finds. What is asked for is in `hints.toml`, exercise by exercise.
"""

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from itertools import product
from typing import Any

import torch
from torch import Tensor

from alibi_viz import check
from alibi_viz.arguments import check_instance
from alibi_viz.bias import causal_mask
from alibi_viz.check import Finding, Report
from alibi_viz.check.call import Unusable, call, to_tensor
from alibi_viz.check.report import notebook_html
from alibi_viz.lessons.bugs import CaseView
from alibi_viz.models import LanguageModel
from alibi_viz.models.cache import KeyValueCache
from alibi_viz.models.pretrained import shared_copy
from alibi_viz.models.self_attention import SelfAttention
from alibi_viz.slopes import alibi_slopes

SECONDS = 60.0  # time limit of a call; loops over single numbers take half of it
_LAST_QUERIES = "The last query of each head"


@dataclass(frozen=True)
class Exercise:
    """How the function of an exercise is checked, and which of its weights are shown.

    Attributes:
        check: what checks it: "slopes", "bias" or "attention", a function of `alibi_viz.check`; or
            "window", for `_check_window`.
        tested: what the check tests, in words.
        options: further arguments of the check.
        view: the call whose weights a notebook shows; None if the function leads to no weights.
    """

    check: str
    tested: str
    options: dict[str, Any] = field(default_factory=dict)
    view: CaseView | None = None

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "Exercise":
        """An exercise as it stands in `hints.toml`."""
        fields = dict(table)
        if "view" in fields:
            fields["view"] = CaseView(**fields["view"])
        return cls(**fields)

    @property
    def rows(self) -> str:
        """What a row of the weights is."""
        if self.view is None or self.view.head is None:
            return _LAST_QUERIES
        return f"The queries of head {self.view.head}"

    def report(self, function: Callable[..., Any]) -> Report:
        """Check a function that has the signature which the check expects."""
        if self.check == "window":
            return _check_window(function, SECONDS)
        run_check = getattr(check, self.check)
        return run_check(function, seconds=SECONDS, **self.options)

    def correct_weights(self) -> dict[str, Tensor]:
        """The weights of a correct function, as in `Grade.weights`."""
        if self.view is None:
            return {}
        return {"correct": self.view.correct(causal=True)}

    def readers_weights(self, function: Callable[..., Any]) -> dict[str, Tensor]:
        """The weights of the reader's function, as in `Grade.weights`; none if it fails."""
        if self.view is None:
            return {}
        try:
            weights = self.view.weights(self.check, function, causal=True, seconds=SECONDS)
        except Unusable:
            return {}
        return {"yours": weights}


_TEXTS = tomllib.loads((files("alibi_viz.lessons") / "hints.toml").read_text("utf-8"))
EXERCISES: dict[str, Exercise] = {
    name: Exercise.from_table(table) for name, table in _TEXTS.pop("exercises").items()
}
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
        comparison = None
        if self.report is not None:
            comparison = self.report.comparison
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

    return _grade("slopes", function, example=[8], checked=slopes)


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
    return _grade("bias", function, example=[8, 4, 4], checked=function)


def grade_attention(function: Callable[[Tensor, Tensor, Tensor], Any]) -> Grade:
    """Grade a function (query, key, value) -> output, each [batch, heads, length, head_dim].

    >>> import alibi_viz as av
    >>> from alibi_viz import lessons
    >>> def my_attention(query, key, value):
    ...     return av.alibi_attention(query, key, value, av.alibi_slopes(query.shape[1]))
    >>> lessons.grade_attention(my_attention).ok
    True
    """
    inputs = torch.zeros(1, 8, 4, 4)
    return _grade("attention", function, example=[inputs, inputs, inputs], checked=function)


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
        wide_query, wide_key = _wide_pair(result, query)
        visible = causal_mask(query.shape[2], key.shape[2])
        logits = (wide_query @ wide_key.mT).masked_fill(~visible, -math.inf)
        return logits.softmax(-1) @ value

    inputs = torch.zeros(1, 8, 4, 4)
    return _grade("fold", function, example=[inputs, inputs, alibi_slopes(8)], checked=attention)


def _wide_pair(result: Any, query: Tensor) -> tuple[Tensor, Tensor]:
    """The wider query and key that a fold returned. Raises Unusable if that is something else."""
    parts = result if isinstance(result, tuple | list) else [result]
    is_pair = len(parts) == 2 and all(isinstance(part, Tensor) for part in parts)
    if not is_pair:
        got = " and ".join(type(part).__name__ for part in parts)
        raise Unusable("wrong type", f"returned {got}, expected two tensors")

    wide_query, wide_key = parts
    expected = [*query.shape[:3], wide_key.shape[-1]]
    for name, wide in (("query", wide_query), ("key", wide_key)):
        shape = list(wide.shape)
        if shape != expected:
            raise Unusable("wrong shape", f"the wider {name} is {shape}, expected {expected}")
    return wide_query, wide_key


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
    return _grade("window", function, example=[0.5, 0.01], checked=function)


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
    if not example:
        example = (8,)
    if _is_written(function, *example):
        return function
    print(f"{_name(function)} isn't written yet, so {_name(otherwise)} is used.")
    return otherwise


def with_attention(
    model: LanguageModel, function: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> LanguageModel:
    """A copy of a model, with the same parameters, whose layers call the reader's function.

    Args:
        model: a `LanguageModel` with ALiBi.
        function: (query, key, value) -> output, as for `grade_attention`. While the model writes,
            it gets a single query, and the keys and values of all letters so far.

    >>> from alibi_viz import lab, lessons
    >>> def my_attention(query, key, value):
    ...     return value[:, :, -query.shape[2] :]
    >>> model = lessons.with_attention(lab.make_model("alibi"), my_attention)
    """
    check_instance("model", model, LanguageModel)
    copy = shared_copy(model)
    for layer in copy.modules():
        if isinstance(layer, SelfAttention):
            layer.forward = partial(_attend, layer, function)  # type: ignore[method-assign]
    return copy


def _attend(
    layer: SelfAttention,
    function: Callable[[Tensor, Tensor, Tensor], Tensor],
    x: Tensor,
    cache: KeyValueCache | None = None,
    *,
    last: int | None = None,
) -> Tensor:
    """The forward pass of a layer, with the reader's function in place of its attention."""
    query, key, value = layer.heads(x)
    if last is not None:
        query = query[:, :, -last:]
    if cache is not None:
        key, value = cache.append(key, value)
    attended = function(query, key, value)
    return layer.output(attended.transpose(1, 2).flatten(2))


def _grade(
    name: str,
    function: Callable[..., Any],
    *,
    example: Sequence[Any],
    checked: Callable[..., Any],
) -> Grade:
    """Check the function of an exercise, and add a hint to each fault that is found.

    Args:
        name: a key of `EXERCISES`.
        function: the reader's function.
        example: the arguments of a call that tells whether the function still has its blank.
        checked: the function as the check expects it.
    """
    if not callable(function):
        raise TypeError(f"function must be callable, got {function!r}")
    exercise = EXERCISES[name]
    weights = exercise.correct_weights()

    if not _is_written(function, *example):
        text = (
            f"{_name(function)} isn't written yet, or returns nothing. Replace the three dots, and "
            "run its cell again."
        )
        return Grade(text, None, weights, exercise.rows)

    report = exercise.report(checked)
    # A comparison in the report shows the weights of the case that it found.
    if report.comparison is None:
        weights |= exercise.readers_weights(checked)

    if report.ok:
        text = f"{_name(function)} is right. Tested with {exercise.tested}."
    else:
        text = f"{_name(function)} isn't right yet." + _mistakes(name, report)
    return Grade(text, report, weights, exercise.rows)


def _mistakes(exercise: str, report: Report) -> str:
    """The mistakes of a report, each with its hint, as the further lines of a grade."""
    text = ""
    for finding in report.findings:
        text += f"\n  {finding.name}: {finding.evidence}"
        text += f"\n  Hint: {_hint(exercise, finding)}"
    return text


def _hint(exercise: str, finding: Finding) -> str:
    """The hint of the exercise to a fault, or a general one, or what the fault is."""
    hints = HINTS["any"] | HINTS[exercise]
    hint = hints.get(finding.name)
    if hint is None:
        hint = f"{check.FAULTS[finding.name].problem}."
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
