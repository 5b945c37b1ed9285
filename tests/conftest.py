"""For every test: a registry without custom methods."""

import sys
from importlib.util import find_spec

import pytest

from alibi_viz.models.positions import registry

# These read /proc, fork, send signals, or compare what is installed with constraints.txt, which is
# Linux's.
LINUX = ["test_cli.py", "test_environment.py", "test_files.py", "test_memory.py"]
collect_ignore = [] if sys.platform == "linux" else LINUX
# These need the lab, or libraries to compare with. `make test-core` runs without them.
if find_spec("pandas") is None:
    collect_ignore += [
        "attention/test_gpu.py",
        "models/test_custom.py",
        "models/test_formulas.py",
        "models/test_pretrained.py",
    ]


@pytest.fixture(autouse=True)
def forget_custom_methods():
    """Position methods that a test registers are unknown to later ones."""
    yield
    registry._OWN_METHODS.clear()
