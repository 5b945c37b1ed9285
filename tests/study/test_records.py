"""The runs of the study, their learning rates, and the models, and how they are made again."""

from pathlib import Path

import pytest
import torch

from alibi_viz import lab, study
from alibi_viz.study import parts, records
from alibi_viz.study.parts import SEARCH_SEED, best_rates, part_runs, rate_table
from alibi_viz.train.results import read_records
from tests.tables import SMALL

TINY = [lab.Run("none", length=16, steps=4, longest=2, targets=1024, model=SMALL)]


def record(label, rate, losses, *, error=None):
    rows = [
        {"question": "training loss", "step": step, "value": loss} for step, loss in losses.items()
    ]
    return {
        "run": {"task": "text", "label": label, "learning_rate": rate, "steps": 100},
        "error": error,
        "rows": rows,
    }


@pytest.fixture
def tiny(monkeypatch) -> None:
    monkeypatch.setattr(parts, "PARTS", {"tiny": TINY})
    monkeypatch.setattr(records, "NAMES", ("search", "tiny"))


@pytest.mark.parametrize("name", records.NAMES)
def test_published_records_are_the_runs_of_today(name) -> None:
    published, runs = records.published_records([name]), part_runs(name, records.published_rates())
    made = [each["run"] for each in published]
    assert len(made) == len(runs) and all(run.settings() in made for run in runs)
    assert not [each["run"]["label"] for each in published if each["error"]]
    assert (SEARCH_SEED in {run.seed for run in runs}) == (name == "search")


def test_run_takes_the_learning_rate_of_its_label_and_on_other_texts_that_of_the_tales(
    monkeypatch,
) -> None:
    rates = {("text", "alibi"): 1.0, ("text", "special"): 3.0, ("needle", "alibi"): 2.0}
    settings = ({}, {"label": "special"}, {"task": "needle"}, {"task": "python reference"})
    monkeypatch.setattr(parts, "PARTS", {"p": [lab.Run("alibi", **each) for each in settings]})
    expected = [(seed, rate) for seed in (0, 1) for rate in (1, 3, 2, 1)]
    assert [(run.seed, run.learning_rate) for run in part_runs("p", rates, 2)] == expected
    assert len(part_runs("p", rates)) == 4 * 8


def test_lowest_training_loss_of_the_last_steps_chooses_the_learning_rate() -> None:
    early, late = {50: 1.0, 90: 1.0, 95: 3.0, 100: 3.0}, {50: 9.0, 90: 9.0, 95: 2.0, 100: 2.2}
    tried = [
        record("a", 0.1, early),
        record("a", 0.2, late),
        record("b", 0.1, late),
        record("b", 0.2, late),
    ]
    assert rate_table(tried).loc[("text", "a")].tolist() == [3.0, pytest.approx(2.1)]
    assert best_rates(tried) == {("text", "a"): 0.2, ("text", "b"): 0.1}, "of equals, the lowest"
    assert best_rates([record("a", 0.1, {}, error="diverged"), record("a", 0.2, {100: 7.0})]) == {
        ("text", "a"): 0.2
    }


def test_part_is_trained_published_and_resumed(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(records, "published_rates", lambda: {("text", "none"): 4e-3})
    results = study.reproduce(["tiny"], out=tmp_path / "out", publish=tmp_path / "new", seeds=2)
    assert results.groupby(["label", "seed", "x", "block"]).ngroups >= 2 * 2 * 16
    published = read_records(tmp_path / "new" / "tiny.jsonl.gz")
    assert [(each["run"]["seed"], each["run"]["learning_rate"]) for each in published] == [
        (0, 4e-3),
        (1, 4e-3),
    ]
    written = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()}
    assert study.reproduce(["tiny"], out=tmp_path / "out", seeds=2).equals(results)
    assert written == {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()}, (
        "it was trained again"
    )


def test_rates_of_a_search_in_the_same_call_are_used(tiny, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(parts, "TEXT_RATES", (1e-5, 2e-2))
    study.reproduce(out=tmp_path / "out", seeds=1, publish=tmp_path)
    chosen = {each["run"]["learning_rate"] for each in read_records(tmp_path / "tiny.jsonl.gz")}
    assert chosen == {2e-2}, "four steps at 1e-5 learn nothing"


def test_unknown_name_is_refused_before_any_training(tmp_path) -> None:
    with pytest.raises(ValueError, match="alibi-large, got 'elsewhere'"):
        study.published_model("elsewhere")
    with pytest.raises(ValueError, match=r"parts must be among search, tales, .* got 'tails'"):
        study.reproduce(["tales", "tails"], out=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", study.PUBLISHED_MODELS)
def test_shipped_model_has_the_losses_that_are_saved_with_it(name: str) -> None:
    saved, text = study.published_model(name), lab.load_text()
    bits = saved.results.query(
        "question == 'longer sequences' and variant == 'as trained'"
    ).set_index("x")["value"]
    length = saved.settings["length"]
    for x, loss in lab.loss_by_length(saved.model, text, [length, 4 * length]).items():
        assert loss == pytest.approx(bits[x], abs=1e-3), x


def test_training_the_models_again_uses_their_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        records, "MODELS", (lab.Run("rotary", steps=5, longest=2, targets=2048, variants=()),)
    )
    study.train_published_models(tmp_path)
    saved, again = lab.load_run(tmp_path / "rotary"), lab.make_model("rotary", max_length=64)
    list(lab.train(again, lab.load_text(), steps=5))
    assert saved.settings["steps"] == 5
    assert saved.results.query("question == 'longer sequences' and variant == 'as trained'")[
        "x"
    ].tolist() == [64, 128]
    assert torch.allclose(saved.model.head.weight, again.cpu().head.weight, atol=1e-5)
    monkeypatch.setattr(records, "load_text", pytest.fail)
    with pytest.raises(FileExistsError, match="rotary"):  # before anything is trained
        study.train_published_models(tmp_path)
