"""The declared settings: what each changes in the main one, and which runs belong to it."""

import json
from dataclasses import replace

import pytest

from alibi_viz import lab
from alibi_viz.study import SETTINGS, Setting
from alibi_viz.study.settings import MAIN, setting_of
from tests.rows import each_case

each_setting = each_case("setting", {setting.id: setting for setting in SETTINGS.values()})

# Which fields of a run each factor changes
FIELDS = {
    "text": {"task"},
    "seed of the tales": {"task"},
    "width": {"model"},
    "layers": {"model"},
    "length": {"length", "batch_size", "longest"},
    "heads": {"model"},
    "steps": {"steps"},
    "optimizer": {"optimizer", "learning_rate", "steps"},
    "learning rate": {"learning_rate", "optimizer"},
}


@each_setting
def test_a_setting_changes_only_its_factor(setting):
    if not setting.factor:
        return
    originals = {model.label: model.settings() for model in SETTINGS[setting.base].models}
    for model in setting.models:
        settings = model.settings()
        original = originals[model.label]
        changed = {name for name in settings if settings[name] != original[name]}
        # The main setting tests its models with more changes after training.
        assert changed - {"variants"} <= FIELDS[setting.factor]
        assert changed - {"variants"}


def test_claims_on_shares_have_enough_seeds_for_an_exact_test():
    for setting in SETTINGS.values():
        least = 8 if setting.task == "needle" or not setting.factor else 3
        assert setting.seeds >= least, setting.name


def test_rotary_has_at_least_eight_seeds_where_its_length_text_or_heads_differ():
    for name in ("main", "pythons-reference", "l-256", "2-heads-of-32", "4-times-the-steps"):
        runs = SETTINGS[name].runs(labels=["rotary"])
        assert [run.seed for run in runs] == list(range(8))


@each_setting
def test_every_run_knows_its_setting_also_after_it_was_saved(setting):
    for run in setting.runs():
        saved = json.loads(json.dumps(run.settings()))
        assert setting_of(saved) == setting.id


@pytest.mark.parametrize(
    "change", [{"steps": 401}, {"label": "mine"}, {"targets": 1024}, {"variants": None}]
)
def test_another_run_belongs_to_no_setting(change):
    run = SETTINGS[MAIN].runs()[0]
    assert setting_of(replace(run, **change).settings()) == ""


def test_runs_are_ordered_by_seed():
    setting = Setting("tiny", "tiny", "", "A test.", 2, (lab.Run("alibi"), lab.Run("none")))
    runs = [(run.label, run.seed) for run in setting.runs()]
    assert runs == [("alibi", 0), ("none", 0), ("alibi", 1), ("none", 1)]


def test_a_model_may_have_more_seeds_than_its_setting():
    models = (lab.Run("alibi"), lab.Run("none"))
    setting = Setting("tiny", "tiny", "", "A test.", 1, models, more_seeds={"none": 2})
    assert [(run.label, run.seed) for run in setting.runs()] == [
        ("alibi", 0),
        ("none", 0),
        ("none", 1),
    ]
    assert len(setting.runs(seeds=3)) == 6


def test_fewer_seeds_and_models_can_be_chosen():
    runs = SETTINGS[MAIN].runs(seeds=1, labels=["rotary", "alibi"])
    assert [(run.label, run.seed) for run in runs] == [("alibi", 0), ("rotary", 0)]
