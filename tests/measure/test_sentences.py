"""Sentences say what holds in every seed, name a best method only for a clear lead, and quote the
right numbers."""

import math
import re
from random import Random

import pytest

from alibi_viz import lab
from alibi_viz.measure.questions import QUESTIONS
from alibi_viz.measure.sentences import (
    TIE,
    best_at,
    compared_with_counting,
    findings,
    join,
    learned_by_heart,
    outcome,
    outcome_sentences,
    rises,
)
from tests.rows import each_case
from tests.tables import table

NAN = math.nan
each_question = pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)


def said(question, values, length=32):
    """What a question says about values, as one text."""
    return " ".join(findings(lab.find_question(question), table(question, values, length)))


def random_values(question, defined_at, seeds):
    """Values of three methods at four lengths, each defined at the first few of them."""
    random = Random(seeds)
    low, high = (0, 1) if question.figure.limits[1] == 1 else (-9, 9)
    values = {}
    for label, count in zip(["alibi", "learned slopes, 2L", "none"], defined_at, strict=True):
        values[label] = []
        for _ in range(seeds):
            curve = {x: random.uniform(low, high) for x in (32, 64, 128, 512)}
            for x in list(curve)[count:]:
                curve[x] = NAN
            values[label].append(curve)
    return values


each_definition = each_case(
    ("defined_at", "seeds"),
    {
        "all defined, one seed": ((4, 4, 4), 1),
        "two end early, two seeds": ((4, 1, 0), 2),
        "none defined": ((0, 0, 0), 2),
    },
)


@each_question
@each_definition
def test_sentences_are_whole(question, defined_at, seeds):
    values = random_values(question, defined_at, seeds)
    sentences = findings(question, table(question.name, values))
    for sentence in sentences:
        assert re.fullmatch(r"[^{}]*\w.*[.?]", sentence)
        assert not re.search(r"\bnan\b|\binf\b|None|: \.|  ", sentence)


@each_question
def test_labels_with_a_comma_are_quoted(question):
    text = said(question.name, random_values(question, (4, 1, 0), seeds=2))
    assert text.count('"learned slopes, 2L"') == text.count("learned slopes, 2L")


@each_question
def test_a_single_seed_is_not_mentioned(question):
    assert "seed" not in said(question.name, random_values(question, (4, 4, 4), seeds=1))


@each_question
def test_methods_without_a_value_at_the_end_are_named(question):
    text = said(question.name, random_values(question, (4, 1, 0), seeds=2))
    assert re.search(r'Not defined .*512.*: "learned slopes, 2L" and none\.', text)


@each_question
def test_without_rows_only_the_note_is_said(question):
    expected = [question.note] if question.note else []
    assert findings(question, table(question.name, {})) == expected


@each_case(
    ("rises_of_seeds", "expected"),
    {
        "at most 0.1": ([0.1], "holds"),
        "falls in every seed": ([-1.0, 0.0], "holds"),
        "at least 0.5": ([0.5], "fails"),
        "in between in every seed": ([0.499, 0.101], "degrades"),
        "holds and fails": ([0.1, 0.5], "mixed"),
        "only the last differs": ([0.1, 0.1, 0.101], "mixed"),
        "not a number": ([0.0, NAN], "undefined"),
        "no seed": ([], "undefined"),
    },
)
def test_an_outcome_is_that_of_every_seed(rises_of_seeds, expected):
    assert outcome(rises_of_seeds) == expected


def test_a_rise_is_from_the_training_length_to_the_worst_longer_one():
    values = {
        "a": [{64: 2.0, 128: 2.5, 256: 2.1}, {64: 2.0, 128: 1.9, 256: 2.01}],
        "shorter": [{9: 3.0, 64: 2.0, 128: 2.05}, {9: 3.0, 64: 2.0, 128: 2.01}],
        "not defined beyond": [{64: 2.0, 128: NAN}],
    }
    assert rises(table("longer sequences", values, length=64)) == {
        "a": pytest.approx([0.5, 0.01]),
        "shorter": pytest.approx([0.05, 0.01]),
    }


def test_there_is_no_rise_without_a_value_at_the_training_length():
    values = {"a": [{64: 2.0, 128: 2.5}]}
    assert rises(table("longer sequences", values, length=32)) == {}


