"""Trained models, saved by LengthLab and opened by SlopeSurgery."""

import math
from pathlib import Path

import pytest
import torch

from alibi_viz import lab
from alibi_viz.widgets import LengthLab, SlopeSurgery
from alibi_viz.widgets.core.traits import BadValue
from tests.widgets.race.small_race import DEADLINE, control, message, small


@pytest.fixture(scope="module")
def trained() -> LengthLab:
    app = small(methods=["alibi", "learned"], seed=4)
    app.train().result(DEADLINE)
    return app


def test_models_are_saved_with_their_settings_and_results(trained: LengthLab, tmp_path: Path) -> None:
    control(trained, "s-folder").value = str(tmp_path / "mine")
    control(trained, "s-save").click()
    assert message(trained) == ""
    saved_run = lab.load_run(tmp_path / "mine" / "alibi")
    assert torch.equal(saved_run.model.head.weight, trained.models["alibi"].head.weight)
    assert (saved_run.settings["length"], saved_run.settings["steps"], saved_run.settings["seed"]) == (8, 10, 4)
    assert values(saved_run, "training loss") == dict(enumerate(trained.losses["alibi"], start=1))
    assert values(saved_run, "longer windows") == trained.means["alibi"]
    learned = values(lab.load_run(tmp_path / "mine" / "learned"), "longer windows")
    assert [length for length, bits in learned.items() if math.isfinite(bits)] == [8]
    surgery = SlopeSurgery()
    surgery.open_run(tmp_path / "mine" / "alibi")
    assert "alibi, trained on windows of 8 bytes" in surgery.caption


def values(saved: lab.SavedRun, question: str) -> dict[int, float]:
    rows = saved.results[saved.results["question"] == question]
    return dict(zip(rows["x"], rows["value"], strict=True))


def test_nothing_is_overwritten_or_half_written(trained: LengthLab, tmp_path: Path) -> None:
    (tmp_path / "learned").mkdir()
    with pytest.raises(BadValue, match="learned' exists already and is not overwritten"):
        trained.save_models(tmp_path)
    assert not (tmp_path / "alibi").exists()
    control(trained, "s-folder").value = str(tmp_path)
    control(trained, "s-save").click()
    assert "exists already" in message(trained)
    control(trained, "s-folder").value = "  "
    control(trained, "s-save").click()
    assert "enter the folder in which to save the models" in message(trained)


def test_saving_without_a_trained_model_raises(tmp_path: Path, long_race: LengthLab) -> None:
    for app in (small(), long_race):
        with pytest.raises(BadValue, match="there is no trained model to save"):
            app.save_models(tmp_path / "mine")
    assert not list(tmp_path.iterdir())


def test_models_that_have_diverged_are_not_saved(tmp_path: Path) -> None:
    app = small(learning_rate=1000.0)
    with pytest.raises(lab.TrainingDiverged):
        app.train().result(DEADLINE)
    with pytest.raises(BadValue, match="the training of these models has diverged"):
        app.save_models(tmp_path / "mine")
    assert "not defined" not in app.caption
    model = lab.make_model("alibi", max_length=8)
    model.head.weight.data.fill_(float("nan"))
    with pytest.raises(ValueError, match="its training has diverged"):
        SlopeSurgery(model)
    folder = lab.save_run(tmp_path / "nan", model, settings={"length": 8})
    with pytest.raises(BadValue, match="its training has diverged"):
        SlopeSurgery().open_run(folder)


def test_models_of_a_task_are_saved_but_not_opened_by_slope_surgery(tmp_path: Path) -> None:
    app = small(question="needle")
    app.train().result(DEADLINE)
    app.save_models(tmp_path)
    with pytest.raises(BadValue, match="was trained on the task needle; choose a model of text"):
        SlopeSurgery().open_run(tmp_path / "alibi")


@pytest.mark.parametrize("path", ["~nosuchuser/x", "a\0b", "x" * 5000])
def test_an_impossible_path_is_named_wherever_it_is_typed(trained: LengthLab, path: str) -> None:
    surgery = SlopeSurgery()
    control(surgery, "s-folder").value = path
    assert "is not a usable path" in message(surgery)
    control(trained, "s-folder").value = path
    control(trained, "s-save").click()
    assert "is not a usable path" in message(trained)
    app = small()
    control(app, "s-text").value = "file"
    control(app, "s-path").value = path
    assert "is not a usable path" in message(app)
    assert len(message(app)) < 300
