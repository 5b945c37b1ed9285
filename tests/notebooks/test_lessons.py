"""A committed notebook was executed in order, is small, can be read without a kernel, and contains
no logic.

Whether its outputs are still true is checked by nbval: `make notebook-tests`.
"""

import ast
import base64
import io
import json
import re
from pathlib import Path

import nbformat
import pytest
from PIL import Image

from tests.notebooks.lessons import FOLDER, LESSONS, app_outputs, code_cells, read

MAX_LINES = 12  # of a cell
MAX_BYTES = 600_000  # of a notebook
MAX_PICTURE_BYTES = 200_000  # with all colors
README = FOLDER.parent / "README.md"
each_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


def outputs(path: Path) -> list[nbformat.NotebookNode]:
    return [output for cell in code_cells(read(path)) for output in cell.outputs]


@each_lesson
def test_notebook_is_valid_and_was_executed_in_order_without_errors(path: Path) -> None:
    """nbval skips a cell that was never executed. Stored widget state is stale and megabytes
    long."""
    notebook = read(path)
    nbformat.validate(notebook)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1)), "run `make notebooks`"
    assert not [
        output
        for output in outputs(path)
        if output.output_type == "error" or output.get("name") == "stderr"
    ]
    kinds = {
        kind for output in outputs(path) for kind in output.get("data", {}) if "widget" in kind
    }
    assert not kinds and "widgets" not in notebook.metadata, "run `make notebooks`"
    assert path.stat().st_size <= MAX_BYTES
    assert not re.search(r"/(work|home|root|tmp|Users)/|site-packages", json.dumps(notebook)), (
        "the path of a machine"
    )


@each_lesson
def test_every_app_output_has_a_small_picture(path: Path) -> None:
    """Without a kernel, Jupyter and GitHub show the PNG; with one, the running app replaces it."""
    apps = [output for _, output in app_outputs(read(path))]
    assert apps, "a lesson shows at least one app"
    for output in apps:
        assert output.metadata.get("image/png", {}).get("alt"), "run `make screenshots`"
        png = base64.b64decode(output.data["image/png"])
        assert len(png) <= MAX_PICTURE_BYTES
        picture = Image.open(io.BytesIO(png), formats=["PNG"]).convert("RGB")
        assert picture.width >= 600
        assert picture.getpixel((picture.width - 1, 0)) == (255, 255, 255), (
            "opaque, so that it reads on a dark page"
        )
        assert len(picture.getcolors(2**24) or []) >= 8, "an empty page was captured"


@each_lesson
def test_cells_are_short_and_define_only_what_the_reader_may_change(path: Path) -> None:
    for cell in code_cells(read(path)):
        assert len(cell.source.splitlines()) <= MAX_LINES
        tree = compile(
            cell.source, path.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        defined = [
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)
        ]
        ours = [name for name in defined if not name.startswith("my_")]
        assert not ours, f"{ours[0]} belongs in the package, where it is tested"


@each_lesson
def test_stated_minutes_fit_the_words_the_cells_and_the_apps(path: Path) -> None:
    prose, notebook = prose_of(path), read(path)
    (stated,) = re.findall(r"^\*(\d+) minutes", prose, re.M)
    needed = len(prose.split()) / 200 + len(code_cells(notebook)) + len([*app_outputs(notebook)])
    late = 99 if path.stem[:2] in ("09", "10") else 2.5  # exercises take longer
    assert needed - 2.5 < int(stated) < needed + late
    assert f"{path.name}) | {stated}" in README.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [*LESSONS, README], ids=lambda path: path.stem)
def test_links_lead_to_what_exists_and_every_image_has_an_alternative_text(path: Path) -> None:
    prose = prose_of(path)
    anchors = {
        title.replace(" ", "-") for title in re.findall(r"^#+ (.+)$", prose, re.M)
    }  # as Jupyter makes them
    if path == README:  # GitHub
        anchors = {re.sub(r"[^\w-]", "", anchor).lower() for anchor in anchors}
    for target in re.findall(r"\]\((?!https://)([^)\s]+)\)", prose):
        file, _, anchor = target.partition("#")
        assert not file or (path.parent / file).exists(), f"{target} doesn't exist"
        assert not anchor or anchor in anchors, f"no heading for {target}"
    assert all(len(text) > 20 for text in re.findall(r"!\[(.*?)\]\(", prose))
    assert path == README or "](images/" not in prose, "the picture of an app is its output"


def prose_of(path: Path) -> str:
    """The text of README, or of the cells of a lesson that are no code."""
    if path == README:
        return path.read_text(encoding="utf-8")
    return "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
