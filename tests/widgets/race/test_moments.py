"""A reader goes back through a race that is over: to what the models could do after each test."""

import pytest

from tests.tables import curve
from tests.widgets.race.small_race import (
    bars,
    column_text,
    control,
    curve_of,
    small,
    trained,
    unchanged,
    visible_controls,
)

LAST = 10


@pytest.fixture(scope="module")
def finished(small_models):
    """A race that is over, with a guess."""
    return trained(guesses={"alibi": "fails", "none": None})


@pytest.fixture
def raced(finished):
    """The same, which stands at its end again after a test."""
    with unchanged(finished):
        yield finished
    control(finished, "s-moment-play").playing = False
    go_back(finished, LAST)


def go_back(app, step):
    """Move the slider to the test after a step."""
    control(app, "s-moment").value = step


def test_before_a_race_there_is_no_way_back():
    assert "s-moment" not in visible_controls(small())


def test_after_a_race_the_slider_has_every_test_and_stands_at_the_last(raced):
    slider = control(raced, "s-moment")
    assert [step for _, step in slider.options] == list(range(LAST + 1))
    assert slider.label == "step 10 of 10"
    assert "s-moment" in visible_controls(raced)


def test_going_back_shows_the_losses_texts_and_bars_of_that_test(raced):
    at_end = (raced.caption, curve_of(raced, "alibi"), column_text(raced, "alibi"))
    means = raced.means
    go_back(raced, 1)
    losses = curve(raced.results, "longer sequences", label="alibi", step=1)
    assert curve_of(raced, "alibi") == pytest.approx(losses)
    assert raced.caption.startswith("After step 1 of 10, on texts of 128 letters: ALiBi needs ")
    assert column_text(raced, "alibi") != at_end[2]
    assert bars(raced) == {"alibi": 1, "none": 1}
    assert raced.means == means, "the results stay those of the end"

    go_back(raced, LAST)
    assert (raced.caption, curve_of(raced, "alibi"), column_text(raced, "alibi")) == at_end


def test_guess_is_judged_after_the_race_and_one_made_then_is_for_the_next(raced):
    caption = raced.caption
    assert caption.startswith("You guessed ")
    assert " about ALiBi (fails). Up to 128 letters, " in caption
    raced.guesses = {"alibi": "holds"}
    assert raced.caption == caption


def test_the_first_test_is_before_training(raced):
    go_back(raced, 0)
    assert raced.caption.startswith("Before training, on texts of 128 letters: ALiBi needs 8.")


def test_reset_returns_to_the_end(raced):
    go_back(raced, 1)
    control(raced, "s-reset").click()
    assert control(raced, "s-moment").value == LAST
    assert not raced.caption.startswith("After step")


def test_play_at_the_end_starts_with_the_first_test(raced):
    control(raced, "s-moment-play").playing = True
    assert control(raced, "s-moment").value == 0


def test_a_new_race_hides_the_way_back_until_its_end(pace):
    app = trained(methods=["none"])
    pace.train(app)
    assert "s-moment" not in visible_controls(app)
    pace.stop(app)
    assert "s-moment" not in visible_controls(app), "one test alone needs no slider"
