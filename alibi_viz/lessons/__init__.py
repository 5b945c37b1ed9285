"""Guesses, exercises and bugs of the lessons. A grade says whether a function is right, and if not, where to look.

from alibi_viz import lessons
lessons.guess_choice("heads", "Which head looks furthest?", ["the steepest", "the flattest"], "the flattest")
lessons.grade_slopes(my_slopes)
lessons.try_repair("case 1", my_repair)
"""

from importlib import import_module
from typing import Any

_GRADES = ("grade_attention", "grade_bias", "grade_decoding_row", "grade_fold", "grade_slopes", "grade_window")
_GUESSES = ("guess_choice", "guess_curve", "guess_grid", "guess_order")
_NAMES = {
    "lessons.bugs": ("BUGS", "Bug", "try_repair"),
    "lessons.grading": ("Grade", *_GRADES, "if_written"),
    "lessons.pages": ("decision_tree", "side_by_side", "timeline"),
    "widgets.guesses": (*_GUESSES, "live_texts", "score"),  # needs plotly and ipywidgets
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULES)  # noqa: PLE0605  # sorted() returns a list


def __getattr__(name: str) -> Any:  # on first use
    if name not in _MODULES:
        raise AttributeError(f"module 'alibi_viz.lessons' has no attribute {name!r}")
    return getattr(import_module(f"alibi_viz.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
