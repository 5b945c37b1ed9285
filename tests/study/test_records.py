"""The published runs and models, and how they are made again."""

from itertools import product

import pandas as pd
import pytest
import torch

from alibi_viz import lab, study
from alibi_viz.study import SETTINGS, Setting, records
from alibi_viz.study.records import table_by_setting
from alibi_viz.train.results import read_records
from tests.rows import each_case
from tests.tables import SMALL

# The published runs

each_setting = pytest.mark.parametrize("name", SETTINGS)


@each_setting
def test_published_records_are_the_runs_of_today_and_none_failed(name):
    published = list(records.published_records([name]))
    assert [record["run"] for record in published] == [
        run.settings() for run in SETTINGS[name].runs()
    ]
    for record in published:
        assert record["error"] is None, record["run"]["label"]
        assert len(record["made_with"]["commit"]) == 12, "a clean checkout"


def test_runs_of_your_own_are_in_no_setting_of_the_study(tmp_path):
    run = lab.Run("none", length=16, steps=4, longest=2, targets=1024, model=SMALL)
    table = table_by_setting(lab.sweep([run], progress=False), "mine")
    assert set(table["setting"]) == {"these results"}


# Settings that are trained again


@pytest.fixture
def tiny_study(monkeypatch):
    """A study of two settings with two tiny models each."""
    common = {"length": 16, "longest": 2, "targets": 1024, "model": SMALL}
    settings = {}
    for name, factor, steps in (("tiny", "", 4), ("longer", "steps", 5)):
        models = (lab.Run("none", steps=steps, **common), lab.Run("alibi", steps=steps, **common))
        settings[name] = Setting(name, name, factor, "A test.", 2, models)
    monkeypatch.setattr(records, "SETTINGS", settings)


def runs_in(folder):
    """(label, steps, seed) of the finished runs in a folder, sorted."""
    runs = [record["run"] for record in read_records(folder)]
    return sorted((run["label"], run["steps"], run["seed"]) for run in runs)


@pytest.mark.usefixtures("tiny_study")
def test_all_settings_are_trained(tmp_path):
    study.retrain(out=tmp_path)
    assert runs_in(tmp_path) == list(product(["alibi", "none"], [4, 5], [0, 1]))


@pytest.mark.usefixtures("tiny_study")
def test_results_have_a_row_for_each_seed_length_and_block(tmp_path):
    results = study.retrain(settings=["tiny"], out=tmp_path, seeds=1)
    longer = results[(results["question"] == "longer sequences") & (results["label"] == "none")]
    assert longer["x"].unique().tolist() == [16, 32]
    # A loss is saved for 16 blocks of the text. 1,024 targets are 32 sequences of 32 bytes, so
    # that each block has two.
    assert longer.groupby("x")["block"].nunique().tolist() == [16, 16]


@pytest.mark.usefixtures("tiny_study")
def test_a_claim_trains_its_models_in_the_main_setting(tmp_path):
    study.retrain(["ALiBi holds"], out=tmp_path, seeds=2)
    assert runs_in(tmp_path) == [("alibi", 4, 0), ("alibi", 4, 1)]


@pytest.mark.usefixtures("tiny_study")
def test_a_claim_trains_its_models_in_the_settings_asked_for(tmp_path):
    study.retrain(["Positions aren't needed"], ["longer"], out=tmp_path, seeds=1)
    assert runs_in(tmp_path) == [("alibi", 5, 0), ("none", 5, 0)]


def test_a_claim_about_alibi_is_trained_with_both_kinds_of_slopes(monkeypatch, tmp_path):
    trained = []

    def sweep(runs, *_, **__):
        trained.extend(runs)
        return iter(())

    monkeypatch.setattr(records, "sweep", sweep)
    study.retrain(["ALiBi holds", "Holding isn't remembering"], out=tmp_path, seeds=1)
    assert [(run.label, run.task) for run in trained] == [
        ("alibi", "text"),
        ("alibi, scaled slopes", "text"),
        ("alibi", "needle"),
        ("alibi, scaled slopes", "needle"),
    ]


