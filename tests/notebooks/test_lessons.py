"""A committed notebook was executed in order, is small, can be read without a kernel, and contains
no logic.

Each test looks at all of them, and names those that are wrong. Whether their outputs are still true
is checked by nbval: `make notebook-tests`.
"""

import ast
import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from PIL import Image

from tests.notebooks.lessons import FOLDER, LESSONS, code_cells, picture_outputs, read

MAX_LINES = 12  # of a cell
MAX_BYTES = 600_000  # of a notebook
MAX_PICTURE_BYTES = 200_000  # with all colors
README = FOLDER.parent / "README.md"
LIST = FOLDER.parent / "docs" / "lessons.md"
WHITE = (255, 255, 255)


@pytest.fixture(scope="module")
def notebooks() -> dict[Path, NotebookNode]:
    """Every lesson by its file."""
    return {path: read(path) for path in LESSONS}


def outputs(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """The outputs of all cells."""
    for cell in code_cells(notebook):
        yield from cell.outputs


# The file


def test_notebooks_are_valid(notebooks: dict[Path, NotebookNode]) -> None:
    for notebook in notebooks.values():
        nbformat.validate(notebook)


def test_every_cell_of_a_notebook_has_an_id_of_its_own(
    notebooks: dict[Path, NotebookNode],
) -> None:
    for path, notebook in notebooks.items():
        ids = [cell.id for cell in notebook.cells]
        assert len(set(ids)) == len(ids), path.name


def test_notebooks_are_small() -> None:
    assert [path.name for path in LESSONS if path.stat().st_size > MAX_BYTES] == []


def test_notebooks_name_no_path_of_a_machine() -> None:
    path_of_a_machine = r"/(work|home|root|tmp|Users)/|site-packages"
    for path in LESSONS:
        assert not re.search(path_of_a_machine, json.dumps(read(path))), path.name


# How it was executed


def test_every_cell_was_executed_in_order(notebooks: dict[Path, NotebookNode]) -> None:
    """nbval skips a cell that was never executed."""
    for path, notebook in notebooks.items():
        counts = [cell.execution_count for cell in code_cells(notebook)]
        assert counts == list(range(1, len(counts) + 1)), f"run `make notebooks`: {path.name}"


def test_no_cell_raised_an_error_or_a_warning(notebooks: dict[Path, NotebookNode]) -> None:
    for path, notebook in notebooks.items():
        for output in outputs(notebook):
            assert output.output_type != "error", path.name
            assert output.get("name") != "stderr", path.name


def test_no_state_of_widgets_is_stored(notebooks: dict[Path, NotebookNode]) -> None:
    """It is stale, and megabytes long."""
    for path, notebook in notebooks.items():
        kinds = set(notebook.metadata)
        for output in outputs(notebook):
            kinds |= set(output.get("data", {}))
        assert not [kind for kind in kinds if "widget" in kind], (
            f"run `make notebooks`: {path.name}"
        )


# The pictures of apps and figures: without a kernel, Jupyter and GitHub show the PNG; with one, the
# running app replaces it.


@pytest.fixture(scope="module")
def apps(notebooks: dict[Path, NotebookNode]) -> dict[str, NotebookNode]:
    """The outputs that show an app or a figure, by their lesson and number."""
    found = {}
    for path, notebook in notebooks.items():
        for number, (_, output) in enumerate(picture_outputs(notebook)):
            found[f"{path.stem}, app {number}"] = output
    return found


@pytest.fixture(scope="module")
def pictures(apps: dict[str, NotebookNode]) -> dict[str, Image.Image]:
    decoded = {}
    for name, output in apps.items():
        png = base64.b64decode(output.data["image/png"])
        decoded[name] = Image.open(io.BytesIO(png), formats=["PNG"]).convert("RGB")
    return decoded


def test_every_lesson_shows_an_app_or_a_figure(apps: dict[str, NotebookNode]) -> None:
    assert {name.partition(",")[0] for name in apps} == {path.stem for path in LESSONS}


def test_pictures_of_apps_have_an_alternative_text(apps: dict[str, NotebookNode]) -> None:
    for name, output in apps.items():
        assert output.metadata.get("image/png", {}).get("alt"), f"run `make screenshots`: {name}"


def test_pictures_of_apps_are_small_files(apps: dict[str, NotebookNode]) -> None:
    for name, output in apps.items():
        assert len(base64.b64decode(output.data["image/png"])) <= MAX_PICTURE_BYTES, name


def test_pictures_of_apps_are_wide_enough_to_read(pictures: dict[str, Image.Image]) -> None:
    assert [name for name, picture in pictures.items() if picture.width < 600] == []


def test_pictures_of_apps_read_on_a_dark_page(pictures: dict[str, Image.Image]) -> None:
    for name, picture in pictures.items():
        upper_right_corner = (picture.width - 1, 0)
        assert picture.getpixel(upper_right_corner) == WHITE, f"it isn't opaque: {name}"


def test_pictures_of_apps_are_no_empty_pages(pictures: dict[str, Image.Image]) -> None:
    for name, picture in pictures.items():
        some_pixels = picture.resize((300, 200), Image.Resampling.NEAREST)
        colors = some_pixels.getcolors(maxcolors=300 * 200) or []
        assert len(colors) >= 8, name


# The code


def test_cells_are_short(notebooks: dict[Path, NotebookNode]) -> None:
    for notebook in notebooks.values():
        for cell in code_cells(notebook):
            assert len(cell.source.splitlines()) <= MAX_LINES, cell.source


def test_cells_define_only_what_the_reader_may_change(notebooks: dict[Path, NotebookNode]) -> None:
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for notebook in notebooks.values():
        for cell in code_cells(notebook):
            for node in ast.walk(compile(cell.source, "<cell>", "exec", flags)):
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    assert node.name.startswith("my_"), f"{node.name} belongs in the package"


# The text


def prose_of(path: Path) -> str:
    """The text of README, or of the cells of a lesson that are no code."""
    if path == README:
        return path.read_text(encoding="utf-8")
    return "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")


