"""Bad input to LengthLab: the app shows an error message, stays usable and loses nothing."""

from typing import NamedTuple

import pytest

from alibi_viz.train.race import Race
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.core.traits import BadValue
from tests.rows import each_case
from tests.widgets.race.small_race import (
    ENGLISH,
    control,
    message,
    open_tab,
    small,
    trained,
    unchanged,
    wait_for_end,
)


@pytest.fixture(scope="module")
def untouched(small_models):
    """An app that takes none of the values below."""
    return small()


METHODS = (
    "methods must be at most 7 names out of alibi; sinusoidal; rotary; learned; none; "
    "t5; kerple-log; fire; decay; forget; xpos"
)
GUESSES = "guesses must be {method: holds, degrades, fails or None}"


@each_case(
    ("name", "value", "told"),
    {
        "unknown method": ("methods", ["alibbi"], f"{METHODS}, got ('alibbi',)"),
        "no method": (
            "methods",
            ["alibi", None],
            "methods must be a name, a function or a subclass of Position, got None",
        ),
        "a name instead of a list": (
            "methods",
            "alibi",
            "methods must be a list or tuple, got 'alibi'",
        ),
        "a number instead of a text": (
            "text",
            5,
            "a text must be a str, bytes or a pathlib.Path, got int",
        ),
        "unknown guess": ("guesses", {"alibi": "wins"}, f"{GUESSES}, got {{'alibi': 'wins'}}"),
        "guess about an unknown method": (
            "guesses",
            {"alibbi": "holds"},
            f"{GUESSES}, got {{'alibbi': 'holds'}}",
        ),
    },
)
def test_bad_value_is_named_and_changes_nothing(untouched, name, value, told):
    before = repr(untouched)
    with pytest.raises(BadValue) as caught:
        setattr(untouched, name, value)
    assert str(caught.value) == told
    assert repr(untouched) == before


# A text that can't be used


UNUSABLE = {
    "no such file": ("/nowhere/<script>alert(1)</script>", "there is no file"),
    "no such user": ("~nosuchuser/x", "home directory"),
    "too short": ("x" * 1000, "its validation part has 100 bytes and 130 are needed"),
    "repeats": ("to be or not to be, " * 100, "your text has nothing but repeats"),
}


def enter(app, text):
    """Type a text into its field. If it can be read, press Train: its length matters for a race."""
    control(app, "s-own-text").value = text
    if app.text is not None:
        control(app, "s-train").click()


class Unusable(NamedTuple):
    """An app into which an unusable text was entered."""

    app: LengthLab
    text: str
    reason: str  # a part of the message


@pytest.fixture(scope="module", params=UNUSABLE)
def unusable(small_models, request):
    text, reason = UNUSABLE[request.param]
    app = small()
    enter(app, text)
    return Unusable(app, text, reason)


def test_unusable_text_is_named(unusable):
    assert unusable.reason in message(unusable.app)


def test_message_about_a_text_is_short(unusable):
    assert len(message(unusable.app)) < 600


def test_message_about_a_text_is_escaped(unusable):
    assert "<script>" not in message(unusable.app)


def test_unusable_text_stays_in_the_field_to_be_corrected(unusable):
    assert control(unusable.app, "s-own-text").value == unusable.text


def test_unusable_text_starts_no_race(unusable):
    assert not unusable.app.running


@each_case(
    "entered",
    {
        "unreadable": "/nowhere/x",
        "too short": "x" * 1000,
    },
)
def test_reset_clears_an_unusable_text(entered):
    app = small()
    enter(app, entered)
    control(app, "s-reset").click()
    assert control(app, "s-own-text").value == ""
    assert app.text is None
    assert message(app) == ""


def test_another_text_can_be_entered_after_an_unreadable_one():
    app = small()
    field = control(app, "s-own-text")
    field.value = "/nowhere/x"
    field.value = ENGLISH
    assert message(app) == ""
    assert bytes(app.text.train[:20].tolist()).decode() == ENGLISH[:20]


@pytest.fixture(scope="module")
def finished(small_models):
    """A race on a text whose validation part has 130 bytes.

    That is a sequence of the longest length, 128, the byte that follows it, and one to spare.
    """
    # The validation part is the last tenth, but begins at the start of a line if one is near.
    one_line = ENGLISH.replace("\n", " ")
    return trained(methods=["alibi"], text=one_line[:1300])


@pytest.fixture
def shortest_text(finished):
    with unchanged(finished):
        yield finished


@pytest.mark.parametrize(
    "question", ["gap", "by position", "same targets", "names", "softmax denominator"]
)
def test_shortest_text_to_train_on_is_long_enough_for_every_question(shortest_text, question):
    open_tab(shortest_text, question)
    assert message(shortest_text) == ""


# An error that nobody expects


def too_large(*_, **settings):
    """A race whose first row needs more memory than there is."""

    def rows():
        yield {"value": bytearray(2**60)}

    return Race(rows(), {})


@pytest.fixture(scope="module")
def out_of_memory(small_models):
    app = small()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alibi_viz.lab.race", too_large)
        app.train()
        wait_for_end(app)
    return app


def test_unexpected_error_is_that_of_the_future(out_of_memory):
    (work,) = out_of_memory.works
    assert isinstance(work.exception(), MemoryError)


def test_unexpected_error_is_shown(out_of_memory):
    assert "MemoryError" in message(out_of_memory)


def test_another_race_can_be_started_after_an_unexpected_error(out_of_memory):
    assert not control(out_of_memory, "s-train").disabled
