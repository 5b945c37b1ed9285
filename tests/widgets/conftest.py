"""For all apps: models that write at once."""

import pytest

from alibi_viz import lab
from alibi_viz.measure.continuations import Continuation
from alibi_viz.widgets import two_switches
from alibi_viz.widgets.two_switches import Written


def quick_continuations(*arguments, **options):
    """Texts that take no time."""
    return [Continuation("Once", " upon", " a time")]


def quick_written(state):
    """A text in a state of TwoSwitches that takes no time."""
    return Written(Continuation("Once", " upon", f" a time, {state}"), 0.5, 8)


@pytest.fixture
def quick_writing(monkeypatch):
    """No app waits until a model has written."""
    monkeypatch.setattr(lab, "continuations", quick_continuations)
    monkeypatch.setattr(two_switches, "write_in", quick_written)
