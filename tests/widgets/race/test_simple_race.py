"""A simple race of LengthLab, the first thing that a reader of the course sees: a column for each
model, the guess about Emma, and the verdict above the curves."""

import pytest

from alibi_viz import lab
from alibi_viz.measure.continuations import Continuation
from alibi_viz.train.race import race
from alibi_viz.train.training import limited_threads
from alibi_viz.widgets.core.background import Background
from alibi_viz.widgets.race.state import HERO, OPENING, Written
from tests.rows import each_case
from tests.widgets.race.paced_race import paced
from tests.widgets.race.small_race import (
    DEADLINE,
    LENGTH,
    TESTED_LENGTHS,
    control,
    message,
    small,
    trace,
    trained,
    visible,
    visible_controls,
)

GUESSES = {"alibi": "holds", "none": "fails"}
TELLING_LENGTH = 64  # a sequence whose first half names the hero
CHECK = "check"
CROSS = "times"


def column_text(app, method):
    """What a model writes, as its column shows it."""
    return app._columns_of_methods[method].text.value


def bar(app, method):
    return app._columns_of_methods[method].bar.value


def telling(**state):
    """A simple app whose models go on with the tale of Emma."""
    return small(**{"simple": True, "length": TELLING_LENGTH, "guesses": GUESSES, **state})


def rows_until_first_test(methods):
    """How many rows a race of ten steps hands out until all methods have been tested once."""
    rows_of_a_test = len(TESTED_LENGTHS) + 1  # a loss at each length, and the gap
    return methods * (1 + rows_of_a_test)


@pytest.fixture(scope="module")
def raced(small_models):
    """A simple race that has ended."""
    return trained(simple=True, guesses=GUESSES)


@pytest.fixture(scope="module")
def tested_once(small_models):
    """A simple race of ten steps that waits after the test of its first step."""
    with paced() as pace:
        app = small(simple=True)
        pace.train(app)
        pace.go(rows_until_first_test(methods=2))
        app.refresh()
        yield app


# The columns


def test_each_method_has_a_column_with_its_guess_in_it():
    app = small(simple=True, guesses=GUESSES)
    columns = control(app, "s-columns")
    assert control(columns, "s-guess-alibi") in visible(columns)
    assert control(columns, "s-guess-none") in visible(columns)


def test_column_of_a_method_that_is_no_longer_chosen_is_hidden():
    app = small(simple=True, guesses=GUESSES)
    app.methods = ["alibi"]
    columns = visible(control(app, "s-columns"))
    assert app._columns_of_methods["none"] not in columns
    assert app._columns_of_methods["alibi"] in columns


def test_column_has_the_color_of_its_curve(raced):
    color = trace(raced, "mean", "none").line.color
    assert color in raced._columns_of_methods["none"].layout.border_left


def test_before_a_race_a_column_says_what_will_stand_in_it():
    assert "appears here while it trains" in column_text(small(simple=True), "alibi")


@pytest.mark.parametrize("method", ["alibi", "none"])
def test_models_write_when_they_are_tested(tested_once, method):
    model = lab.make_model(method, max_length=LENGTH)
    with limited_threads(1):
        training = lab.train(model, lab.load_text(), length=LENGTH, steps=10)
        next(training)
        texts = lab.continuations(model, lab.load_text(), LENGTH)
    assert tested_once.written[method].texts == texts


def test_text_is_in_its_column_while_the_race_runs(tested_once):
    assert "real words beyond letter 8" in column_text(tested_once, "alibi")
    assert '<span class="beyond">' in column_text(tested_once, "alibi")


def test_models_write_anew_at_each_test(pace):
    app = small(methods=["alibi"], simple=True)
    pace.train(app)
    pace.go(rows_until_first_test(methods=1))
    first = app.written["alibi"]
    pace.go(rows_until_first_test(methods=1))
    assert app.written["alibi"] is not first


def test_last_text_is_by_the_model_that_is_trained_to_the_end(raced):
    texts = lab.continuations(raced.models["alibi"], lab.load_text(), LENGTH)
    assert raced.written["alibi"].texts == texts


def test_models_of_another_race_write_only_at_its_end(pace):
    app = small(methods=["alibi"])
    pace.train(app)
    pace.go(rows_until_first_test(methods=1))
    assert app.written == {}


def test_hero_is_marked_in_a_text():
    app = telling()
    planned = app._planned()
    planned.written["alibi"] = Written([Continuation(OPENING, " Then", " Emma slept.")] * 8, 0.5)
    app._show_texts(planned, step=None)
    assert column_text(app, "alibi").count(f"<b>{HERO}</b>") == 2


# The bars


def test_bars_move_without_a_drawing(pace):
    app = small(methods=["alibi"], steps=20, simple=True)
    pace.train(app)
    caption = app.caption
    pace.go(1)
    app._show_progress()
    assert 'aria-valuenow="1"' in bar(app, "alibi")
    assert app.caption == caption


def test_bars_of_a_race_that_is_not_simple_move_without_a_drawing(pace):
    app = small(methods=["alibi"], steps=20)
    pace.train(app)
    pace.go(1)
    app._show_progress()
    assert "<span>step 1 of 20</span>" in control(app, "s-lanes").value


