"""Guesses before a race: asked for by the Train button, and compared with the results
afterwards."""

import pytest

from alibi_viz.widgets.race import captions
from tests.widgets.race.small_race import (
    DEADLINE,
    control,
    losses,
    message,
    small,
    stop,
    visible,
)


@pytest.mark.parametrize(
    ("rise", "guess", "verdict"), [(0.05, "holds", "right"), (1.9, "degrades", "wrong")]
)
def test_guess_is_judged_by_the_outcome(
    monkeypatch: pytest.MonkeyPatch, rise: float, guess: str, verdict: str
) -> None:
    app = small(guesses={"alibi": guess, "none": None})
    assert "You guessed" not in app.caption
    monkeypatch.setattr(captions, "rises", lambda rows: {"alibi": [rise], "none": [0.0]})
    app.train().result(DEADLINE)
    assert app.caption.startswith(f"You guessed {verdict} about alibi ({guess}). Up to 128 bytes, ")
    assert f"({rise:+.2f}" in app.caption and "every seed" not in app.caption
    caption, app.guesses = app.caption, {"none": "fails"}
    assert app.caption == caption, "a guess changed after the race is for the next one"


def test_guess_buttons_rows_and_the_trait_agree() -> None:
    app = small()
    control(app, "s-guess").value = True
    assert app.guesses == {"alibi": None, "none": None}
    control(app, "s-guess-none").value = "degrades"
    assert app.guesses == {"alibi": None, "none": "degrades"}
    app.guesses = {"alibi": "fails"}
    assert (control(app, "s-guess-alibi").value, control(app, "s-guess-none").value) == (
        "fails",
        None,
    )
    rows, app.methods = control(app, "s-guesses"), ["rotary"]
    assert [row.children[0].value for row in rows.children[1:] if row in visible(rows)] == [
        "rotary"
    ]
    control(app, "s-guess").value = False
    assert app.guesses == {}
    app.guesses, app.question = {"alibi": "holds"}, "needle"
    assert control(app, "s-guess").value and rows.layout.display == "none"


def test_the_train_button_asks_for_a_method_in_a_race_without_any() -> None:
    app = small(methods=[])

    control(app, "s-train").click()
    assert "methods must be at least one of alibi, sinusoidal, rotary, " in message(app)

    control(app, "s-none").value = True
    assert app.caption.startswith("Press Train: none trains on")


def test_the_train_button_asks_for_the_missing_guesses_in_a_race_on_text() -> None:
    app = small(guesses={"alibi": None, "none": None})

    control(app, "s-train").click()
    assert "Make your guess first, for alibi and none." in message(app)

    control(app, "s-guess-alibi").value = "holds"
    control(app, "s-train").click()
    assert "Make your guess first, for none." in message(app)
    assert losses(app) == {}, "no race was started"


def test_the_train_button_starts_a_race_on_a_task_without_guesses() -> None:
    app = small(guesses={"alibi": None, "none": None}, question="needle")
    control(app, "s-train").click()
    stop(app)
    assert app._race is not None, message(app)
    assert app._race.task == "needle"
