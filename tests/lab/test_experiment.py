"""Runs reject unusable texts, and records hold the expected answers."""

import pytest

from alibi_viz import lab
from alibi_viz.lab import experiment, text


def test_a_run_that_diverges_has_its_training_loss_only():
    record = lab.measure(lab.Run("alibi", length=16, steps=3, longest=2, learning_rate=1000.0))
    assert "diverged" in record["error"] or "the loss became" in record["error"]
    assert {answer[1] for answer in record["answers"]} <= {"training loss"}


def test_a_text_too_short_for_the_tests_raises_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "train", lambda *_, **__: pytest.fail("trained for nothing"))
    (tmp_path / "text.txt").write_text("to be or not to be, that is the question. " * 170)
    message = r"too short to test at length 1,088: its validation part has 7\d\d bytes, at least 1,090 are needed"
    with pytest.raises(ValueError, match=message):
        lab.measure(lab.Run("alibi", path=str(tmp_path / "text.txt")))


def test_a_run_reads_its_text_once(tmp_path, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"to be or not to be, that is question {number}. " for number in range(300)))
    read, reads = text._read, []
    monkeypatch.setattr(text, "_read", lambda path: reads.append(path) or read(path))
    lab.measure(lab.Run("none", length=16, steps=4, longest=2, path=str(path)))
    assert reads == [path]


def test_gaps_are_measured_after_each_quarter_of_the_training():
    record = lab.measure(lab.Run("none", length=16, steps=8, longest=4))
    gaps = {x: value for evaluated, question, x, value, *_ in record["answers"] if question == "gap"}
    windows = {
        x: value
        for evaluated, question, x, value, *_ in record["answers"]
        if (evaluated, question) == ("as trained", "longer windows")
    }
    assert list(gaps) == [2, 4, 6, 8]
    assert gaps[8] == pytest.approx(windows[64] - windows[16], abs=1e-4)


def test_equal_settings_give_equal_numbers():
    one, other = (lab.measure(lab.Run("kerple-log", length=16, steps=3, longest=2)) for _ in range(2))
    assert one["answers"] == other["answers"]


def test_a_run_without_tests_has_only_its_training_loss() -> None:
    record = lab.measure(lab.Run("alibi", length=16, steps=4, longest=0))
    tested = lab.measure(lab.Run("alibi", length=16, steps=4, longest=1))
    assert {answer[1] for answer in record["answers"]} == {"training loss"}
    assert record["answers"] == [answer for answer in tested["answers"] if answer[1] == "training loss"]
