"""Write the lessons, as they are stored, and two pages beside them into docs/lessons for Sphinx.

The pages are the list of methods, which lessons link, and the report about the study.

A page has no kernel. So a guess, whose data are metadata of its output, becomes a question in HTML
with its answer folded. Its code is folded, since it contains the answer, and so is what a notebook
hides after a guess. Once the reader has guessed, the answer and the text below open
(static/guesses.js).
A picture of an app loses the mark that speaks of its cell, and its caption says where the app is
live. It has a second one, which replaces it while the page is dark.
"""

import base64
import html
import io
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from nbformat import NotebookNode
from PIL import Image
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

from alibi_viz.files import lesson_files

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
DARK_PICTURES = Path(__file__).with_name("dark_pictures")
SHORT = 20  # items of so many characters stand in a row
# Classes of a picture: static/docs.css shows one of the two, and the theme changes neither.
LIGHT = "while-light"
DARK = "while-dark"
AS_IT_IS = "dark-light"
# Sections of the first page that do without a kernel what an app does
TWINS = {
    "BiasExplorer(": "see",
    "LengthLab(": "train",
    "SlopeSurgery(": "write",
    "SpotTheBug(": "bugs",
}
# Sentences of lesson 0 that a page without cells can't keep
WITHOUT_CELLS = {
    "1. Click into the next cell and press Shift+Enter. The race appears after a few seconds."
    " By keyboard, ↑ and then Tab lead into it, as into every app.": (
        "1. Below is a picture of the race. On the <a href='../index.html#train'>first page</a> "
        "you train two such models yourself."
    ),
    "3. Press **Train**, and watch for about half a minute how the two learn to write.": (
        "3. Then open the text below the picture."
    ),
    "on the first page of the site (`make docs`, then open `site/index.html`)": (
        "on the <a href='../index.html#write'>first page</a>"
    ),
}
# The mark of tests/notebooks/mark_as_picture.js: its color and the radius of its ends, in pixels
MARK_COLOR = (0, 114, 178)
MARK_RADIUS = 16
SCORE = "lessons.score()"  # counts guesses in a kernel, which a page hasn't
ANSWER = "Answer"  # the summary of a fold
ANSWER_FOLD = f'<details class="answer"><summary>{ANSWER}</summary>'


def write_pages(app: Sphinx) -> None:
    """Write every lesson, the list of methods and the report into the folder lessons.

    Whatever else an earlier build has left there is removed, or Sphinx would make pages of it.
    """
    # By default, myst-nb writes pictures beside the output folder.
    vars(app.env)["mystnb_config"].output_folder = str(app.doctreedir / "pictures")

    folder = Path(app.srcdir) / "lessons"
    folder.mkdir(exist_ok=True)
    report = files("alibi_viz.study") / "published" / "report.md"
    methods = NOTEBOOKS / "methods.md"
    texts = {path.name: path.read_text(encoding="utf-8") for path in (methods, report)}
    for path in lesson_files():
        lesson = nbformat.read(path, as_version=4)
        lesson.cells = list(page_cells(lesson, path.name))
        texts[path.name] = nbformat.writes(lesson)

    for path in folder.iterdir():
        if path.is_file() and path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        _write_if_changed(folder / name, text.encode())

    dark = folder / "dark"
    dark.mkdir(exist_ok=True)
    for path in DARK_PICTURES.glob("*.png"):
        _write_if_changed(dark / path.name, without_mark(path.read_bytes()))


def link_pages(app: Sphinx, page: str, source: list[str]) -> None:
    """Lead links to notebooks, methods and report, as GitHub shows them, to their pages."""
    folder = r"\((?:\.\./)+(?:notebooks|alibi_viz/study/published)/(\w+\.(?:ipynb|md))"
    source[0] = re.sub(folder, r"(/lessons/\1", source[0])


