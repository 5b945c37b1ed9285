"""Saved models load exactly as they were; damaged or foreign folders raise and stay unchanged."""

import json
import math

import pandas as pd
import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab.checkpoints import SETTINGS_FILE, WEIGHTS_FILE, _checksum
from alibi_viz.models import POSITIONS

TOKENS = torch.arange(30)[None]


@pytest.fixture
def folder(tmp_path):
    return lab.save_run(tmp_path / "saved", lab.make_model("alibi", seed=4), settings={"steps": 3})


@pytest.mark.parametrize("position", POSITIONS)
def test_loaded_model_equals_the_saved_one_bit_for_bit(tmp_path, position):
    model = lab.make_model(position, seed=7, max_length=32)
    for _ in lab.train(model, lab.load_text(), length=32, steps=2):
        pass
    saved = lab.load_run(lab.save_run(tmp_path / "run", model, settings={"seed": 7}))
    assert saved.model.config == model.config
    assert saved.settings == {"seed": 7}
    assert saved.results.empty
    assert saved.made_with["torch"] == torch.__version__
    with torch.inference_mode():
        assert torch.equal(saved.model.eval()(TOKENS), model.eval()(TOKENS))


def test_saving_into_an_existing_folder_raises_and_changes_nothing(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(FileExistsError, match="exists already and is not overwritten"):
        lab.save_run(folder, lab.make_model("rotary"))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_settings_that_json_cannot_represent_leave_nothing_behind(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        lab.save_run(tmp_path / "run", lab.make_model(), settings={"rate": math.inf})
    assert list(tmp_path.iterdir()) == []


def test_results_are_loaded_as_saved_with_the_folder_as_origin(tmp_path):
    results = lab.published_results().query("label == 'alibi' and seed == 0")
    learned = results.assign(label="learned", value=results["value"].where(results["x"] <= 64))
    assert learned["value"].isna().any()
    saved = lab.load_run(lab.save_run(tmp_path / "run", lab.make_model("learned"), results=learned))
    expected = learned.assign(origin="run").reset_index(drop=True)
    pd.testing.assert_frame_equal(saved.results, expected, check_dtype=False)


@pytest.mark.parametrize(
    ("settings", "curves", "question", "values"),
    [
        ({"task": "text"}, {"loss": [7.5, 6.25], "by_length": {"32": 3.0, "64": None}}, "longer windows", [3.0, None]),
        ({"task": "needle"}, {"loss": [4.0], "accuracy": {"31": 1.0}}, "needle", [1.0]),
    ],
)
def test_runs_saved_by_version_1_are_loaded_with_their_curves_as_results(folder, settings, curves, question, values):
    content = json.loads((folder / SETTINGS_FILE).read_text())
    del content["results"], content["sha256"]
    content |= {"version": 2, "settings": {**settings, "seed": 4, "length": 32}, "curves": curves}
    content["sha256"] = _checksum(content, folder / WEIGHTS_FILE)
    (folder / SETTINGS_FILE).write_text(json.dumps(content))
    results = lab.load_run(folder).results
    assert [None if value != value else value for value in results.query("question == @question")["value"]] == values  # noqa: PLR0124
    assert results.query("question == 'training loss'")["value"].tolist() == curves["loss"]
    assert results["seed"].unique().tolist() == [4]


@pytest.mark.parametrize(
    "operation",
    [
        lambda alibi, _: lab.modify(alibi, 4.0),
        lambda alibi, _: lab.modify(alibi, window=8),
        lambda alibi, _: lab.modify(alibi, [0, *[1] * 7]),
        lambda _, rotary: lab.modify(rotary, rotary="pi"),
        lambda alibi, _: double_slopes(alibi),
    ],
)
def test_model_changed_by_an_intervention_cannot_be_saved(tmp_path, operation):
    changed = operation(lab.make_model("alibi"), lab.make_model("rotary"))
    with pytest.raises(ValueError, match="was changed by an intervention"):
        lab.save_run(tmp_path / "run", changed)
    assert list(tmp_path.iterdir()) == []


def double_slopes(model):
    model.transformer.position.slopes.mul_(2)
    return model


def test_failure_while_writing_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("alibi_viz.lab.checkpoints.save_model", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        lab.save_run(tmp_path / "run", lab.make_model())
    assert list(tmp_path.iterdir()) == []


def edit(folder, **changes):
    path = folder / SETTINGS_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def forge(folder, **changes):
    """Edit the settings and correct the checksum, as another program might do."""
    edit(folder, **changes)
    content = json.loads((folder / SETTINGS_FILE).read_text())
    del content["sha256"]
    edit(folder, sha256=_checksum(content, folder / WEIGHTS_FILE))


def break_weights(folder):
    (folder / WEIGHTS_FILE).write_bytes(b"not tensors")
    forge(folder)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / WEIGHTS_FILE).unlink(), rf"it has no {WEIGHTS_FILE}"),
        (lambda f: (f / SETTINGS_FILE).unlink(), rf"it has no {SETTINGS_FILE}"),
        (lambda f: (f / SETTINGS_FILE).write_text("{"), "is damaged: it is not JSON"),
        (lambda f: (f / SETTINGS_FILE).write_bytes(b"\xff\xfe"), "is damaged: it is not JSON"),
        (lambda f: (f / SETTINGS_FILE).write_text("[1]"), "was not written by alibi_viz"),
        (lambda f: edit(f, format="other"), "was not written by alibi_viz"),
        (lambda f: edit(f, version=99), "has format version 99; this alibi_viz reads 2 and 3"),
        (lambda f: (f / WEIGHTS_FILE).write_bytes((f / WEIGHTS_FILE).read_bytes()[:-9]), "do not match their checksum"),
        (lambda f: edit(f, config={"slope_scale": 9.0}), "do not match their checksum"),
        (lambda f: edit(f, settings=[]), "do not match their checksum"),
        (lambda f: (f / SETTINGS_FILE).write_text("[" * 100_000), "is damaged: it is not JSON"),
        (lambda f: forge(f, config={"position": "warp"}), "do not fit together: position must be one of"),
        (lambda f: forge(f, config={"d_model": 32, "num_heads": 4}), "do not fit together"),
        (lambda f: forge(f, config={"color": 1}), "do not fit together"),
        (break_weights, "do not fit together"),
    ],
)
def test_damaged_folder_raises_with_the_reason_and_stays_unchanged(folder, damage, message):
    damage(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(lab.BadRun, match=message):
        lab.load_run(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_missing_folder_raises(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no run"):
        lab.load_run(tmp_path / "nowhere")
