"""The rules of the house: which floor imports which, and what an import loads."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import alibi_viz
from tests.rows import each_case

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "alibi_viz"
FILES = sorted(PACKAGE.rglob("*.py"))
GUIDES = [
    ROOT / "README.md",
    ROOT / "docs" / "lessons.md",
    *(ROOT / "docs" / "guides").glob("*.md"),
]
GUIDE = "\n".join(path.read_text("utf-8") for path in GUIDES)  # what there is to read before code
# From bottom to top, in reading order: a module may import from its own floor and those before it.
FLOORS = (
    "minimal",
    "arguments",
    "files",
    "formatting",
    "slopes",
    "laws",
    "bias",
    "cached_bias",
    "attention",
    "models",
    "__init__",
    "check",
    "data",
    "surgery",
    "measure",
    "train",
    "lab",
    "figures",
    "study",
    "widgets.core",
    "lessons",
    "widgets",
    "cli",
    "__main__",
)
# Figures stand higher than what they must not know.
UNKNOWN_TO_FIGURES = {"check", "models", "__init__", "lab"}
# The one exception: a report draws itself in a notebook, if plotly is installed.
DRAWS_ITSELF = "alibi_viz/check/report.py imports alibi_viz.figures.matrices_html"
TORCH = {"torch", "numpy"}
FIGURES = TORCH | {"pandas", "scipy", "plotly", "PIL", "regex", "wcwidth", "kaleido"}
LAB = TORCH | {"pandas", "scipy", "regex", "safetensors", "tqdm", "cloudpickle"}
WIDGETS = FIGURES | {"ipywidgets", "anywidget", "traitlets", "IPython"}
LIBRARIES = {
    "data": LAB,
    "measure": LAB,
    "surgery": LAB,
    "train": LAB,
    "figures": FIGURES,
    "lab": LAB,
    "study": LAB | {"jinja2"},
    "widgets.core": WIDGETS,
    "lessons": WIDGETS,
    "widgets": WIDGETS,
    "cli": FIGURES,
}


def imports(path):
    """The full names of all modules that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: use absolute imports, which show the floor"
            for alias in node.names:
                yield imported_module(str(node.module), alias.name)


def imported_module(module, name):
    """The module that `from module import name` imports: `module.name` if that is one."""
    path = ROOT / f"{module}.{name}".replace(".", "/")
    is_module = path.with_suffix(".py").exists() or path.is_dir()
    return f"{module}.{name}" if is_module else module


def floor_of(module):
    """The floor of a module, given without the name of the package."""
    if module.startswith("widgets.core"):
        return "widgets.core"
    return module.partition(".")[0] or "__init__"


def module_name(path):
    """The full name of the module in a file of the package."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_modules_import_only_from_lower_floors_and_libraries_of_their_floor():
    wrong = []
    for path in FILES:
        floor = floor_of(".".join(path.relative_to(PACKAGE).with_suffix("").parts))
        allowed_floors = set(FLOORS[: FLOORS.index(floor) + 1])
        if floor == "figures":
            allowed_floors -= UNKNOWN_TO_FIGURES
        allowed_libraries = LIBRARIES.get(floor, TORCH) | sys.stdlib_module_names
        for module in imports(path):
            library, _, rest = module.partition(".")
            if library == "alibi_viz":
                is_allowed = floor_of(rest) in allowed_floors
            else:
                is_allowed = library in allowed_libraries
            line = f"{path.relative_to(ROOT)} imports {module}"
            if not is_allowed and line != DRAWS_ITSELF:
                wrong.append(line)
    assert wrong == []


def test_no_import_cycles():
    """Imports inside functions count as well."""
    modules = {module_name(path): path for path in FILES}
    graph = {}
    for name, path in modules.items():
        graph[name] = set(imports(path)) & modules.keys() - {name, "alibi_viz"}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


# What is imported one after the other in an interpreter of its own, because each takes seconds to
# start: first what needs no lab, up to the lab; then figures, up to those of apps.
IN_ONE_INTERPRETER = [
    ["alibi_viz", "alibi_viz.check", "alibi_viz.lessons", "alibi_viz.lab"],
    ["alibi_viz.figures.curve_plot", "alibi_viz.widgets.core.plot"],
]


@pytest.fixture(scope="module")
def loaded():
    """The modules that are there after the import of a module of ours, and of those before it."""
    modules = {}
    for names in IN_ONE_INTERPRETER:
        lines = ["import sys"]
        for name in names:
            lines += [f"import {name}", "print(*sys.modules)"]
        command = [sys.executable, "-c", "\n".join(lines)]
        result = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        for name, line in zip(names, result.stdout.splitlines(), strict=True):
            modules[name] = set(line.split())
    return modules


@each_case(
    ("module", "not_loaded"),
    {
        "package": (
            "alibi_viz",
            {"pandas", "scipy", "plotly", "PIL", "ipywidgets", "jinja2", "transformers"},
        ),
        "check and lessons": ("alibi_viz.lessons", {"pandas", "scipy", "plotly", "ipywidgets"}),
        "lab": (
            "alibi_viz.lab",
            {"scipy", "plotly", "PIL", "kaleido", "ipywidgets", "IPython", "alibi_viz.study"},
        ),
        "figure": (
            "alibi_viz.figures.curve_plot",
            {"scipy", "ipywidgets", "IPython", "alibi_viz.lab"},
        ),
        "figure of an app": ("alibi_viz.widgets.core.plot", {"nbformat", "jsonschema", "scipy"}),
    },
)
def test_import_doesnt_load_what_stands_higher_or_is_rarely_needed(module, not_loaded, loaded):
    assert not_loaded & loaded[module] == set()


def test_no_two_files_of_the_package_have_the_same_name():
    """An editor's search could not tell them apart."""
    names = Counter(path.name for path in FILES if path.stem not in ("__init__", "__main__"))
    assert [name for name, count in names.items() if count > 1] == []


PUBLIC = ["", ".models", ".check", ".lab", ".figures", ".study", ".lessons", ".widgets"]


def test_public_names_are_sorted_and_documented():
    for module in PUBLIC:
        package = importlib.import_module(f"alibi_viz{module}")
        names = list(package.__all__)
        assert names == sorted(names, key=lambda name: (not name.isupper(), name))
        for name in names:
            member = getattr(package, name)
            if inspect.isclass(member) or inspect.isfunction(member):
                assert member.__doc__, f"{name} has no docstring"


def test_public_functions_have_an_example():
    for name in alibi_viz.__all__:
        member = getattr(alibi_viz, name)
        if inspect.isfunction(member):
            assert ">>>" in str(member.__doc__), name


def test_readme_or_guides_show_every_picture():
    shown = set(re.findall(r"notebooks/images/([^)]+)", GUIDE))
    assert shown == {path.name for path in (ROOT / "notebooks" / "images").iterdir()}


def test_readme_and_guides_name_targets_that_make_has():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    named = set(re.findall(r"(?:`|^ *)make ([a-z-]+)", GUIDE, re.M))
    assert {"lab", "test"} <= named
    assert named - targets == set()
