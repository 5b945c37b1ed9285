"""The lessons as cards: each notebook says its own title, minutes and question."""

import base64
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from PIL import Image

from alibi_viz.files import lesson_files

DARK_PICTURES = Path(__file__).parents[1] / "dark_pictures"
# The part of a stored picture that a card shows, in pixels: below the controls, the upper left.
# There, its letters are large enough to be read.
CROP = (0, 40, 544, 346)
_SIZE = (480, 270)  # pixels of a card's picture
_QUALITY = 60  # of the picture, from 0 to 100


class LessonCard(NamedTuple):
    """What the page says of a lesson."""

    name: str  # of its file, without suffix
    number: str
    title: str
    minutes: str
    question: str
    # Data URLs, for a light and a dark page
    picture: str
    dark_picture: str


def lesson_cards() -> list[LessonCard]:
    """A card for each lesson, in their order."""
    return [_card(path) for path in lesson_files()]


def _card(path: Path) -> LessonCard:
    notebook = nbformat.read(path, as_version=4)
    beginning = notebook.cells[0].source
    heading = beginning.splitlines()[0]
    number, title = heading.removeprefix("# ").split(". ", maxsplit=1)
    return LessonCard(
        name=path.stem,
        number=number,
        title=_plain(title),
        minutes=_first_match(beginning, r"^\*(\d+) minutes"),
        question=_question(beginning),
        picture=_thumbnail(_first_picture(notebook), "white"),
        dark_picture=_thumbnail((DARK_PICTURES / f"{path.stem}-0.png").read_bytes(), "#111111"),
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


def _first_picture(notebook: Any) -> bytes:
    """The first PNG that a notebook stores."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                return base64.b64decode(output["data"]["image/png"])
    raise ValueError("a lesson must store a picture, got none")


def _thumbnail(png: bytes, background: str) -> str:
    """A part of a picture, small, as a data URL."""
    picture = Image.open(io.BytesIO(png)).convert("RGBA")
    part = picture.crop(CROP)  # transparent where the picture ends earlier
    filled = Image.new("RGBA", part.size, background)
    filled.alpha_composite(part)
    small = filled.convert("RGB").resize(_SIZE, Image.Resampling.LANCZOS)
    file = io.BytesIO()
    small.save(file, "WEBP", quality=_QUALITY)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode()
