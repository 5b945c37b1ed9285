"""What a committed notebook is: executed in order, small, readable without a kernel, prose and calls but no logic.

That its outputs are still true is nbval's part: `make notebook-tests`.
"""

import ast
import json
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LESSONS = (
    "01_slopes",
    "02_biases",
    "03_attention",
    "04_train_short_test_long",
    "05_surgery",
    "06_wins_and_losses",
)
MOST_LINES = 12  # of a cell
MOST_BYTES = 600_000  # of a file
LINK = re.compile(r"!\[[^\]]*\]\(([^)\s]+)")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in read(path).cells if cell.cell_type == "code" and cell.source.strip()]


def outputs(path: Path) -> list[nbformat.NotebookNode]:
    return [output for cell in code_cells(path) for output in cell.outputs]


@pytest.mark.parametrize("name", LESSONS)
def test_the_lesson_is_there(name: str) -> None:
    assert (ROOT / "notebooks" / f"{name}.ipynb").is_file()


@each_notebook
def test_it_is_a_valid_notebook(path: Path) -> None:
    nbformat.validate(read(path))
    assert len({cell.id for cell in read(path).cells}) == len(read(path).cells)


@each_notebook
def test_it_was_executed_in_order(path: Path) -> None:
    """nbval passes over a cell that was never run, so this is where it is caught."""
    counts = [cell.execution_count for cell in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1)), "run `make notebooks`"


@each_notebook
def test_it_ended_without_error_or_complaint(path: Path) -> None:
    assert not [output for output in outputs(path) if output.output_type == "error"]
    assert not [output for output in outputs(path) if output.get("name") == "stderr"]


@each_notebook
def test_it_holds_no_widget_state(path: Path) -> None:
    """Stored state is stale and megabytes long; a view without it shows an error instead of the app's text."""
    assert "widgets" not in read(path).metadata
    kinds = {kind for output in outputs(path) for kind in output.get("data", {})}
    assert not {kind for kind in kinds if "widget" in kind}, "run `make notebooks`"


@each_notebook
def test_it_shows_an_app(path: Path) -> None:
    assert any("widgets." in cell.source for cell in code_cells(path))


@each_notebook
def test_its_cells_are_short_and_hold_no_logic(path: Path) -> None:
    for cell in code_cells(path):
        assert len(cell.source.splitlines()) <= MOST_LINES
        tree = compile(cell.source, path.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        defined = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        assert not defined, f"{defined[0].name} belongs into the package, where it is tested"


@each_notebook
def test_it_is_small(path: Path) -> None:
    assert path.stat().st_size <= MOST_BYTES


@each_notebook
def test_it_names_no_machine(path: Path) -> None:
    text = json.dumps(read(path))
    assert not re.search(r"/(work|home|root|tmp|Users)/|site-packages", text)


@each_notebook
def test_its_pictures_are_there_and_small(path: Path) -> None:
    """A PNG beside the app is what is seen without a kernel."""
    prose = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    pictures = [ROOT / "notebooks" / link for link in LINK.findall(prose)]
    assert pictures, "no picture for someone who opens the notebook without a kernel"
    for picture in pictures:
        assert picture.read_bytes().startswith(b"\x89PNG"), f"{picture.name} is no PNG"
        assert picture.stat().st_size <= 150_000, f"{picture.name} is too large"
