"""What the reader is told about an exercise: not written yet, right, or which mistake it contains."""

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from alibi_viz.check import Report

__all__ = ["Answer", "is_written", "name_of", "written"]


@dataclass(frozen=True)
class Answer:
    """The answer to a try at an exercise, printed as text; a notebook also shows the attention weights.

    Attributes:
        name: of the reader's function.
        mistakes: (what is wrong, a hint) for each mistake, empty if the function is right.
        praise: what was tested, for a right function.
        report: the checker's report, or None if the checker was not run.
        is_written: False while the blank is still in the function.
    """

    name: str
    mistakes: tuple[tuple[str, str], ...] = ()
    praise: str = ""
    report: Report | None = None
    is_written: bool = True

    @property
    def ok(self) -> bool:
        """Whether the function is written and right."""
        return self.is_written and not self.mistakes

    def __str__(self) -> str:
        if not self.is_written:
            return f"{self.name} isn't written yet. Replace the three dots, run its cell, and then this one again."
        if self.ok:
            return f"{self.name} is right. {self.praise}"
        lines = [f"{self.name} isn't right yet."]
        for problem, hint in self.mistakes:
            lines += [f"  {problem}", f"  Hint: {hint}"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The text, and the weights in the head that differs most from a right solution."""
        style = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
        text = f'<pre style="{style}">{html.escape(str(self))}</pre>'
        if self.ok or self.report is None or self.report.comparison is None:
            return text
        from alibi_viz.figures import comparison_html  # noqa: PLC0415  # checks without pictures don't need plotly

        comparison = self.report.comparison
        return text + comparison_html(comparison.wanted, comparison.got, comparison.place)


def is_written(function: Callable[..., Any], *arguments: object) -> bool:
    """Whether a function returns something other than None or `...`, the blank of an exercise.

    A function that raises is written. So is one whose result is wrong.
    """
    try:
        result = function(*arguments)
    except Exception:
        return True
    parts = result if isinstance(result, tuple) else (result,)
    return not any(part is None or part is ... for part in parts)


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function; for another callable, such as a `functools.partial`, that of its type."""
    return str(getattr(function, "__name__", type(function).__name__))


def written(function: Callable[[int], Any], otherwise: Callable[[int], Any]) -> Callable[[int], Any]:
    """The reader's function of num_heads, or another one, with a note, while it is not written.

    >>> slopes = lessons.written(lambda num_heads: ..., otherwise=av.alibi_slopes)
    <lambda> isn't written yet, so alibi_slopes is used.
    """
    if is_written(function, 8):
        return function
    print(f"{name_of(function)} isn't written yet, so {name_of(otherwise)} is used.")
    return otherwise
