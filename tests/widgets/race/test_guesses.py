"""Guesses before a race: asked for by the Train button, and compared with the results
afterwards. How they are judged is tested with the captions."""

import pytest

from tests.widgets.race.small_race import (
    control,
    losses,
    message,
    small,
    trained,
    unchanged,
    visible,
)


@pytest.fixture(scope="module")
def finished(small_models):
    """A race that has ended, before which one of two methods was guessed."""
    return trained(guesses={"alibi": "fails", "none": None})


@pytest.fixture
def raced(finished):
    with unchanged(finished):
        yield finished


def test_guess_is_judged_after_the_race(raced):
    assert raced.caption.startswith("You guessed ")
    assert " about ALiBi (fails). Up to 128 bytes, " in raced.caption


def test_guess_is_not_judged_before_the_race():
    app = small(guesses={"alibi": "fails", "none": None})
    assert "You guessed" not in app.caption


def test_guess_that_is_changed_after_a_race_is_for_the_next_one(raced):
    caption = raced.caption
    raced.guesses = {"none": "fails"}
    assert raced.caption == caption


# The buttons


def test_checkbox_asks_for_a_guess_about_each_method():
    app = small()
    control(app, "s-guess").value = True
    assert app.guesses == {"alibi": None, "none": None}


def test_checkbox_that_is_cleared_drops_the_guesses():
    app = small(guesses={"alibi": "holds", "none": None})
    control(app, "s-guess").value = False
    assert app.guesses == {}


def test_button_sets_the_guess_about_its_method():
    app = small(guesses={"alibi": None, "none": None})
    control(app, "s-guess-none").value = "degrades"
    assert app.guesses == {"alibi": None, "none": "degrades"}


def test_buttons_show_the_guesses_that_are_set_in_code():
    app = small(guesses={"alibi": None, "none": "degrades"})
    app.guesses = {"alibi": "fails"}
    assert control(app, "s-guess-alibi").value == "fails"
    assert control(app, "s-guess-none").value is None


def test_only_the_chosen_methods_have_a_row_of_buttons():
    app = small(guesses={"alibi": None})
    app.methods = ["rotary"]
    shown = visible(control(app, "s-guesses"))
    assert control(app, "s-guess-rotary") in shown
    assert control(app, "s-guess-alibi") not in shown, "a method that was chosen before"


def test_rows_of_buttons_are_hidden_on_a_task():
    app = small(guesses={"alibi": "holds"}, question="needle")
    assert control(app, "s-guess").value is True
    assert control(app, "s-guesses").layout.display == "none"


# The Train button


def test_train_button_asks_for_a_method_in_a_race_without_any():
    app = small(methods=[])

    control(app, "s-train").click()
    assert "methods must be at least one of alibi, sinusoidal, rotary, " in message(app)

    control(app, "s-none").value = True
    assert app.caption.startswith("Press Train: none trains on")


def test_train_button_asks_for_the_missing_guesses_in_a_race_on_text():
    app = small(guesses={"alibi": None, "none": None})

    control(app, "s-train").click()
    assert "Make your guess first, for ALiBi and none." in message(app)

    control(app, "s-guess-alibi").value = "holds"
    control(app, "s-train").click()
    assert "Make your guess first, for none." in message(app)
    assert losses(app) == {}, "no race was started"


def test_train_button_starts_a_race_on_a_task_without_guesses(pace):
    app = small(guesses={"alibi": None, "none": None}, question="needle")
    pace.click_train(app)
    pace.stop(app)
    assert app._race.task == "needle"
    assert message(app) == ""