def _write_if_changed(path: Path, content: bytes) -> None:
    """Keep the date of a file that stays the same: Sphinx then reads it only once."""
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def page_cells(lesson: NotebookNode, file_name: str) -> Iterator[NotebookNode]:
    """The cells of a lesson, as its page shows them."""
    has_guesses = False
    for cell in lesson.cells:
        if cell.cell_type != "code":
            for sentence, instead in WITHOUT_CELLS.items():
                cell.source = cell.source.replace(sentence, instead)
            yield cell
        elif guesses := stored_guesses(cell):
            has_guesses = True
            yield from _guess_cells(cell, guesses, file_name)
        elif cell.source.strip() != SCORE:
            if has_guesses and cell.metadata.get("jupyter", {}).get("outputs_hidden"):
                _fold_output(cell, "Output")
            if cell.metadata.get("jupyter", {}).get("source_hidden"):
                _tag(cell, "hide-input")
            _describe_picture(cell, file_name)
            yield cell


def stored_guesses(cell: NotebookNode) -> list[NotebookNode]:
    """The data of the guesses that a cell of code asks for."""
    found: list[NotebookNode] = []
    for output in cell.outputs:
        found += output.get("metadata", {}).get("guesses", [])
    return found


def _pictures(cell: NotebookNode) -> list[NotebookNode]:
    """The outputs that are pictures."""
    return [output for output in cell.outputs if "image/png" in output.get("data", {})]


def _guess_cells(
    cell: NotebookNode, guesses: list[NotebookNode], file_name: str
) -> Iterator[NotebookNode]:
    """Guesses as cells: the questions, the picture that answers a curve, and the code."""
    questions = [
        question_html(guess, f"{cell.id}-{number}") for number, guess in enumerate(guesses)
    ]
    text = f'<div class="guesses">{"".join(questions)}</div>'
    yield nbformat.v4.new_markdown_cell(text, id=f"{cell.id}-question")

    for picture in _pictures(cell):
        truth = _part(cell, "truth", "remove-input", [picture])
        _fold_output(truth, ANSWER)
        _describe_picture(truth, file_name)
        yield truth

    yield _part(cell, "code", "hide-input", [])


def _part(cell: NotebookNode, part: str, tag: str, outputs: list[NotebookNode]) -> NotebookNode:
    """A cell with the same code, other outputs, and a tag that myst-nb knows."""
    metadata = {"tags": [tag]}
    name = f"{cell.id}-{part}"
    return nbformat.v4.new_code_cell(cell.source, id=name, metadata=metadata, outputs=outputs)


def question_html(guess: NotebookNode, name: str) -> str:
    """A guess in HTML with its answer folded; the answer of a curve is a picture.

    static/guesses.js judges by the places of what is right; for a choice, that is place 1.
    """
    places = {option: place for place, option in enumerate(guess.answer, start=1)}
    if guess.kind == "order":
        field = f'type="number" min="1" max="{len(places)}"'
    else:
        field = f'type="radio" name="{name}"'
    labels = ""
    for option, words in guess.options:
        place = f' data-place="{places[option]}"' if option in places else ""
        labels += f"<label><input {field}{place}> {html.escape(words)}</label>"

    is_short = all(len(words) <= SHORT for _, words in guess.options)
    css = "guess in-a-row" if is_short else "guess"
    legend = f"<legend><b>Your guess.</b> {html.escape(guess.question)}</legend>"
    answer = ""
    if guess.answer:
        answer = f"{ANSWER_FOLD}<p>{html.escape(in_words(guess))}</p></details>"
    return f'<fieldset class="{css}">{legend}{labels}{answer}</fieldset>'


def in_words(guess: NotebookNode) -> str:
    """The answer of a choice or an order, and the reason for it."""
    words = dict(guess.options)
    right = ", ".join(words[option] for option in guess.answer)
    if guess.kind == "choice":
        right = f"“{right}”"
    return f"It is {right}. {guess.why}"


