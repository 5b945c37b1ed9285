"""Summaries say only what holds in every seed, and name a best method only when its lead is larger than noise."""

import math

import pytest

from alibi_viz.lab.questions.outcomes import FAILS, HOLDS, TIE, best_at, join, outcome, outcomes, rises, undefined


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        ([HOLDS], "holds"),
        ([-1.0, 0.0], "holds"),
        ([HOLDS + 0.001], "degrades"),
        ([FAILS - 0.001, HOLDS + 0.001], "degrades"),
        ([FAILS], "fails"),
        ([HOLDS, FAILS], "mixed"),
        ([HOLDS, HOLDS + 0.001], "mixed"),
        ([math.nan, 0.0], "undefined"),
        ([], "undefined"),
    ],
)
def test_outcome_at_each_threshold(each, expected):
    assert outcome(each) == expected


def test_one_seed_is_not_described_as_every_seed():
    assert outcomes({"a": [0.0]}) == ["a holds (+0.00)."]
    assert outcomes({"a": [0.0, 0.0]}) == ["In every seed a holds (+0.00)."]


def test_disagreeing_seeds_are_named_with_their_range():
    assert outcomes({"a, b": [0.05, 0.6]}) == ['The seeds disagree about "a, b" (+0.05 to +0.60).']


def curves(**values):
    """{label: {seed: {64: value}}} from a list of values, one per seed."""
    return {label: {seed: {64: value} for seed, value in enumerate(each)} for label, each in values.items()}


@pytest.mark.parametrize(
    ("a", "b", "sentences"),
    [
        ([2.0, 2.0], [2.0 + 2 * TIE, 2.0 + 2 * TIE], ["Here a is best in every seed."]),
        ([2.0, 2.0], [2.0 + TIE / 2, 2.0 + 2 * TIE], ["Here a is best in every seed."]),
        ([2.0, 2.0], [2.0 + TIE / 2, 2.0 + TIE / 2], ["Here all are within 0.02 of the best in every seed."]),
        ([2.0, 3.0], [3.0, 2.0], ["Here no method is best in every seed."]),
        ([2.0], [], []),
        ([2.0], [math.nan], []),
    ],
)
def test_best_needs_a_lead_larger_than_a_tie_in_every_seed(a, b, sentences):
    assert best_at(curves(a=a, b=b), 64, "Here") == sentences


def test_best_accuracy_is_the_highest():
    assert best_at(curves(a=[0.5], b=[0.9]), 64, "Here", lowest=False) == ["Here b is best."]


def test_a_tie_is_not_given_a_winner():
    """On random text all methods need about the same, and 0.001 bit is no lead."""
    tied = curves(none=[6.570], alibi=[6.571], rotary=[6.569])
    assert best_at(tied, 64, "At the training length") == ["At the training length all are within 0.02 of the best."]
    two = curves(none=[6.570], alibi=[6.571], rotary=[7.0])
    assert best_at(two, 64, "Here") == ["Here none and alibi are best, within 0.02 of each other."]


def test_a_method_that_others_beat_in_some_seed_is_near_the_best_and_not_the_best():
    changing = curves(near=[2.01, 2.01], first=[2.0, 2.5], second=[2.5, 2.0])
    assert best_at(changing, 64, "Here") == ["Here near is within 0.02 of the best in every seed."]
    two = curves(near=[2.01, 2.01], nearer=[2.0, 2.01], other=[2.5, 2.0])
    assert best_at(two, 64, "Here") == ["Here near and nearer are within 0.02 of the best in every seed."]


def test_rises_compare_the_worst_longer_length_with_the_shortest():
    seeds = {0: {64: 2.0, 128: 2.5, 256: 2.1}, 1: {64: 2.0, 128: 1.9, 256: 2.2}}
    assert rises({"a": seeds})["a"] == pytest.approx([0.5, 0.2])


def test_a_label_without_a_longer_length_is_named_and_not_judged():
    ends = {"learned": {0: {64: 2.0, 128: math.nan}}, "oracle": {0: {1024: 2.0}}}
    assert rises(ends) == {}
    assert undefined(ends, 64) == ["Not defined beyond 64: learned.", "Tested at its training length only: oracle."]


def test_join_uses_commas_and_one_and():
    assert [join(list("abc"[:count])) for count in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
