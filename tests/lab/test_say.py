"""Sentences say what holds in every seed, name a best method only for a clear lead, and quote the right numbers."""

import math
import re
from random import Random

import pandas as pd
import pytest

from alibi_viz import lab
from alibi_viz.lab.questions import QUESTIONS, SLIDING_WINDOWS, Question
from alibi_viz.lab.say import (
    MAX_RISE_HOLDING,
    MIN_RISE_FAILING,
    TIE,
    best_at,
    join,
    outcome,
    rises,
    undefined,
    what_holds,
)
from alibi_viz.table import share_interval
from tests.tables import table

each_question = pytest.mark.parametrize("question", [*QUESTIONS, SLIDING_WINDOWS], ids=lambda question: question.name)


def said(question: str, values: dict[str, list[dict[int, float]]], length: int = 32) -> str:
    return " ".join(lab.find_question(question).say(table(question, values, length), length))


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("ends", [(4, 4, 4), (4, 1, 0), (0, 0, 0)], ids="defined at {} lengths".format)
@each_question
def test_any_table_gives_whole_sentences_that_count_seeds_and_quote_labels(
    question: Question, ends: tuple[int, ...], seeds: int
) -> None:
    """Methods may be undefined from some length on, in every seed; learned slopes never are."""
    random, xs = Random(seeds), [32, 64, 128, 512]
    low, high = (0, 1) if question.limits[1] == 1 else (-9, 9)
    values = {
        label: [
            {
                x: random.uniform(low, high) if n < end or question.name == "slopes" else math.nan
                for n, x in enumerate(xs)
            }
            for _ in range(seeds)
        ]
        for label, end in zip(["alibi", "learned slopes, 2L", "none"], ends, strict=True)
    }
    text = " ".join(sentences := question.say(table(question.name, values), 32))
    assert all(re.fullmatch(r"[^{}]*\w.*[.?]", sentence) for sentence in sentences)
    assert not re.search(r"\bnan\b|\binf\b|None|: \.|  |saves \.", text)
    assert text.count('"learned slopes, 2L"') == text.count("learned slopes, 2L")
    assert seeds > 1 or "seed" not in text
    assert question.say(table(question.name, {}), 32) is not None


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        ([MAX_RISE_HOLDING], "holds"),
        ([-1.0, 0.0], "holds"),
        ([MAX_RISE_HOLDING + 0.001], "degrades"),
        ([MIN_RISE_FAILING - 0.001, MAX_RISE_HOLDING + 0.001], "degrades"),
        ([MIN_RISE_FAILING], "fails"),
        ([MAX_RISE_HOLDING, MIN_RISE_FAILING], "mixed"),
        ([MAX_RISE_HOLDING, MAX_RISE_HOLDING, MAX_RISE_HOLDING + 0.001], "mixed"),  # only the last differs
        ([0.0, math.nan], "undefined"),
        ([], "undefined"),
    ],
)
def test_an_outcome_is_that_of_every_seed(each: list[float], expected: str) -> None:
    assert outcome(each) == expected


def test_what_holds_names_seeds_only_if_there_are_several_and_where_they_disagree() -> None:
    assert what_holds({"a": [0.0], "b": [1.0]}) == ["a holds (+0.00); b fails (+1.00)."]
    assert what_holds({"a": [0.0, 0.1]}) == ["In every seed a holds (+0.05)."]
    assert what_holds({"a, b": [0.05, 0.6]}) == ['The seeds disagree about "a, b" (+0.05 to +0.60).']


def at_64(**values: list[float]) -> pd.DataFrame:
    return table("longer windows", {label: [{64: value} for value in each] for label, each in values.items()})


@pytest.mark.parametrize(
    ("values", "sentences"),
    [
        ({"a": [2.0, 2.0], "b": [2.0 + 2 * TIE] * 2}, ["Here a is best in every seed."]),
        ({"a": [2.0, 2.0], "b": [2.0 + TIE / 2, 2.0 + 2 * TIE]}, ["Here a is best in every seed."]),
        ({"a": [2.0, 2.0], "b": [2.0 + TIE / 2] * 2}, ["Here all are within 0.02 of the best in every seed."]),
        ({"a": [2.0, 2.0, 3.0], "b": [3.0, 3.0, 2.0]}, ["Here no method is best in every seed."]),
        (
            {"a": [2.0, 2.5], "b": [2.5, 2.0], "near": [2.01, 2.01]},
            ["Here near is within 0.02 of the best in every seed."],
        ),
        ({"a": [6.570], "b": [6.571], "c": [7.0]}, ["Here a and b are best, within 0.02 of each other."]),
        ({"a": [2.0], "b": []}, []),
        ({"a": [2.0], "b": [math.nan]}, []),
    ],
)
def test_the_best_needs_a_lead_larger_than_a_tie_in_every_seed(
    values: dict[str, list[float]], sentences: list[str]
) -> None:
    assert best_at(at_64(**values), 64, "Here") == sentences
    mirrored = at_64(**{label: [-value for value in each] for label, each in values.items()})
    assert best_at(mirrored, 64, "Here", lowest=False) == sentences, "of accuracies the highest is best"


