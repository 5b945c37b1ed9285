"""Each question measures what it says, fills its panel from the table, and finds what its results show."""

import math

import pandas as pd
import pytest

from alibi_viz import lab, study
from alibi_viz.lab.confidence import share_interval
from alibi_viz.lab.questions import QUESTIONS, Question, find_question, main_question
from alibi_viz.lab.questions.by_position import _edges
from alibi_viz.lab.results import COLUMNS

TEXT = lab.load_text()


def table(question: Question, values: dict[str, list[dict[int, float]]], length: int = 32) -> pd.DataFrame:
    """Results of one question: {label: one {x: value} per seed}."""
    row = {**dict.fromkeys(COLUMNS, ""), "question": question.name, "length": length, "count": 100}
    return lab.results_table(
        {**row, "label": label, "seed": seed, "x": x, "value": value}
        for label, seeds in values.items()
        for seed, points in enumerate(seeds)
        for x, value in points.items()
    )


@pytest.fixture(scope="module")
def model():
    model = lab.make_model("none", max_length=16)
    for _ in lab.train(model, TEXT, length=16, steps=10):
        pass
    return model


each_question = pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)


@each_question
def test_the_published_results_fill_its_panel_and_its_caption(question):
    rows = study.published_results().query("question == @question.name and evaluated == 'as trained'")
    panel = question.panel(rows, 64)
    assert list(panel.curves) == list(rows["label"].unique())
    for label, curves in panel.curves.items():
        own = rows[rows["label"] == label]
        assert len(curves.seeds) == own["seed"].nunique()
        for x, mean in curves.mean.items():
            expected = own[own["x"] == x]["value"].mean(skipna=False)
            assert mean == pytest.approx(expected, nan_ok=True)
            assert min(panel.ticks) <= x <= max(panel.ticks) or not panel.log
    assert all(sentence.endswith((".", ":")) for sentence in question.findings(rows, 64))


@each_question
def test_without_results_the_panel_has_axes_and_nothing_is_claimed(question):
    empty = study.published_results().head(0)
    panel = question.panel(empty, 32, labels=["alibi"], last=100 if question.name == "gap" else None)
    assert len(panel.ticks) >= 2
    assert panel.curves["alibi"].mean == {}
    assert "alibi" not in " ".join(question.findings(empty, 32))


def test_names_are_unique_and_an_unknown_one_is_refused():
    names = [question.name for question in QUESTIONS]
    assert len(set(names)) == len(names)
    assert [find_question(name).name for name in names] == names
    with pytest.raises(ValueError, match=r"must be one of longer windows, gap, .*, sliding windows, got 'nothing'"):
        find_question("nothing")


def test_each_task_has_a_main_question_that_is_answered_while_training():
    for task in ("text", *lab.TASKS):
        question = main_question(task)
        assert question.task == task
        assert question.while_training


def test_longer_windows_measures_the_loss_by_length(model):
    answers = list(find_question("longer windows").measure(model, TEXT, 16, longest=4))
    expected = lab.loss_by_length(model, TEXT, [16, 32, 64])
    assert {answer.x: answer.value for answer in answers} == pytest.approx(expected)
    assert {answer.samples for answer in answers} == {8192}


def test_longer_windows_counts_the_targets_that_all_lengths_share(model):
    """Of 8,192 bytes, 8,000 fill whole windows of every length."""
    answers = list(find_question("longer windows").measure(model, TEXT, 100, longest=4))
    assert {answer.samples for answer in answers} == {8000}


def test_same_targets_measures_the_loss_by_context(model):
    answers = list(find_question("same targets").measure(model, TEXT, 16, longest=4))
    expected = lab.loss_by_context(model, TEXT, [16, 32, 64], targets=1024, stride=16, longest=64)
    assert {answer.x: answer.value for answer in answers} == pytest.approx(expected)


def test_by_position_averages_the_loss_in_bins(model):
    answers = list(find_question("by position").measure(model, TEXT, 16))
    bits = lab.loss_by_position(model, TEXT, 256, targets=32_768)
    assert answers[0].value == pytest.approx(float(bits[0]), abs=1e-4)
    weights = [answer.samples for answer in answers]
    mean = sum(answer.value * answer.samples for answer in answers) / sum(weights)
    assert mean == pytest.approx(float(bits.mean()), abs=1e-3)


@pytest.mark.parametrize("length", [8, 9, 32, 100, 128])
def test_bins_of_positions_cover_each_position_once_and_split_at_the_training_length(length):
    edges = _edges(length, 16 * length)
    assert edges[0] == 1
    assert edges[-1] == 16 * length + 1
    assert edges == sorted(set(edges))
    assert length + 1 in edges


