"""What LengthLab leaves behind when it is stopped, closed, or turned to another tab."""

import time

import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab import TrainingDiverged
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.race.views import measurements

TINY = {"methods": ["alibi", "none"], "length": 8, "steps": 10}


def test_a_closed_app_measures_nothing():
    app = LengthLab(methods=["alibi", "none"], length=8, steps=2000)
    future = app.train()
    while not app.losses.get("none"):
        time.sleep(0.01)
    app.view = "by position"
    app.close()
    future.result()
    app._background.join()
    assert not app._reports[False].measured


def test_measuring_that_was_stopped_does_not_go_on_in_words():
    app = LengthLab(**TINY, seeds=5)
    app.train().result()
    app.view = "same targets"
    app.stop()
    app._background.join()
    assert "being measured" not in app.caption


def test_each_race_knows_its_own_settings():
    app = LengthLab(**TINY)
    app.train().result()
    app.length = 16
    app.view = "needle"
    app.train().result()
    assert "changed since" not in app.caption
    app.view = "race"
    assert "changed since" in app.caption
    app.length = 8
    assert "changed since" not in app.caption


def test_a_model_that_diverged_is_not_called_undefined():
    app = LengthLab(methods=["alibi"], length=8, steps=60, learning_rate=1000.0)
    with pytest.raises(TrainingDiverged):
        app.train().result()
    for view in ("by position", "same targets"):
        app.view = view
        app._background.join()
        assert "alibi gives no number" in app.caption
        assert "not defined" not in app.caption


@pytest.mark.parametrize("length", [8, 24, 33])
def test_no_bin_mixes_positions_trained_on_with_others(monkeypatch, length):
    app = LengthLab(methods=["alibi"], length=length, steps=10)
    app.train().result()
    report, longest = app._reports[False], 16 * length
    beyond = (torch.arange(1, longest + 1) > length).float()
    monkeypatch.setattr(lab, "loss_by_position", lambda *_, **__: beyond)
    list(measurements(report, "by position"))
    points = report.measured["by position"][0]["alibi"]
    assert points[1] == 0
    assert points == {place: float(place > length) for place in points}
    assert max(points) < longest - length  # the last bin holds many positions: one alone is noise
