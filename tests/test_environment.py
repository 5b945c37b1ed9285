"""pyproject.toml (ranges), constraints.txt (versions) and environment.yml list the same
dependencies."""

import re
import subprocess
import tomllib
from collections.abc import Iterable
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
RUN = [Requirement(line) for line in PROJECT["dependencies"] + EXTRAS["lab"]]
TEST = [Requirement(line) for line in EXTRAS["test"] if line != "alibi-viz[lab]"]
CUDA = re.compile(r"(nvidia|cuda|triton)(-|$)")  # packages that some builds of torch depend on
CONDA_NAMES = {"torch": "pytorch", "kaleido": "python-kaleido"}  # different names on conda-forge


def constraints() -> dict[str, Version]:
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    pins = [Requirement(line) for line in lines]
    assert all(re.fullmatch(r"==[^*,]+", str(pin.specifier)) for pin in pins), (
        "each line is name==version"
    )
    return {canonicalize_name(pin.name): Version(str(pin.specifier)[2:]) for pin in pins}


@pytest.mark.parametrize("requirement", RUN + TEST, ids=str)
def test_constraints_are_within_the_ranges(requirement: Requirement) -> None:
    assert constraints()[canonicalize_name(requirement.name)] in requirement.specifier


def test_everything_installed_for_the_project_is_constrained() -> None:
    installed = {
        canonicalize_name(package.metadata["Name"]) for package in metadata.distributions()
    }
    needed = dependencies([package.name for package in RUN + TEST], installed)
    assert len(needed) > 60, "too few dependencies found for this test to mean anything"
    assert needed <= constraints().keys(), (
        f"not in constraints.txt: {sorted(needed - constraints().keys())}"
    )


def dependencies(names: Iterable[str], installed: Iterable[str]) -> set[str]:
    """Return the installed packages among the names and all their dependencies, without the CUDA
    packages of torch.

    These depend on the build of torch, and torch pins their versions itself.
    """
    queue, collected = [canonicalize_name(name) for name in names], set[str]()
    while queue:
        name = queue.pop()
        if name in installed and name not in collected:
            collected.add(name)
            lines = [Requirement(line) for line in metadata.requires(name) or []]
            needed = [
                line.name
                for line in lines
                if line.marker is None or line.marker.evaluate({"extra": ""})
            ]
            queue += [
                canonicalize_name(package)
                for package in needed
                if not (name == "torch" and CUDA.match(package))
            ]
    return collected


def test_conda_environment_has_the_same_names_and_ranges_and_installs_the_package() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    lines = environment["dependencies"]
    assert (environment["name"], environment["channels"]) == ("alibi_viz", ["conda-forge"])
    assert {"pip": ["-e ."]} in lines and "pip" in lines
    (python,) = (line for line in lines if str(line).startswith("python="))
    assert Version(python.removeprefix("python=")) in SpecifierSet(PROJECT["requires-python"])
    conda = [Requirement(line) for line in lines if isinstance(line, str) and ">" in line]
    expected = {CONDA_NAMES.get(package.name, package.name): package.specifier for package in RUN}
    assert {package.name: package.specifier for package in conda} == expected


def test_make_rejects_a_python_that_is_too_old(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.1" && exit 0\nexit 1\n')
    old.chmod(0o755)
    command = ["make", "--silent", f"PYTHON={old}", f"VENV={tmp_path}/venv", "install"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (
        result.returncode != 0
        and "3.11 or newer" in result.stderr
        and "Python 3.9.1" in result.stderr
    )
    assert not (tmp_path / "venv").exists()


def test_the_citation_has_the_version_and_the_license_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert (
        citation["license"] == PROJECT["license"].split(" AND ")[0]
    )  # the others are those of the built-in text
