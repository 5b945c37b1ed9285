"""For all apps: models that write at once."""

import pytest

from alibi_viz import lab
from alibi_viz.measure.continuations import Continuation


def quick_continuations(*arguments, **options):
    """Texts that take no time."""
    return [Continuation("Once", " upon", " a time")]


@pytest.fixture
def quick_writing(monkeypatch):
    """No app waits until a model has written."""
    monkeypatch.setattr(lab, "continuations", quick_continuations)
