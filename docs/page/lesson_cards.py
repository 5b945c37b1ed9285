"""The lessons as cards: each notebook says its own title, minutes and question."""

import re
from pathlib import Path
from typing import NamedTuple

import nbformat

from alibi_viz.files import lesson_files
from docs.page.motifs import motif


class LessonCard(NamedTuple):
    """What the page says of a lesson."""

    name: str  # of its file, without suffix
    number: str
    title: str
    minutes: str
    question: str
    motif: str  # SVG


def lesson_cards() -> list[LessonCard]:
    """A card for each lesson, in their order."""
    return [_card(path) for path in lesson_files()]


def _card(path: Path) -> LessonCard:
    beginning = nbformat.read(path, as_version=4).cells[0].source
    heading = beginning.splitlines()[0]
    number, title = heading.removeprefix("# ").split(". ", maxsplit=1)
    return LessonCard(
        name=path.stem,
        number=number,
        title=_plain(title),
        minutes=_first_match(beginning, r"^\*(\d+) minutes"),
        question=_question(beginning),
        motif=motif(path.stem),
    )


def _question(beginning: str) -> str:
    """The question of a lesson, or the first sentence of a guide that has none."""
    question = _plain(
        _first_match(
            beginning,
            r"\*\*The question:\*\* (.*?\?)",
            r"\*\*([^*]*\?)\*\*",
            r"^(This guide .*?\.)",
        )
    )
    return question[0].upper() + question[1:]


def _first_match(text: str, *patterns: str) -> str:
    """What is in the group of the first pattern that is found. ValueError if none is."""
    for pattern in patterns:
        match = re.search(pattern, text, re.MULTILINE)
        if match:
            return match.group(1)
    raise ValueError(f"{' and '.join(patterns)} must be found in: {text[:100]}")


def _plain(markdown: str) -> str:
    """A sentence without the signs for emphasis."""
    return re.sub(r"[*$`]", "", markdown)
