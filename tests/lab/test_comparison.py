"""The runs of the published comparison, their learning rates, and how they are made again."""

import dataclasses
import importlib
import json

import pytest

from alibi_viz import lab
from alibi_viz.lab.comparison import PARTS, Part, templates
from alibi_viz.lab.learning_rates import SEED, TASK_RATES, TEXT_RATES, best_rates, rate_table, search_runs
from alibi_viz.lab.published import SEARCH, published_rates, published_records
from alibi_viz.lab.reproduce import reproduce
from alibi_viz.lab.results import read_records

module = importlib.import_module("alibi_viz.lab.reproduce")
TINY = Part(
    "tiny",
    "A second of training.",
    tuple(lab.Run(name, length=16, steps=4, longest=2) for name in ("alibi", "none")),
    2,
)


def key(run):
    return json.dumps(run.settings(), sort_keys=True)


def record(label, rate, losses, *, error=None, task="text"):
    answers = [["as trained", "training loss", step, loss, "bits per byte", 1] for step, loss in losses.items()]
    run = {"task": task, "label": label, "learning_rate": rate, "steps": 100}
    return {"run": run, "error": error, "answers": answers}


def test_every_label_is_one_set_of_settings_and_no_run_is_in_two_parts():
    rates = {(run.task, str(run.position)): 1e-3 for run in templates()}
    runs = [run for part in PARTS.values() for run in part.runs(rates)]
    assert len({key(run) for run in runs}) == len(runs)
    assert len({(run.task, run.label) for run in templates()}) == len(templates())


def test_the_main_table_has_eight_seeds_and_every_other_part_at_least_five():
    assert PARTS["main"].seeds == 8
    assert min(part.seeds for part in PARTS.values()) >= 5
    assert [run.seed for run in PARTS["copy"].runs({("copy", run.position): 1.0 for run in templates()}, 2)] == [
        *[0] * len(PARTS["copy"].templates),
        *[1] * len(PARTS["copy"].templates),
    ]


def test_runs_on_longer_windows_read_equally_many_tokens_in_equally_many_steps():
    own = PARTS["lengths"].templates
    assert {(run.length * run.batch_size, run.steps) for run in own} == {(4096, 400)}
    assert min(run.batch_size for run in own) >= 4
    assert {run.length * run.longest for run in own} == {1024}


def test_a_run_takes_its_own_learning_rate_or_that_of_its_method():
    rates = {("text", "alibi"): 1.0, ("text", "rotary"): 2.0, ("text", "alibi, special"): 3.0}
    labels = ("alibi", "alibi, special", "alibi, other")
    part = Part("p", "", tuple(lab.Run("alibi", label=label) for label in labels), 1)
    assert [run.learning_rate for run in part.runs(rates)] == [1.0, 3.0, 1.0]
    with pytest.raises(KeyError):
        Part("p", "", (lab.Run("none"),), 1).runs(rates)


def test_the_search_covers_every_method_of_every_task_with_a_seed_of_its_own():
    runs = search_runs()
    assert {run.seed for run in runs} == {SEED}
    assert SEED not in range(max(part.seeds for part in PARTS.values()))
    searched = {(run.task, run.position) for run in runs}
    assert searched == {(run.task, run.position) for run in templates() if run.task != "text with passages"}
    rates = {(run.task, run.label, run.learning_rate) for run in runs}
    assert {rate for task, label, rate in rates if (task, label) == ("text", "bam")} == {*TEXT_RATES}
    assert {rate for task, label, rate in rates if (task, label) == ("needle", "bam")} == {*TASK_RATES}
    for part in PARTS.values():
        part.runs(best_rates([record(run.label, run.learning_rate, {}, task=run.task) for run in runs]))


def test_the_lowest_training_loss_of_the_last_steps_chooses_the_learning_rate():
    early, late = {50: 1.0, 95: 3.0, 100: 3.0}, {50: 9.0, 95: 2.0, 100: 2.2}
    records = [record("a", 0.1, early), record("a", 0.2, late), record("b", 0.1, late), record("b", 0.2, late)]
    assert rate_table(records).loc[("text", "a")].tolist() == [3.0, pytest.approx(2.1)]
    assert best_rates(records) == {("text", "a"): 0.2, ("text", "b"): 0.1}, "of equals, the lowest"


def test_a_learning_rate_at_which_training_diverged_is_not_chosen():
    records = [record("a", 0.1, {}, error="diverged"), record("a", 0.2, {100: 7.0})]
    assert best_rates(records) == {("text", "a"): 0.2}


def test_a_part_is_trained_published_and_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PARTS", {"tiny": TINY})
    monkeypatch.setattr(module, "NAMES", ("search", "tiny"))
    monkeypatch.setattr(module, "published_rates", lambda: {("text", "alibi"): 8e-3, ("text", "none"): 4e-3})
    (records,) = reproduce(["tiny"], out=tmp_path / "out", publish=tmp_path / "new")
    assert [(each["run"]["label"], each["run"]["seed"]) for each in records] == [
        ("alibi", 0),
        ("none", 0),
        ("alibi", 1),
        ("none", 1),
    ]
    assert [each["run"]["learning_rate"] for each in records[:2]] == [8e-3, 4e-3]
    assert read_records(tmp_path / "new" / "tiny.jsonl.gz") == records
    monkeypatch.setattr(importlib.import_module("alibi_viz.lab.sweep"), "measure", None)  # nothing is left to train
    assert list(reproduce(["tiny"], out=tmp_path / "out")) == [records]


def test_rates_of_a_search_in_the_same_call_are_used(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PARTS", {"tiny": TINY})
    monkeypatch.setattr(module, "NAMES", ("search", "tiny"))
    searched = [
        dataclasses.replace(run, seed=SEED, learning_rate=rate) for run in TINY.templates for rate in (1e-5, 2e-2)
    ]
    monkeypatch.setattr(module, "search_runs", lambda: searched)
    monkeypatch.setattr(module, "published_rates", None)
    (records,) = reproduce(out=tmp_path, seeds=1)
    assert {each["run"]["learning_rate"] for each in records} == {2e-2}, "four steps at 1e-5 learn nothing"


def test_bad_parts_are_refused_before_any_training(tmp_path):
    with pytest.raises(ValueError, match=r"parts must be some of search, main, .* got 'mian'"):
        reproduce(["main", "mian"], out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_published_search_is_that_of_this_version_and_gives_every_run_a_learning_rate():
    records = published_records([SEARCH])
    assert sorted(json.dumps(each["run"], sort_keys=True) for each in records) == sorted(map(key, search_runs()))
    rates = published_rates()
    assert all(run.learning_rate in {*TEXT_RATES, *TASK_RATES} for part in PARTS.values() for run in part.runs(rates))


def test_the_published_records_of_the_main_table_are_its_runs():
    records = published_records(["main"])
    expected = map(key, PARTS["main"].runs(published_rates()))
    assert sorted(json.dumps(each["run"], sort_keys=True) for each in records) == sorted(expected)
    assert not [each["run"]["label"] for each in records if each["error"]]
