"""A guess waits for the reader, who then sees the right answer. Choices, orders and grids."""

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
        "Which <head> sees further?",
        ["steep", "flat"],
        answer="flat",
        why="It is flat.",
    )


def order():
    return lessons.guess_order("heads", "Sort them.", ["b", "a", "c"], answer=["a", "b", "c"])


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


def test_the_text_is_the_question_and_what_there_is_to_choose_from():
    assert repr(choice()) == ("Your guess. Which <head> sees further?\n  ( ) steep\n  ( ) flat")


def test_the_text_breaks_long_lines_between_words():
    guess = lessons.guess_choice("wide", "Why? " * 20, ["b", "because " * 10], answer="b")
    assert repr(guess) == (
        "Your guess. Why? Why? Why? Why? Why? Why? Why? Why? Why? Why? Why? Why? Why?\n"
        "Why? Why? Why? Why? Why? Why? Why?\n"
        "  ( ) b\n"
        "  ( ) because because because because because because because because\n"
        "      because because"
    )


def test_a_notebook_stores_the_whole_text():
    guess = lessons.guess_choice("wide", "Why? " * 20, ["b", "because " * 10], answer="b")
    # ipywidgets would store 110 characters.
    assert guess._repr_mimebundle_()["text/plain"] == repr(guess)


# A choice


def test_the_right_choice_is_a_point():
    guess = choice()
    told = choose(guess, "flat")
    assert "<b>Right.</b>" in told
    assert guess.points == 1


def test_a_wrong_choice_is_no_point():
    guess = choice()
    told = choose(guess, "steep")
    assert "<b>Not this time.</b>" in told
    assert guess.points == 0


@pytest.mark.parametrize("option", ["steep", "flat"])
def test_the_answer_of_a_choice_comes_with_its_reason(option):
    assert "It is “flat”. It is flat.<br>" in choose(choice(), option)


def test_a_question_is_text_and_not_markup():
    _style, question, *_ = choice().children
    assert "Which &lt;head&gt; sees further?" in question.value


def test_a_reason_is_text_and_not_markup():
    guess = lessons.guess_choice("wide", "?", ["a", "b"], answer="a", why="a < b")
    assert "a &lt; b" in choose(guess, "b")


# An order


@each_case(
    ("guessed", "points", "answer"),
    {
        "abc": ("abc", 1, "<b>Right.</b> It is a, b, c: 3 of 3 pairs are"),
        "acb": ("acb", 2 / 3, "<b>Partly right.</b> It is a, b, c: 2 of 3 pairs are"),
        "bac": ("bac", 2 / 3, "<b>Partly right.</b> It is a, b, c: 2 of 3 pairs are"),
        "bca": ("bca", 1 / 3, "<b>Partly right.</b> It is a, b, c: 1 of 3 pairs is"),
        "cab": ("cab", 1 / 3, "<b>Partly right.</b> It is a, b, c: 1 of 3 pairs is"),
        "cba": ("cba", 0, "<b>Not this time.</b> It is a, b, c: 0 of 3 pairs are"),
    },
)
def test_the_points_of_an_order_are_its_share_of_right_pairs(guessed, points, answer):
    guess = order()
    for item in guessed:
        press(guess, item)
    told = ask_for_answer(guess)
    assert f"{answer} in the right order." in told
    assert guess.points == points


def item_buttons(guess):
    """The text and the color of each button of an order."""
    *items, _show_the_answer = widgets(guess, Button)
    return [(button.description, button.button_style) for button in items]


def test_an_item_shows_the_place_at_which_it_was_pressed():
    guess = order()
    press(guess, "c")
    press(guess, "b")
    assert item_buttons(guess) == [("2. b", "info"), ("a", ""), ("1. c", "info")]


def test_an_item_that_is_pressed_again_is_taken_out():
    guess = order()
    for item in "cab":
        press(guess, item)
    press(guess, "a")
    assert item_buttons(guess) == [("2. b", "info"), ("a", ""), ("1. c", "info")]
    assert guess.value() is None


def test_two_items_are_enough_for_an_order():
    guess = lessons.guess_order("key", "?", ["a", "b"], answer=["b", "a"])
    assert repr(guess) == "Your guess. ?\n  ( ) a\n  ( ) b"


# What cannot be asked for


def test_the_answer_of_a_choice_must_be_among_its_options():
    with pytest.raises(ValueError, match="answer must be one of a, b, got 'c'"):
        lessons.guess_choice("key", "?", ["a", "b"], answer="c")


@each_case(
    ("items", "answer"),
    {
        "an item is missing": (["a", "b"], ["a"]),
        "another item": (["a", "b"], ["a", "c"]),
        "twice the same item": (["a", "a"], ["a", "a"]),
        "a single item": (["a"], ["a"]),
    },
)
def test_the_answer_of_an_order_must_be_an_order_of_its_items(items, answer):
    with pytest.raises(ValueError, match="answer must hold the different items"):
        lessons.guess_order("key", "?", items, answer)


# A grid of guesses with one button


@pytest.fixture
def guesses():
    return [
        lessons.guess_choice(f"question {number}", f"Question {number}?", ["a", "b"], answer="a")
        for number in (1, 2, 3)
    ]


def test_a_grid_stores_the_text_of_every_question(guesses):
    assert repr(lessons.guess_grid(guesses)) == (
        "Your guess. Question 1?\n  ( ) a\n  ( ) b\n"
        "Your guess. Question 2?\n  ( ) a\n  ( ) b\n"
        "Your guess. Question 3?\n  ( ) a\n  ( ) b"
    )


def test_a_grid_has_one_button(guesses):
    grid = lessons.guess_grid(guesses)
    assert [button.description for button in widgets(grid, Button)] == ["Show the answers"]


def test_a_grid_without_any_guess_asks_for_each(guesses):
    press(lessons.guess_grid(guesses), "Show the answers")
    for guess in guesses:
        assert "Finish your guess first" in guess.response.value


def test_a_grid_answers_the_guesses_that_are_made(guesses):
    grid = lessons.guess_grid(guesses)
    _unmade, right, wrong = guesses
    select(right, "a")
    select(wrong, "b")
    press(grid, "Show the answers")
    assert [guess.points for guess in guesses] == [None, 1, 0]


def test_a_grid_leaves_the_other_guesses_alone(guesses):
    grid = lessons.guess_grid(guesses)
    unmade, made, _ = guesses
    select(made, "a")
    press(grid, "Show the answers")
    assert unmade.response.value == ""
