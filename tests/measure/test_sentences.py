"""Sentences say what holds in every seed, name a best method only for a clear lead, and quote the
right numbers."""

import math
import re
from random import Random

import pytest

from alibi_viz import lab
from alibi_viz.measure.questions import QUESTIONS, SLIDING_WINDOWS, Question
from alibi_viz.measure.sentences import TIE, best_at, outcome, rises
from tests.tables import table


def said(question: str, values: dict[str, list[dict[int, float]]], length: int = 32) -> str:
    return " ".join(lab.find_question(question).say(table(question, values, length), length))


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize(
    "ends", [(4, 4, 4), (4, 1, 0), (0, 0, 0)], ids="defined at {} lengths".format
)
@pytest.mark.parametrize(
    "question", [*QUESTIONS, SLIDING_WINDOWS], ids=lambda question: question.name
)
def test_sentences_are_whole_count_seeds_quote_labels(
    question: Question, ends: tuple[int, ...], seeds: int
) -> None:
    """Methods may be undefined from some length on, in every seed."""
    random, xs = Random(seeds), [32, 64, 128, 512]
    low, high = (0, 1) if question.scale.limits[1] == 1 else (-9, 9)
    values = {
        label: [
            {x: random.uniform(low, high) if n < end else math.nan for n, x in enumerate(xs)}
            for _ in range(seeds)
        ]
        for label, end in zip(["alibi", "learned slopes, 2L", "none"], ends, strict=True)
    }
    text = " ".join(sentences := question.say(table(question.name, values), 32))
    assert all(re.fullmatch(r"[^{}]*\w.*[.?]", sentence) for sentence in sentences)
    assert not re.search(r"\bnan\b|\binf\b|None|: \.|  ", text)
    assert text.count('"learned slopes, 2L"') == text.count("learned slopes, 2L") and (
        seeds > 1 or "seed" not in text
    )
    undefined = [label for label, end in zip(values, ends, strict=True) if end < 4]
    assert not undefined or re.search(f"Not defined .*512.*: .*{undefined[0]}", text)
    assert question.say(table(question.name, {}), 32) == ([question.note] if question.note else [])


def test_an_outcome_is_that_of_every_seed() -> None:
    hold, more, fail = 0.1, 0.101, 0.5  # bits per byte
    assert outcome([hold]) == outcome([-1.0, 0.0]) == "holds" and outcome([fail]) == "fails"
    assert outcome([more]) == outcome([fail - 0.001, more]) == "degrades"
    assert outcome([hold, fail]) == outcome([hold, hold, more]) == "mixed", (
        "also if only the last differs"
    )
    assert outcome([0.0, math.nan]) == outcome([]) == "undefined"


def test_rises_compare_the_worst_longer_length_with_the_training_length_and_the_seeds_may_disagree() -> (
    None
):
    values = {
        "a": [{64: 2.0, 128: 2.5, 256: 2.1}, {64: 2.0, 128: 1.9, 256: 2.01}],
        "b": [{9: 3, 64: 2, 128: 2 + rise} for rise in (0.05, 0.01)],
    }
    values["learned"] = [{64: 2.0, 128: math.nan}]
    expected = {"a": pytest.approx([0.5, 0.01]), "b": pytest.approx([0.05, 0.01])}
    assert rises(table("longer sequences", values, 64)) == expected
    assert rises(table("longer sequences", values, 32)) == {}, "nothing to compare with"
    text = said("longer sequences", values, 64)
    assert (
        "In every seed b holds (+0.05 at most)." in text and "The seeds disagree about a." in text
    )
    assert said("longer sequences", {"a, b": [{64: 2.0, 128: 3.0}]}, 64).startswith(
        '"a, b" fails (+1.00).'
    )


@pytest.mark.parametrize(
    ("values", "sentences"),
    [
        ({"a": [2.0, 2.0], "b": [2.0 + 1.1 * TIE] * 2}, ["Here a is best in every seed."]),
        ({"a": [2.0, 2.0], "b": [2.0 + TIE / 2, 2.0 + 2 * TIE]}, ["Here a is best in every seed."]),
        (
            {"a": [2.0, 2.0], "b": [3.0, math.nan]},
            ["Here a is best in the seeds that all have (1 of 2)."],
        ),
        (
            {"b": [2], "a": [2], "d": [2], "c": [3]},
            ["Here b, a and d are best, within 0.02 of each other."],
        ),
        ({"b": [2], "a": [2], "c": [3]}, ["Here b and a are best, within 0.02 of each other."]),
        (
            {"a": [2.0, 2.0], "b": [1.995, 3.0]},
            ["Here a is best in every seed, or within 0.02 of the best."],
        ),
        (
            {"a": [2.0, 2.0], "b": [2.0 + 0.9 * TIE] * 2},
            ["Here all are within 0.02 of the best in every seed."],
        ),
        ({"a": [2.0, 2.0, 3.0], "b": [3.0, 3.0, 2.0]}, ["Here no method is best in every seed."]),
        (
            {"a": [2.0, 2.0], "b": [2, 2], "c": [1.99, 3]},
            ["Here a and b are within 0.02 of the best in every seed."],
        ),
        ({"a": [2.0], "b": [math.nan]}, []),
    ],
)
def test_the_best_leads_by_more_than_a_tie_in_every_seed(
    values: dict[str, list[float]], sentences: list[str]
) -> None:
    for sign in (1, -1):  # of accuracies the highest is best
        rows = {label: [{64: sign * value} for value in each] for label, each in values.items()}
        assert best_at(table("longer sequences", rows), 64, "Here", lowest=sign == 1) == sentences


def test_answers_are_told_at_both_ends() -> None:
    text = said(
        "longer sequences", {"alibi": [{32: 2.5, 128: 2.51}], "rotary": [{32: 2.4, 128: 4.0}]}
    )
    best = "With sequences of 128 bytes alibi is best. With sequences of 32 bytes rotary is best."
    assert text.startswith(f"alibi holds (+0.01 at most); rotary fails (+1.60). {best}")
    text = said(
        "gap", {"a": [{10: 0, 20: 9, 30: 1}], "b": [{10: 1, 20: 9, 30: 0}], "c": [{30: math.nan}]}
    )
    assert "b holds (+0.00); a fails (+1.00)." in text and "tested with step 30: c." in text
    values = {
        "alibi": [{16: 0.0, 32: 0.1, 64: 0.25}, {16: 0.0, 32: 0.1, 64: 0.27}],
        "learned": [{16: 0.0}] * 2,
    }
    text = said("attention beyond L", values, 16)
    assert "From 16 bytes to 64 bytes, means of 2 seeds: alibi 0.0% to 26.0%." in text
    text = said("names", {"b": [{23: 3.1, 724: -0.001}], "a": [{23: 2.0, 724: 1.0}]})
    assert (
        "23 bytes before to names told 724 bytes before: b 3.10 to 0.00 and a 2.00 to 1.00 bits "
        "per name." in text
    )


def test_a_task_is_solved_up_to_a_distance_in_every_seed() -> None:
    values = {
        "b": [{31: 0.9, 63: 1.0}, {31: 1.0, 63: 0.5}],
        "a": [{31: 0.5, 63: 0.91}, {31: 1.0, 63: 1.0}],
    }
    text = said("needle", values)
    assert (
        "in every seed: b up to 31 and a not at all." in text and "right 6.2% of the time" in text
    )
    assert "63 tokens a is best in every seed, or within 0.1 of the best." in text, "of 100 answers"