def test_outcomes_quote_the_worst_seed_of_what_holds_and_the_mean_of_what_fails():
    rises_of = {"a": [0.01, 0.05], "b": [1.0, 2.0], "c": [0.2, 0.3], "d": [0.0, 9.0]}
    assert outcome_sentences(rises_of, up_to="64 bytes") == [
        "Up to 64 bytes, in every seed a holds (+0.05 at most); c degrades (+0.25); b fails "
        "(+1.50), in bits per byte.",
        "The seeds disagree about d.",
    ]


def test_methods_with_the_same_outcome_share_a_clause():
    assert outcome_sentences({"a": [1.0], "b": [2.0]}) == ["a (+1.00) and b (+2.00) fail."]


def test_the_seeds_of_a_method_may_disagree():
    values = {
        "a": [{64: 2.0, 128: 2.5}, {64: 2.0, 128: 2.01}],
        "b": [{64: 2.0, 128: 2.05}, {64: 2.0, 128: 2.01}],
    }
    text = said("longer sequences", values, length=64)
    assert "In every seed b holds (+0.05 at most). The seeds disagree about a." in text


@each_case(
    ("values", "sentence"),
    {
        "a clear lead in every seed": (
            {"a": [2.0, 2.0], "b": [2.0 + 1.1 * TIE] * 2},
            "a is best in every seed.",
        ),
        "not defined in one seed": (
            {"a": [2.0, 2.0], "b": [3.0, NAN]},
            "a is best in the seeds that all have (1 of 2).",
        ),
        "two tie, and one of them is behind in one seed": (
            {"a": [2.0, 2.0], "b": [2.0, 2.0 + 0.9 * TIE], "c": [3.0, 3.0]},
            "a and b are best in every seed, or within 0.02 of the best.",
        ),
        "slightly behind in one seed": (
            {"a": [2.0, 2.0], "b": [1.995, 3.0]},
            "a is best in every seed, or within 0.02 of the best.",
        ),
        "each is best in some seed": (
            {"a": [2.0, 3.0], "b": [3.0, 2.0]},
            "no method is best in every seed.",
        ),
    },
)
@pytest.mark.parametrize("question", ["longer sequences", "needle"], ids=["lowest", "highest"])
def test_the_best_leads_by_more_than_a_tie_in_every_seed(values, sentence, question):
    asked = lab.find_question(question)
    sign = 1 if asked.is_loss else -1
    curves = {label: [{64: sign * value} for value in seeds] for label, seeds in values.items()}
    told = best_at(asked, table(question, curves), 64)
    assert told == [f"With {asked.at(64)} {sentence}"]


def test_nothing_is_best_of_a_single_method():
    rows = table("longer sequences", {"a": [{64: 2.0}], "b": [{64: NAN}]})
    assert best_at(lab.find_question("longer sequences"), rows, 64) == []


def test_the_best_is_told_for_the_longest_and_the_shortest_sequences():
    values = {"alibi": [{32: 2.5, 128: 2.51}], "rotary": [{32: 2.4, 128: 4.0}]}
    assert said("longer sequences", values) == (
        "alibi holds (+0.01 at most); rotary fails (+1.60). "
        "With sequences of 128 bytes alibi is best. With sequences of 32 bytes rotary is best."
    )


YARDSTICKS = {"letter frequencies": 4.5, "letter pairs": 3.25}


def compared(**curves):
    """What is said of losses on longer sequences, compared with models that only count."""
    rows = table("longer sequences", curves)
    return compared_with_counting(lab.find_question("longer sequences"), rows, YARDSTICKS)


def test_the_needs_of_models_that_only_count_are_told():
    assert compared(alibi=[{32: 1.0, 64: 4.4}]) == [
        "A model that knows only letter frequencies needs 4.50 bits per byte, and one that knows "
        "letter pairs 3.25."
    ]


def test_a_model_that_becomes_worse_than_letter_frequencies_is_sure_and_wrong():
    _, sentence = compared(none=[{32: 1.0, 64: 4.6}], alibi=[{32: 1.0, 64: 1.0}])
    assert sentence == (
        "With sequences of 64 bytes none needs more than either: it isn't ignorant, but sure and "
        "wrong."
    )


def test_several_models_that_become_worse_share_a_sentence():
    _, sentence = compared(none=[{32: 1.0, 64: 4.6}], rotary=[{32: 1.0, 64: 7.0}])
    assert sentence == (
        "With sequences of 64 bytes none and rotary need more than either: they aren't ignorant, "
        "but sure and wrong."
    )


