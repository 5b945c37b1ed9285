"""Saved models load exactly as they were; damaged or foreign folders raise and stay unchanged."""

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from alibi_viz import lab, laws, study
from alibi_viz.models import POSITIONS
from alibi_viz.surgery.modify import evaluation_variants
from alibi_viz.train.saved_models import SETTINGS_FILE, WEIGHTS_FILE, BadRun
from tests.custom_laws import root
from tests.tables import SMALL, table
from tests.train.test_run import steep

TOKENS = torch.arange(30)[None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return lab.save_run(tmp_path / "saved", lab.make_model("alibi", **SMALL), settings={"steps": 3})


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("position", POSITIONS)
def test_a_loaded_model_equals_the_saved_one_bit_for_bit(tmp_path: Path, position: str) -> None:
    model = lab.make_model(position, max_length=32, **SMALL).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(
                0.01 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(7))
            )
    path = lab.save_run(tmp_path / "very" / "deep" / "run", model, settings={"seed": 7})
    saved = lab.load_run(path)
    assert saved.model.config == model.config
    assert saved.settings == {"seed": 7}
    assert saved.results.empty
    with torch.inference_mode():
        assert torch.equal(saved.model.eval()(TOKENS), model(TOKENS))


def test_results_are_loaded_as_saved_with_the_folder_as_origin(tmp_path: Path) -> None:
    results = table(
        "longer sequences", {"learned": [{64: 2.5, 128: math.nan}, {64: 2.6, 128: math.nan}]}
    )
    more = results.assign(tokens_per_second=math.nan)  # as the rows of a race have it
    saved = lab.load_run(
        lab.save_run(tmp_path / "run", lab.make_model("learned", **SMALL), results=more)
    )
    pd.testing.assert_frame_equal(saved.results, results.assign(origin="run"))


def test_a_saved_run_is_not_overwritten(folder: Path) -> None:
    before = content(folder)
    with pytest.raises(FileExistsError, match="exists already and is not overwritten"):
        lab.save_run(folder, lab.make_model("rotary", **SMALL))
    assert content(folder) == before


def test_settings_that_json_cannot_represent_leave_nothing(tmp_path: Path) -> None:
    model = lab.make_model("rotary", **SMALL)
    with pytest.raises(ValueError, match="not JSON compliant"):
        lab.save_run(tmp_path / "run", model, settings={"rate": math.inf})
    assert not list(tmp_path.iterdir())


def test_results_by_block_leave_nothing(tmp_path: Path) -> None:
    by_block = study.published_results(by_block=True)
    with pytest.raises(ValueError, match="got blocks of text"):
        lab.save_run(tmp_path / "run", lab.make_model("rotary", **SMALL), results=by_block)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(model: torch.nn.Module, file: str) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("alibi_viz.train.saved_models.save_model", fail)
    with pytest.raises(OSError, match="disk full"):
        lab.save_run(tmp_path / "run", lab.make_model("rotary", **SMALL))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("position", ["alibi", "rotary"])
def test_a_model_that_was_changed_is_not_saved(tmp_path: Path, position: str) -> None:
    model = lab.make_model(position, **SMALL)
    changed = list(evaluation_variants(model, 8).values())
    assert changed
    if position == "alibi":
        model.transformer.position.slopes.mul_(2)
        changed.append(model)
    tied = lab.make_model(position, **SMALL)
    tied.head.weight = tied.embedding.weight
    changed.append(tied)
    changed.append(lab.make_model(position, **SMALL).double())

    for changed_model in changed:
        with pytest.raises(ValueError, match="the model was changed by `lab"):
            lab.save_run(tmp_path / "run", changed_model)
    assert not list(tmp_path.iterdir())


def edit(folder: Path, removed: str = "", **changes: Any) -> None:
    path = folder / SETTINGS_FILE
    settings = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in settings.items() if key != removed}))


def cut_settings(folder: Path) -> None:
    (folder / SETTINGS_FILE).write_bytes(b"{")


