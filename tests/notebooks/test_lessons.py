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
from nbformat import NotebookNode
from PIL import Image

from tests.notebooks.lessons import FOLDER, LESSONS, app_outputs, code_cells, read

MAX_LINES = 12  # of a cell
MAX_BYTES = 600_000  # of a notebook
MAX_PICTURE_BYTES = 200_000  # with all colors
README = FOLDER.parent / "README.md"
LIST = FOLDER.parent / "docs" / "lessons.md"
WHITE = (255, 255, 255)


@pytest.fixture(scope="module", params=[pytest.param(path, id=path.stem) for path in LESSONS])
def path(request: pytest.FixtureRequest) -> Path:
    """The file of each lesson."""
    lesson: Path = request.param
    return lesson


@pytest.fixture(scope="module")
def notebook(path: Path) -> NotebookNode:
    return read(path)


@pytest.fixture(scope="module")
def outputs(notebook: NotebookNode) -> list[NotebookNode]:
    """The outputs of all cells."""
    outputs = []
    for cell in code_cells(notebook):
        outputs += cell.outputs
    return outputs


# The file


def test_the_notebook_is_valid(notebook: NotebookNode) -> None:
    nbformat.validate(notebook)


def test_every_cell_has_an_id_of_its_own(notebook: NotebookNode) -> None:
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)


def test_the_notebook_is_small(path: Path) -> None:
    assert path.stat().st_size <= MAX_BYTES


def test_the_notebook_names_no_path_of_a_machine(notebook: NotebookNode) -> None:
    path_of_a_machine = r"/(work|home|root|tmp|Users)/|site-packages"
    assert not re.search(path_of_a_machine, json.dumps(notebook))


# How it was executed


def test_every_cell_was_executed_in_order(notebook: NotebookNode) -> None:
    """nbval skips a cell that was never executed."""
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1)), "run `make notebooks`"


def test_no_cell_raised_an_error_or_a_warning(outputs: list[NotebookNode]) -> None:
    for output in outputs:
        assert output.output_type != "error", output
        assert output.get("name") != "stderr", output


def test_no_state_of_widgets_is_stored(notebook: NotebookNode, outputs: list[NotebookNode]) -> None:
    """It is stale, and megabytes long."""
    assert "widgets" not in notebook.metadata, "run `make notebooks`"
    for output in outputs:
        for kind in output.get("data", {}):
            assert "widget" not in kind, "run `make notebooks`"


# The pictures of apps: without a kernel, Jupyter and GitHub show the PNG; with one, the running app
# replaces it.


@pytest.fixture(scope="module")
def apps(notebook: NotebookNode) -> list[NotebookNode]:
    """The outputs that show an app."""
    return [output for _, output in app_outputs(notebook)]


@pytest.fixture(scope="module")
def pngs(apps: list[NotebookNode]) -> list[bytes]:
    return [base64.b64decode(output.data["image/png"]) for output in apps]


@pytest.fixture(scope="module")
def pictures(pngs: list[bytes]) -> list[Image.Image]:
    return [Image.open(io.BytesIO(png), formats=["PNG"]).convert("RGB") for png in pngs]


def test_a_lesson_shows_at_least_one_app(apps: list[NotebookNode]) -> None:
    assert apps


def test_the_picture_of_an_app_has_an_alternative_text(apps: list[NotebookNode]) -> None:
    for output in apps:
        assert output.metadata.get("image/png", {}).get("alt"), "run `make screenshots`"


def test_the_picture_of_an_app_is_a_small_file(pngs: list[bytes]) -> None:
    for png in pngs:
        assert len(png) <= MAX_PICTURE_BYTES


def test_the_picture_of_an_app_is_wide_enough_to_read(pictures: list[Image.Image]) -> None:
    for picture in pictures:
        assert picture.width >= 600


def test_the_picture_of_an_app_reads_on_a_dark_page(pictures: list[Image.Image]) -> None:
    for picture in pictures:
        upper_right_corner = (picture.width - 1, 0)
        assert picture.getpixel(upper_right_corner) == WHITE, "it isn't opaque"


def test_the_picture_of_an_app_is_no_empty_page(pictures: list[Image.Image]) -> None:
    for picture in pictures:
        some_pixels = picture.resize((300, 200), Image.Resampling.NEAREST)
        colors = some_pixels.getcolors(maxcolors=300 * 200) or []
        assert len(colors) >= 8


# The code


def test_cells_are_short(notebook: NotebookNode) -> None:
    for cell in code_cells(notebook):
        assert len(cell.source.splitlines()) <= MAX_LINES, cell.source


def test_cells_define_only_what_the_reader_may_change(notebook: NotebookNode) -> None:
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for cell in code_cells(notebook):
        for node in ast.walk(compile(cell.source, "<cell>", "exec", flags)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                name = node.name
                assert name.startswith("my_"), f"{name} belongs in the package, where it is tested"


# The text


def prose_of(path: Path) -> str:
    """The text of README, or of the cells of a lesson that are no code."""
    if path == README:
        return path.read_text(encoding="utf-8")
    return "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")


def stated_minutes(path: Path) -> int:
    (minutes,) = re.findall(r"^\*(\d+) minutes", prose_of(path), re.M)
    return int(minutes)


def needed_minutes(path: Path, notebook: NotebookNode, apps: list[NotebookNode]) -> float:
    """200 words take a minute, and so does a cell or an app."""
    words = len(prose_of(path).split())
    return words / 200 + len(code_cells(notebook)) + len(apps)


def test_the_stated_minutes_are_enough(
    path: Path, notebook: NotebookNode, apps: list[NotebookNode]
) -> None:
    assert stated_minutes(path) > needed_minutes(path, notebook, apps) - 2.5


def test_the_stated_minutes_are_not_too_many(
    path: Path, notebook: NotebookNode, apps: list[NotebookNode]
) -> None:
    has_exercises = path.stem in ("07_spot_the_bug", "08_build_it_yourself")
    spare = 99 if has_exercises else 2.5
    assert stated_minutes(path) < needed_minutes(path, notebook, apps) + spare


def test_the_list_of_lessons_states_the_same_minutes(path: Path) -> None:
    assert f"{path.name}) | {stated_minutes(path)}" in LIST.read_text(encoding="utf-8")


def test_the_picture_of_an_app_is_no_file(path: Path) -> None:
    assert "](images/" not in prose_of(path), "it is the output of the app"


# Links and images, of the README too

each_text = pytest.mark.parametrize(
    "text_path", [pytest.param(path, id=path.stem) for path in (*LESSONS, README)]
)


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


@each_text
def test_links_lead_to_files_that_exist(text_path: Path) -> None:
    for file, _ in local_links(text_path):
        assert (text_path.parent / file).exists(), file


@each_text
def test_links_lead_to_headings_that_exist(text_path: Path) -> None:
    for file, anchor in local_links(text_path):
        if anchor:
            target = text_path.parent / file if file else text_path
            assert anchor in anchors_in(target)


@each_text
def test_every_image_has_an_alternative_text(text_path: Path) -> None:
    for alternative in re.findall(r"!\[(.*?)\]\(", prose_of(text_path)):
        assert len(alternative) > 20
