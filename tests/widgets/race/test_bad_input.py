"""Bad input to LengthLab: the app shows an error message, stays usable and loses nothing."""

import re

import pytest

from alibi_viz.train.race import Race
from alibi_viz.widgets.core.traits import BadValue
from tests.widgets.race.small_race import (
    DEADLINE,
    ENGLISH,
    control,
    message,
    open_tab,
    small,
    trained,
)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        (
            "methods",
            ["alibbi"],
            "methods must be at most 7 different names out of alibi; sinusoidal; rotary; learned",
        ),
        ("methods", ["a"] * 2, "; xpos, got ['a', 'a']"),
        (
            "methods",
            ["alibi", None],
            "a position method must be a name, a function or a subclass of Position",
        ),
        ("text", 5, "text must be a str, bytes or a pathlib.Path, got int"),
        (
            "guesses",
            {"alibi": "wins"},
            "guesses must be {method: holds, degrades, fails or None}, got",
        ),
    ],
)
def test_a_bad_value_is_named_and_changes_nothing(name: str, value: object, allowed: str) -> None:
    app, before = small(), repr(small())
    with pytest.raises(BadValue, match=re.escape(allowed)):
        setattr(app, name, value)
    assert repr(app) == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/nowhere/<script>alert(1)</script>", "there is no file"),
        ("~nosuchuser/x", "home directory"),
        ("x" * 1000, "its validation part has 100 bytes, at least 130 are needed"),
        ("to be or not to be, " * 100, "your text has nothing but repeats"),
    ],
)
def test_an_unusable_text_is_named_and_another_can_be_entered(text: str, why: str) -> None:
    app = small()
    field = control(app, "s-own-text")
    field.value = text
    if app.text:  # its length matters for a race only
        control(app, "s-train").click()
    assert why in message(app) and "<script>" not in message(app) and len(message(app)) < 600
    assert field.value == text and not app.running
    control(app, "s-reset").click()
    assert (field.value, app.text, message(app)) == ("", None, "")
    field.value = ENGLISH
    assert (message(app), bytes(app.text.train[:20].tolist()).decode()) == ("", ENGLISH[:20])


def test_an_unexpected_error_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "alibi_viz.lab.race", lambda *_, **__: Race((bytearray(2**60) for _ in "x"), {})
    )  # too large
    app = small()
    with pytest.raises(MemoryError):
        app.train().result(DEADLINE)
    assert "MemoryError" in message(app) and not control(app, "s-train").disabled


def test_the_shortest_text_to_train_on_is_long_enough_for_every_question() -> None:
    text = ENGLISH.replace("\n", " ")[
        :1300
    ]  # the validation part has 130 bytes, as many as "same targets" needs
    app = trained(text=text)
    for name in ("gap", "by position", "same targets", "names", "softmax denominator"):
        open_tab(app, name)
        assert message(app) == "", name
