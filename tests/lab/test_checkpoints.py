"""Floor 3: a trained model comes back as it was; damaged or foreign ones are named and untouched."""

import json
import math

import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab.checkpoints import SETTINGS, WEIGHTS, _checksum
from alibi_viz.models import POSITIONS

TOKENS = torch.arange(30)[None]


@pytest.fixture
def folder(tmp_path):
    return lab.save_run(tmp_path / "kept", lab.make_model("alibi", seed=4), settings={"steps": 3})


@pytest.mark.parametrize("position", POSITIONS)
def test_a_model_comes_back_to_the_bit(tmp_path, position):
    model = lab.make_model(position, seed=7, max_length=32)
    for _ in lab.train(model, lab.load_text(), steps=2):
        pass
    curves = {"loss": [7.5, 6.25], "by_length": {"32": 3.0, "64": None}}
    saved = lab.load_run(lab.save_run(tmp_path / "run", model, settings={"seed": 7}, curves=curves))
    assert saved.model.config == model.config
    assert saved.settings == {"seed": 7}
    assert saved.curves == curves
    assert saved.made_with["torch"] == torch.__version__
    with torch.inference_mode():
        assert torch.equal(saved.model.eval()(TOKENS), model.eval()(TOKENS))


def test_nothing_is_overwritten(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(FileExistsError, match="exists already and is not overwritten"):
        lab.save_run(folder, lab.make_model("rotary"))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_json_cannot_hold_leaves_nothing_behind(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        lab.save_run(tmp_path / "run", lab.make_model(), settings={"rate": math.inf})
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_defined_is_kept_as_none(tmp_path):
    curves = {"by_length": {32: 3.0, 64: math.nan}, "loss": [8.0, math.nan]}
    kept = lab.load_run(lab.save_run(tmp_path / "run", lab.make_model("learned"), curves=curves))
    assert kept.curves == {"by_length": {"32": 3.0, "64": None}, "loss": [8.0, None]}


@pytest.mark.parametrize(
    "operation",
    [
        lambda alibi, _: lab.multiply_slopes(alibi, 4.0),
        lambda alibi, _: lab.impose_window(alibi, 8),
        lambda alibi, _: lab.drop_bias(alibi, 0),
        lambda _, rotary: lab.change_rotary_rule(rotary, "pi"),
        lambda alibi, _: replaced_slopes(alibi),
    ],
)
def test_a_changed_model_is_not_kept_as_if_it_were_the_original(tmp_path, operation):
    changed = operation(lab.make_model("alibi"), lab.make_model("rotary"))
    with pytest.raises(ValueError, match="was changed by an intervention"):
        lab.save_run(tmp_path / "run", changed)
    assert list(tmp_path.iterdir()) == []


def replaced_slopes(model):
    model.transformer.position.slopes.mul_(2)
    return model


def test_a_failure_while_writing_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("alibi_viz.lab.checkpoints.save_model", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        lab.save_run(tmp_path / "run", lab.make_model())
    assert list(tmp_path.iterdir()) == []


def change(folder, **changes):
    path = folder / SETTINGS
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def forge(folder, **changes):
    """A change with the checksum that goes with it, as another program might write it."""
    change(folder, **changes)
    content = json.loads((folder / SETTINGS).read_text())
    del content["sha256"]
    change(folder, sha256=_checksum(content, folder / WEIGHTS))


def no_safetensors(folder):
    (folder / WEIGHTS).write_bytes(b"not tensors")
    forge(folder)


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda f: (f / WEIGHTS).unlink(), rf"it has no {WEIGHTS}"),
        (lambda f: (f / SETTINGS).unlink(), rf"it has no {SETTINGS}"),
        (lambda f: (f / SETTINGS).write_text("{"), "is damaged: it is not JSON"),
        (lambda f: (f / SETTINGS).write_bytes(b"\xff\xfe"), "is damaged: it is not JSON"),
        (lambda f: (f / SETTINGS).write_text("[1]"), "was not written by alibi_viz"),
        (lambda f: change(f, format="other"), "was not written by alibi_viz"),
        (lambda f: change(f, version=99), "has format version 99; this alibi_viz reads 2"),
        (lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:-9]), "do not have the checksum"),
        (lambda f: change(f, config={"slope_scale": 9.0}), "do not have the checksum"),
        (lambda f: change(f, settings=[]), "do not have the checksum"),
        (lambda f: (f / SETTINGS).write_text("[" * 100_000), "is damaged: it is not JSON"),
        (lambda f: forge(f, config={"position": "warp"}), "do not fit together: position must be one of"),
        (lambda f: forge(f, config={"d_model": 32, "num_heads": 4}), "do not fit together"),
        (lambda f: forge(f, config={"colour": 1}), "do not fit together"),
        (no_safetensors, "do not fit together"),
    ],
)
def test_damage_is_named_and_left_as_it_is(folder, harm, says):
    harm(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(lab.BadRun, match=says):
        lab.load_run(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_is_missing_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no run"):
        lab.load_run(tmp_path / "nowhere")
