"""The lessons: where they are, and which of their cells show a picture."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from alibi_viz import widgets
from alibi_viz.files import lesson_files

FOLDER = Path(__file__).parents[2] / "notebooks"
LESSONS = lesson_files()
# LESSON-NUMBER.png: what the picture with this number of a lesson looks like on a dark page
DARK_PICTURES = FOLDER.parent / "docs" / "dark_pictures"
FIGURE = "Figure()"  # the text of an output that shows a figure of plotly
PICTURE = re.compile(rf"({'|'.join(widgets.__all__)}|Figure)\(")


def named(names: list[str]) -> list[Path]:
    """The lessons with these names, or all. Exits with a message if there is no such lesson."""
    paths = {path.stem: path for path in LESSONS}
    if unknown := [name for name in names if name not in paths]:
        sys.exit(f"no notebook {', '.join(unknown)}; there are: {', '.join(paths)}")
    return [paths[name] for name in names or paths]


def read(path: Path) -> NotebookNode:
    """A notebook in version 4 of the format."""
    return nbformat.read(path, as_version=4)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The code cells that are not empty."""
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def picture_outputs(notebook: NotebookNode) -> Iterator[tuple[list[str], NotebookNode]]:
    """Every output that shows an app or a figure, or asks for a curve, with the code up to and
    including its cell.

    An app is recognized by its repr, which is the text of the output.
    """
    code: list[str] = []
    for cell in code_cells(notebook):
        code.append(cell.source)
        for output in cell.outputs:
            if (
                PICTURE.match(output.get("data", {}).get("text/plain", ""))
                or "lessons.guess_curve(" in cell.source
            ):
                yield list(code), output
