"""A reader goes back through a race that is over: to what the models could do after each test."""

import pytest

from alibi_viz.widgets.race.moments import Moments
from tests.widgets.race.small_race import (
    TESTED_LENGTHS,
    control,
    points,
    small,
    trained,
    visible,
    visible_controls,
)

LAST = 10


@pytest.fixture(scope="module")
def raced():
    """A race that is over; every test leaves it at its end."""
    return trained(simple=True, length=64)


def go_back(app, step):
    """Move the slider to the test after a step."""
    control(app, "s-moment").value = step


def test_before_a_race_there_is_no_way_back():
    assert "s-moment" not in visible_controls(small())


def test_after_a_race_the_slider_stands_at_its_end(raced):
    assert control(raced, "s-moment").label == "step 10 of 10"
    assert "s-moment" in visible_controls(raced)


def test_going_back_shows_the_losses_of_that_test(raced):
    at_end = points(raced, "mean", "alibi")
    go_back(raced, 1)
    drawn = points(raced, "mean", "alibi")
    table = raced.results.query("question == 'longer sequences' and label == 'alibi' and step == 1")
    expected = dict(zip(table["x"], table["value"], strict=True))
    assert drawn == pytest.approx(expected)
    assert raced.caption.startswith("After step 1 of 10, on sequences of 1,024 bytes: ALiBi needs ")

    go_back(raced, LAST)
    assert points(raced, "mean", "alibi") == at_end
    assert not raced.caption.startswith("After step")


def test_going_back_shows_the_texts_of_that_test(raced):
    column = raced._columns_of_methods["alibi"].text
    at_end = column.value
    go_back(raced, 1)
    assert column.value != at_end
    go_back(raced, LAST)
    assert column.value == at_end


def test_the_results_stay_those_of_the_end(raced):
    means = raced.means
    go_back(raced, 1)
    assert raced.means == means
    go_back(raced, LAST)


def test_reset_returns_to_the_end(raced):
    go_back(raced, 1)
    control(raced, "s-reset").click()
    assert control(raced, "s-moment").value == LAST
    assert not raced.caption.startswith("After step")


def test_play_at_the_end_starts_with_the_first_test(raced):
    play = control(raced, "s-moment-play")
    play.playing = True
    assert control(raced, "s-moment").value == 1
    play.playing = False
    go_back(raced, LAST)


def test_training_is_drawn_up_to_the_step():
    app = trained()
    go_back(app, 4)
    assert max(points(app, "training", "alibi")) <= 4
    assert "step 4 of 10" in app._lanes.value


def test_texts_from_the_end_are_hidden_at_an_earlier_step():
    app = trained()
    assert app._written in visible(app)
    go_back(app, 4)
    assert app._written not in visible(app)


def test_another_question_has_no_way_back():
    app = trained()
    go_back(app, 4)
    app.question = "needle"
    assert "s-moment" not in visible_controls(app)


def test_one_test_alone_needs_no_slider():
    moments = Moments(lambda step: None)
    moments.offer([10], last=10, now=None)
    assert moments.layout.display == "none"


def test_lengths_of_every_test_are_the_same(raced):
    go_back(raced, 2)
    factors = [length // 64 for length in points(raced, "mean", "alibi")]
    assert factors == [length // TESTED_LENGTHS[0] for length in TESTED_LENGTHS]
    go_back(raced, LAST)
