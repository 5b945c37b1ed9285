"""The rules of the house: which floor imports which, what `import alibi_viz` loads, how long a file may be."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import alibi_viz

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "alibi_viz"
FILES = sorted(PACKAGE.rglob("*.py"))
# Floor 1, in the order in which it is read: a module may import those before it.
FLOOR_1 = (
    *("slopes", "distance", "bias", "bias_cache", "attention", "adapters"),
)
# What each floor may import besides. `gallery` shows other systems' rules to lessons and tests: nothing is built on it.
FLOORS = {name: ("floor 1", {*FLOOR_1[:index]}) for index, name in enumerate(FLOOR_1)} | {
    "gallery": ("beside floor 1", {*FLOOR_1}),
    "models": ("floor 2", {*FLOOR_1}),
    "__init__": ("the public face", {*FLOOR_1, "models"}),
    "lab": ("floor 3", {*FLOOR_1, "models", "__init__"}),
    "figures": ("floor 4", {*FLOOR_1}),
    "widgets": ("floor 5", {*FLOOR_1, "gallery", "models", "__init__", "lab", "figures"}),
}
LOWER = {"torch", "numpy"}
LIBRARIES = {
    "lab": {*LOWER, "pandas", "regex", "safetensors", "tqdm", "distributed"},  # distributed: only for a scheduler
    "figures": {"torch", "numpy", "pandas", "plotly", "PIL", "regex", "wcwidth"},
    "widgets": {"torch", "numpy", "pandas", "plotly", "PIL", "ipywidgets", "anywidget", "traitlets", "IPython", "kaleido"},
}
LONGEST_FILE = 260  # lines; DESIGN says around 250


def floor_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or inside a function, by its full name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: imports are absolute, so that a reader sees the floor"
            if node.module == "alibi_viz":  # from alibi_viz import figures: a floor, not the public face
                yield from (f"alibi_viz.{alias.name}" for alias in node.names if alias.name in FLOORS)
                if any(alias.name not in FLOORS for alias in node.names):
                    yield "alibi_viz"
            else:
                yield str(node.module)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_module_stands_on_a_floor() -> None:
    assert {floor_of(path) for path in FILES} <= FLOORS.keys(), "give the new module its floor in FLOORS"


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_floor_imports_only_from_below(path: Path) -> None:
    name, below = FLOORS[floor_of(path)]
    for module in imports(path):
        if module.split(".")[0] == "alibi_viz":
            floor = module.split(".")[1] if "." in module else "__init__"
            assert floor in below | {floor_of(path)}, f"{name} may not import {module}"


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_floor_uses_only_its_libraries(path: Path) -> None:
    """Floors 1 to 3 are torch, numpy and the standard library; only widgets import ipywidgets."""
    allowed = LIBRARIES.get(floor_of(path), LOWER)
    used = {module.split(".")[0] for module in imports(path)} - sys.stdlib_module_names - {"alibi_viz"}
    assert used <= allowed, f"{FLOORS[floor_of(path)][0]} may not use {', '.join(sorted(used - allowed))}"


@pytest.mark.parametrize("statement", ["import alibi_viz", "import alibi_viz.lab"])
def test_import_loads_no_picture_library(statement: str) -> None:
    found = loaded_by(statement)
    assert not found & {"plotly", "ipywidgets", "anywidget", "IPython", "PIL", "kaleido"}


def test_figures_load_no_widget_and_no_model() -> None:
    found = loaded_by("import alibi_viz.figures")
    assert not found & {"ipywidgets", "anywidget", "IPython", "alibi_viz.widgets", "alibi_viz.lab"}


@pytest.mark.parametrize("name", ["lab", "figures", "widgets"])
def test_upper_floors_are_loaded_on_first_use(name: str) -> None:
    assert f"alibi_viz.{name}" not in loaded_by("import alibi_viz")
    assert f"alibi_viz.{name}" in loaded_by(f"import alibi_viz as av; av.{name}")


def loaded_by(statement: str) -> set[str]:
    """Names in sys.modules of a fresh interpreter after the statement, dotted ones for this package only."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    return {module for module in result.stdout.split() if "." not in module or module.startswith("alibi_viz.")}


def sources() -> list[Path]:
    folders = ("alibi_viz", "tests", "benchmarks", "notebooks")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", sources(), ids=relative)
def test_a_file_is_one_idea(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_file_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "a module starts with a docstring"


@pytest.mark.parametrize("module", ["alibi_viz", "alibi_viz.models", "alibi_viz.lab", "alibi_viz.widgets"])
def test_public_names_explain_themselves(module: str) -> None:
    """A docstring for everything; an example for the functions of the public face, which doctest runs."""
    loaded = importlib.import_module(module)
    assert loaded.__all__
    for name in loaded.__all__:
        thing = getattr(loaded, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):  # a table such as POSITIONS is told by a comment
            assert thing.__doc__, f"{name} has no docstring"
        if module == "alibi_viz" and inspect.isfunction(thing):
            assert ">>>" in str(thing.__doc__), f"{name} has no example"


def test_public_names_are_sorted_and_exist() -> None:
    assert sorted(alibi_viz.__all__) == alibi_viz.__all__
    assert all(hasattr(alibi_viz, name) for name in alibi_viz.__all__)


def test_the_house_is_laid_out_as_drawn() -> None:
    for name in ("LICENSE", "Makefile", "README.md", "constraints.txt", "environment.yml", ".ci/run"):
        assert (ROOT / name).is_file(), f"{name} is missing"
    for name in ("notebooks", "tests/browser", "benchmarks"):
        assert (ROOT / name).is_dir(), f"{name}/ is missing"


def test_readme_commands_are_targets() -> None:
    targets = {line.split(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if ": " in line}
    named = set(re.findall(r"(?:`|^ *)make ([a-z-]+)", (ROOT / "README.md").read_text(), re.M))
    assert {"lab", "test"} <= named
    assert named <= targets, f"README names targets that make lacks: {', '.join(sorted(named - targets))}"
