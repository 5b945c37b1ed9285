"""A guess waits for the reader, counts once, and goes on without its file."""

import itertools
import json

import pytest
from ipywidgets import HTML, Button, FloatSlider, RadioButtons

from alibi_viz import lessons
from alibi_viz.lessons.guesses import FILE, Box, Guess
from alibi_viz.widgets.core.controls import below
from alibi_viz.widgets.core.figure import LiveFigure


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def choice(key: str = "wide") -> Guess:
    return lessons.guess_choice(
        key, "Which <head> sees further?", ["steep", "flat"], "flat", why="It is flat."
    )


def curve(**changes: object) -> Guess:
    settings = {"x": [64, 128, 1024], "truth": [1.0, 2.0, 5.0], "low": -5, "high": 5} | changes
    return lessons.guess_curve("loss", "How high is the loss?", **settings)


def order() -> Guess:
    return lessons.guess_order("heads", "Sort them.", ["b", "a", "c"], ["a", "b", "c"])


def find(box: Box, kind: type) -> list:
    """The widgets of a kind inside a box."""
    return [widget for widget in below(box) if isinstance(widget, kind)]


def press(box: Box, name: str = "Show the answer") -> str:
    """Press a button whose text starts or ends like this, and return what the reader is told."""
    next(
        button
        for button in find(box, Button)
        if name in (button.description, button.description[3:])
    ).click()
    return getattr(box, "response", HTML()).value


def choose(guess: Guess, option: str) -> str:
    find(guess, RadioButtons)[0].value = option
    return press(guess)


@pytest.mark.parametrize("make", [choice, curve, order])
def test_an_unfinished_guess_is_asked_for_again_and_not_counted(make):
    guess = make()
    assert repr(guess) == guess._repr_mimebundle_()["text/plain"]
    assert "Finish" in press(guess) and guess.points is None and not FILE.exists()


def test_the_stored_text_breaks_long_lines_between_words():
    guess = lessons.guess_choice("wide", "Why? " * 20, ["b", "because " * 10], "b")
    question = f"Your guess.{' Why?' * 13}\n{'Why? ' * 7}"
    assert (
        repr(guess) == f"{question.strip()}\n  ( ) b\n  ( ){' because' * 8}\n     {' because' * 2}"
    )


@pytest.mark.parametrize(("option", "points"), [("flat", 1), ("steep", 0)])
def test_choice_shows_answer_and_reason_as_text(option, points):
    guess = choice()
    told, verdict = choose(guess, option), "Right." if points else "Not this time."
    assert f"<b>{verdict}</b> It is “flat”. It is flat.<br><i>Score: {points} of 1.</i>" in told
    assert "&lt;head&gt;" in guess.children[1].value


def test_order_counts_pairs_and_a_second_press_takes_an_item_out():
    for items in itertools.permutations("abc"):
        guess = order()
        for item in items:
            press(guess, item)
        told, good = (
            press(guess),
            sum(items.index(a) < items.index(b) for a, b in ("ab", "bc", "ac")),
        )
        verdict = {0: "Not this time.", 3: "Right."}.get(good, "Partly right.")
        assert (
            f"<b>{verdict}</b> It is a, b, c: {good} of 3 pairs {'is' if good == 1 else 'are'} in "
            "the right" in told
        )
        assert guess.points == good / 3
    press(guess, "a")
    assert guess.value() is None
    buttons = [(button.description, button.button_style) for button in find(guess, Button)]
    assert buttons == [("2. b", "info"), ("a", ""), ("1. c", "info"), ("Show the answer", "")]


def slide(guess: Guess, point: int, height: float) -> None:
    find(guess, FloatSlider)[point].value = height


def drag(guess: Guess, point: int, height: float) -> None:
    """What the page sends when a circle is dropped, here to the left of its place."""
    find(guess, LiveFigure)[0].plotly_relayout(
        {f"shapes[{point}].xanchor": 70.0, f"shapes[{point}].yanchor": height}
    )


@pytest.mark.parametrize("move", [slide, drag])
@pytest.mark.parametrize(
    ("guessed", "points"), [((2.0, 5.0), 1), ((3.5, 3.4), 0.5), ((5, 0), 0), ((1e9, -1e9), 0)]
)
def test_curve_draws_the_truth_over_the_guess(move, guessed, points):
    guess = curve(name="rotary", others={"rotary, window": [-7, 0, 20], "alibi": [1, 1, 1]})
    figure, inputs = guess.children[2:4]  # below the style and the question
    assert find(guess, LiveFigure) == [figure] and len(find(inputs, FloatSlider)) == 2
    assert [trace.visible for trace in figure.data] == [None, False, False, False]
    rotary, window, alibi = (trace.line for trace in figure.data[1:])
    assert rotary.color == window.color != alibi.color and rotary.dash != window.dash == "dashdot"
    assert figure._config == {"displayModeBar": False, "edits": {"shapePosition": True}}, (
        "circles can be dragged"
    )
    assert figure.layout.yaxis.range == (-5, 5) and {
        slider.step for slider in find(guess, FloatSlider)
    } == {0.1}
    assert figure.layout.xaxis.range == pytest.approx((1.7098, 3.1066), abs=1e-4), (
        "logarithms, 8% beyond 64 and 1,024"
    )
    for point, height in enumerate(guessed):
        move(guess, point, height)
    drawn = [min(max(height, -5), 5) for height in guessed]  # a guess stays within the axis
    assert list(figure.data[0].y) == [1.0, *drawn]
    circles = [(circle.xanchor, circle.yanchor) for circle in figure.layout.shapes]
    assert circles == [*zip((128, 1024), drawn, strict=True)], (
        "the circles are on their points again"
    )
    close = f"{2 * points:.0f} of your 2 points {'is' if points == 0.5 else 'are'} close."
    assert f"2.00 at 128 and 5.00 at 1,024: {close}" in press(guess) and guess.points == points
    assert list(figure.data[1].y) == [1.0, 2.0, 5.0] and figure.data[1].visible
    assert figure.layout.yaxis.range == pytest.approx((-7, 20.6)), (
        "a truth outside the axis widens it"
    )


