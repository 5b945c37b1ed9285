"""Saved models load exactly as they were; damaged or foreign folders raise and stay unchanged."""

import json
import math

import pandas as pd
import pytest
import torch

from alibi_viz import lab, laws, study
from alibi_viz.surgery.modify import evaluation_variants
from alibi_viz.train.saved_models import SETTINGS_FILE, WEIGHTS_FILE, BadRun
from tests.custom_laws import root
from tests.rows import each_case
from tests.tables import SMALL, table

TOKENS = torch.arange(30)[None]


def small_model(position="alibi", **sizes):
    return lab.make_model(position, **SMALL, **sizes)


@pytest.fixture
def folder(tmp_path):
    """A saved run."""
    return lab.save_run(tmp_path / "saved", small_model(), settings={"steps": 3})


def content(folder):
    """Every file below a folder, by its path."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# Saved and loaded


@pytest.mark.parametrize("position", ["alibi", "learned", "fire", "forget"])
def test_a_loaded_model_equals_the_saved_one_bit_for_bit(tmp_path, position):
    model = small_model(position, max_length=32).eval()
    with torch.no_grad():
        for weights in model.parameters():
            noise = torch.randn(weights.shape, generator=torch.Generator().manual_seed(7))
            weights.add_(0.01 * noise)
    loaded = lab.load_run(lab.save_run(tmp_path / "run", model)).model.eval()
    assert loaded.config == model.config
    with torch.inference_mode():
        assert torch.equal(loaded(TOKENS), model(TOKENS))


def test_folders_above_are_made(tmp_path):
    path = lab.save_run(tmp_path / "very" / "deep" / "run", small_model())
    assert lab.load_run(path).model.config.position == "alibi"


def test_settings_are_loaded_as_saved(folder):
    assert lab.load_run(folder).settings == {"steps": 3}


def test_without_results_the_table_is_empty(folder):
    assert lab.load_run(folder).results.empty


def test_results_are_loaded_as_saved_with_the_folder_as_origin(tmp_path):
    curves = [{64: 2.5, 128: math.nan}, {64: 2.6, 128: math.nan}]
    results = table("longer sequences", {"learned": curves})
    of_a_race = results.assign(tokens_per_second=math.nan)  # which has a column more
    path = lab.save_run(tmp_path / "run", small_model("learned"), results=of_a_race)
    pd.testing.assert_frame_equal(lab.load_run(path).results, results.assign(origin="run"))


@pytest.mark.parametrize("method", ["rotary", 3])
def test_another_method_than_that_of_the_run_is_refused(folder, method):
    with pytest.raises(ValueError, match="method must be None for a run with 'alibi', got"):
        lab.load_run(folder, method)


# What is not saved


def test_nothing_is_overwritten(folder):
    before = content(folder)
    with pytest.raises(FileExistsError, match="exists already and is not overwritten"):
        lab.save_run(folder, small_model("rotary"))
    assert content(folder) == before


@each_case(
    ("options", "message"),
    {
        "settings": ({"settings": {"rate": math.inf}}, "not JSON compliant"),
        "blocks": ({"results": study.published_results(by_block=True)}, "got blocks of text"),
    },
)
def test_refused_settings_or_results_leave_nothing(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        lab.save_run(tmp_path / "run", small_model(), **options)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_while_writing_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("alibi_viz.train.saved_models.save_model", fail)
    with pytest.raises(OSError, match="disk full"):
        lab.save_run(tmp_path / "run", small_model())
    assert list(tmp_path.iterdir()) == []


def with_changed_slopes():
    model = small_model()
    model.transformer.position.slopes.mul_(2)
    return model


def with_tied_weights():
    model = small_model()
    model.head.weight = model.embedding.weight
    return model


def in_float64():
    return small_model().double()


@pytest.mark.parametrize("changed", [with_changed_slopes, with_tied_weights, in_float64])
def test_a_model_that_is_not_as_configured_is_not_saved(tmp_path, changed):
    with pytest.raises(ValueError, match="the model was changed by `lab"):
        lab.save_run(tmp_path / "run", changed())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("position", ["alibi", "rotary"])
def test_a_model_changed_by_surgery_is_not_saved(tmp_path, position):
    variants = evaluation_variants(small_model(position), 8)
    assert variants
    for changed in variants.values():
        with pytest.raises(ValueError, match="the model was changed by `lab"):
            lab.save_run(tmp_path / "run", changed)


# Damaged runs


def edit(folder, *, removed="", **changes):
    """Change or remove entries of the settings file."""
    path = folder / SETTINGS_FILE
    settings = {**json.loads(path.read_text()), **changes}
    settings.pop(removed, None)
    path.write_text(json.dumps(settings))


def cut_settings(folder):
    (folder / SETTINGS_FILE).write_text("{")


def list_of_settings(folder):
    (folder / SETTINGS_FILE).write_text("[1]")


def other_format(folder):
    edit(folder, format="other")


def cut_weights(folder):
    path = folder / WEIGHTS_FILE
    path.write_bytes(path.read_bytes()[:-9])


def unknown_position(folder):
    edit(folder, config={"position": "warp"})


def unknown_setting(folder):
    edit(folder, config={"position": "alibi", "color": 1})


def no_results(folder):
    edit(folder, removed="results")


@each_case(
    ("damage", "message"),
    {
        "cut settings": (cut_settings, "is damaged"),
        "list of settings": (list_of_settings, "is damaged"),
        "other format": (other_format, "was not written by this version"),
        "cut weights": (cut_weights, "do not fit together"),
        "unknown position": (unknown_position, "do not fit together: position must be one of"),
        "unknown setting": (unknown_setting, "do not fit together"),
        "no results": (no_results, "do not fit together"),
    },
)
def test_a_damaged_run_is_refused_with_the_reason_and_not_changed(folder, damage, message):
    damage(folder)
    before = content(folder)
    with pytest.raises(BadRun, match=message):
        lab.load_run(folder)
    assert content(folder) == before


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        lab.load_run(tmp_path / "nowhere")


def test_weights_that_are_nan_are_refused(tmp_path):
    model = small_model()
    model.head.weight.data[-1, -1] = math.nan  # one is enough
    path = lab.save_run(tmp_path / "run", model)
    with pytest.raises(BadRun, match="has weights that are NaN or infinite"):
        lab.load_run(path)


# Methods of one's own


@pytest.fixture
def run_of_root(tmp_path):
    """A saved run of the method `root`."""
    model = small_model(root)
    model(torch.zeros(1, 200, dtype=torch.long))  # evaluates the law at more distances
    return lab.save_run(tmp_path / "mine", model)


def test_a_run_is_loaded_with_its_own_method(run_of_root):
    assert lab.load_run(run_of_root, root).model.config.method == "root"


def test_a_run_asks_for_its_own_method(run_of_root):
    asks = r"was trained with a method of its own, 'root': call load_run\(path, root\)"
    with pytest.raises(BadRun, match=asks):
        lab.load_run(run_of_root)


def test_a_method_of_another_name_is_refused(run_of_root):
    with pytest.raises(BadRun, match="was trained with a method of its own, 'root'"):
        lab.load_run(run_of_root, laws.square_root)


def test_a_method_whose_text_has_changed_is_refused(run_of_root):
    def changed(distance, head, num_heads):
        return -distance.float()

    changed.__name__ = "root"
    with pytest.raises(BadRun, match=r"has changed since .* was saved with\ndef root"):
        lab.load_run(run_of_root, changed)


def test_what_is_no_method_is_refused(run_of_root):
    with pytest.raises(TypeError, match="method must be a name, a function"):
        lab.load_run(run_of_root, 3)  # type: ignore[arg-type]


def test_a_run_with_the_fingerprint_of_an_earlier_version_is_loaded(run_of_root):
    saved = {"source": "def root(...)\n# SCALE = 1", "fingerprint": "0123456789abcdef"}
    edit(run_of_root, custom=saved)
    assert lab.load_run(run_of_root, root).model.config.method == "root"
