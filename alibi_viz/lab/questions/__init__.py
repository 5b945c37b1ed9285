"""The questions that the lab asks of trained models, one object each, in the order in which apps show them.

>>> from alibi_viz.lab.questions import QUESTIONS, find_question
>>> [question.name for question in QUESTIONS]
['longer windows', 'gap', 'by position', 'same targets', 'needle', 'copy', 'induction']
"""

from alibi_viz.lab.questions.by_position import ByPosition
from alibi_viz.lab.questions.gap import Gap
from alibi_viz.lab.questions.longer_windows import LongerWindows
from alibi_viz.lab.questions.outcomes import FAILS, FOUND, HOLDS, TIE, join, outcome, outcomes
from alibi_viz.lab.questions.question import Answer, Question, alibi_marks
from alibi_viz.lab.questions.retrieval import Retrieval
from alibi_viz.lab.questions.same_targets import SameTargets

__all__ = [
    "FAILS",
    "FOUND",
    "HOLDS",
    "QUESTIONS",
    "TIE",
    "Answer",
    "Question",
    "alibi_marks",
    "find_question",
    "join",
    "main_question",
    "outcome",
    "outcomes",
]

QUESTIONS: list[Question] = [
    LongerWindows(),
    Gap(),
    ByPosition(),
    SameTargets(),
    Retrieval(
        "needle",
        "Needles found, by distance",
        "distance of the needle, tokens",
        "A value hidden in noise is asked for at the end: how far back is it found?",
    ),
    Retrieval(
        "copy",
        "Symbols copied correctly, by how many there are",
        "symbols to copy; below, the length this takes",
        "A sequence of symbols is to be repeated: how long may it be?",
    ),
    Retrieval(
        "induction",
        "Cues continued correctly, by distance",
        "distance of the cue's first occurrence, tokens",
        "A cue returns: is what followed it the first time recalled?",
    ),
]


def find_question(name: str) -> Question:
    """The question of that name. Raises ValueError for an unknown name.

    >>> from alibi_viz.lab.questions import find_question
    >>> find_question("gap").unit
    'bits per byte'
    """
    for question in QUESTIONS:
        if question.name == name:
            return question
    raise ValueError(f"question must be one of {', '.join(question.name for question in QUESTIONS)}, got {name!r}")


def main_question(task: str) -> Question:
    """The question that is measured while models train on a task, or on "text".

    >>> from alibi_viz.lab.questions import main_question
    >>> main_question("text").name, main_question("copy").name
    ('longer windows', 'copy')
    """
    return next(question for question in QUESTIONS if question.task == task and question.while_training)
