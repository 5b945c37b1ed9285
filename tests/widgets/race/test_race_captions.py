"""What LengthLab says about a race, from races made by hand, which no model has run."""

import math

import pytest

from alibi_viz import lab
from alibi_viz.widgets.race import captions
from alibi_viz.widgets.race.state import RaceState
from tests.rows import each_case
from tests.tables import table
from tests.widgets.race.small_race import ENGLISH

TEXT = lab.load_text()
STARTED = "Training on sequences of 8 bytes of tales, seed"
MEASURED_LATER = "The models will be measured when the race is over."


def running_race():
    """A race of two seeds that has just started, with a test of its models after step 50."""
    race = RaceState("text", ("alibi",), length=8, steps=100, seed=3, seeds=2)
    race.state = "running"
    race.models = {3: {}}
    return race


def add_rows(race, question, x, step):
    """Add a row of the first seed, which is 3."""
    rows = table(question, {"alibi": [{x: 2.0}]}, length=8, step=step)
    race.rows += rows.to_dict("records")


def finished_race(curves, **guesses):
    """A race with these losses after its last step: {method: {length: bits} of each seed}."""
    seeds = len(next(iter(curves.values())))
    race = RaceState(
        "text", tuple(curves), length=8, steps=100, seed=3, seeds=seeds, guesses=guesses
    )
    race.state = "finished"
    race.source = TEXT
    race.complete = list(range(3, 3 + seeds))
    race.models = {seed: {} for seed in race.complete}
    race.rows = table("longer sequences", curves, length=8).to_dict("records")
    return race


def told(race, question="longer sequences", measuring=False):
    """The caption and the details."""
    return captions.caption(
        race, lab.find_question(question), race.table, note="", measuring=measuring
    )


# While it runs


def test_race_that_has_just_started_was_not_tested_yet():
    race = running_race()
    caption = f"{STARTED} 1 of 2, not tested yet. {MEASURED_LATER}"
    assert told(race, "by position") == (caption, "")


def test_bars_of_a_race_that_has_just_started_are_at_step_0():
    assert "<span>step 0 of 100</span>" in captions.lanes(running_race())


def test_last_test_is_the_last_one_of_the_main_question():
    race = running_race()
    add_rows(race, "longer sequences", x=8, step=50)
    add_rows(race, "gap", x=70, step=70)
    caption, _ = told(race, "by position")
    assert caption == f"{STARTED} 1 of 2, last tested after step 50. {MEASURED_LATER}"


def test_tests_of_an_earlier_seed_do_not_count():
    race = running_race()
    add_rows(race, "longer sequences", x=8, step=50)
    race.models[4] = {}
    caption, _ = told(race, "by position")
    assert caption == f"{STARTED} 2 of 2, not tested yet. {MEASURED_LATER}"


# Stopped in the second of two seeds


@pytest.fixture
def stopped():
    race = running_race()
    race.models[4] = {}
    race.state = "stopped"
    race.complete = [3]
    race.source = lab.load_text(ENGLISH)
    return race


def test_models_of_a_stopped_race_were_not_measured(stopped):
    caption, _ = told(stopped, "by position")
    assert caption.endswith("The models were not measured.")


def test_models_of_a_stopped_race_may_be_measured_now(stopped):
    caption, _ = told(stopped, "by position", measuring=True)
    assert caption.endswith("The models are being measured.")


@each_case(
    ("share", "end"),
    {
        "much is repeated": (0.12, "12% of its validation part also stands in its training part."),
        "little is repeated": (0.09, "seeds: 3."),
    },
)
def test_details_tell_how_much_of_the_text_is_repeated(stopped, share, end):
    vars(stopped.source)["repeats"] = share  # a cached property
    _, details = told(stopped, "by position")
    assert details.endswith(end)


# Finished


def test_caption_tells_the_outcome_and_what_is_best_on_the_longest_sequences():
    race = finished_race({"alibi": [{8: 2.0, 16: 2.05}], "none": [{8: 2.1, 16: 3.0}]})
    caption, _ = told(race)
    assert caption == (
        "Up to 16 bytes, ALiBi holds (+0.05 at most); none fails (+0.90), in bits per byte. "
        "With sequences of 16 bytes ALiBi is best."
    )


def test_caption_tells_what_holds_in_every_seed():
    race = finished_race({"alibi": [{8: 2.0, 16: 2.05}, {8: 2.2, 16: 2.21}]})
    caption, _ = told(race)
    assert caption.startswith("Up to 16 bytes, in every seed ALiBi holds (+0.05 at most), in bits")


def test_details_tell_what_is_not_defined_and_what_was_trained():
    race = finished_race({"alibi": [{8: 2.0, 16: 2.05}], "learned": [{8: 2.5, 16: math.nan}]})
    _, details = told(race)
    assert details == (
        "Not defined or not tested with sequences of 16 bytes: learned. "
        "A model that knows only letter frequencies needs 4.49 bits per byte, and one that knows "
        "letter pairs 3.29. Trained 100 steps on sequences of 8 bytes of tales, seeds: 3."
    )


def test_details_tell_which_method_is_sure_and_wrong():
    race = finished_race({"alibi": [{8: 2.0, 16: 2.05}], "none": [{8: 2.1, 16: 6.0}]})
    _, details = told(race)
    assert (
        "With sequences of 16 bytes none needs more than either: it isn't ignorant, but sure and "
        "wrong. Trained 100 steps"
    ) in details


@each_case(
    ("rise", "guess", "verdict"),
    {
        "right": (0.05, "holds", "right"),
        "wrong": (1.9, "degrades", "wrong"),
    },
)
def test_guess_is_judged_by_the_outcome(rise, guess, verdict):
    race = finished_race({"alibi": [{8: 2.0, 16: 2.0 + rise}]}, alibi=guess)
    caption, _ = told(race)
    assert caption.startswith(f"You guessed {verdict} about ALiBi ({guess}). Up to 16 bytes, ")


def test_guesses_that_are_right_and_wrong_are_told_in_one_sentence():
    race = finished_race(
        {"alibi": [{8: 2.0, 16: 2.0}], "none": [{8: 2.0, 16: 4.0}]}, alibi="holds", none="holds"
    )
    caption, _ = told(race)
    assert caption.startswith("You guessed right about ALiBi (holds) and wrong about none (holds).")


def test_a_simple_caption_has_the_verdict_and_the_outcome_in_letters():
    race = finished_race({"alibi": [{8: 2.0, 16: 2.0}]}, alibi="holds")
    caption, _ = captions.simple_caption(race, race.table, note="")
    assert caption == (
        "You guessed right about ALiBi (holds). Up to 16 letters, ALiBi holds (+0.00 at most), in "
        "bits per byte."
    )


def test_two_lists_of_guesses_have_a_comma_between_them():
    curves = {"alibi": [{8: 2.0, 16: 2.0}], "rotary": [{8: 2.0, 16: 4.0}]}
    race = finished_race(
        curves | {"none": [{8: 2.0, 16: 4.0}]}, alibi="holds", rotary="fails", none="holds"
    )
    caption, _ = told(race)
    assert caption.startswith(
        "You guessed right about ALiBi (holds) and rotary (fails), and wrong about none (holds)."
    )


def test_guess_is_not_judged_where_the_seeds_disagree():
    race = finished_race({"alibi": [{8: 2.0, 16: 2.0}, {8: 2.0, 16: 4.0}]}, alibi="holds")
    caption, _ = told(race)
    assert caption == "The seeds disagree about ALiBi."
