"""The structure of the package: which floor imports which, what `import alibi_viz` loads, how long files are."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import alibi_viz

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "alibi_viz"
FILES = sorted(PACKAGE.rglob("*.py"))
# Floor 1, in reading order: a module may import those before it.
FLOOR_1 = ("arguments", "slopes", "laws", "bias", "attention", "adapters")
# What each floor may import besides itself. `panel` has the dataclasses that the lab fills in and figures draw.
FLOORS = {name: ("floor 1", {*FLOOR_1[:index]}) for index, name in enumerate(FLOOR_1)} | {
    "gallery": ("beside floor 1", {*FLOOR_1}),
    "models": ("floor 2", {*FLOOR_1}),
    "__init__": ("the public face", {*FLOOR_1, "models"}),
    "check": ("beside floor 1", {*FLOOR_1, "gallery", "figures"}),  # figures only to show a report in a notebook
    "precision": ("beside floor 1", {*FLOOR_1}),
    "minimal": ("the way in", set()),
    "lessons": ("beside floor 1", {*FLOOR_1, "gallery", "check", "figures", "__init__"}),
    "cli": ("beside", {*FLOOR_1, "check", "lab", "figures"}),
    "panel": ("beside floors 3 to 5", set()),
    "lab": ("floor 3", {*FLOOR_1, "models", "__init__", "panel"}),
    "figures": ("floor 4", {*FLOOR_1, "panel"}),
    "widgets": (
        "floor 5",
        {*FLOOR_1, "gallery", "check", "precision", "lessons", "models", "__init__", "panel", "lab", "figures"},
    ),
}
LOWER = {"torch", "numpy"}
FIGURES = {*LOWER, "pandas", "plotly", "PIL", "regex", "wcwidth", "kaleido"}
LIBRARIES = {
    "lab": {*LOWER, "mistune", "pandas", "regex", "safetensors", "tqdm", "distributed"},  # the last: for a scheduler
    "figures": FIGURES,
    "widgets": {*FIGURES, "ipywidgets", "anywidget", "traitlets", "IPython"},
}
MAX_LINES = 450  # of a file


def floor_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[str]:
    """The full names of all modules that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: use absolute imports, which show the floor"
            if node.module == "alibi_viz":  # such as `from alibi_viz import figures`
                yield from (f"alibi_viz.{alias.name}" for alias in node.names if alias.name in FLOORS)
                if any(alias.name not in FLOORS for alias in node.names):
                    yield "alibi_viz"
            else:
                yield str(node.module)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_module_belongs_to_a_floor() -> None:
    assert {floor_of(path) for path in FILES} <= FLOORS.keys(), "add the new module to FLOORS"


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_module_imports_only_from_lower_floors(path: Path) -> None:
    name, below = FLOORS[floor_of(path)]
    for module in imports(path):
        if module.split(".")[0] == "alibi_viz":
            floor = module.split(".")[1] if "." in module else "__init__"
            assert floor in below | {floor_of(path)}, f"{name} may not import {module}"


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_module_uses_only_the_libraries_of_its_floor(path: Path) -> None:
    """Floors 1 and 2 need only torch and numpy; only widgets import ipywidgets."""
    allowed = LIBRARIES.get(floor_of(path), LOWER)
    used = {module.split(".")[0] for module in imports(path)} - sys.stdlib_module_names - {"alibi_viz"}
    assert used <= allowed, f"{FLOORS[floor_of(path)][0]} may not use {', '.join(sorted(used - allowed))}"


def test_no_import_cycles() -> None:
    """Imports inside functions count as well."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
    graph = {name: {*imports(path)} & modules.keys() - {name, "alibi_viz"} for name, path in modules.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


PLOTTING = {"plotly", "PIL", "kaleido"}
WIDGETS = {"ipywidgets", "anywidget", "IPython"}


def test_lab_is_loaded_on_first_use_and_loads_no_plotting_or_widget_library() -> None:
    package, lab = loaded_by("import alibi_viz as av", "av.lab")
    assert not package & {"alibi_viz.lab", "alibi_viz.figures", "alibi_viz.widgets", *PLOTTING, *WIDGETS}
    assert "alibi_viz.lab" in lab
    assert not lab & {"alibi_viz.figures", "alibi_viz.widgets", *PLOTTING, *WIDGETS}


def test_figures_and_widgets_are_loaded_on_first_use_and_figures_load_no_widget_and_no_lab() -> None:
    _, figures, widgets = loaded_by("import alibi_viz as av", "av.figures.slope_figure", "av.widgets")
    assert {"alibi_viz.figures", "plotly"} <= figures
    assert not figures & {"alibi_viz.lab", "alibi_viz.widgets", *WIDGETS}
    assert "alibi_viz.widgets" in widgets


def loaded_by(*statements: str) -> list[set[str]]:
    """The modules that a new interpreter has loaded after each statement: top-level ones and those of this package."""
    code = "import sys\n" + "".join(f"{statement}\nprint(*sys.modules)\n" for statement in statements)
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    loaded = [line.split() for line in result.stdout.splitlines()]
    return [{name for name in names if "." not in name or name.startswith("alibi_viz.")} for names in loaded]


def sources() -> list[Path]:
    folders = ("alibi_viz", "tests", "benchmarks")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", sources(), ids=relative)
def test_file_is_not_too_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("module", ["alibi_viz", "alibi_viz.models", "alibi_viz.lab", "alibi_viz.widgets"])
def test_public_names_have_docstrings(module: str) -> None:
    """Functions in `alibi_viz` also have an example, which doctest runs."""
    loaded = importlib.import_module(module)
    assert loaded.__all__
    for name in loaded.__all__:
        member = getattr(loaded, name)
        if inspect.isclass(member) or inspect.isfunction(member):  # constants such as POSITIONS have a comment
            assert member.__doc__, f"{name} has no docstring"
        if module == "alibi_viz" and inspect.isfunction(member):
            assert ">>>" in str(member.__doc__), f"{name} has no example"


def test_public_names_are_sorted_and_exist() -> None:
    assert sorted(alibi_viz.__all__) == alibi_viz.__all__
    assert all(hasattr(alibi_viz, name) for name in alibi_viz.__all__)


def test_expected_files_and_folders_exist() -> None:
    for name in ("LICENSE", "Makefile", "README.md", "constraints.txt", "environment.yml", ".ci/run"):
        assert (ROOT / name).is_file(), f"{name} is missing"
    for name in ("notebooks", "tests/browser", "benchmarks"):
        assert (ROOT / name).is_dir(), f"{name}/ is missing"


def test_notebooks_folder_holds_only_lessons_and_their_pictures() -> None:
    tracked = subprocess.run(["git", "ls-files", "notebooks"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in tracked.stdout.split():
        assert re.fullmatch(r"notebooks/([^/]+\.ipynb|images/[^/]+\.png)", name), f"{name} does not belong there"


def test_readme_shows_every_picture_in_images() -> None:
    """The pictures of the lessons are inside the notebooks."""
    shown = set(re.findall(r"notebooks/images/([^)]+)", (ROOT / "README.md").read_text()))
    assert shown == {path.name for path in (ROOT / "notebooks" / "images").iterdir()}


def test_readme_commands_are_targets() -> None:
    targets = {line.split(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if ": " in line}
    named = set(re.findall(r"(?:`|^ *)make ([a-z-]+)", (ROOT / "README.md").read_text(), re.M))
    assert {"lab", "test"} <= named
    assert named <= targets, f"README names targets that make lacks: {', '.join(sorted(named - targets))}"
