"""LengthLab without a browser: what it shows before and after a race, whose numbers are those of
`lab.race`."""

import math

import pandas as pd
import pytest

from alibi_viz import lab
from alibi_viz.measure.continuations import Continuation, known_words
from alibi_viz.measure.table import TRAINING_LOSS, results_table
from alibi_viz.models import POSITIONS
from alibi_viz.train.training import limited_threads
from alibi_viz.widgets.race import captions
from alibi_viz.widgets.race.state import OPENING, Written
from tests.rows import each_case
from tests.tables import curve, same_weights
from tests.widgets.race.small_race import (
    DEADLINE,
    ENGLISH,
    LENGTH,
    TARGETS,
    TESTED_LENGTHS,
    column_text,
    control,
    curve_of,
    message,
    small,
    trained,
    unchanged,
    visible,
    visible_controls,
)

METHODS = ["alibi", "learned", "none"]
SEED = 3
TEXT = lab.load_text(ENGLISH)
FIRST_SCREEN = ["s-guess-alibi", "s-guess-none", "s-train", "s-stop", "s-more", "s-reset"]
SETTINGS = ["s-length", "s-steps", "s-seed"]


@pytest.fixture(scope="module")
def by_hand(small_models):
    """The same race by `lab.race`: its rows, and its models."""
    with limited_threads(1):
        race = lab.race(METHODS, TEXT, seed=SEED, length=LENGTH, steps=10, targets=TARGETS)
        return results_table(race), race.models


@pytest.fixture(scope="module")
def finished(small_models):
    return trained(methods=METHODS, seed=SEED, text=TEXT)


@pytest.fixture
def raced(finished):
    """A race of three methods that has ended, with its own settings."""
    with unchanged(finished):
        yield finished


# Before a race


def test_first_screen():
    app = small()
    assert visible_controls(app) == FIRST_SCREEN
    assert (app.means, app.models, app.written) == ({}, {}, {})
    assert "appears here while it trains" in column_text(app, "alibi")


def test_more_settings_unfold_the_methods_and_the_numbers():
    app = small()
    control(app, "s-more").value = True
    methods = [f"s-{name}" for name in POSITIONS]
    assert visible_controls(app) == [*FIRST_SCREEN, *methods, *SETTINGS]


def test_checkbox_of_a_method_has_the_first_line_of_its_docstring_as_its_tip():
    first_line = str(POSITIONS["alibi"].__doc__).partition("\n")[0]
    assert control(small(), "s-alibi").tooltip == first_line


def test_opening_an_app_does_not_write_the_built_in_text(monkeypatch):
    def load_text():
        raise AssertionError("writing the text takes longer than opening the app")

    monkeypatch.setattr(lab, "load_text", load_text)
    assert small().results.empty


def test_settings_of_earlier_versions_are_ignored_with_a_message():
    app = small(simple=True, seeds=3, question="needle")
    assert "has no question, seeds and simple any more, and ignores it" in message(app)
    assert "lab.compare" in message(app)


# The numbers


def test_rows_are_those_of_lab_race_after_a_test_before_training(raced, by_hand):
    rows, _ = by_hand
    is_trained = raced.results["step"] > 0
    pd.testing.assert_frame_equal(raced.results[is_trained].reset_index(drop=True), rows)
    model = lab.make_model("alibi", seed=SEED, max_length=LENGTH)
    losses = lab.loss_by_length(model, TEXT, TESTED_LENGTHS, targets=TARGETS)
    before = curve(raced.results, "longer sequences", label="alibi", step=0)
    assert before == pytest.approx(losses)


@pytest.mark.parametrize("method", METHODS)
def test_models_curves_and_texts_are_those_after_the_last_step(raced, by_hand, method):
    rows, models = by_hand
    assert same_weights(raced.models[method], models[method])

    losses = curve(rows, "longer sequences", label=method, step=10)
    assert raced.means[method] == pytest.approx(losses, nan_ok=True)
    defined = {length: bits for length, bits in losses.items() if not math.isnan(bits)}
    assert curve_of(raced, method) == pytest.approx(defined)

    texts = lab.continuations(models[method], TEXT, LENGTH, seed=SEED)
    assert raced.written[method].texts == texts
    share = known_words([text.beyond for text in texts], TEXT)
    assert raced.written[method].known_words == pytest.approx(share, nan_ok=True)


