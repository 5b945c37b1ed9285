"""Exercises and bugs of the lessons. A grade says at once whether a function is right, and if not, where to look.

from alibi_viz import lessons
lessons.grade_slopes(my_slopes)
lessons.try_repair("case 1", my_repair)
"""

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

__all__ = [
    "BUGS",
    "Bug",
    "Grade",
    "grade_attention",
    "grade_bias",
    "grade_decoding_row",
    "grade_fold",
    "grade_slopes",
    "grade_window",
    "if_written",
    "try_repair",
]