def test_figure_of_a_simple_race_is_drawn_after_tests_only(pace, monkeypatch):
    monkeypatch.setattr(Background, "every", 0.0)  # seconds between two drawings
    monkeypatch.setattr(Background, "longest_wait", 0.0)
    app = small(methods=["alibi"], steps=20, simple=True)
    drawn = []
    monkeypatch.setattr(app, "refresh", lambda: drawn.append(len(app._race.rows)))
    pace.train(app)
    drawn.clear()  # the start
    pace.go(1)  # the first step, after which the model isn't tested
    assert drawn == []


# The figure and the verdict


def test_verdict_is_above_the_figure():
    app = small(simple=True)
    assert app.children.index(app._caption) == app.children.index(app.figure) - 1


def test_leaving_simple_mode_puts_the_caption_below_the_figure():
    app = small(simple=True)
    app.simple = False
    assert app.children.index(app._caption) == app.children.index(app.figure) + 1


def test_simple_race_has_no_panel_of_the_training_loss(raced):
    assert trace(raced, "mean", "alibi").visible
    assert not trace(raced, "training", "alibi").visible


def test_axis_of_losses_is_the_same_before_a_race_and_after_it(raced):
    before = small(simple=True).figure.layout.yaxis2.range
    assert before == raced.figure.layout.yaxis2.range == (0, 8)


def test_lengths_are_multiples_of_those_in_training(raced):
    labels = raced.figure.layout.xaxis2.ticktext
    assert labels[:2] == ("8<br>as in training", "16<br>\N{MULTIPLICATION SIGN}2 longer")


def test_caption_before_a_race_asks_for_the_guesses():
    app = small(simple=True, guesses={"alibi": None, "none": None})
    assert app.caption == (
        "Guess, then press Train. ALiBi and none learn from texts of 8 letters and are tested on "
        "texts up to 16 times as long."
    )


def test_caption_of_a_running_race_tells_the_last_test(tested_once):
    assert tested_once.caption.startswith("They train and were last tested after step 1.")


def test_caption_starts_with_the_verdict(raced):
    assert raced.caption.startswith("You guessed ")


def test_button_with_the_answer_has_a_check_mark_and_a_wrong_guess_a_cross(
    small_models,
):
    app = trained(simple=True, methods=["alibi"], guesses={"alibi": "fails"})
    marks = dict(
        zip(["holds", "degrades", "fails"], control(app, "s-guess-alibi").icons, strict=True)
    )
    answer = "holds" if marks["holds"] else "degrades"  # a model that has learned nothing
    assert marks[answer] == CHECK
    assert marks["fails"] == CROSS


def test_buttons_have_no_marks_before_a_race():
    app = small(simple=True, guesses=GUESSES)
    assert set(control(app, "s-guess-alibi").icons) <= {""}


def test_missing_guess_is_asked_for_and_is_no_error():
    app = small(simple=True, guesses={"alibi": None, "none": None})
    control(app, "s-train").click()
    assert "Make your guess first, for ALiBi and none." in message(app)
    assert "alibi-error" not in message(app)


# Emma


def test_built_in_text_begins_with_the_opening():
    opening = bytes(lab.load_text().validation[: len(OPENING)].tolist()).decode()
    assert opening == OPENING
    assert HERO in OPENING


def test_emma_is_asked_about_in_a_simple_race_with_guesses():
    controls = ["s-guess-alibi", "s-guess-none", "s-guess-emma", "s-train", "s-stop"]
    assert visible_controls(telling()) == controls


@each_case(
    "state",
    {
        "a race that is not simple": {"simple": False},
        "no guesses": {"guesses": {}},
        "a race without ALiBi": {"methods": ["none"]},
        "another text": {"text": "one two three " * 2000},
        "sequences that end before her name": {"length": 8},
    },
)
def test_emma_is_not_asked_about_where_she_is_not_told_of(state):
    assert "s-guess-emma" not in visible_controls(telling(**state))


def test_train_button_asks_for_the_guess_about_emma():
    app = telling()
    control(app, "s-train").click()
    assert "Make your guess first, for Emma." in message(app)


def test_button_sets_the_guess_about_emma():
    app = telling()
    control(app, "s-guess-emma").value = "no"
    assert app.emma == "no"


@each_case(
    ("guess", "beyond", "verdict", "icons"),
    {
        "right, she is not named": ("no", " Ida slept.", "right", ["", CHECK]),
        "right, she is named": ("yes", " Emma slept.", "right", [CHECK, ""]),
        "another name": ("yes", " Emmanuel.", "wrong", [CROSS, CHECK]),
    },
)
def test_guess_about_emma_is_judged_by_the_text(monkeypatch, guess, beyond, verdict, icons):
    def continuations(*_, **options):
        return [Continuation(OPENING, " a fox.", beyond)] * 8

    def tested_only_at_its_end(*arguments, **settings):
        return race(*arguments, **{**settings, "checkpoints": 1})

    monkeypatch.setattr(lab, "continuations", continuations)
    monkeypatch.setattr(lab, "race", tested_only_at_its_end)
    app = telling(methods=["alibi"], guesses={"alibi": None}, emma=guess)
    app.train().result(DEADLINE)
    assert app.caption.startswith(f"You guessed {verdict} about Emma ({guess}).")
    assert list(control(app, "s-guess-emma").icons) == icons