@each_case(("steps", "checkpoints"), {"at least 10 times": (99, 10), "every 50 steps": (949, 18)})
def test_models_are_tested_at_checkpoints(monkeypatch, steps, checkpoints):
    asked_for = []

    def race(*_, checkpoints, **settings):
        asked_for.append(checkpoints)
        raise ValueError("this is enough")

    monkeypatch.setattr("alibi_viz.lab.race", race)
    with pytest.raises(ValueError, match="enough"):
        small(steps=steps).train()
    assert asked_for == [checkpoints]


# The columns and the curves


def test_column_has_the_color_of_its_curve(raced):
    (trace,) = [trace for trace in raced.figure.data if trace.name == "none"]
    last_column = control(raced, "s-columns").children[-1]
    assert trace.line.color in last_column.layout.border_left


def test_column_of_a_method_that_is_no_longer_chosen_is_hidden():
    app = small()
    app.methods = ["alibi"]
    assert control(app, "s-guess-none") not in visible(app)
    assert control(app, "s-guess-alibi") in visible(app)


def test_axes_are_the_same_before_a_race_and_after_it(raced):
    before = small().figure.layout
    after = raced.figure.layout
    assert before.yaxis.range == after.yaxis.range == (0, 8.5)
    labels = ("8<br>as in training", "16<br>\N{MULTIPLICATION SIGN}2 longer")
    assert before.xaxis.ticktext[:2] == after.xaxis.ticktext[:2] == labels


def page(prompt, within, beyond, known=math.nan, unknown=()):
    """What a column shows of a text."""
    written = Written([Continuation(prompt, within, beyond)] * 8, known, list(unknown))
    return captions.text_of("alibi", written, 32)


def test_parts_of_a_text_are_told_apart_and_the_hero_is_marked():
    shown = page(OPENING, " Then", " Emma slept.", known=0.554)
    assert f'<span class="prompt">{OPENING.replace("Emma", "<b>Emma</b>")}</span>' in shown
    assert '<span class="within"> Then</span><span class="beyond"> <b>Emma</b> slept.' in shown
    assert "<b>55%</b> real words beyond letter 32" in shown


def test_words_that_are_not_known_are_marked():
    shown = page("The fox", " saw", " Emma grmbl & ran", unknown=[(6, 11)])
    assert '<span class="beyond"> <b>Emma</b> <s>grmbl</s> &amp; ran</span>' in shown


def test_text_is_escaped_and_has_no_control_characters_except_line_breaks():
    shown = page("<b>one", " two &", " three</pre>\n\x00\x1b\u202e")
    assert "&lt;b&gt;one<" in shown
    assert " two &amp;<" in shown
    assert " three&lt;/pre&gt;\n\ufffd\ufffd\ufffd<" in shown


def test_column_says_why_there_are_no_words(raced):
    assert "not defined beyond letter 8" in column_text(raced, "learned")
    assert "no words beyond letter 32" in page("one", " two", "?")


# One race after the other


def test_training_again_starts_from_the_beginning_with_changed_settings(tmp_path):
    path = tmp_path / "<b>fox.txt"
    path.write_text(ENGLISH[:2000])
    app = small(methods=["none"], seed=SEED, text=path)
    before = repr(app)
    app.train().result(DEADLINE)
    assert repr(app) == before, "a race is no state"
    assert "of 8 letters of <b>fox.txt, seed 3." in app.details
    assert "<b>" not in app.details_line.value
    first = curve(app.results, TRAINING_LOSS)
    app.train().result(DEADLINE)
    assert curve(app.results, TRAINING_LOSS) == first

    app.seed = 1
    assert app.caption.startswith("The settings have changed since this race")
    app.train().result(DEADLINE)
    assert curve(app.results, TRAINING_LOSS) != first
    assert "changed" not in app.caption


def test_the_same_text_again_changes_no_setting(raced):
    raced.text = ENGLISH
    assert "changed" not in raced.caption
    raced.text = ENGLISH + "."
    assert "changed" in raced.caption
