"""Guesses before a race: asked for by the Train button, and compared with the results
afterwards. How they are judged is tested with the captions."""

from alibi_viz import lab
from alibi_viz.measure.continuations import Continuation
from alibi_viz.widgets.race.state import OPENING
from tests.rows import each_case
from tests.widgets.race.small_race import (
    DEADLINE,
    control,
    message,
    small,
    visible_controls,
)

TELLING_LENGTH = 64  # a sequence whose first half names the hero
CHECK = "check"
CROSS = "times"


def telling(**state):
    """An app whose models go on with the tale of Emma."""
    guesses = {"alibi": "holds", "none": "fails"}
    return small(**{"length": TELLING_LENGTH, "guesses": guesses, **state})


def test_buttons_and_code_set_the_same_guesses():
    app = small(guesses={"alibi": None, "none": None})
    control(app, "s-guess-none").value = "degrades"
    assert app.guesses == {"alibi": None, "none": "degrades"}
    app.guesses = {"alibi": "fails"}
    assert control(app, "s-guess-alibi").value == "fails"
    assert control(app, "s-guess-none").value is None


def test_train_button_asks_for_the_missing_guesses():
    app = telling(guesses={"alibi": None, "none": None})
    control(app, "s-train").click()
    assert "Make your guess first, for ALiBi, none and Emma." in message(app)

    control(app, "s-guess-alibi").value = "holds"
    control(app, "s-guess-none").value = "holds"
    control(app, "s-guess-emma").value = "no"
    assert app.emma == "no"
    control(app, "s-guess-emma").value = None
    control(app, "s-train").click()
    assert "Make your guess first, for Emma." in message(app)
    assert app.results.empty, "no race was started"


def test_without_guesses_the_train_button_starts_a_race(pace):
    app = small()
    pace.click_train(app)
    assert app.running
    pace.stop(app)


# Emma


def test_emma_is_asked_about_before_a_race():
    assert "s-guess-emma" in visible_controls(telling())


@each_case(
    "state",
    {
        "a race without ALiBi": {"methods": ["none"]},
        "another text": {"text": "one two three " * 2000},
        "sequences that end before her name": {"length": 8},
    },
)
def test_emma_is_not_asked_about_where_she_is_not_told_of(state):
    assert "s-guess-emma" not in visible_controls(telling(**state))


@each_case(
    ("guess", "beyond", "verdict", "icons"),
    {
        "right, she is not named": ("no", " Ida slept.", "right", ["", CHECK]),
        "another name": ("yes", " Emmanuel.", "wrong", [CROSS, CHECK]),
    },
)
def test_guess_about_emma_is_judged_by_the_text(monkeypatch, guess, beyond, verdict, icons):
    def continuations(*_, **options):
        return [Continuation(OPENING, " a fox.", beyond)] * 8

    monkeypatch.setattr(lab, "continuations", continuations)
    app = telling(methods=["alibi"], guesses={"alibi": None}, emma=guess)
    app.train().result(DEADLINE)
    assert app.caption.startswith(f"You guessed {verdict} about Emma ({guess}).")
    assert list(control(app, "s-guess-emma").icons) == icons
