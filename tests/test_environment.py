"""pyproject.toml, constraints.txt and environment.yml list the same dependencies."""

import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def requirements(lines):
    """The requirements in these lines, without other extras of ours."""
    return [Requirement(line) for line in lines if not line.startswith("alibi-viz")]


RUN = requirements([*PROJECT["dependencies"], *EXTRAS["figures"], *EXTRAS["lab"]])
DOCS = requirements(EXTRAS["docs"])
TEST = requirements([*EXTRAS["test"], *EXTRAS["browsers"]])
CUDA = re.compile(r"(nvidia|cuda|triton)(-|$)")  # packages that some builds of torch depend on
CONDA_NAMES = {"torch": "pytorch", "kaleido": "python-kaleido"}  # different names on conda-forge


def constraints():
    """The version of each package in constraints.txt."""
    versions = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        pin = Requirement(line)
        exact_version = re.fullmatch(r"==([^*,]+)", str(pin.specifier))
        assert exact_version, f"{line!r} is not name==version"
        versions[canonicalize_name(pin.name)] = Version(exact_version[1])
    return versions


def test_constraints_are_within_the_ranges():
    versions = constraints()
    for requirement in RUN + DOCS + TEST:
        assert versions[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_everything_installed_for_the_project_is_constrained():
    needed = installed_dependencies([package.name for package in RUN + DOCS + TEST])
    assert len(needed) > 60, "too few dependencies found for this test to mean anything"
    assert needed - constraints().keys() == set()


def installed_dependencies(names):
    """The installed packages among the names, and all their dependencies.

    The CUDA packages of torch are left out: they depend on its build, and torch pins them itself.
    """
    installed = {canonicalize_name(found.metadata["Name"]) for found in metadata.distributions()}
    queue = [canonicalize_name(name) for name in names]
    collected = set()
    while queue:
        name = queue.pop()
        if name not in installed or name in collected:
            continue
        collected.add(name)
        for line in metadata.requires(name) or []:
            needed = Requirement(line)
            if needed.marker and not needed.marker.evaluate({"extra": ""}):
                continue
            if name == "torch" and CUDA.match(needed.name):
                continue
            queue.append(canonicalize_name(needed.name))
    return collected


@pytest.fixture(scope="module")
def environment():
    return yaml.safe_load((ROOT / "environment.yml").read_text())


def test_conda_environment_installs_the_package(environment):
    assert environment["name"] == "alibi_viz"
    assert environment["channels"] == ["conda-forge"]
    assert "pip" in environment["dependencies"]
    assert {"pip": ["-e ."]} in environment["dependencies"]


def test_conda_environment_has_a_supported_python(environment):
    (python,) = (line for line in environment["dependencies"] if str(line).startswith("python="))
    version = Version(python.removeprefix("python="))
    assert version in SpecifierSet(PROJECT["requires-python"])


def test_conda_environment_has_the_same_names_and_ranges(environment):
    ranges = {}
    for line in environment["dependencies"]:
        if isinstance(line, str) and ">" in line:
            package = Requirement(line)
            ranges[package.name] = package.specifier
    expected = {CONDA_NAMES.get(package.name, package.name): package.specifier for package in RUN}
    assert ranges == expected


def test_make_rejects_a_python_that_is_too_old(tmp_path):
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.1" && exit 0\nexit 1\n')
    old.chmod(0o755)
    command = ["make", "--silent", f"PYTHON={old}", f"VENV={tmp_path}/venv", "install"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "3.11 or newer" in result.stderr
    assert "Python 3.9.1" in result.stderr
    assert not (tmp_path / "venv").exists()


def test_the_citation_has_the_version_and_the_license_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]


def test_pictures_of_the_checker_leave_torch_as_it_is():
    names = {package.name for package in requirements(EXTRAS["figures"])}
    assert names == {"pillow", "plotly"}
