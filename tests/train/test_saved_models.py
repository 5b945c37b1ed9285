"""Saved models load exactly as they were; damaged or foreign folders raise and stay unchanged."""

import json
import math
from collections.abc import Callable
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
    saved = lab.load_run(
        lab.save_run(tmp_path / "very" / "deep" / "run", model, settings={"seed": 7})
    )
    assert (saved.model.config, saved.settings, len(saved.results)) == (
        model.config,
        {"seed": 7},
        0,
    )
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


def test_nothing_is_overwritten_and_nothing_left_by_a_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, model = content(folder.parent), lab.make_model("rotary", **SMALL)
    with pytest.raises(FileExistsError, match="exists already and is not overwritten"):
        lab.save_run(folder, model)
    with pytest.raises(ValueError, match="not JSON compliant"):
        lab.save_run(folder.parent / "run", model, settings={"rate": math.inf})
    with pytest.raises(ValueError, match="got blocks of text"):
        lab.save_run(folder.parent / "run", model, results=study.published_results(by_block=True))
    monkeypatch.setattr(
        "alibi_viz.train.saved_models.save_model",
        lambda *_: (_ for _ in ()).throw(OSError("disk full")),
    )
    with pytest.raises(OSError, match="disk full"):
        lab.save_run(folder.parent / "run", model)
    assert content(folder.parent) == before and [path.name for path in folder.parent.iterdir()] == [
        "saved"
    ]


@pytest.mark.parametrize("position", ["alibi", "rotary"])
def test_a_model_that_was_changed_is_not_saved(tmp_path: Path, position: str) -> None:
    model = lab.make_model(position, **SMALL)
    changed = list(evaluation_variants(model, 8).values())
    assert changed
    if position == "alibi":
        model.transformer.position.slopes.mul_(2)
        changed.append(model)
    tied, other = (lab.make_model(position, **SMALL) for _ in range(2))
    tied.head.weight = tied.embedding.weight
    for each in (*changed, tied, other.double()):
        with pytest.raises(ValueError, match="the model was changed by `lab"):
            lab.save_run(tmp_path / "run", each)
    assert not list(tmp_path.iterdir())


def edit(folder: Path, removed: str = "", **changes: Any) -> None:
    path = folder / SETTINGS_FILE
    settings = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in settings.items() if key != removed}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        *(
            (lambda f, text=text: (f / SETTINGS_FILE).write_bytes(text), "is damaged")
            for text in (b"{", b"[1]")
        ),
        (lambda f: edit(f, format="other"), "was not written by this version"),
        (
            lambda f: (f / WEIGHTS_FILE).write_bytes((f / WEIGHTS_FILE).read_bytes()[:-9]),
            "do not fit together",
        ),
        (
            lambda f: edit(f, config={"position": "warp"}),
            "do not fit together: position must be one of",
        ),
        (lambda f: edit(f, config={"color": 1}), "do not fit together"),
        (lambda f: edit(f, "results"), "do not fit together"),
    ],
)
def test_a_damaged_folder_raises_the_reason_and_stays_unchanged(
    folder: Path, damage: Callable, message: str
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


def test_a_saved_run_asks_for_its_own_method_and_refuses_another(tmp_path: Path) -> None:
    model = lab.make_model(root, **SMALL)
    model(torch.zeros(1, 200, dtype=torch.long))  # evaluates the law at more distances
    path = lab.save_run(tmp_path / "mine", model)
    with pytest.raises(
        BadRun, match=r"was trained with a method of its own, 'root': call load_run\(path, root\)"
    ):
        lab.load_run(path)
    assert lab.load_run(path, root).model.config.position == "root"
    with pytest.raises(BadRun, match="was trained with a method of its own, 'root'"):
        lab.load_run(path, laws.square_root)

    def changed(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -distance.float()

    changed.__name__ = "root"
    with pytest.raises(BadRun, match=r"has changed since .* was saved with\ndef root"):
        lab.load_run(path, changed)


def test_model_whose_law_was_replaced_since_is_not_saved(tmp_path: Path) -> None:
    model = lab.make_model(steep(1.0), **SMALL)
    lab.make_model(steep(2.0), **SMALL)  # takes the name
    with pytest.raises(ValueError, match="its own method has changed"):
        lab.save_run(tmp_path / "mine", model)


def test_run_saved_with_a_fingerprint_by_an_earlier_version_is_loaded(tmp_path: Path) -> None:
    path = lab.save_run(tmp_path / "mine", lab.make_model(root, **SMALL))
    edit(path, custom={"source": "def root(...)\n# SCALE = 1", "fingerprint": "0123456789abcdef"})
    assert lab.load_run(path, root).model.config.position == "root"
