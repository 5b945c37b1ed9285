"""The structure of the package: which floor imports which, what `import alibi_viz` loads, how long
files are."""

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

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "alibi_viz"
FILES = sorted(PACKAGE.rglob("*.py"))
# From bottom to top, in reading order: a module may import those before it, except the `APART`
# ones.
FLOORS = (
    "minimal",
    "arguments",
    "memory",
    "files",
    "slopes",
    "laws",
    "bias",
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
    "site",
    "widgets",
    "cli",
    "__main__",
)
# A report draws itself in a notebook, if plotly is installed.
DRAWS_ITSELF = "alibi_viz/check/report.py imports alibi_viz.figures.matrices"
APART = {"figures": {"check", "models", "__init__", "lab"}}
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
    "site": LAB | {"jinja2", "markupsafe", "nbformat", "nbconvert", "latex2mathml", "pdoc"},
    "widgets.core": WIDGETS,
    "lessons": WIDGETS,
    "widgets": WIDGETS,
    "cli": FIGURES,
}


def imports(path: Path) -> Iterator[str]:
    """The full names of all modules that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: use absolute imports, which show the floor"
            for alias in node.names:  # `from alibi_viz.measure import sentences as say` imports the module alibi_viz.measure.sentences
                module = f"{node.module}.{alias.name}"
                path_of = ROOT / module.replace(".", "/")
                yield (
                    module
                    if path_of.with_suffix(".py").exists() or path_of.is_dir()
                    else str(node.module)
                )


def floor_of(module: str) -> str:
    """The floor of a module, without the name of the package."""
    if module.startswith("widgets.core"):
        return "widgets.core"
    return module.split(".", maxsplit=1)[0] or "__init__"


def test_modules_import_only_from_lower_floors_and_use_only_the_libraries_of_their_floor() -> None:
    wrong = []
    for path in FILES:
        floor = floor_of(".".join(path.relative_to(PACKAGE).with_suffix("").parts))
        below = {*FLOORS[: FLOORS.index(floor) + 1]} - APART.get(floor, set())
        allowed = LIBRARIES.get(floor, TORCH) | sys.stdlib_module_names
        for module in imports(path):
            library, _, rest = module.partition(".")
            is_allowed = floor_of(rest) in below if library == "alibi_viz" else library in allowed
            if not is_allowed:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert [line for line in wrong if line != DRAWS_ITSELF] == []


def test_no_import_cycles() -> None:
    """Imports inside functions count as well."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in FILES
    }
    graph = {
        name: {*imports(path)} & modules.keys() - {name, "alibi_viz"}
        for name, path in modules.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


@pytest.mark.parametrize(
    "not_loaded",  # by {statement: what it must not load}, in one process
    [
        {
            "import alibi_viz": {
                "pandas",
                "scipy",
                "plotly",
                "PIL",
                "ipywidgets",
                "jinja2",
                "transformers",
            },
            "import alibi_viz.check, alibi_viz.lessons": {
                "pandas",
                "scipy",
                "plotly",
                "ipywidgets",
            },
            "import alibi_viz.lab": {
                "plotly",
                "PIL",
                "kaleido",
                "ipywidgets",
                "IPython",
                "alibi_viz.study",
            },
        },
        {"import alibi_viz.figures.curve_plot": {"ipywidgets", "IPython", "alibi_viz.lab"}},
    ],
)
def test_floors_are_loaded_on_first_use(not_loaded: dict[str, set[str]]) -> None:
    code = "import sys; " + "; ".join(
        f"{statement}; print(*sys.modules)" for statement in not_loaded
    )
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    for (statement, names), loaded in zip(
        not_loaded.items(), result.stdout.splitlines(), strict=True
    ):
        assert not names & set(loaded.split()), statement


def test_files_are_short_have_docstrings_and_only_packages_list_their_names() -> None:
    for path in (
        path
        for folder in ("alibi_viz", "tests", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
    ):
        text = path.read_text("utf-8")
        if path in FILES:
            assert ast.get_docstring(ast.parse(text)), f"{path} has no docstring"
            if path.stem not in ("__init__", "laws", "lab"):  # which are public
                assert "\n__all__" not in text, f"{path} needs no __all__"


@pytest.mark.parametrize(
    "module", ["", ".models", ".check", ".lab", ".figures", ".study", ".lessons", ".widgets"]
)
def test_public_names_are_sorted_exist_and_have_docstrings(module: str) -> None:
    """Functions in `alibi_viz` also have an example, which doctest runs."""
    loaded = importlib.import_module(f"alibi_viz{module}")
    assert loaded.__all__
    assert sorted(loaded.__all__, key=lambda name: (not name.isupper(), name)) == list(
        loaded.__all__
    )
    for name in loaded.__all__:
        member = getattr(loaded, name)
        if inspect.isclass(member) or inspect.isfunction(
            member
        ):  # constants such as POSITIONS have a comment
            assert member.__doc__, f"{name} has no docstring"
            assert module or inspect.isclass(member) or ">>>" in str(member.__doc__), (
                f"{name} has no example"
            )


def test_repository_holds_what_the_readme_says() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = set(re.findall(r"notebooks/images/([^)]+)", readme))
    assert shown == {path.name for path in (ROOT / "notebooks" / "images").iterdir()}
    targets = {
        line.split(":")[0]
        for line in (ROOT / "Makefile").read_text("utf-8").splitlines()
        if ": " in line
    }
    named = set(re.findall(r"(?:`|^ *)make ([a-z-]+)", readme, re.M))
    assert {"lab", "test"} <= named <= targets, (
        f"README names targets that make lacks: {named - targets}"
    )
