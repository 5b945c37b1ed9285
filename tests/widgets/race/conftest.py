"""Fixtures shared by the tests of LengthLab."""

import threading
from collections.abc import Iterator

import pytest

from alibi_viz.train.training import DEFAULT_MODEL
from alibi_viz.widgets import LengthLab
from tests.widgets.race.small_race import losses, small, trained, until


@pytest.fixture(scope="module", autouse=True)
def small_models() -> Iterator[None]:
    """Most of the time of a short race goes into testing its models, which don't have to be good
    here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DEFAULT_MODEL, "num_layers", 1)
        patch.setitem(DEFAULT_MODEL, "d_model", 16)
        yield


@pytest.fixture
def long_race() -> Iterator[LengthLab]:
    """A long race, a few steps after its start."""
    app = small(steps=2000)
    app.train()
    until(lambda: len(losses(app).get("none", ())) > 3, "a few steps")
    yield app
    app.stop()
    until(
        lambda: "alibi_viz" not in {thread.name for thread in threading.enumerate()},
        "the end of the thread",
    )


@pytest.fixture(scope="module")
def two_seeds() -> LengthLab:
    return trained(methods=["alibi", "learned", "none"], seed=3, seeds=2)


@pytest.fixture
def raced(two_seeds: LengthLab) -> Iterator[LengthLab]:
    """A race of three methods and two seeds that has ended; its question is reset after each
    test."""
    yield two_seeds
    two_seeds.question, two_seeds.guesses = "longer sequences", {}
