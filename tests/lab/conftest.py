"""A small comparison that several test files share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from alibi_viz import lab, laws
from alibi_viz.lab.compare import Comparison
from tests.conftest import forget
from tests.lab.comparison_settings import TINY


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short text, because every test of a model takes time."""
    path = tmp_path_factory.mktemp("text") / "my text.txt"
    path.write_bytes(lab.load_text().train.numpy().tobytes()[:30_000])
    return path


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results") / "deep" / "results"


@pytest.fixture(scope="session")
def comparison(text: Path, folder: Path) -> Comparison:
    return lab.compare(["alibi", "rotary", laws.square_root], seeds=3, text=text, out=folder, **TINY)


@pytest.fixture(autouse=True, scope="module")
def _forget_custom_methods() -> Iterator[None]:
    """Position methods that the tests of one file register are unknown to the next."""
    yield
    forget()
