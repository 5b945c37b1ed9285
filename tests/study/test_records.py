"""The published runs and models, and how they are made again."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch

from alibi_viz import lab, study
from alibi_viz.study import parts, records
from alibi_viz.study.parts import part_runs
from alibi_viz.train.results import read_records
from alibi_viz.train.saved_models import SavedRun
from tests.tables import SMALL

# The published runs

each_part = pytest.mark.parametrize("part", records.NAMES)


@each_part
def test_published_records_are_the_runs_of_today(part: str) -> None:
    published = [record["run"] for record in records.published_records([part])]
    today = [run.settings() for run in part_runs(part, records.published_rates())]
    assert len(published) == len(today)
    for settings in today:
        assert settings in published


@each_part
def test_no_published_run_failed(part: str) -> None:
    for record in records.published_records([part]):
        assert record["error"] is None, record["run"]["label"]


# Parts of the study that are trained again


@pytest.fixture
def tiny_study(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study of one part, with one tiny model."""
    run = lab.Run("none", length=16, steps=4, longest=2, targets=1024, model=SMALL)
    monkeypatch.setattr(parts, "PARTS", {"tiny": [run]})
    monkeypatch.setattr(records, "NAMES", ("search", "tiny"))
    monkeypatch.setattr(records, "published_rates", lambda: {("text", "none"): 4e-3})


@pytest.mark.usefixtures("tiny_study")
def test_results_have_a_row_for_each_seed_length_and_block(tmp_path: Path) -> None:
    results = study.reproduce(["tiny"], out=tmp_path, seeds=2)
    longer = results[results["question"] == "longer sequences"]
    runs = longer[["seed", "x"]].drop_duplicates()
    assert runs.to_numpy().tolist() == [[0, 16], [0, 32], [1, 16], [1, 32]]
    # A loss is saved for 16 blocks of the text. 1,024 targets are 32 sequences of 32 bytes, so
    # that each block has two.
    assert longer.groupby(["seed", "x"])["block"].nunique().tolist() == [16, 16, 16, 16]


@pytest.mark.usefixtures("tiny_study")
def test_a_part_takes_the_published_learning_rates(tmp_path: Path) -> None:
    study.reproduce(["tiny"], out=tmp_path / "out", publish=tmp_path / "new", seeds=2)
    runs = [record["run"] for record in read_records(tmp_path / "new" / "tiny.jsonl.gz")]
    assert [run["seed"] for run in runs] == [0, 1]
    assert [run["learning_rate"] for run in runs] == [4e-3, 4e-3]


@pytest.mark.usefixtures("tiny_study")
def test_a_part_takes_the_learning_rates_of_a_search_in_the_same_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Four steps with the first rate learn nothing.
    monkeypatch.setattr(parts, "TEXT_RATES", (1e-5, 2e-2))
    study.reproduce(out=tmp_path / "out", publish=tmp_path / "new", seeds=1)
    (record,) = read_records(tmp_path / "new" / "tiny.jsonl.gz")
    assert record["run"]["learning_rate"] == 2e-2


@pytest.mark.usefixtures("tiny_study")
def test_a_second_call_trains_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = study.reproduce(["tiny"], out=tmp_path, seeds=2)
    monkeypatch.setattr("alibi_viz.train.sweep.measure", pytest.fail)
    second = study.reproduce(["tiny"], out=tmp_path, seeds=2)
    pd.testing.assert_frame_equal(second, first)


def test_an_unknown_part_is_refused_before_any_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alibi_viz.train.sweep.measure", pytest.fail)
    with pytest.raises(ValueError, match=r"parts must be among search, tales, .* got 'tails'"):
        study.reproduce(["tales", "tails"], out=tmp_path)
    assert not list(tmp_path.iterdir())


# The published models


def losses(saved: SavedRun) -> "pd.Series[float]":
    """The saved losses of the model as it was trained, by length."""
    rows = saved.results
    rows = rows[rows["question"] == "longer sequences"]
    rows = rows[rows["variant"] == "as trained"]
    return rows.set_index("x")["value"]


@pytest.mark.parametrize("name", study.PUBLISHED_MODELS)
def test_a_published_model_has_the_losses_that_are_saved_with_it(name: str) -> None:
    saved = study.published_model(name)
    length = saved.settings["length"]
    measured = lab.loss_by_length(saved.model, lab.load_text(), [length, 4 * length])
    expected = losses(saved)
    for x, loss in measured.items():
        assert loss == pytest.approx(expected[x], abs=1e-3), x


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(ValueError, match="alibi-large, got 'elsewhere'"):
        study.published_model("elsewhere")


@pytest.fixture(scope="module")
def folder_of_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which the published models have been trained again: here a tiny one."""
    folder = tmp_path_factory.mktemp("models")
    tiny = lab.Run("rotary", steps=5, longest=2, targets=2048, variants=(), model=SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "MODELS", (tiny,))
        study.train_published_models(folder)
        yield folder


def test_a_model_is_trained_with_its_settings(folder_of_models: Path) -> None:
    saved = lab.load_run(folder_of_models / "rotary")
    expected = lab.make_model("rotary", max_length=64, **SMALL)
    for _ in lab.train(expected, lab.load_text(), steps=5):
        pass
    assert saved.settings["steps"] == 5
    torch.testing.assert_close(
        saved.model.head.weight, expected.cpu().head.weight, atol=1e-5, rtol=0
    )


def test_a_model_is_tested_up_to_its_longest_length(folder_of_models: Path) -> None:
    saved = lab.load_run(folder_of_models / "rotary")
    assert losses(saved).index.tolist() == [64, 128]


def test_a_model_is_tested_after_its_last_step(folder_of_models: Path) -> None:
    saved = lab.load_run(folder_of_models / "rotary")
    assert set(saved.results["step"]) == {5}


def test_models_that_are_there_are_refused_before_any_training(
    folder_of_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "load_text", pytest.fail)
    with pytest.raises(FileExistsError, match="rotary"):
        study.train_published_models(folder_of_models)