@each_case(
    "seeds",
    {
        "in one seed of two": [{32: 1.0, 64: 4.6}, {32: 1.0, 64: 4.4}],
        "it has learned nothing yet": [{32: 4.7, 64: 4.9}],
        "not defined": [{32: 1.0, 64: math.nan}],
    },
)
def test_a_model_may_not_be_called_sure_and_wrong(seeds):
    assert len(compared(none=seeds, alibi=[{32: 1.0, 64: 1.0}])) == 1


def test_nothing_is_compared_on_an_unknown_text():
    rows = table("longer sequences", {"none": [{32: 1.0, 64: 4.6}]})
    assert compared_with_counting(lab.find_question("longer sequences"), rows, {}) == []


def test_gaps_are_told_at_the_first_and_the_last_step():
    values = {"a": [{10: 0.0, 20: 9.0, 30: 1.0}], "c": [{10: 1.0, 30: NAN}]}
    text = said("gap", values)
    assert "From step 10 to step 30: a +0.00 to +1.00 bits per byte." in text
    assert "Not defined or not tested with step 30: c." in text


def test_both_ends_of_a_curve_are_told_as_means_of_seeds():
    values = {
        "alibi": [{16: 0.0, 32: 0.1, 64: 0.25}, {16: 0.0, 32: 0.1, 64: 0.27}],
        "learned": [{16: 0.0}, {16: 0.0}],
    }
    text = said("attention beyond L", values, length=16)
    assert "From 16 bytes to 64 bytes, means over seeds: alibi 0.0% to 26.0%." in text


def test_both_ends_of_a_curve_have_a_unit_and_no_negative_zero():
    text = said("names", {"b": [{23: 3.1, 724: -0.001}], "a": [{23: 2.0, 724: 1.0}]})
    ends = "From names told 23 bytes before to names told 724 bytes before"
    assert f"{ends}: b 3.10 to 0.00 and a 2.00 to 1.00 bits per name." in text


def test_a_task_is_solved_up_to_a_length_in_every_seed():
    values = {
        "b": [{31: 0.9, 63: 1.0}, {31: 1.0, 63: 0.5}],
        "a": [{31: 0.5, 63: 0.91}, {31: 1.0, 63: 1.0}],
    }
    text = said("needle", values)
    assert "correct answers in every seed: b up to 31 and a not at all." in text


def test_a_lead_in_a_task_is_compared_with_the_noise_of_so_many_answers():
    values = {"b": [{63: 1.0}, {63: 0.5}], "a": [{63: 0.91}, {63: 1.0}]}
    text = said("needle", values)  # of 100 answers
    assert "63 tokens a is best in every seed, or within 0.1 of the best." in text


def test_words_are_joined_with_commas_and_and():
    assert [join([]), join(["a"]), join(["a", "b"])] == ["", "a", "a and b"]
    assert join(["a", "b, c", "d"]) == "a, b, c and d"


# Learning by heart. The numbers are those of the case that was reported: random letters.


def said_of_learning(**losses):
    """What is said about methods, given their last training loss and their loss on unseen text."""
    in_training = {label: [{10: 8.0, 90: 5.0, 100: seen}] for label, (seen, _) in losses.items()}
    after_it = {label: [{32: unseen, 64: 9.0}] for label, (_, unseen) in losses.items()}
    longer = table("longer sequences", after_it)
    training = table("longer sequences", in_training).assign(question="training loss")
    return learned_by_heart(training, longer)


def test_a_text_that_was_learned_by_heart_is_noticed():
    assert said_of_learning(alibi=(2.07, 7.87), none=(4.69, 4.75)) == [
        "alibi (2.07 bits there, 7.87 on unseen text) has learned the training text by "
        "heart, so losses on longer sequences say little about length."
    ]


def test_several_methods_share_the_sentence_on_learning_by_heart():
    (sentence,) = said_of_learning(alibi=(2.0, 8.0), none=(2.0, 7.0))
    assert sentence.startswith("alibi (2.00 ")
    assert " and none (2.00 " in sentence
    assert " have learned " in sentence


@each_case(
    ("seen", "unseen"),
    {
        "learned": (0.82, 0.83),
        "a bit of a difference": (2.0, 3.0),
        "not measured": (4.0, NAN),
    },
)
def test_nothing_is_said_of_a_text_that_was_learned(seen, unseen):
    assert said_of_learning(alibi=(seen, unseen)) == []
