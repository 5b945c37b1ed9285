"""The lists of dependencies say the same: pyproject.toml (ranges), constraints.txt (versions), environment.yml."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from jupyter_client.manager import KernelManager
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUN = [Requirement(line) for line in PROJECT["dependencies"]]
TEST = [Requirement(line) for line in PROJECT["optional-dependencies"]["test"]]
CONDA_NAMES = {"torch": "pytorch", "kaleido": "python-kaleido"}  # where conda-forge has another name


def constraints() -> dict[str, Version]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pins = [Requirement(line) for line in lines]
    assert all(re.fullmatch(r"==[^*,]+", str(pin.specifier)) for pin in pins), "each line is name==version"
    return {canonicalize_name(pin.name): Version(str(pin.specifier)[2:]) for pin in pins}


@pytest.fixture(scope="module")
def environment() -> dict[str, object]:
    return yaml.safe_load((ROOT / "environment.yml").read_text())


@pytest.mark.parametrize("requirement", RUN + TEST, ids=str)
def test_constraints_are_within_the_ranges(requirement: Requirement) -> None:
    assert constraints()[canonicalize_name(requirement.name)] in requirement.specifier


def test_torch_is_the_version_known_to_work() -> None:
    assert constraints()["torch"] == Version("2.13.0")


def test_anywidget_is_named() -> None:
    assert "anywidget" in {requirement.name for requirement in RUN}, "plotly needs it, and does not say so"


def test_everything_installed_for_the_project_is_constrained() -> None:
    """Walk what pip would install, from the project downwards, in the environment that runs this test."""
    report = "import importlib.metadata as m; print(*(d.name for d in m.distributions()), sep='\\n')"
    names = subprocess.run([sys.executable, "-c", report], check=True, capture_output=True, text=True).stdout.split()
    installed = {canonicalize_name(name) for name in names}
    pinned = constraints()
    todo, seen = [canonicalize_name(requirement.name) for requirement in RUN + TEST], set()
    while todo:
        name = todo.pop()
        if name not in seen and name in installed:
            seen.add(name)
            todo += [canonicalize_name(requirement.name) for requirement in needs(name)]
    assert len(seen) > 60, "the walk found too little to mean anything"
    assert seen <= pinned.keys(), f"not in constraints.txt: {sorted(seen - pinned.keys())}"


def needs(name: str) -> list[Requirement]:
    from importlib.metadata import requires  # noqa: PLC0415 - next to its only use

    requirements = [Requirement(line) for line in requires(name) or []]
    return [one for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]


def test_conda_environment_has_the_same_names_and_ranges(environment: dict) -> None:
    conda = [Requirement(line) for line in environment["dependencies"] if isinstance(line, str) and ">" in line]
    expected = {CONDA_NAMES.get(one.name, one.name): one.specifier for one in RUN}
    assert {one.name: one.specifier for one in conda} == expected


def test_conda_environment_installs_the_package_itself(environment: dict) -> None:
    assert environment["name"] == "alibi_viz"
    assert environment["channels"] == ["conda-forge"]
    assert {"pip": ["-e ."]} in environment["dependencies"]
    assert "pip" in environment["dependencies"]


def test_conda_environment_takes_a_python_that_the_project_takes(environment: dict) -> None:
    (python,) = (line for line in environment["dependencies"] if str(line).startswith("python="))
    assert Version(python.removeprefix("python=")) in SpecifierSet(PROJECT["requires-python"])


def test_notebooks_run_in_this_environment() -> None:
    """The kernel named python3 is this interpreter, even when another one is registered for the user."""
    assert KernelManager(kernel_name="python3").format_kernel_cmd()[0] == sys.executable


def test_make_alone_lists_every_target() -> None:
    listing = subprocess.run(["make"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for target in ("install", "lab", "test", "check", "bench", "notebooks", "screenshots"):
        assert re.search(rf"^  make {target} +\S", listing, re.M), f"{target} is not listed by make"


def test_make_names_a_python_that_is_too_old(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.1" && exit 0\nexit 1\n')
    old.chmod(0o755)
    command = ["make", "--silent", f"PYTHON={old}", f"VENV={tmp_path}/venv", "install"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "3.11 or newer" in result.stderr
    assert "Python 3.9.1" in result.stderr
    assert not (tmp_path / "venv").exists()