@pytest.mark.usefixtures("tiny_study")
def test_records_are_published_in_a_file_for_each_setting(tmp_path):
    study.retrain(out=tmp_path / "out", publish=tmp_path / "new", seeds=2)
    for name, steps in (("tiny", 4), ("longer", 5)):
        runs = [record["run"] for record in read_records(tmp_path / "new" / f"{name}.jsonl.gz")]
        assert [(run["label"], run["seed"], run["steps"]) for run in runs] == [
            ("none", 0, steps),
            ("alibi", 0, steps),
            ("none", 1, steps),
            ("alibi", 1, steps),
        ]


@pytest.mark.usefixtures("tiny_study")
def test_a_second_call_trains_nothing_again(tmp_path, monkeypatch):
    first = study.retrain(settings=["tiny"], out=tmp_path, seeds=2)
    monkeypatch.setattr("alibi_viz.train.results.measure", pytest.fail)
    second = study.retrain(settings=["tiny"], out=tmp_path, seeds=2)
    pd.testing.assert_frame_equal(second, first)


@each_case(
    ("arguments", "message"),
    {
        "claim": ({"claims": ["It holds"]}, "claims must be among ALiBi holds, .* got 'It"),
        "setting": ({"settings": ["mine"]}, "settings must be among main, .* got 'mine'"),
        "seeds": ({"seeds": 0}, "seeds must be at least 1, got 0"),
        "half a file": (
            {"claims": ["ALiBi holds"], "publish": "new"},
            "publish must be None for single claims, got 'new'",
        ),
    },
)
def test_bad_arguments_are_refused_before_any_training(arguments, message, tmp_path, monkeypatch):
    monkeypatch.setattr("alibi_viz.train.results.measure", pytest.fail)
    with pytest.raises(ValueError, match=message):
        study.retrain(**arguments, out=tmp_path)
    assert not list(tmp_path.iterdir())


# The published models


def losses(saved):
    """The saved losses of the model as it was trained, by length."""
    rows = saved.results
    rows = rows[rows["question"] == "longer sequences"]
    rows = rows[rows["variant"] == "as trained"]
    return rows.set_index("x")["value"]


@pytest.mark.parametrize("name", study.PUBLISHED_MODELS)
def test_a_published_model_has_the_losses_that_are_saved_with_it(name):
    saved = study.published_model(name)
    length = saved.settings["length"]
    measured = lab.loss_by_length(saved.model, lab.load_text(), [length, 4 * length])
    expected = losses(saved)
    for x, loss in measured.items():
        assert loss == pytest.approx(expected[x], abs=1e-3), x


def test_an_unknown_model_is_named():
    with pytest.raises(ValueError, match="alibi-large, got 'elsewhere'"):
        study.published_model("elsewhere")


@pytest.fixture(scope="module")
def folder_of_models(tmp_path_factory):
    """A folder in which the published models have been trained again: here a tiny one."""
    folder = tmp_path_factory.mktemp("models")
    tiny = lab.Run("rotary", steps=5, longest=2, targets=2048, variants=(), model=SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "MODELS", (tiny,))
        study.train_published_models(folder)
        yield folder


def test_a_model_is_trained_with_its_settings(folder_of_models):
    saved = records.read_model(folder_of_models / "rotary")
    expected = lab.make_model("rotary", max_length=64, **SMALL)
    for _ in lab.train(expected, lab.load_text(), steps=5):
        pass
    assert saved.settings["steps"] == 5
    torch.testing.assert_close(
        saved.model.head.weight, expected.cpu().head.weight, atol=1e-5, rtol=0
    )


def test_a_model_is_tested_up_to_its_longest_length(folder_of_models):
    saved = records.read_model(folder_of_models / "rotary")
    assert losses(saved).index.tolist() == [64, 128]


def test_a_model_is_tested_after_its_last_step(folder_of_models):
    saved = records.read_model(folder_of_models / "rotary")
    assert set(saved.results["step"]) == {5}


def test_models_that_are_there_are_refused_before_any_training(folder_of_models, monkeypatch):
    monkeypatch.setattr(records, "load_text", pytest.fail)
    with pytest.raises(FileExistsError, match="rotary"):
        study.train_published_models(folder_of_models)


def test_a_model_that_would_be_loaded_as_another_one_is_refused(tmp_path):
    model = lab.make_model("alibi", **SMALL)
    model.transformer.position.slopes.mul_(2)  # what no file has
    results = study.published_results().head(1)
    with pytest.raises(ValueError, match="holds another model than the one that was trained"):
        records.write_model(tmp_path / "alibi", records.PublishedModel(model, {}, results))
