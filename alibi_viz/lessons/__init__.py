"""Exercises and bugs of the lessons. Their checks say at once whether a function is right, and if not, where to look.

from alibi_viz import lessons
lessons.check_slopes(my_slopes)
lessons.try_repair("case 1", my_repair)
"""

from alibi_viz.lessons.answer import Answer, written
from alibi_viz.lessons.bugs import BUGS, Bug
from alibi_viz.lessons.exercises import (
    check_attention,
    check_bias,
    check_decoding_row,
    check_fold,
    check_slopes,
    check_window,
)
from alibi_viz.lessons.repair import load_code, shown_weights, try_repair
from alibi_viz.lessons.view import View

__all__ = [
    "BUGS",
    "Answer",
    "Bug",
    "View",
    "check_attention",
    "check_bias",
    "check_decoding_row",
    "check_fold",
    "check_slopes",
    "check_window",
    "load_code",
    "shown_weights",
    "try_repair",
    "written",
]
