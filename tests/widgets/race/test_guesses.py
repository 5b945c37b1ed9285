"""Guesses before a race: asked for by the Train button, and compared with the results afterwards."""

import pytest

from alibi_viz.lab.say import outcome
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.race import captions
from tests.widgets.race.small_race import DEADLINE, control, message, small, until


def guess_of(app: LengthLab, method: str) -> object:
    return control(app, f"s-guess-{method}")


def test_a_guess_is_compared_with_the_result() -> None:
    app = small(guesses={"none": "fails", "alibi": None})
    assert "You guessed" not in app.caption
    app.train().result(DEADLINE)
    bits = app.means["none"]
    rise = max(value for length, value in bits.items() if length > 8) - bits[8]
    actual = outcome([rise])
    verdict = "right" if actual == "fails" else "wrong"
    assert app.caption.startswith(f"You guessed {verdict} about none (fails). Up to 128 bytes, ")
    app.guesses = {"none": actual}
    assert "none (fails)" in app.caption, "a guess changed after the race is for the next one"


@pytest.mark.parametrize(
    ("rise", "guess", "words"),
    [(0.05, "holds", "right"), (0.3, "holds", "wrong"), (1.9, "degrades", "wrong")],
)
def test_a_guess_is_right_if_the_outcome_is_that_of_the_caption(
    monkeypatch: pytest.MonkeyPatch, rise: float, guess: str, words: str
) -> None:
    app = small(guesses={"alibi": guess})
    monkeypatch.setattr(captions, "rises", lambda curves: {"alibi": [rise], "none": [0.0]})
    app.train().result(DEADLINE)
    assert f"You guessed {words} about alibi ({guess})." in app.caption
    assert f"({rise:+.2f}" in app.caption


def test_guesses_are_not_compared_while_a_race_runs() -> None:
    app = small(steps=2000, guesses={"alibi": "holds"})
    app.train()
    until(lambda: app.means.get("alibi"), "a checkpoint")
    assert guess_of(app, "alibi").disabled
    assert control(app, "s-guess").disabled
    assert "You guessed" not in app.caption
    app.stop()
    until(lambda: not app.running, "the end")
    assert not guess_of(app, "alibi").disabled
    assert "You guessed" not in app.caption, "models that have hardly learned anything can't fail"


def test_guess_buttons_and_the_trait_agree() -> None:
    app = small()
    assert app.guesses == {}
    control(app, "s-guess").value = True
    assert app.guesses == {"alibi": None, "none": None}
    guess_of(app, "none").value = "degrades"
    assert app.guesses == {"alibi": None, "none": "degrades"}
    app.guesses = {"alibi": "fails"}
    assert (guess_of(app, "alibi").value, guess_of(app, "none").value) == ("fails", None)
    control(app, "s-guess").value = False
    assert app.guesses == {}
    app.guesses = {"alibi": "holds"}
    assert control(app, "s-guess").value
    app.guesses = {}
    assert not control(app, "s-guess").value


def test_train_button_asks_for_missing_guesses_and_train_does_not() -> None:
    app = small(guesses={"alibi": None, "none": None})
    control(app, "s-train").click()
    assert "Make your guess first, for alibi and none." in message(app)
    guess_of(app, "alibi").value = "holds"
    control(app, "s-train").click()
    assert "Make your guess first, for none." in message(app)
    assert app.losses == {}
    app.train().result(DEADLINE)
    assert (message(app), len(app.losses["none"])) == ("", 10)
    app.question = "needle"
    control(app, "s-train").click()
    until(lambda: app.running, "the start: guesses are about the race on text")
    app.stop()
    until(lambda: not app.running, "the end")


def test_the_rows_follow_the_methods_and_the_length() -> None:
    app = small(guesses={"alibi": None})
    rows = control(app, "s-guesses")
    assert "up to 128 bytes, 16 times" in rows.children[0].value
    app.length, app.methods = 16, ["rotary"]
    assert "up to 256 bytes" in rows.children[0].value
    assert [row.children[0].value for row in rows.children[1:]] == ["rotary"]
    app.question = "needle"
    assert rows.layout.display == "none"
