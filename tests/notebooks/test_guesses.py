"""The guesses of the lessons can't be passed without thinking: no answer can be read before the
guess, and no place among the options is right more often than others."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

import pytest
from nbformat import NotebookNode

from tests.notebooks.lessons import LESSONS, code_cells, read

NOTEBOOKS = [read(path) for path in LESSONS]
# The page opens it once the reader has guessed, see page.js.
FOLD = '<details class="after-guess"><summary><b>After your guess</b></summary>\n\n'


def asks(cell: NotebookNode) -> bool:
    """Whether a cell shows a guess."""
    return cell.cell_type == "code" and "lessons.guess_" in cell.source


def test_the_code_of_a_guess_is_hidden_because_it_has_the_answer() -> None:
    for notebook in NOTEBOOKS:
        for cell in filter(asks, notebook.cells):
            assert cell.metadata.get("jupyter", {}).get("source_hidden"), cell.source


def text_after_guesses(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """The cells of text after each guess, up to the next guess or heading."""
    may_answer = False
    for cell in notebook.cells:
        if asks(cell):
            may_answer = True
        elif cell.cell_type == "markdown" and cell.source.startswith("#"):
            may_answer = False
        elif cell.cell_type == "markdown" and may_answer:
            yield cell


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_text_after_a_guess_is_folded_or_tagged_as_neutral(path: Path) -> None:
    """A cell that tells nothing of the answer has the tag "neutral"."""
    for cell in text_after_guesses(read(path)):
        is_folded = cell.source.startswith(FOLD) and cell.source.endswith("\n\n</details>")
        assert is_folded or "neutral" in cell.metadata.get("tags", []), cell.source


def test_an_output_that_answers_a_guess_is_folded() -> None:
    for notebook in NOTEBOOKS:
        for cell in code_cells(notebook):
            if "After your guess" in cell.source:
                assert cell.metadata.get("jupyter", {}).get("outputs_hidden"), cell.source


def test_a_folded_answer_begins_with_a_neutral_line() -> None:
    """JupyterLab shows the first line of a folded output."""
    pairs = chain.from_iterable(pairwise(code_cells(notebook)) for notebook in NOTEBOOKS)
    for guess, answer in pairs:
        folded = answer.metadata.get("jupyter", {}).get("outputs_hidden")
        if not asks(guess) or asks(answer) or not folded:
            continue
        outputs = answer.outputs
        if outputs and outputs[0].output_type == "stream":
            first_line = outputs[0].text.partition("\n")[0]
            assert first_line.startswith("After your guess"), first_line


def places_of_answers() -> Iterator[str]:
    """For each choice: whether the answer is the first option, the last, or one between."""
    for notebook in NOTEBOOKS:
        for cell in filter(asks, notebook.cells):
            for guess in cell.outputs[0].metadata.guesses:
                if guess.kind == "choice":
                    names = [name for name, _words in guess.options]
                    index = names.index(guess.answer[0])
                    yield {0: "first", len(names) - 1: "last"}.get(index, "between")


def test_no_place_among_the_options_is_favored() -> None:
    places = Counter(places_of_answers())
    for place in ("first", "between", "last"):
        assert 0.2 <= places[place] / places.total() <= 0.5, place
