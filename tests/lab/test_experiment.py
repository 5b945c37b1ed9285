"""Floor 3: what one run refuses, and what it records."""

import pytest

from alibi_viz import lab
from alibi_viz.lab import experiment


def test_a_run_that_diverges_at_its_very_end_is_recorded_as_such():
    record = lab.measure(lab.Run("alibi", length=16, steps=3, longest=2, learning_rate=1000.0))
    assert "diverged" in record["error"] or "the loss became" in record["error"]


def test_a_text_too_short_for_the_tests_is_refused_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "train", lambda *_, **__: pytest.fail("trained for nothing"))
    (tmp_path / "text.txt").write_text("to be or not to be, that is the question. " * 170)
    with pytest.raises(ValueError, match=r"too short for tests up to 16 times 64: its last tenth has 7\d\d bytes"):
        lab.measure(lab.Run("alibi", path=str(tmp_path / "text.txt")))


def test_a_seed_is_a_whole_number():
    with pytest.raises(ValueError, match=r"seed must be a whole number, got 0\.5"):
        lab.Run("alibi", seed=0.5)
