"""The score counts first guesses, in a file that may be damaged, deleted or out of reach."""

import json

import pytest
from ipywidgets import HTML

from alibi_viz import lessons
from alibi_viz.lessons.guesses import FILE
from tests.lessons.reader import ask_for_answer, choose, press, widgets
from tests.rows import each_case

pytestmark = pytest.mark.usefixtures("empty_folder")


def choice(key="wide"):
    options = {"steep": "the steepest", "flat": "the flattest"}
    return lessons.guess_choice(key, "Which head sees further?", options, answer="flat")


def line(score):
    """The score that is shown."""
    _style, text = widgets(score, HTML)
    return str(text.value)


def test_the_score_starts_without_guesses():
    assert line(lessons.score()) == "Score: no guesses yet."


def test_only_the_first_guess_at_a_question_counts():
    guess = choice()
    choose(guess, "steep")
    assert "Score: 0 of 1." in choose(guess, "flat")


def test_the_points_are_stored_by_question():
    choose(choice("wide"), "steep")
    choose(choice("another"), "flat")
    assert json.loads(FILE.read_text()) == {"wide": 0, "another": 1}


def test_every_score_on_the_page_follows_a_guess():
    scores = [lessons.score(), lessons.score()]
    choose(choice("wide"), "steep")
    choose(choice("another"), "flat")
    assert [line(score) for score in scores] == ["Score: 1 of 2.", "Score: 1 of 2."]


def test_a_score_shown_later_has_the_earlier_guesses():
    choose(choice(), "flat")
    assert line(lessons.score()) == "Score: 1 of 1."


def test_the_text_that_a_notebook_stores_does_not_change():
    score = lessons.score()
    before = repr(score)
    choose(choice(), "flat")
    assert repr(score) == before


def test_the_score_can_be_deleted():
    score = lessons.score()
    choose(choice(), "flat")
    press(score, "Delete")
    assert not FILE.exists()
    assert line(score) == "Score: no guesses yet."


def test_a_score_that_is_already_deleted_can_be_deleted_again():
    score = lessons.score()
    press(score, "Delete")
    press(score, "Delete")
    assert line(score) == "Score: no guesses yet."


# A damaged file

damaged_file = each_case(
    "content",
    {
        "no JSON": b"{",
        "a list": b"[]",
        "more than a point": b'{"a": 2}',
        "a text": b'{"a": "<b>"}',
        "true": b'{"a": true}',
        "NaN": b'{"a": NaN}',
        "no UTF-8": b"\xff",
    },
)


@damaged_file
def test_a_guess_says_that_the_file_is_damaged_and_goes_on(content):
    FILE.write_bytes(content)
    told = choose(choice(), "flat")
    assert "<b>Right.</b>" in told
    assert "No score: guesses.json is damaged." in told


@damaged_file
def test_a_score_says_that_the_file_is_damaged(content):
    FILE.write_bytes(content)
    assert line(lessons.score()).startswith("No score: guesses.json is damaged.")


@damaged_file
def test_a_damaged_file_is_kept(content):
    FILE.write_bytes(content)
    choose(choice(), "flat")
    assert FILE.read_bytes() == content


@damaged_file
def test_guesses_count_again_once_a_damaged_file_is_deleted(content):
    FILE.write_bytes(content)
    guess = choice()
    choose(guess, "flat")
    press(lessons.score(), "Delete")
    assert "Score: 1 of 1." in ask_for_answer(guess)


# A file out of reach


def test_a_guess_goes_on_if_the_file_cannot_be_written(monkeypatch):
    in_a_missing_folder = FILE.parent / "missing" / FILE
    monkeypatch.setattr("alibi_viz.lessons.guesses.FILE", in_a_missing_folder)
    told = choose(choice(), "flat")
    assert "<b>Right.</b>" in told
    assert "can't be read or written" in told


def test_a_guess_goes_on_if_the_file_cannot_be_read():
    FILE.mkdir()
    told = choose(choice(), "flat")
    assert "<b>Right.</b>" in told
    assert "can't be read or written" in told


def test_a_score_says_that_its_file_cannot_be_deleted():
    FILE.mkdir()
    score = lessons.score()
    press(score, "Delete")
    assert line(score).startswith("guesses.json can't be deleted")