def test_rises_compare_the_worst_longer_length_with_the_shortest() -> None:
    rows = table("longer windows", {"a": [{64: 2.0, 128: 2.5, 256: 2.1}, {64: 2.0, 128: 1.9, 256: 2.2}],
                                    "learned": [{64: 2.0, 128: math.nan}], "oracle": [{1024: 2.0}]})  # fmt: skip
    assert rises(rows) == {"a": pytest.approx([0.5, 0.2])}
    assert undefined(rows, 64) == ["Not defined beyond 64: learned.", "Tested at its training length only: oracle."]


def test_longer_windows() -> None:
    values = {"alibi": [{32: 2.5, 128: 2.51}], "rotary": [{32: 2.4, 128: 4.0}], "learned": [{32: 2.6, 128: math.nan}]}
    text = said("longer windows", values)
    for part in ("On windows of 128 bytes", "alibi needs 2.51 bits per byte, rotary 1.49 more", "alibi holds (+0.01)",
                 "rotary fails (+1.60)", "Not defined beyond 32: learned.", "At the training length rotary is best.",
                 "On the longest windows alibi is best."):  # fmt: skip
        assert part in text


def test_the_gap_is_that_of_the_last_checkpoint_and_may_still_change() -> None:
    text = said("gap", {"a": [{10: 0.0, 20: 0.5, 30: 1.0}], "b": [{10: 0.0, 20: 0.0, 30: 0.0}], "c": [{30: math.nan}]})
    assert "b holds (+0.00); a fails (+1.00)." in text and "windows of 128 minus that on windows of 32" in text
    assert "The gap is still changing for a: train longer" in text
    assert "Not defined beyond the training length: c." in text


def test_positions_in_windows_no_longer_than_in_training() -> None:
    text = said(
        "by position", {"alibi": [{1: 6.0, 20: 3.0, 30: 2.5}], "learned": [{1: 6.0, 20: math.nan, 30: math.nan}]}
    )
    assert "alibi 6.0 for the first byte, 2.8 up to 32; learned is not defined in windows this long." in text


def test_attention_beyond_the_training_length_is_a_mean_with_the_range_of_the_seeds() -> None:
    values = {"alibi": [{16: 0.0, 64: 0.25}, {16: 0.0, 64: 0.27}], "learned": [{16: 0.0, 64: math.nan}] * 2}
    text = said("attention beyond L", values, 16)
    equal = sum((keys - 16) / keys for keys in range(49, 65)) / 16
    assert "alibi 26.0% (25.0% to 27.0%)" in text and f"it would be {equal:.1%}." in text
    assert "Not defined beyond 16: learned." in text


def test_the_denominator_is_bounded_or_grows_in_every_seed() -> None:
    values = {
        "alibi": [{16: 2.0, 32: 2.5, 64: 2.55}, {16: 2.0, 32: 2.5, 64: 2.45}],
        "none": [{16: 2.0, 32: 2.9, 64: 3.8}, {16: 2.0, 32: 2.9, 64: 3.7}],
        "mixed": [{16: 2.0, 32: 2.0, 64: 2.0}, {16: 2.0, 32: 2.0, 64: 3.0}],
    }
    text = said("softmax denominator", values, 16)
    assert re.search(
        r"at most 0\.1 bits in every seed for alibi \(\+0\.00\).* more in every seed for none \(\+0\.85\)", text
    )
    assert "mixed" not in text


def test_learned_slopes_stand_beside_the_fixed_ones() -> None:
    text = said("slopes", {"mine": [dict(enumerate([0.3, 0.1, 0.02, 0.01], start=1))] * 2})
    assert "0.300 (0.300 to 0.300), 0.100" in text and "0.250, 0.062, 0.016, 0.004" in text


def test_a_task_is_solved_up_to_a_distance_in_every_seed_with_an_interval_over_all_examples() -> None:
    values = {"a": [{31: 1.0, 63: 1.0}, {31: 1.0, 63: 0.5}], "b": [{31: 0.5, 63: 1.0}, {31: 1.0, 63: 1.0}]}
    text = said("needle", values)
    low, high = share_interval(0.75, 200)
    for part in ("in every seed: a up to 31 and b not at all.", "100 examples were tested per seed",
                 f"a 75.0% ({low:.1%} to {high:.1%}) and b 100.0%", "right 6.2% of the time"):  # fmt: skip
        assert part in text
    needle = lab.find_question("needle")
    notes = needle.notes(table("needle", {**values, "c": [{31: math.nan}]}))
    assert notes["a"][63] == f"95% interval {low:.1%} to {high:.1%}, 200 examples"
    assert (list(notes["a"]), notes["c"]) == ([31, 63], {})
    assert lab.find_question("gap").notes(table("gap", {"a": [{1: 1.0}]})) == {}


def test_facts_are_worth_what_they_save_near_and_far() -> None:
    text = said("facts", {"a": [{23: 3.0, 724: 1.0}, {23: 3.2, 724: 1.0}]})
    assert re.search(r"23 and around 724 bytes before saves a 3\.1 and 1\.0 bits", text)
    assert "no recorded facts" in said("facts", {})


def test_words_are_joined_with_commas_and_one_and() -> None:
    assert [join(list("abc"[:count])) for count in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
