"""A reader goes back through a race that is over: to what the models could do after each test."""

import pytest

from alibi_viz.widgets.race.moments import Moments
from tests.widgets.race.small_race import (
    TESTED_LENGTHS,
    control,
    points,
    small,
    trained,
    unchanged,
    visible,
    visible_controls,
)

LAST = 10


@pytest.fixture(scope="module")
def finished(small_models):
    """A simple race that is over."""
    return trained(simple=True)


@pytest.fixture
def raced(finished):
    """The same, which stands at its end again after a test."""
    with unchanged(finished):
        yield finished
    control(finished, "s-moment-play").playing = False
    go_back(finished, LAST)


@pytest.fixture
def not_simple(raced):
    """The same, shown with all panels."""
    raced.simple = False
    return raced


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
    assert raced.caption.startswith("After step 1 of 10, on sequences of 128 bytes: ALiBi needs ")

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


def test_reset_returns_to_the_end(raced):
    go_back(raced, 1)
    control(raced, "s-reset").click()
    assert control(raced, "s-moment").value == LAST
    assert not raced.caption.startswith("After step")


def test_play_at_the_end_starts_with_the_first_test(raced):
    play = control(raced, "s-moment-play")
    play.playing = True
    assert control(raced, "s-moment").value == 1


def test_training_is_drawn_up_to_the_step(not_simple):
    go_back(not_simple, 4)
    assert max(points(not_simple, "training", "alibi")) <= 4
    assert "step 4 of 10" in not_simple._lanes.value


def test_texts_from_the_end_are_hidden_at_an_earlier_step(not_simple):
    assert not_simple._written in visible(not_simple)
    go_back(not_simple, 4)
    assert not_simple._written not in visible(not_simple)


def test_another_question_has_no_way_back(not_simple):
    go_back(not_simple, 4)
    not_simple.question = "needle"
    assert "s-moment" not in visible_controls(not_simple)


def test_one_test_alone_needs_no_slider():
    moments = Moments(lambda step: None)
    moments.offer([10], last=10, now=None)
    assert moments.layout.display == "none"


def test_lengths_of_every_test_are_the_same(raced):
    go_back(raced, 2)
    assert list(points(raced, "mean", "alibi")) == TESTED_LENGTHS
