"""Guesses, exercises and bugs of the lessons. A grade says whether a function is right, and if not, where to look.

from alibi_viz import lessons
lessons.guess_choice("heads", "Which head looks furthest?", ["the steepest", "the flattest"], "the flattest")
lessons.grade_slopes(my_slopes)
lessons.try_repair("case 1", my_repair)
"""

from importlib import import_module
from typing import Any

from alibi_viz.lessons.bugs import BUGS, Bug, try_repair
from alibi_viz.lessons.grading import (
    Grade,
    grade_attention,
    grade_bias,
    grade_decoding_row,
    grade_fold,
    grade_slopes,
    grade_window,
    if_written,
)
from alibi_viz.lessons.history import decision_tree, timeline
from alibi_viz.lessons.pages import side_by_side

__all__ = [
    "BUGS",
    "Bug",
    "Grade",
    "decision_tree",
    "grade_attention",
    "grade_bias",
    "grade_decoding_row",
    "grade_fold",
    "grade_slopes",
    "grade_window",
    "guess_choice",
    "guess_curve",
    "guess_grid",
    "guess_order",
    "if_written",
    "live_texts",
    "score",
    "side_by_side",
    "timeline",
    "try_repair",
]

# They need plotly and ipywidgets, which are imported on first use.
_LAZY = {
    "guess_choice": "guesses.ChoiceGuess",
    "guess_curve": "guesses.CurveGuess",
    "guess_grid": "guesses.GuessGrid",
    "guess_order": "guesses.OrderGuess",
    "live_texts": "live.LiveTexts",
    "score": "guesses.Score",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'alibi_viz.lessons' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(".")
    return getattr(import_module(f"alibi_viz.lessons.{module}"), attribute)
