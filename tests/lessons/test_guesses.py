"""A guess waits for the reader, who then sees the right answer. Choices, orders and grids."""

import json
from itertools import chain

import pytest
from ipywidgets import Button

from alibi_viz import lessons
from alibi_viz.lessons.guesses import FILE
from tests.lessons.reader import ask_for_answer, choose, press, select, widgets
from tests.rows import each_case

pytestmark = pytest.mark.usefixtures("empty_folder")


def choice():
    return lessons.guess_choice(
        "wide",
        "Which head sees further?",
        {"steep": "the steepest", "flat": "the flattest"},
        answer="flat",
        why="It is flat.",
    )


def order():
    items = {"b": "head b", "a": "head a", "c": "head c"}
    return lessons.guess_order("heads", "Sort them.", items, answer=["a", "b", "c"])


def curve():
    return lessons.guess_curve(
        "loss", "How high is the loss?", x=[64, 128, 1024], truth=[1.0, 2.0, 5.0], low=0, high=6
    )


# An unfinished guess


@pytest.mark.parametrize("make_guess", [choice, order, curve])
def test_an_unfinished_guess_is_asked_for_again(make_guess):
    assert "Finish your guess first" in ask_for_answer(make_guess())


@pytest.mark.parametrize("make_guess", [choice, order, curve])
def test_an_unfinished_guess_does_not_count(make_guess):
    guess = make_guess()
    press(guess, "Show the answer")
    assert guess.points is None
    assert not FILE.exists()


# What a notebook stores


def test_the_text_is_stored_whole_and_breaks_between_words():
    options = {"a": "b", "long": "because " * 10}
    guess = lessons.guess_choice("wide", "Why? " * 20, options, answer="a")
    data, _metadata = guess._repr_mimebundle_()
    assert data["text/plain"] == (
        "Your guess. Why? Why? Why? Why? Why? Why? Why? Why? Why? Why? Why? Why? Why?\n"
        "Why? Why? Why? Why? Why? Why? Why?\n"
        "  ( ) b\n"
        "  ( ) because because because because because because because because\n"
        "      because because"
    )


def stored(guess):
    """The metadata of the output, as a notebook keeps it."""
    _data, metadata = guess._repr_mimebundle_()
    return json.loads(json.dumps(metadata))


def test_a_guess_is_stored_as_data_with_ids_and_words():
    assert stored(choice()) == {
        "guesses": [
            {
                "kind": "choice",
                "question": "Which head sees further?",
                "options": [["steep", "the steepest"], ["flat", "the flattest"]],
                "answer": ["flat"],
                "why": "It is flat.",
            }
        ]
    }
    (data,) = stored(order())["guesses"]
    assert (data["kind"], data["answer"]) == ("order", ["a", "b", "c"])
    (data,) = stored(curve())["guesses"]
    assert (data["kind"], data["options"], data["answer"]) == ("curve", [], [])


# A choice


@each_case(
    ("option", "points", "verdict"),
    {"right": ("flat", 1, "Right."), "wrong": ("steep", 0, "Not this time.")},
)
def test_a_choice_is_right_or_not_and_told_with_its_reason(option, points, verdict):
    guess = choice()
    told = choose(guess, option)
    assert f"<b>{verdict}</b> It is “the flattest”. It is flat.<br>" in told
    assert guess.points == points


def test_a_question_and_its_reason_are_text_and_not_markup():
    options = {"a": "head a", "b": "head b"}
    guess = lessons.guess_choice("wide", "Which <head>?", options, answer="a", why="a < b")
    _style, question, *_ = guess.children
    assert "Which &lt;head&gt;?" in question.value
    assert "a &lt; b" in choose(guess, "b")


# An order


@each_case(
    ("guessed", "points", "verdict", "pairs"),
    {
        "all": ("abc", 1, "Right.", "3 of 3 pairs are"),
        "all but one": ("bac", 2 / 3, "Partly right.", "2 of 3 pairs are"),
        "one": ("bca", 1 / 3, "Partly right.", "1 of 3 pairs is"),
        "none": ("cba", 0, "Not this time.", "0 of 3 pairs are"),
    },
)
def test_the_points_of_an_order_are_its_share_of_right_pairs(guessed, points, verdict, pairs):
    guess = order()
    for item in guessed:
        press(guess, f"head {item}")
    told = ask_for_answer(guess)
    assert f"<b>{verdict}</b> It is head a, head b, head c: {pairs} in the right order." in told
    assert guess.points == points


def item_buttons(guess):
    """The text and the color of each button of an order."""
    *items, _show_the_answer = widgets(guess, Button)
    return [(button.description, button.button_style) for button in items]


def test_an_item_shows_its_place_until_it_is_pressed_again():
    guess = order()
    for item in "caba":
        press(guess, f"head {item}")
    assert item_buttons(guess) == [("2. head b", "info"), ("head a", ""), ("1. head c", "info")]
    assert guess.value() is None


# What cannot be asked for


def test_the_answer_of_a_choice_must_be_among_its_options():
    with pytest.raises(ValueError, match="answer must be one of a, b, got 'c'"):
        lessons.guess_choice("key", "?", {"a": "A", "b": "B"}, answer="c")


@each_case(
    ("items", "answer"),
    {
        "an item is missing": ("ab", ["a"]),
        "another item": ("ab", ["a", "c"]),
        "twice the same item": ("ab", ["a", "b", "a"]),
        "a single item": ("a", ["a"]),
    },
)
def test_the_answer_of_an_order_must_be_an_order_of_its_items(items, answer):
    with pytest.raises(ValueError, match="answer must hold the items"):
        lessons.guess_order("key", "?", dict(zip(items, items, strict=True)), answer)


# A grid of guesses with one button


@pytest.fixture
def guesses():
    options = {"a": "a", "b": "b"}
    return [
        lessons.guess_choice(f"question {number}", f"Question {number}?", options, answer="a")
        for number in (1, 2, 3)
    ]


def test_a_grid_stores_the_text_and_the_data_of_every_guess(guesses):
    grid = lessons.guess_grid(guesses)
    assert repr(grid) == "\n".join(map(repr, guesses))
    each = chain.from_iterable(stored(guess)["guesses"] for guess in guesses)
    assert stored(grid)["guesses"] == list(each)


def test_a_grid_has_one_button(guesses):
    grid = lessons.guess_grid(guesses)
    assert [button.description for button in widgets(grid, Button)] == ["Show the answers"]


def test_a_grid_without_any_guess_asks_for_each(guesses):
    press(lessons.guess_grid(guesses), "Show the answers")
    for guess in guesses:
        assert "Finish your guess first" in guess.response.value


def test_a_grid_answers_the_guesses_that_are_made(guesses):
    grid = lessons.guess_grid(guesses)
    unmade, right, wrong = guesses
    select(right, "a")
    select(wrong, "b")
    press(grid, "Show the answers")
    assert [guess.points for guess in guesses] == [None, 1, 0]
    assert unmade.response.value == ""
