"""Bad input to LengthLab: the app shows an error message, stays usable and loses nothing."""

import math
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from traitlets import TraitError

from alibi_viz import lab
from alibi_viz.models import POSITIONS
from alibi_viz.widgets import LengthLab
from tests.widgets.race.small_race import DEADLINE, ENGLISH, control, loss_trace, message, open_tab, small, until


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        (
            "methods",
            ["alibbi"],
            "methods must be at most 7 different names out of alibi; sinusoidal; rotary; learned; none",
        ),
        ("methods", ["alibi", "alibi"], "different names"),
        ("methods", "alibi", "different names"),
        ("methods", 3, "different names"),
        ("methods", list(POSITIONS), "at most 7 different names"),
        ("length", 0, "length must be an integer from 8 to 128, got 0"),
        ("length", 8.5, "got 8.5"),
        ("steps", 10**9, "steps must be an integer from 10 to 2000, got 1000000000"),
        ("seed", -1, "seed must be an integer from 0"),
        ("learning_rate", 0, "learning_rate must be a number from 1e-06 to 1000, got 0"),
        ("learning_rate", math.nan, "got nan"),
        ("learning_rate", "fast", "got 'fast'"),
        ("text", "", "your text is empty"),
        ("text", 5, "text must be a str, bytes or a pathlib.Path, got int"),
        ("text", b"\xff\xfe", "not UTF-8 text: byte 0xff at position 0"),
        ("text", b"a\0b", "looks binary"),
        ("text", Path("no/such/file.txt"), "there is no file 'no/such/file.txt'"),
        ("text", Path("."), "not a file"),
    ],
)
def test_a_bad_value_is_named_and_changes_nothing(name: str, value: object, allowed: str) -> None:
    app = small()
    before = repr(app)
    with pytest.raises(TraitError) as caught:
        setattr(app, name, value)
    assert allowed in str(caught.value)
    assert repr(app) == before


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.txt"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    with pytest.raises(TraitError, match=r"huge\.txt has 50\.0 MB; at most 20 MB"):
        small(text=path)


def test_training_without_a_method_is_refused() -> None:
    app = small(methods=[])
    control(app, "s-train").click()
    assert "methods must be at least one of alibi, sinusoidal, rotary, " in message(app)
    assert app.caption.startswith("No method is chosen: select at least one.")
    control(app, "s-none").value = True
    control(app, "s-train").click()
    assert message(app) == ""
    app.stop()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tiny", "your text is too short to test at length 128"),
        ("x" * 1000, "its validation part has 100 bytes, at least 130 are needed"),
        ("", "your text is empty"),
        ("to be or not to be, " * 100, "your text has nothing but repeats"),
    ],
)
def test_an_unusable_text_stays_in_its_field(text: str, why: str) -> None:
    app = small()
    control(app, "s-text").value = "own"
    control(app, "s-own-text").value = text
    control(app, "s-train").click()
    assert why in message(app)
    assert control(app, "s-own-text").value == text
    assert not app.running
    control(app, "s-own-text").value = ENGLISH
    control(app, "s-train").click()
    assert message(app) == ""
    app.stop()


def test_a_missing_file_or_path_is_named() -> None:
    app = small()
    control(app, "s-text").value = "file"
    control(app, "s-train").click()
    assert "enter the path of a text file" in message(app)
    control(app, "s-path").value = "/nowhere/<script>alert(1)</script>"
    assert "there is no file" in message(app)
    assert "<script>" not in message(app)
    assert "&lt;script&gt;" in message(app)


@pytest.mark.parametrize("odd", ["🐢🐇 ", "שלום עולם, مرحبا ", "<script>alert(1)</script>"])
def test_any_unicode_or_markup_is_trained_on_and_escaped(odd: str, tmp_path: Path) -> None:
    path = tmp_path / "<b>name.txt"
    path.write_text(odd.join(ENGLISH.split()[:500]))
    app = small(text=path)
    app.train().result(DEADLINE)
    assert "of <b>name.txt, seed 0" in app.details
    assert "<b>" not in app._details.value
    assert "&lt;b&gt;name.txt" in app._details.value


def test_a_nan_loss_ends_the_race_and_keeps_the_curves() -> None:
    app = small(learning_rate=100, steps=300)
    with pytest.raises(lab.TrainingDiverged, match="the loss became nan at step"):
        app.train().result(DEADLINE)
    assert "try a learning rate below 100" in message(app)
    assert app.caption.startswith("Ended by an error after step")
    done = len(app.losses["alibi"])
    assert 0 < done < 300
    assert all(math.isfinite(loss) for loss in app.losses["alibi"])
    assert len(loss_trace(app, "alibi").x) >= 1
    app.learning_rate, app.steps = 0.008, 10
    app.train().result(DEADLINE)
    assert message(app) == ""


def test_a_second_race_is_refused_and_the_first_goes_on(long_race: LengthLab) -> None:
    done = len(long_race.losses["alibi"])
    with pytest.raises(RuntimeError, match=r"a race is running, step [\d,]+ of 2,000: wait for its end or stop it"):
        long_race.train()
    control(long_race, "s-train").click()
    assert "a race is running" in message(long_race)
    until(lambda: len(long_race.losses["alibi"]) > done, "more steps")


def test_closing_the_app_ends_its_race() -> None:
    app = small(steps=2000)
    future = app.train()
    app.close()
    future.result(DEADLINE)
    future.join(DEADLINE)
    assert not any(thread.name == "alibi_viz" and thread.is_alive() for thread in threading.enumerate())
    assert not app.running


def test_an_unexpected_error_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def race(*args: object, **options: object) -> Iterator[lab.Lap]:
        raise MemoryError
        yield

    monkeypatch.setattr("alibi_viz.widgets.race.report.race", race)
    app = small()
    with pytest.raises(MemoryError):
        app.train().result(DEADLINE)
    assert "MemoryError" in message(app)
    assert not control(app, "s-train").disabled


def test_the_shortest_text_to_train_on_is_long_enough_for_every_question() -> None:
    text = ENGLISH.replace("\n", " ")[:1300]  # the validation part has 130 bytes, as many as "same targets" needs
    app = small(text=text)
    app.train().result(DEADLINE)
    for name in ("gap", "by position", "same targets", "facts", "softmax denominator"):
        open_tab(app, name)
        assert message(app) == "", name
