"""A fixture of several folders: a registry without custom methods afterwards."""

from collections.abc import Iterator

import pytest

from alibi_viz.models import POSITIONS
from alibi_viz.models.positions import custom


@pytest.fixture
def forget_custom_methods() -> Iterator[None]:
    """Position methods that a test registers are unknown to other tests, and the other way round."""
    forget()
    yield
    forget()


def forget() -> None:
    """Remove all position methods that are not built in."""
    for name in custom._CUSTOM:
        POSITIONS.pop(name, None)
    custom._CUSTOM.clear()