def test_the_list_of_lessons_states_the_minutes_of_each() -> None:
    listed = LIST.read_text(encoding="utf-8")
    for path in LESSONS:
        (minutes,) = re.findall(r"^\*(\d+) minutes", prose_of(path), re.M)
        assert f"{path.name}) | {minutes}" in listed


def test_the_picture_of_an_app_is_no_file() -> None:
    """It is the output of the app."""
    assert [path.name for path in LESSONS if "](images/" in prose_of(path)] == []


# Links and images, of the README too

TEXTS = (*LESSONS, README)


def local_links(path: Path) -> list[tuple[str, str]]:
    """The file and the anchor of each link that doesn't leave the project; one may be empty."""
    targets = re.findall(r"\]\((?!https://)([^)\s]+)\)", prose_of(path))
    links = []
    for target in targets:
        file, _, anchor = target.partition("#")
        links.append((file, anchor))
    return links


def anchors_in(path: Path) -> set[str]:
    """The anchors of the headings, as Jupyter makes them, or GitHub for the README."""
    titles = re.findall(r"^#+ (.+)$", prose_of(path), re.M)
    anchors = {title.replace(" ", "-") for title in titles}
    if path == README:
        anchors = {re.sub(r"[^\w-]", "", anchor).lower() for anchor in anchors}
    return anchors


def test_links_lead_to_files_and_headings_that_exist() -> None:
    for path in TEXTS:
        for file, anchor in local_links(path):
            target = path.parent / file if file else path
            assert target.exists(), f"{path.name}: {file}"
            assert not anchor or anchor in anchors_in(target), f"{path.name}: {file}#{anchor}"


def test_every_image_has_an_alternative_text() -> None:
    for path in TEXTS:
        for alternative in re.findall(r"!\[(.*?)\]\(", prose_of(path)):
            assert len(alternative) > 20, path.name
