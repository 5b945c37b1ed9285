"""Floor 3: what ships as published, asked for in one way."""

import math

import pytest

from alibi_viz import lab


def test_published_curves_are_the_records():
    curves = lab.published_curves("needle", "accuracy")
    for record in lab.published_results():
        run = record["run"]
        if run["task"] == "needle":
            assert {str(at): value for at, value in curves[run["label"]][run["seed"]].items()} == record["accuracy"]
    assert {len(seeds) for seeds in curves.values()} == {3}


def test_changed_evaluations_are_there_for_those_that_have_them():
    assert list(lab.published_curves("text", "pi")) == ["rotary", "rotary trained at 16L"]
    assert "learned" not in lab.published_curves("text", "window")
    assert list(lab.published_curves("text", "window")["rotary"][0]) == [64, 128, 256, 512, 1024]


def test_what_is_not_defined_is_nan():
    values = lab.published_curves("text", "by_length")["learned"][0]
    assert [math.isnan(value) for value in values.values()] == [False, True, True, True, True]
    assert all(math.isnan(value) for value in lab.published_curves("text", "gap")["learned"][0].values())


def test_the_gap_is_the_loss_at_four_times_the_length_above_that_at_the_length():
    record = next(r for r in lab.published_results() if r["run"]["label"] == "rotary" and r["run"]["seed"] == 1)
    gap = lab.published_curves("text", "gap")["rotary"][1]
    assert list(gap) == [150, 300, 450, 600]
    assert gap[300] == pytest.approx(record["by_step"]["300"]["256"] - record["by_step"]["300"]["64"])


def test_records_of_a_sweep_of_ones_own_and_unfinished_ones():
    runs = [{"task": "text", "label": "mine", "seed": seed} for seed in (0, 1)]
    records = [{"run": runs[0], "by_length": {"8": 2.0}}, {"run": runs[1], "error": "diverged"}]
    assert lab.published_curves("text", "by_length", records) == {"mine": {0: {8: 2.0}}}
    assert lab.published_curves("copy", "accuracy", records) == {}


def test_a_run_that_was_tested_at_one_length_only_has_no_gap():
    assert "rotary trained at 16L" not in lab.published_curves("text", "gap")


@pytest.mark.parametrize(
    ("task", "table", "said"),
    [
        ("txt", "by_length", "task must be one of text, needle, copy, induction, got 'txt'"),
        ("text", "run", "table must be one of by_length, by_context, gap, window, pi, ntk, got 'run'"),
        ("needle", "by_length", "table must be one of accuracy, got 'by_length'"),
    ],
)
def test_an_unknown_name_is_told_what_there_is(task, table, said):
    with pytest.raises(ValueError, match=said):
        lab.published_curves(task, table)


def test_records_that_cannot_be_told_apart_are_refused():
    twice = [{"run": {"task": "text", "label": "mine", "seed": 0}, "by_length": {"8": bits}} for bits in (2.0, 3.0)]
    with pytest.raises(ValueError, match="two records of task text, label 'mine' and seed 0"):
        lab.published_curves("text", "by_length", twice)