def _tag(cell: NotebookNode, tag: str) -> None:
    """Add a tag that myst-nb knows."""
    cell.metadata["tags"] = [*cell.metadata.get("tags", []), tag]


def _page_options(cell: NotebookNode) -> dict[str, Any]:
    """The options of a cell for myst-nb, to be changed."""
    return cell.metadata.setdefault("mystnb", {})


def _fold_output(cell: NotebookNode, summary: str) -> None:
    """Show the outputs of a cell only once the reader presses a word."""
    _tag(cell, "hide-output")
    _page_options(cell)["code_prompt_show"] = summary


def _describe_picture(cell: NotebookNode, file_name: str) -> None:
    """Give the picture of an app its alternative text, and say where the app is live."""
    for picture in _pictures(cell):
        png = without_mark(base64.b64decode(picture.data["image/png"]))
        picture.data["image/png"] = base64.b64encode(png).decode()
        alternative = picture.metadata["image/png"]["alt"]
        caption = f"`make lab LESSON={file_name}` makes this picture live"
        for app, section in TWINS.items():
            if app in cell.source:
                link = f'<a href="../index.html#{section}">Try it on the first page</a>'
                caption = f"▶ {link}. In JupyterLab, {caption}"
        _page_options(cell)["image"] = {
            "alt": alternative,
            "classes": f"{LIGHT} {AS_IT_IS}",
            "width": "100%",  # then Sphinx links the picture in its own size, which phones need
        }
        _page_options(cell)["figure"] = {"caption": caption, "align": "center"}


def without_mark(png: bytes) -> bytes:
    """A picture without the mark at its right edge, which says that its app is live in a cell."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    pixels = np.asarray(picture)
    is_marked = (pixels == MARK_COLOR).all(axis=-1)[:, :-MARK_RADIUS]
    rows = np.flatnonzero(is_marked[:, -1])
    if len(rows) == 0:
        return png
    # Between its round ends, the first row of the mark has its color only.
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    left = int(np.flatnonzero(~is_marked[top])[-1]) - MARK_RADIUS
    background = tuple(pixels[0, -1].tolist())
    picture.paste(background, (left, top, picture.width, bottom))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()


def add_dark_pictures(app: Sphinx, doctree: nodes.document) -> None:
    """Put beside each picture of an app the same on a dark page."""
    lesson = app.env.docname.rpartition("/")[-1]
    light_pictures = [image for image in doctree.findall(nodes.image) if LIGHT in image["classes"]]
    for number, light in enumerate(light_pictures):
        dark = light.copy()
        dark["uri"] = f"/lessons/dark/{lesson}-{number}.png"
        dark["classes"] = [DARK, AS_IT_IS]
        light.parent.insert(light.parent.index(light) + 1, dark)


def jupyter_anchor(title: str) -> str:
    """The anchor of a heading, as Jupyter makes it and the links of the lessons use it.

    >>> jupyter_anchor("One subtraction")
    'One-subtraction'
    """
    return title.replace(" ", "-")


def visit_fold(translator: HTML5Translator, node: HideCodeCellNode) -> None:
    """Fold code or output under its summary, as the text of a lesson folds its answers."""
    summary = node["prompt_show"]
    fold = f"<details><summary>{html.escape(summary)}</summary>"
    translator.body.append(f"{ANSWER_FOLD if summary == ANSWER else fold}\n")


def depart_fold(translator: HTML5Translator, node: HideCodeCellNode) -> None:
    """Close a fold."""
    translator.body.append("</details>\n")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Write the pages before Sphinx looks for them."""
    app.setup_extension("myst_nb")
    app.add_node(HideCodeCellNode, override=True, html=(visit_fold, depart_fold))
    app.connect("builder-inited", write_pages)
    app.connect("source-read", link_pages)
    # Before Sphinx looks for the pictures of a page, at 500
    app.connect("doctree-read", add_dark_pictures, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
