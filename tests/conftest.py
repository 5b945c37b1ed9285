"""A fixture of several folders: a registry without own methods afterwards."""

from collections.abc import Iterator

import pytest

from alibi_viz.models import POSITIONS
from alibi_viz.models.positions import own


@pytest.fixture
def forget_own_methods() -> Iterator[None]:
    """Position methods that a test registers are unknown to other tests, and the other way round."""
    forget()
    yield
    forget()


def forget() -> None:
    """Remove all position methods that are not built in."""
    for name in own._OWN:
        POSITIONS.pop(name, None)
    own._OWN.clear()