def test_the_gap_is_the_loss_at_four_times_the_length_minus_the_loss_at_the_length():
    (answer,) = find_question("gap").at_checkpoint(5, {32: 2.0, 64: 2.2, 128: 2.75}, 32, 100)
    assert answer == (5, 0.75, 100)
    assert list(find_question("gap").at_checkpoint(5, {32: 2.0}, 32, 100)) == []


def test_a_task_is_measured_by_its_accuracy():
    needle = lab.TASKS["needle"]
    model = lab.make_model("none", vocabulary=needle.vocabulary, max_length=8)
    answers = list(find_question("needle").measure(model, needle, 8, longest=4))
    assert [(answer.x, answer.samples) for answer in answers] == [(7, 512), (15, 512), (31, 512)]
    assert answers[0].value == lab.accuracy(model, needle, 7, samples=512)


def test_findings_on_longer_windows():
    question = find_question("longer windows")
    values = {"alibi": [{32: 2.5, 128: 2.51}], "rotary": [{32: 2.4, 128: 4.0}], "learned": [{32: 2.6, 128: math.nan}]}
    text = " ".join(question.findings(table(question, values), 32))
    assert "On windows of 128 bytes, four times as long, alibi needs 2.51 bits per byte, rotary 1.49 more." in text
    assert "alibi holds (+0.01); rotary fails (+1.60)." in text
    assert "Not defined beyond 32: learned." in text
    assert "At the training length rotary is best." in text
    assert "On the longest windows alibi is best." in text
    assert "seed" not in text


def test_findings_by_position_in_windows_no_longer_than_in_training():
    question = find_question("by position")
    values = {"alibi": [{1: 6.0, 20: 3.0, 30: 2.5}], "learned": [{1: 6.0, 20: math.nan, 30: math.nan}]}
    (text,) = question.findings(table(question, values), 32)
    assert "alibi 6.0 for the first byte, 2.8 up to 32; learned is not defined in windows this long." in text


def test_findings_on_the_gap_warn_where_it_still_changes():
    question = find_question("gap")
    values = {"a": [{10: 0.0, 20: 0.5, 30: 1.0}], "b": [{10: 0.0, 20: 0.0, 30: 0.0}]}
    text = " ".join(question.findings(table(question, values), 32))
    assert "a fails (+1.00)" in text
    assert "b holds (+0.00)" in text
    assert "The gap is still changing for a: train longer" in text


def test_findings_on_retrieval_name_the_distance_solved_in_every_seed():
    question = find_question("needle")
    values = {"a": [{31: 1.0, 63: 1.0}, {31: 1.0, 63: 0.5}], "b": [{31: 0.5, 63: 1.0}, {31: 1.0, 63: 1.0}]}
    text = " ".join(question.findings(table(question, values), 32))
    assert "Solved, with at least 90% correct answers in every seed: a up to 31 and b not at all." in text
    assert "100 examples were tested per seed" in text
    assert "Correct there, with 95% intervals over the examples: a 75.0% (68.6% to 80.5%) and b 100.0%" in text
    assert "Guessing is right 6.2% of the time." in text


def test_the_hover_text_of_a_share_has_the_interval_over_the_examples_of_all_seeds():
    question = find_question("needle")
    rows = table(question, {"a": [{31: 1.0, 63: 1.0}, {31: 1.0, 63: 0.5}], "b": [{31: math.nan}]})
    curves = question.panel(rows, 32).curves
    low, high = share_interval(0.75, 200)
    assert curves["a"].notes[63] == f"95% interval {low:.1%} to {high:.1%}, 200 examples"
    assert curves["a"].notes[31].startswith("95% interval 98.1% to 100.0%")
    assert curves["b"].notes == {}, "not defined"
    assert find_question("longer windows").panel(rows, 32).curves["a"].notes == {}


def test_a_panel_has_intervals_over_three_seeds_that_end_at_the_limits_of_a_share() -> None:
    rows = {**dict.fromkeys(lab.COLUMNS, ""), "label": "alibi", "length": 64, "x": 63, "count": 512}
    needles = lab.results_table({**rows, "seed": seed, "value": value} for seed, value in enumerate((1.0, 1.0, 0.7)))
    curves = find_question("needle").panel(needles, 64).curves["alibi"]
    assert curves.intervals == {63: (pytest.approx(0.9 - 4.302653 * 0.1, abs=1e-4), 1.0)}
    two = find_question("needle").panel(needles[needles["seed"] < 2], 64).curves["alibi"]
    assert two.intervals == {}
