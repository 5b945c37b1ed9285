"""Fixtures shared by the tests of LengthLab."""

import pytest

from alibi_viz.train.training import DEFAULT_MODEL
from alibi_viz.widgets.race import state
from tests.widgets.race.paced_race import paced
from tests.widgets.race.small_race import TARGETS


@pytest.fixture(scope="module", autouse=True)
def small_models():
    """Most of the time of a short race goes into testing its models, which don't have to be good
    here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DEFAULT_MODEL, "num_layers", 1)
        patch.setitem(DEFAULT_MODEL, "d_model", 16)
        patch.setattr(state, "CHECKPOINT_TARGETS", TARGETS)
        yield


@pytest.fixture
def pace():
    """For races that wait until the test lets them go on."""
    with paced() as pace:
        yield pace
