"""For every test: a registry without custom methods."""

import sys
from collections.abc import Iterator

import pytest

from alibi_viz.models.positions import registry

# These read /proc, fork, send signals, or compare what is installed with constraints.txt, which is
# Linux's.
LINUX = ["test_cli.py", "test_environment.py", "test_files.py", "test_memory.py"]
collect_ignore = [] if sys.platform == "linux" else LINUX


@pytest.fixture(autouse=True)
def forget_custom_methods() -> Iterator[None]:
    """Position methods that a test registers are unknown to later ones."""
    yield
    registry._OWN_METHODS.clear()
