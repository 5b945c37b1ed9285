"""Questions about attention: measured on models where loops or formulas give the answer."""

import math
from itertools import pairwise

import pytest

from alibi_viz import alibi_slopes, lab
from alibi_viz.lab.modify import evaluation_variants
from alibi_viz.lab.questions import find_question
from tests.lab.questions.test_questions import table
from tests.lab.test_attention_stats import equal_content

TEXT = lab.load_text()
LENGTH, LENGTHS = 16, [16, 32, 64]


def measured(question, model):
    answers = list(find_question(question).measure(model, TEXT, LENGTH, longest=4))
    assert [answer.x for answer in answers] == LENGTHS
    assert {answer.samples for answer in answers} == {8 * 16}  # windows, and the queries of a window of 16
    return [answer.value for answer in answers]


def mean_over_queries(statistic):
    """The mean over the last 16 queries at each length; `statistic` is a function of the number of visible keys."""
    return [sum(map(statistic, range(length - 15, length + 1))) / 16 for length in LENGTHS]


def test_at_equal_content_without_positions_the_answers_are_those_of_uniform_attention():
    model = equal_content("none")
    expected = {
        "attention beyond L": lambda keys: max(0, keys - LENGTH) / keys,
        "softmax denominator": math.log2,
        "attention sinks": lambda keys: min(4, keys) / keys,
    }
    for question, statistic in expected.items():
        assert measured(question, model) == pytest.approx(mean_over_queries(statistic), abs=1e-5)


def test_alibis_answers_at_equal_content_are_those_of_its_slopes():
    def mean_over_heads(statistic):
        return mean_over_queries(
            lambda keys: sum(statistic([math.exp(-m * d) for d in range(keys)]) for m in alibi_slopes(8).tolist()) / 8
        )

    model = equal_content("alibi")
    expected = {
        "attention beyond L": lambda weights: sum(weights[LENGTH:]) / sum(weights),
        "softmax denominator": lambda weights: math.log2(sum(weights)),
        "attention sinks": lambda weights: sum(weights[-4:]) / sum(weights),
    }
    for question, statistic in expected.items():
        assert measured(question, model) == pytest.approx(mean_over_heads(statistic), abs=1e-5)


def test_a_window_has_no_attention_beyond_it_and_sinks_bring_back_the_first_tokens():
    variants = evaluation_variants(equal_content("none"), LENGTH)
    assert measured("attention beyond L", variants["window"]) == [0, 0, 0]
    assert measured("attention sinks", variants["window"])[2] == 0
    with_sinks = measured("attention sinks", variants["window and sinks"])
    assert with_sinks[2] == pytest.approx(4 / 20)  # a window of 16 and 4 sinks
    assert measured("softmax denominator", variants["window and sinks"])[2] == pytest.approx(math.log2(20))


def test_all_lengths_have_the_same_queries():
    """Two layers with a window of 5 read 9 bytes, so the answers are equal at two lengths if the queries are."""
    model = lab.modify(lab.make_model("none"), window=5)
    list(lab.train(model, TEXT, length=16, steps=5))
    first, second, third = measured("softmax denominator", model)
    assert second == pytest.approx(third, abs=1e-4)
    assert first != pytest.approx(second, abs=1e-4), "the first queries of a window of 16 see fewer than 9 bytes"


def test_beyond_a_learned_table_the_answers_are_not_defined():
    model = lab.make_model("learned", max_length=16)
    for question in ("attention beyond L", "softmax denominator", "attention sinks"):
        first, *others = measured(question, model)
        assert math.isfinite(first)
        assert all(map(math.isnan, others))


def test_a_validation_text_too_short_for_all_windows_has_fewer():
    text = lab.load_text("to be or not to be, that is the question. " * 60)
    windows = len(text.validation) // 64
    assert 1 <= windows < 8
    answers = list(find_question("softmax denominator").measure(lab.make_model(), text, LENGTH, longest=4))
    assert {answer.samples for answer in answers} == {windows * 16}


