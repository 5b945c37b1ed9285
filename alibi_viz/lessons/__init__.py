"""Checks of the exercises in the lessons: they say at once whether a function is right, and if not, where to look.

from alibi_viz import lessons
lessons.check_slopes(my_slopes)
"""

from alibi_viz.lessons.answer import Answer, written
from alibi_viz.lessons.exercises import (
    check_attention,
    check_bias,
    check_decoding_row,
    check_fold,
    check_slopes,
    check_window,
)

__all__ = [
    "Answer",
    "check_attention",
    "check_bias",
    "check_decoding_row",
    "check_fold",
    "check_slopes",
    "check_window",
    "written",
]
