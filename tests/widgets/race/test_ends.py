"""The state of LengthLab after it is stopped or closed, or after another question is opened."""

import time

import pytest

from alibi_viz.lab import TrainingDiverged
from alibi_viz.widgets import LengthLab

TINY = {"methods": ["alibi", "none"], "length": 8, "steps": 10}


def test_a_closed_app_measures_nothing():
    app = LengthLab(methods=["alibi", "none"], length=8, steps=2000)
    future = app.train()
    while not app.losses.get("none"):
        time.sleep(0.01)
    app.question = "by position"
    app.close()
    future.result()
    app._background.join()
    assert not app._reports["text"].measured


def test_the_caption_says_that_measuring_was_stopped():
    app = LengthLab(**TINY, seeds=5)
    app.train().result()
    app.question = "same targets"
    app.stop()
    app._background.join()
    assert "being measured" not in app.caption


def test_each_race_has_its_own_settings():
    app = LengthLab(**TINY)
    app.train().result()
    app.length = 16
    app.question = "needle"
    app.train().result()
    assert "changed since" not in app.caption
    app.question = "longer windows"
    assert "changed since" in app.caption
    app.length = 8
    assert "changed since" not in app.caption


def test_models_that_diverged_are_not_measured_and_not_called_undefined():
    app = LengthLab(methods=["alibi"], length=8, steps=60, learning_rate=1000.0)
    with pytest.raises(TrainingDiverged):
        app.train().result()
    for question in ("longer windows", "gap", "by position", "same targets"):
        app.question = question
        app._background.join()
        assert "Training did not finish, so the methods cannot be compared." in app.caption
        assert "not defined" not in app.caption
    assert not app._reports["text"].measured
