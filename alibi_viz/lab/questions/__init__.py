"""The questions that the lab asks of trained models, one object each, in the order in which apps show them."""

from alibi_viz.lab.questions.attention import BeyondL, Denominator, Sinks
from alibi_viz.lab.questions.by_position import ByPosition
from alibi_viz.lab.questions.facts import Facts
from alibi_viz.lab.questions.far_context import FarContext
from alibi_viz.lab.questions.gap import Gap
from alibi_viz.lab.questions.longer_windows import LongerWindows
from alibi_viz.lab.questions.needle_margin import NeedleMargin
from alibi_viz.lab.questions.outcomes import FAILS, HOLDS, TIE, join, outcome
from alibi_viz.lab.questions.question import Answer, Question, alibi_marks
from alibi_viz.lab.questions.recall_by_distance import RecallByDistance
from alibi_viz.lab.questions.retrieval import Retrieval
from alibi_viz.lab.questions.same_targets import SameTargets
from alibi_viz.lab.questions.sliding_windows import SlidingWindows
from alibi_viz.lab.questions.slopes import Slopes

__all__ = [
    "FAILS",
    "HOLDS",
    "QUESTIONS",
    "SLIDING_WINDOWS",
    "TIE",
    "Answer",
    "Question",
    "alibi_marks",
    "find_question",
    "join",
    "main_question",
    "outcome",
]

QUESTIONS: list[Question] = [
    LongerWindows(),
    Gap(),
    ByPosition(),
    SameTargets(),
    Facts(),
    BeyondL(),
    Denominator(),
    Sinks(),
    Slopes(),
    Retrieval(
        "needle",
        "Needles found, by distance",
        "distance of the needle, tokens",
        "The model must recall one value hidden in noise: from how many tokens back?",
    ),
    NeedleMargin(),
    Retrieval(
        "copy",
        "Symbols copied correctly, by length of the sequence",
        "symbols to copy; below, the tokens this takes",
        "The model must repeat a sequence of symbols: how long may the sequence be?",
    ),
    Retrieval(
        "induction",
        "Cues continued correctly, by distance",
        "distance of the cue's first occurrence, tokens",
        "A cue appears for the second time: does the model recall what followed it the first time?",
    ),
    FarContext("passages", "far context"),
    RecallByDistance("passages", "recall by distance"),
    FarContext("text with passages", "far context in text"),
    RecallByDistance("text with passages", "recall in text"),
]
SLIDING_WINDOWS = SlidingWindows()  # of pretrained models, which the lab doesn't train


def find_question(name: str) -> Question:
    """The question of that name, one of `QUESTIONS` or "sliding windows". Raises ValueError for an unknown name.

    >>> lab.find_question("gap").unit
    'bits per byte'
    """
    questions = {question.name: question for question in (*QUESTIONS, SLIDING_WINDOWS)}
    if name not in questions:
        raise ValueError(f"question must be one of {', '.join(questions)}, got {name!r}")
    return questions[name]


def main_question(task: str) -> Question:
    """The first of the `QUESTIONS` about this task, which a race asks while models train."""
    return next(question for question in QUESTIONS if question.task == task)
