"""Write the lessons, as they are stored, and two pages beside them into docs/lessons for Sphinx.

The pages are the list of methods, which lessons link, and the report about the study.

A page has no kernel. So a guess becomes a question in HTML with its answer folded below. Its code
is folded, since it contains the answer, and so is what a notebook hides after a guess. Once the
reader has guessed, answer and text below open (static/guesses.js).
A picture of an app loses the mark that speaks of its cell, and its caption says where the app is
live. It has a second one, which replaces it while the page is dark.
"""

import ast
import base64
import html
import io
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

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
GUESS = "Your guess. "  # how the stored text of a guess begins
SHORT = 20  # items of so many characters stand in a row
PARAMETERS = ("key", "question", "options", "answer", "why")  # of a guess
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
    "1. Click into the next cell and press Shift+Enter. The race appears after a few seconds.": (
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


class Answer(NamedTuple):
    """What the code of a guess states."""

    right: list[str]  # the right choice, or all items in order
    why: str

    def __str__(self) -> str:
        words = f"“{self.right[0]}”" if len(self.right) == 1 else ", ".join(self.right)
        return f"It is {words}. {self.why}"


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
    awaits_answer = False  # the last guess computes its answer, which a later cell prints
    for cell in lesson.cells:
        if cell.cell_type != "code":
            for sentence, instead in WITHOUT_CELLS.items():
                cell.source = cell.source.replace(sentence, instead)
            yield cell
        elif is_guess(cell):
            has_guesses = True
            answer = stated_answer(cell.source)
            awaits_answer = answer is None and not _pictures(cell)
            yield from _guess_cells(cell, answer, file_name)
        elif cell.source.strip() != SCORE:
            is_folded = has_guesses and cell.metadata.get("jupyter", {}).get("outputs_hidden")
            if is_folded:
                _fold_output(cell, ANSWER if awaits_answer else "Output")
                awaits_answer = False
            if cell.metadata.get("jupyter", {}).get("source_hidden"):
                _tag(cell, "hide-input")
            _describe_picture(cell, file_name)
            yield cell


def is_guess(cell: NotebookNode) -> bool:
    """Whether a cell of code asks for a guess."""
    return bool(cell.outputs) and _text(cell.outputs[0]).startswith(GUESS)


def _text(output: NotebookNode) -> str:
    """What an output shows where neither pictures nor HTML can be shown."""
    return output.get("data", {}).get("text/plain", "")


def _pictures(cell: NotebookNode) -> list[NotebookNode]:
    """The outputs that are pictures."""
    return [output for output in cell.outputs if "image/png" in output.get("data", {})]


def _guess_cells(
    cell: NotebookNode, answer: Answer | None, file_name: str
) -> Iterator[NotebookNode]:
    """A guess as cells: the question with its answer, the truth of a curve, and the code."""
    pictures = _pictures(cell)
    is_order = "guess_order(" in cell.source
    question = question_html(_text(cell.outputs[0]), cell.id, is_order, answer)
    if answer is not None and not pictures:
        question += f"{ANSWER_FOLD}<p>{html.escape(str(answer))}</p></details>"
    yield nbformat.v4.new_markdown_cell(question, id=f"{cell.id}-question")

    for picture in pictures:
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


def question_html(text: str, name: str, is_order: bool, answer: Answer | None = None) -> str:
    """The stored text of one guess, or of a grid of them, as questions in HTML.

    Args:
        text: each question after "Your guess. ", and each item after "( ) ".
        name: differs between the guesses of a page.
        is_order: whether items are to be numbered rather than chosen.
        answer: what static/guesses.js marks as right, if the code states it.
    """
    right = answer.right if answer else []
    questions = []
    for number, block in enumerate(text.removeprefix(GUESS).split(f"\n{GUESS}")):
        question, *items = [" ".join(part.split()) for part in block.split("\n  ( ) ")]
        if is_order:
            field = f'type="number" min="1" max="{len(items)}"'
        else:
            field = f'type="radio" name="{name}-{number}"'
        labels = ""
        for item in items:
            # For a choice, the right item has the place 1.
            place = f' data-place="{right.index(item) + 1}"' if item in right else ""
            labels += f"<label><input {field}{place}> {html.escape(item)}</label>"
        is_short = all(len(item) <= SHORT for item in items)
        css = "guess in-a-row" if is_short else "guess"
        legend = f"<legend><b>Your guess.</b> {html.escape(question)}</legend>"
        judged = " data-judged" if right else ""
        questions.append(f'<fieldset class="{css}"{judged}>{legend}{labels}</fieldset>')
    return f'<div class="guesses">{"".join(questions)}</div>'


def stated_answer(source: str) -> Answer | None:
    """The answer and its reason, if the code of a guess states both, or None if it computes one."""
    module = ast.parse(source)
    stated: dict[str, Any] = {}  # the names that stand for a constant
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = _constant(node.value, stated)
            if value is not None:
                stated[node.targets[0].id] = value

    call = module.body[-1]
    if not (isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)):
        return None
    by_name = {keyword.arg: keyword.value for keyword in call.value.keywords}
    by_place = dict(zip(PARAMETERS, call.value.args, strict=False))
    arguments = by_place | by_name
    if "answer" not in arguments:
        return None
    answer = _constant(arguments["answer"], stated)
    why = _constant(arguments.get("why"), stated)
    if answer is None or why is None:
        return None
    return Answer(answer if isinstance(answer, list) else [answer], why)


def _constant(node: ast.expr | None, stated: dict[str, Any]) -> Any:
    """The value of an expression that is a constant, or a name of one, and otherwise None."""
    if isinstance(node, ast.Name):
        return stated.get(node.id)
    try:
        return ast.literal_eval(node) if node else ""
    except ValueError:
        return None


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
