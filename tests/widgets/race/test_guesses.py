"""Guesses before a race: drawn at once, locked while it runs, compared with its results."""

from tests.widgets.race.small_race import DEADLINE, control, points, small, until


def test_a_guess_is_drawn_before_and_compared_after() -> None:
    app = small(guesses={"none": {2: 3.0, 16: 7.5}})
    assert points(app, "guesses", "none") == {16: 3.0, 128: 7.5}
    app.train().result(DEADLINE)
    bits = app.means["none"]
    assert (
        f"You guessed: none 3.0 at 2 L (measured: {bits[16]:.1f}) and 7.5 at 16 L (measured: {bits[128]:.1f})."
        in app.caption
    )
    app.guesses = {"none": {2: round(bits[16], 1)}}
    assert "You guessed" not in app.caption, "a value set after the race is not a guess"


def test_guesses_are_locked_while_a_race_runs() -> None:
    app = small(steps=2000, guesses={"alibi": {4: 5.0}})
    app.train()
    until(lambda: app.losses["alibi"], "a step")
    assert control(app, "s-guess-alibi-4").disabled
    app.guesses = {"alibi": {4: 1.0}}
    assert points(app, "guesses", "alibi") == {32: 5.0}
    app.stop()
    until(lambda: not app.running, "the end")


def test_guess_sliders_and_the_trait_agree() -> None:
    app = small()
    assert app.guesses == {}
    control(app, "s-guess").value = True
    assert app.guesses == {}, "a slider that was not moved is not a guess"
    control(app, "s-guess-none-16").value = 7.3
    assert app.guesses == {"none": {16: 7.3}}
    app.guesses = {"alibi": {2: 2.5}}
    assert control(app, "s-guess-alibi-2").value == 2.5
    control(app, "s-guess").value = False
    assert app.guesses == {}
    app.guesses = {"alibi": {2: 2.5}}
    assert control(app, "s-guess").value
    app.guesses = {}
    assert not control(app, "s-guess").value
