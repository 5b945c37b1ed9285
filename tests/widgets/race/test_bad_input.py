"""Bad input to LengthLab: the app shows an error message, stays usable and loses nothing."""

from pathlib import Path

import pytest

from alibi_viz.models import POSITIONS
from alibi_viz.train.race import Race
from alibi_viz.widgets.core.traits import BadValue
from tests.rows import each_case
from tests.widgets.race.small_race import control, message, small, wait_for_end


@pytest.fixture(scope="module")
def untouched(small_models):
    """An app that takes none of the values below."""
    return small()


METHODS = f"methods must be at most 7 names out of {'; '.join(POSITIONS)}"
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


@pytest.mark.parametrize("name", ["nowhere", "x" * 1000])
def test_unreadable_text_is_named_briefly_and_changes_nothing(untouched, name):
    with pytest.raises(BadValue, match=name[:100]) as caught:
        untouched.text = Path(name)
    assert len(str(caught.value)) < 600
    assert untouched.text is None


@each_case(
    ("text", "reason"),
    {
        "too short": ("".join(map(str, range(340))), "its validation part has"),
        "repeats": ("to be or not to be, " * 100, "your text has nothing but repeats"),
    },
)
def test_text_that_cannot_be_raced_on_is_named(text, reason):
    app = small(text=text)
    control(app, "s-train").click()
    assert reason in message(app)
    assert not app.running


def test_race_without_a_method_asks_for_one():
    app = small(methods=[])
    assert app.caption == "No method is chosen: select at least one."
    control(app, "s-train").click()
    assert "no method is chosen: select at least one" in message(app)
    control(app, "s-none").value = True
    assert "none learns from texts" in app.caption


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


def test_unexpected_error_is_shown_and_another_race_can_be_started(out_of_memory):
    (work,) = out_of_memory.works
    assert isinstance(work.exception(), MemoryError)
    assert "MemoryError" in message(out_of_memory)
    assert not control(out_of_memory, "s-train").disabled
