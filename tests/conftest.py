"""For every test: apps without own methods, and the site if it is built."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from alibi_viz.widgets.core import own_methods

# These read /proc, fork, send signals, or compare what is installed with constraints.txt, which is
# Linux's.
ON_LINUX_ONLY = {"test_cli.py", "test_environment.py", "test_files.py"}
# These need the lab, or libraries to compare with. `make test-core` runs without them.
WITH_THE_LAB_ONLY = [
    "attention/test_gpu.py",
    "models/test_custom.py",
    "models/test_formulas.py",
    "models/test_pretrained.py",
]
HAS_THE_LAB = find_spec("pandas") is not None
collect_ignore = [] if HAS_THE_LAB else WITH_THE_LAB_ONLY


def pytest_collection_modifyitems(items):
    """Skip on other systems what needs Linux."""
    if sys.platform == "linux":
        return
    for item in items:
        if item.path.name in ON_LINUX_ONLY:
            item.add_marker(pytest.mark.skip(reason="needs Linux: /proc, fork and signals"))


def pytest_terminal_summary(terminalreporter):
    """Say which files were left out."""
    if not HAS_THE_LAB:
        files = ", ".join(WITH_THE_LAB_ONLY)
        terminalreporter.write_line(f"not run: {files}; they need pip install 'alibi-viz[lab]'")


def pytest_addoption(parser):
    """Add the option of tests that read the site."""
    parser.addoption("--site", help="the folder of the site: `make docs` builds it in site")


@pytest.fixture(scope="session")
def docs(request):
    """The folder of the whole site."""
    folder = request.config.getoption("site")
    if folder is None:
        pytest.skip("needs the site: make docs, then pytest --site=site")
    return Path(folder).resolve()


@pytest.fixture(autouse=True)
def forget_custom_methods():
    """Position methods that a test registers are unknown to later ones."""
    yield
    own_methods._own_methods.clear()
