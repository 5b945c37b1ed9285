"""A guess waits for the reader, counts once, and goes on without its file."""

import itertools
import json

import pytest

from alibi_viz import lessons
from alibi_viz.lessons.guesses import FILE, ChoiceGuess, CurveGuess, OrderGuess


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def choice(key: str = "wide") -> ChoiceGuess:
    return lessons.guess_choice(key, "Which <head> sees further?", ["steep", "flat"], "flat", why="It is flat.")


def curve(**changes: object) -> CurveGuess:
    settings = {"x": [64, 128, 1024], "truth": [1.0, 2.0, 5.0], "low": 0, "high": 10} | changes
    return lessons.guess_curve("loss", "How high is the loss?", **settings)


def order() -> OrderGuess:
    return lessons.guess_order("heads", "Sort them.", ["b", "a", "c"], ["a", "b", "c"])


def press(guess: object) -> str:
    """Press "Show the answer", and return what the reader is told."""
    next(widget for widget in guess.children if getattr(widget, "description", "") == "Show the answer").click()
    return guess._result.value


@pytest.mark.parametrize("make", [choice, curve, order])
def test_an_unfinished_guess_is_asked_for_again_and_not_counted(make):
    guess = make()
    assert repr(guess) == guess._repr_mimebundle_()["text/plain"]
    assert "Your guess." in repr(guess) and "Finish" in press(guess)
    assert guess.points is None and not FILE.exists()


@pytest.mark.parametrize(("option", "points"), [("flat", 1), ("steep", 0)])
def test_choice_shows_answer_and_reason_as_text(option, points):
    guess = choice()
    guess.options.value = option
    told = press(guess)
    assert guess.points == points and "“flat”. It is flat." in told and ("Right." in told) == (points == 1)
    assert "&lt;head&gt;" in guess.children[1].value


def test_order_counts_pairs_and_a_second_press_takes_an_item_out():
    for items in itertools.permutations("abc"):
        guess = order()
        for item in items:
            guess.buttons[item].click()
        told = press(guess)
        good = sum(items.index(a) < items.index(b) for a, b in ("ab", "bc", "ac"))
        assert guess.points == good / 3 and f"{good} of 3 pairs" in told
    guess.buttons["a"].click()
    assert guess.value() is None and guess.buttons["a"].description == "a"
    assert {button.description for button in guess.buttons.values()} == {"a", "1. c", "2. b"}


@pytest.mark.parametrize(("guessed", "points"), [((2.0, 5.0), 1), ((3.4, 8), 0.5), ((10, 0), 0), ((1e9, -1e9), 0)])
def test_curve_draws_the_truth_over_the_guess(guessed, points):
    guess = curve(others={"other": [0, 0, 20]})
    assert [trace.visible for trace in guess.figure.data] == [None, False, False]
    for slider, y in zip(guess.sliders, guessed, strict=True):
        slider.value = y
    drawn = [1.0, *(min(max(y, 0), 10) for y in guessed)]  # a slider keeps a guess within the axis
    assert list(guess.figure.data[0].y) == drawn
    assert "2.00 at 128 and 5.00 at 1,024" in press(guess) and guess.points == points
    assert list(guess.figure.data[1].y) == [1.0, 2.0, 5.0] and guess.figure.data[1].visible
    assert guess.figure.layout.yaxis.range[1] > 20, "a truth outside the axis widens it"


def test_what_cannot_be_asked_for_raises():
    for changes in ({"at": [64]}, {"at": [100]}, {"truth": [1.0]}, {"low": 10}):
        with pytest.raises(ValueError, match="truth needs a number for each x"):
            curve(**changes)
    with pytest.raises(ValueError, match="answer must be one of options="):
        lessons.guess_choice("key", "?", ["a", "b"], "c")
    for answer in (["a"], ["a", "c"]):
        with pytest.raises(ValueError, match="answer must hold the different items"):
            lessons.guess_order("key", "?", ["a", "b"], answer)


def test_score_counts_the_first_guess_follows_and_can_be_deleted():
    score, guess = lessons.score(), choice()
    text = repr(score)
    assert "no guesses yet" in score.line.value
    for option in ("steep", "flat"):
        guess.options.value = option
        press(guess)
    assert json.loads(FILE.read_text()) == {"wide": 0} and "0 of 1" in score.line.value
    guess = choice("another")
    guess.options.value = "flat"
    assert "1 of 2" in press(guess) and "1 of 2" in score.line.value and repr(score) == text
    for _ in range(2):
        score.delete()
        assert not FILE.exists() and "no guesses yet" in score.line.value


@pytest.mark.parametrize("content", ["{", "[]", '{"a": 2}', '{"a": "<b>"}', '{"a": true}', '{"a": NaN}', "\xff"])
def test_a_damaged_file_is_said_kept_and_deletable(content):
    FILE.write_bytes(content.encode("latin-1"))
    guess, score = choice(), lessons.score()
    guess.options.value = "flat"
    assert "Right." in press(guess) and "damaged" in guess._result.value and "damaged" in score.line.value
    assert FILE.read_bytes() == content.encode("latin-1")
    score.delete()
    assert "Score: 1 of 1" in press(guess)


def test_a_file_that_cannot_be_written_or_deleted_is_said(monkeypatch):
    guess = choice()
    guess.options.value = "flat"
    monkeypatch.setattr("alibi_viz.lessons.guesses.FILE", FILE.parent / "missing" / FILE)
    assert "Right." in press(guess) and "can't be written" in guess._result.value
    (FILE.parent / "guesses.json").mkdir()
    monkeypatch.setattr("alibi_viz.lessons.guesses.FILE", FILE)
    score = lessons.score()
    score.delete()
    assert "can't be deleted" in score.line.value


def test_a_grid_shows_every_guess_and_stores_every_question() -> None:
    grid = lessons.guess_grid(lessons.guess_choice(f"k{n}", f"Question {n}?", ["a", "b"], "a") for n in range(3))
    assert all(f"Question {n}?" in repr(grid) for n in range(3))