@pytest.mark.parametrize(
    ("height", "answer"), [(5, "at 1,024: your point is close."), (3, "your point is not close.")]
)
def test_one_point_is_close_or_not(height, answer):
    guess = curve(at=[1024])
    slide(guess, 0, height)
    assert answer in press(guess)


def test_a_circle_that_is_dropped_outside_comes_back_and_one_left_is_no_guess():
    guess = curve()
    slide(guess, 1, 5.0)
    drag(guess, 0, 1.0)
    assert guess.value() is None
    for _ in range(2):
        drag(guess, 0, 99.0)
        assert guess.value() == [5, 5] and find(guess, LiveFigure)[0].layout.shapes[0].yanchor == 5


def test_what_cannot_be_asked_for_raises():
    for changes in ({"at": [64]}, {"at": [100]}, {"truth": [1.0]}, {"low": 5}):
        with pytest.raises(
            ValueError,
            match=r"each curve needs a number for each x|high must be .* above low, got 5",
        ):
            curve(**changes)
    for x in ([0, 64, 1024], [128, 64, 1024]):
        with pytest.raises(
            ValueError, match=rf"x must be positive and increasing, got \[{x[0]}, 64, 1024\]"
        ):
            curve(x=x)
    with pytest.raises(ValueError, match="answer must be one of a, b, got 'c'"):
        lessons.guess_choice("key", "?", ["a", "b"], "c")
    for items, answer in (("ab", "a"), ("ab", "ac"), ("aa", "aa"), ("a", "a")):
        with pytest.raises(ValueError, match="answer must hold the different items"):
            lessons.guess_order("key", "?", [*items], [*answer])
    assert lessons.guess_order("key", "?", ["a", "b"], ["b", "a"]).points is None, "two are enough"


def test_score_counts_the_first_guess_follows_and_can_be_deleted():
    score, guess = lessons.score(), choice()
    line, text = find(score, HTML)[1], repr(score)
    assert "no guesses yet" in line.value
    for option in ("steep", "flat"):
        choose(guess, option)
    assert json.loads(FILE.read_text()) == {"wide": 0} and "0 of 1" in line.value
    assert (
        "1 of 2" in choose(choice("another"), "flat")
        and "1 of 2" in line.value
        and repr(score) == text
    )
    for _ in range(2):
        press(score, "Delete")
        assert not FILE.exists() and "no guesses yet" in line.value


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"a": 2}', '{"a": "<b>"}', '{"a": true}', '{"a": NaN}', "\xff"]
)
def test_a_damaged_file_is_said_kept_and_deletable(content):
    FILE.write_bytes(content.encode("latin-1"))
    guess, score = choice(), lessons.score()
    told = choose(guess, "flat")
    assert "Right." in told and "damaged" in told and "damaged" in find(score, HTML)[1].value
    assert FILE.read_bytes() == content.encode("latin-1")
    press(score, "Delete")
    assert "Score: 1 of 1" in press(guess)


def test_a_file_that_cannot_be_written_or_deleted_is_said(monkeypatch):
    monkeypatch.setattr("alibi_viz.lessons.guesses.FILE", FILE.parent / "missing" / FILE)
    told = choose(choice(), "flat")
    assert "Right." in told and "can't be read or written" in told
    FILE.mkdir()
    monkeypatch.setattr("alibi_viz.lessons.guesses.FILE", FILE)
    assert "can't be read or written" in choose(choice(), "flat")
    score = lessons.score()
    press(score, "Delete")
    assert "can't be deleted" in find(score, HTML)[1].value


def test_a_grid_stores_every_question_and_one_button_shows_all_answers() -> None:
    guesses = [lessons.guess_choice(f"k{n}", f"Question {n}?", ["a", "b"], "a") for n in range(3)]
    grid = lessons.guess_grid(guesses)
    assert all(f"Question {n}?" in repr(grid) for n in range(3)) and len(find(grid, Button)) == 1
    press(grid, "Show the answers")
    assert all("Finish" in guess.response.value for guess in guesses)
    for guess, option in zip(guesses[1:], "ab", strict=True):
        find(guess, RadioButtons)[0].value = option
    press(grid, "Show the answers")
    assert [guess.points for guess in guesses] == [None, 1, 0]
