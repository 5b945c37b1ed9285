"""Guesses, exercises and bugs of the lessons.

A grade says whether a function is right, and if not, where to look.

    from alibi_viz import lessons
    options = {"steep": "the steepest", "flat": "the flattest"}
    lessons.guess_choice("heads", "Which head looks furthest?", options, "flat")
    lessons.grade_slopes(my_slopes)
    lessons.try_repair("case 1", my_repair)
"""

from alibi_viz.arguments import lazy

_GRADES = ("grade_attention", "grade_bias", "grade_fold", "grade_slopes", "grade_window")
_GUESSES = ("guess_choice", "guess_curve", "guess_grid", "guess_order")
_NAMES = {
    "alibi_viz.lessons.bugs": ("BUGS", "Bug", "try_repair"),
    "alibi_viz.lessons.grading": ("Grade", *_GRADES, "if_written", "with_attention"),
    "alibi_viz.lessons.tale_test": ("know_emma",),
    "alibi_viz.lessons.text_panels": ("side_by_side",),
    "alibi_viz.lessons.guesses": (*_GUESSES, "score"),  # needs plotly and ipywidgets
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULES)  # noqa: PLE0605  # sorted() returns a list
__getattr__, __dir__ = lazy(__name__, _MODULES)
