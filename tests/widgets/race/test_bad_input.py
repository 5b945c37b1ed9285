"""Bad input to LengthLab: the app shows an error message, stays usable and loses nothing."""

import re
from collections.abc import Iterator

import pytest

from alibi_viz.measure.table import Row
from alibi_viz.train.race import Race
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.core.traits import BadValue
from tests.widgets.race.small_race import (
    ENGLISH,
    control,
    message,
    open_tab,
    small,
    trained,
    wait_for_end,
)


@pytest.fixture(scope="module")
def untouched(small_models: None) -> LengthLab:
    """An app that takes none of the values below."""
    return small()


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        pytest.param(
            "methods",
            ["alibbi"],
            "methods must be at most 7 different names out of alibi; sinusoidal; rotary; learned",
            id="unknown method",
        ),
        pytest.param(
            "methods",
            ["a", "a"],
            "; xpos, got ['a', 'a']",
            id="unknown method twice",
        ),
        pytest.param(
            "methods",
            ["alibi", None],
            "a position method must be a name, a function or a subclass of Position",
            id="no method",
        ),
        pytest.param(
            "methods",
            "alibi",
            "; xpos, got 'alibi'",
            id="a name instead of a list",
        ),
        pytest.param(
            "methods",
            3,
            "; xpos, got 3",
            id="a number instead of a list",
        ),
        pytest.param(
            "text",
            5,
            "text must be a str, bytes or a pathlib.Path, got int",
            id="a number instead of a text",
        ),
        pytest.param(
            "guesses",
            {"alibi": "wins"},
            "guesses must be {method: holds, degrades, fails or None}, got",
            id="unknown guess",
        ),
        pytest.param(
            "guesses",
            {"alibbi": "holds"},
            "guesses must be {method: holds, degrades, fails or None}, got",
            id="guess about an unknown method",
        ),
    ],
)
def test_bad_value_is_named_and_changes_nothing(
    untouched: LengthLab, name: str, value: object, allowed: str
) -> None:
    before = repr(untouched)
    with pytest.raises(BadValue, match=re.escape(allowed)):
        setattr(untouched, name, value)
    assert repr(untouched) == before


# A text that can't be used


UNUSABLE = [
    pytest.param(
        ("/nowhere/<script>alert(1)</script>", "there is no file"),
        id="no such file",
    ),
    pytest.param(
        ("~nosuchuser/x", "home directory"),
        id="no such user",
    ),
    pytest.param(
        ("x" * 1000, "its validation part has 100 bytes, at least 130 are needed"),
        id="too short",
    ),
    pytest.param(
        ("to be or not to be, " * 100, "your text has nothing but repeats"),
        id="repeats",
    ),
]


def enter(app: LengthLab, text: str) -> None:
    """Type a text into its field. If it can be read, press Train: its length matters for a race."""
    control(app, "s-own-text").value = text
    if app.text is not None:
        control(app, "s-train").click()


@pytest.fixture(scope="module", params=UNUSABLE)
def unusable(small_models: None, request: pytest.FixtureRequest) -> tuple[LengthLab, str, str]:
    """An app with an unusable text; the text, and what is wrong with it."""
    text, why = request.param
    app = small()
    enter(app, text)
    return app, text, why


def test_unusable_text_is_named(unusable: tuple[LengthLab, str, str]) -> None:
    app, _, why = unusable
    assert why in message(app)


def test_message_about_a_text_is_short_and_escaped(unusable: tuple[LengthLab, str, str]) -> None:
    app, _, _ = unusable
    assert len(message(app)) < 600
    assert "<script>" not in message(app)


def test_unusable_text_stays_in_the_field_to_be_corrected(
    unusable: tuple[LengthLab, str, str],
) -> None:
    app, entered, _ = unusable
    assert control(app, "s-own-text").value == entered


def test_unusable_text_starts_no_race(unusable: tuple[LengthLab, str, str]) -> None:
    app, _, _ = unusable
    assert not app.running


@pytest.mark.parametrize(
    "entered",
    [
        pytest.param("/nowhere/x", id="unreadable"),
        pytest.param("x" * 1000, id="too short"),
    ],
)
def test_reset_clears_an_unusable_text(entered: str) -> None:
    app = small()
    enter(app, entered)
    control(app, "s-reset").click()
    assert control(app, "s-own-text").value == ""
    assert app.text is None
    assert message(app) == ""


def test_another_text_can_be_entered_after_an_unreadable_one() -> None:
    app = small()
    field = control(app, "s-own-text")
    field.value = "/nowhere/x"
    field.value = ENGLISH
    assert message(app) == ""
    assert bytes(app.text.train[:20].tolist()).decode() == ENGLISH[:20]


@pytest.fixture(scope="module")
def shortest_text(small_models: None) -> LengthLab:
    """A race on a text whose validation part has 130 bytes, as many as "same targets" needs."""
    return trained(methods=["alibi"], text=ENGLISH.replace("\n", " ")[:1300])


@pytest.mark.parametrize(
    "question", ["gap", "by position", "same targets", "names", "softmax denominator"]
)
def test_shortest_text_to_train_on_is_long_enough_for_every_question(
    shortest_text: LengthLab, question: str
) -> None:
    open_tab(shortest_text, question)
    assert message(shortest_text) == ""


# An error that nobody expects


def too_large(*_: object, **settings: object) -> Race:
    """A race whose first row needs more memory than there is."""

    def rows() -> Iterator[Row]:
        yield {"value": bytearray(2**60)}

    return Race(rows(), {})


def test_unexpected_error_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alibi_viz.lab.race", too_large)
    app = small()
    work = app.train()
    wait_for_end(app)
    assert isinstance(work.exception(), MemoryError)
    assert "MemoryError" in message(app)
    assert not control(app, "s-train").disabled