def test_findings_on_attention_beyond_the_training_length():
    values = {"alibi": [{16: 0.0, 64: 0.25}, {16: 0.0, 64: 0.27}], "learned": [{16: 0.0, 64: math.nan}] * 2}
    question = find_question("attention beyond L")
    text = " ".join(question.findings(table(question, values, LENGTH), LENGTH))
    equal = mean_over_queries(lambda keys: max(0, keys - 16) / keys)[2]
    assert "keys at least 16 back get this share of the attention: alibi 26.0% (25.0% to 27.0%)." in text
    assert f"If all keys had equal weight, it would be {equal:.1%}." in text
    assert "Not defined beyond 16: learned." in text


def test_findings_on_the_denominator_tell_bounded_from_growing():
    values = {
        "alibi": [{16: 2.0, 32: 2.5, 64: 2.55}, {16: 2.0, 32: 2.5, 64: 2.45}],
        "none": [{16: 2.0, 32: 2.9, 64: 3.8}, {16: 2.0, 32: 2.9, 64: 3.7}],
        "mixed": [{16: 2.0, 32: 2.0, 64: 2.0}, {16: 2.0, 32: 2.0, 64: 3.0}],
    }
    question = find_question("softmax denominator")
    (first, *_) = question.findings(table(question, values, LENGTH), LENGTH)
    assert first == (
        "From windows of 32 to 64 bytes it changes by at most 0.1 bits in every seed for alibi (+0.00); it grows by "
        "more in every seed for none (+0.85)."
    )


def test_learned_slopes_are_answers_by_head_and_fixed_ones_are_not():
    question = find_question("slopes")
    assert list(question.measure(lab.make_model("alibi"), TEXT, LENGTH)) == []
    assert list(question.measure(lab.make_model("none"), TEXT, LENGTH)) == []
    model = lab.make_model("alibi", learned_slopes=True)
    list(lab.train(model, TEXT, length=16, steps=5))
    answers = list(question.measure(model, TEXT, LENGTH))
    assert [answer.x for answer in answers] == [*range(1, 9)]
    values = [answer.value for answer in answers]
    assert values == model.transformer.position.slopes.tolist() != alibi_slopes(8).tolist()
    rows = table(question, {"learned": [dict(zip(range(1, 5), [0.3, 0.1, 0.02, 0.01], strict=True))] * 2})
    (text,) = question.findings(rows, 32)
    assert "learned has learned 0.300 (0.300 to 0.300), 0.100" in text
    assert "the fixed ones are 0.250, 0.062, 0.016, 0.004." in text


def test_the_needle_margin_is_that_of_the_best_head():
    needle, question = lab.TASKS["needle"], find_question("needle margin")
    model = lab.make_model("alibi", vocabulary=needle.vocabulary)
    answers = list(question.measure(model, needle, 8, longest=4))
    assert [(answer.x, answer.samples) for answer in answers] == [(7, 64), (15, 64), (31, 64)]
    margins = lab.needle_margins(model, [7, 15, 31], samples=64)
    best = (margins["found"] - margins["needed"]).groupby(margins["distance"]).max()
    assert [answer.value for answer in answers] == pytest.approx(best.tolist())
    assert all(first.value > second.value for first, second in pairwise(answers)), "untrained, so only the bias counts"
    for other in ("none", "rotary", "forget", "kerple-log"):
        assert list(question.measure(lab.make_model(other, vocabulary=needle.vocabulary), needle, 8)) == []


def test_findings_on_the_needle_margin_name_the_distance_reached_in_every_seed():
    question = find_question("needle margin")
    values = {
        "alibi": [{31: 2.0, 63: 0.5, 127: -1.0}, {31: 2.0, 63: 0.1, 127: 1.0}],
        "decay": [{31: -0.1, 63: 1.0}] * 2,
    }
    text = " ".join(question.findings(table(question, values), 32))
    assert "the mean margin is larger than needed in every seed: alibi up to 63 and decay at no distance." in text


def test_a_record_has_the_learned_slopes_and_the_margins():
    run = lab.Run("alibi", length=8, steps=2, longest=2, model={"learned_slopes": True})
    assert [row[2] for row in lab.measure(run)["answers"] if row[1] == "slopes"] == [*range(1, 9)]
    run = lab.Run("decay", task="needle", length=8, steps=2, longest=2)
    assert [row[2] for row in lab.measure(run)["answers"] if row[1] == "needle margin"] == [7, 15]
