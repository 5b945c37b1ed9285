"""What LengthLab says about a race, from races made by hand, which no model has run."""

import math

import pytest

from alibi_viz import lab
from alibi_viz.measure.continuations import Continuation
from alibi_viz.widgets.race import captions
from alibi_viz.widgets.race.state import RaceState, Written
from tests.rows import each_case
from tests.tables import table
from tests.widgets.race.small_race import ENGLISH

SEED = 3  # of `table`


def finished_race(curves, training=None, text=None, **guesses):
    """A race with these losses after its last step, {method: {length: bits}}, and with the same
    training loss of all methods."""
    race = RaceState(
        methods={method: method for method in curves},
        length=8,
        steps=100,
        seed=SEED,
        text=text,
        guesses=guesses,
        emma=None,
    )
    race.state = "finished"
    race.source = text or lab.load_text()
    race.rows = table(
        "longer sequences", {method: [losses] for method, losses in curves.items()}, length=8
    ).to_dict("records")
    if training is not None:
        trained = table("longer sequences", {method: [{100: training}] for method in curves})
        race.rows += trained.assign(question="training loss").to_dict("records")
    texts = [Continuation("once", " upon", " a time")] * 8
    race.moments = {100: dict.fromkeys(curves, Written(texts, 1.0, []))}
    return race


def told(race, is_outdated=False):
    """The caption and the details."""
    return captions.caption(race, race.results(), None, is_outdated=is_outdated)


def test_caption_tells_the_outcome_and_what_is_best_on_the_longest_sequences():
    race = finished_race({"alibi": {8: 2.0, 16: 2.05}, "none": {8: 2.1, 16: 3.0}})
    caption, _ = told(race)
    assert caption == (
        "Up to 16 letters, ALiBi holds (+0.05 at most); none fails (+0.90), in bits per letter. "
        "With texts of 16 letters ALiBi is best."
    )


def test_details_tell_what_is_not_defined_and_what_was_trained():
    race = finished_race({"alibi": {8: 2.0, 16: 2.05}, "learned": {8: 2.5, 16: math.nan}})
    _, details = told(race)
    assert details.endswith(
        "Not defined or not tested with texts of 16 letters: learned. "
        "A model that knows only letter frequencies needs 4.49 bits per letter, and one that knows "
        "letter pairs 3.29. Trained 100 steps on sequences of 8 letters of tales, seed 3."
    )


def test_details_tell_which_method_is_sure_and_wrong():
    race = finished_race({"alibi": {8: 2.0, 16: 2.05}, "none": {8: 2.1, 16: 6.0}})
    _, details = told(race)
    assert (
        "With texts of 16 letters none needs more than either: it isn't ignorant, but sure and "
        "wrong. Trained 100 steps"
    ) in details


@each_case(
    ("share", "end"),
    {
        "much is repeated": (0.12, "12% of its validation part also stands in its training part."),
        "little is repeated": (0.09, "seed 3."),
    },
)
def test_details_tell_how_much_of_the_text_is_repeated(share, end):
    race = finished_race({"alibi": {8: 2.0, 16: 2.0}}, text=lab.load_text(ENGLISH))
    vars(race.source)["repeats"] = share  # a cached property
    _, details = told(race)
    assert details.endswith(end)


def test_learning_by_heart_is_told_first():
    caption, _ = told(finished_race({"alibi": {8: 3.0, 16: 3.0}}, training=1.0))
    assert caption.startswith("ALiBi (1.00 bits there, 3.00 on unseen text) has learned")


@pytest.mark.parametrize("training", [2.5, 3.5])
def test_learning_is_not_called_learning_by_heart(training):
    caption, _ = told(finished_race({"alibi": {8: 3.0, 16: 3.0}}, training=training))
    assert "by heart" not in caption


def test_changed_settings_are_told_first():
    caption, _ = told(finished_race({"alibi": {8: 2.0, 16: 2.0}}), is_outdated=True)
    assert caption == (
        "The settings have changed since this race: train again to apply them. "
        "Up to 16 letters, ALiBi holds (+0.00 at most), in bits per letter."
    )


# Guesses


@each_case(
    ("rise", "guess", "verdict"),
    {"right": (0.05, "holds", "right"), "wrong": (1.9, "degrades", "wrong")},
)
def test_guess_is_judged_by_the_outcome(rise, guess, verdict):
    race = finished_race({"alibi": {8: 2.0, 16: 2.0 + rise}}, alibi=guess)
    caption, _ = told(race)
    assert caption.startswith(f"You guessed {verdict} about ALiBi ({guess}). Up to 16 letters, ")


def test_guesses_that_are_right_and_wrong_are_told_in_one_sentence():
    race = finished_race(
        {"alibi": {8: 2.0, 16: 2.0}, "none": {8: 2.0, 16: 4.0}}, alibi="holds", none="holds"
    )
    caption, _ = told(race)
    assert caption.startswith("You guessed right about ALiBi (holds) and wrong about none (holds).")


def test_two_lists_of_guesses_have_a_comma_between_them():
    fails = {8: 2.0, 16: 4.0}
    race = finished_race(
        {"alibi": {8: 2.0, 16: 2.0}, "rotary": fails, "none": fails},
        alibi="holds",
        rotary="fails",
        none="holds",
    )
    caption, _ = told(race)
    assert caption.startswith(
        "You guessed right about ALiBi (holds) and rotary (fails), and wrong about none (holds)."
    )