def replace_settings_by_a_list(folder: Path) -> None:
    (folder / SETTINGS_FILE).write_bytes(b"[1]")


def cut_weights(folder: Path) -> None:
    weights = folder / WEIGHTS_FILE
    weights.write_bytes(weights.read_bytes()[:-9])


DO_NOT_FIT = "is damaged, its settings and weights do not fit together"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(cut_settings, "is damaged", id="settings cut off"),
        pytest.param(replace_settings_by_a_list, "is damaged", id="settings are a list"),
        pytest.param(
            partial(edit, format="other"), "was not written by this version", id="other format"
        ),
        pytest.param(cut_weights, DO_NOT_FIT, id="weights cut off"),
        pytest.param(
            partial(edit, config={"position": "warp"}),
            f"{DO_NOT_FIT}: position must be one of",
            id="unknown position",
        ),
        pytest.param(partial(edit, config={"color": 1}), DO_NOT_FIT, id="unknown field"),
        pytest.param(partial(edit, removed="results"), DO_NOT_FIT, id="no results"),
        pytest.param(partial(edit, custom={"text": ""}), DO_NOT_FIT, id="no source of a method"),
    ],
)
def test_a_damaged_folder_raises_the_reason_and_stays_unchanged(
    folder: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(folder)
    before = content(folder)
    with pytest.raises(BadRun, match=message):
        lab.load_run(folder)
    assert content(folder) == before


def test_a_missing_folder_and_weights_that_are_nan_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        lab.load_run(tmp_path / "nowhere")
    model = lab.make_model("alibi", **SMALL)
    model.head.weight.data[-1, -1] = math.nan  # one is enough
    with pytest.raises(
        BadRun, match="has weights that are NaN or infinite: its training has diverged"
    ):
        lab.load_run(lab.save_run(tmp_path / "run", model))


@pytest.fixture
def saved_root(tmp_path: Path) -> Path:
    """A run of the law `root`, which was evaluated at more distances than those of training."""
    model = lab.make_model(root, **SMALL)
    model(torch.zeros(1, 200, dtype=torch.long))
    return lab.save_run(tmp_path / "mine", model)


def test_a_saved_run_is_loaded_with_its_own_method(saved_root: Path) -> None:
    assert lab.load_run(saved_root, root).model.config.position == "root"


def test_a_saved_run_asks_for_its_own_method(saved_root: Path) -> None:
    message = r"was trained with a method of its own, 'root': call load_run\(path, root\)"
    with pytest.raises(BadRun, match=message):
        lab.load_run(saved_root)


def test_a_saved_run_refuses_a_method_of_another_name(saved_root: Path) -> None:
    with pytest.raises(BadRun, match="was trained with a method of its own, 'root'"):
        lab.load_run(saved_root, laws.square_root)


def test_a_saved_run_refuses_a_method_of_another_text(saved_root: Path) -> None:
    def changed(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -distance.float()

    changed.__name__ = "root"
    with pytest.raises(BadRun, match=r"has changed since .* was saved with\ndef root"):
        lab.load_run(saved_root, changed)


def test_an_invalid_method_is_no_damage_of_the_folder(saved_root: Path) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        lab.load_run(saved_root, 3)
    assert "is damaged" not in str(caught.value)


def test_model_whose_law_was_replaced_since_is_not_saved(tmp_path: Path) -> None:
    model = lab.make_model(steep(1.0), **SMALL)
    lab.make_model(steep(2.0), **SMALL)  # takes the name
    with pytest.raises(ValueError, match="its own method has changed"):
        lab.save_run(tmp_path / "mine", model)


def test_run_saved_with_a_fingerprint_by_an_earlier_version_is_loaded(tmp_path: Path) -> None:
    path = lab.save_run(tmp_path / "mine", lab.make_model(root, **SMALL))
    edit(path, custom={"source": "def root(...)\n# SCALE = 1", "fingerprint": "0123456789abcdef"})
    assert lab.load_run(path, root).model.config.position == "root"
