"""LengthLab without a browser: what it shows after a race are the numbers of `lab.race`."""

import math
from typing import NamedTuple

import pandas as pd
import pytest

from alibi_viz import lab
from alibi_viz.figures.curve_plot import CurveShapes
from alibi_viz.measure.table import TRAINING_LOSS, results_table
from alibi_viz.models import LanguageModel
from alibi_viz.train.training import limited_threads
from alibi_viz.widgets.race.state import RaceState
from tests.rows import each_case
from tests.tables import curve, same_weights
from tests.widgets.race.small_race import (
    DEADLINE,
    LENGTH,
    TARGETS,
    losses,
    message,
    points,
    small,
    trace,
    trained,
    unchanged,
)

METHODS = ["alibi", "learned", "none"]
FIRST_SEED = 3
SECOND_SEED = 4
TEXT = lab.load_text()


class ByHand(NamedTuple):
    """The races that the app runs, by `lab.race`."""

    rows: pd.DataFrame
    models: dict[str, LanguageModel]  # of the second seed

    def losses(self, method, seed):
        """{length: bits per byte} after the last step."""
        return curve(self.rows, "longer sequences", label=method, seed=seed, step=10)

    def defined_losses(self, method, seed):
        """The losses at the lengths at which the method is defined."""
        by_length = self.losses(method, seed)
        return {length: bits for length, bits in by_length.items() if not math.isnan(bits)}


@pytest.fixture(scope="module")
def by_hand(small_models):
    tables = []
    for seed in (FIRST_SEED, SECOND_SEED):
        with limited_threads(1):
            race = lab.race(METHODS, TEXT, seed=seed, length=LENGTH, steps=10, targets=TARGETS)
            tables.append(results_table(race))
    return ByHand(pd.concat(tables, ignore_index=True), race.models)


@pytest.fixture(scope="module")
def two_seeds(small_models):
    return trained(methods=METHODS, seed=FIRST_SEED, seeds=2)


@pytest.fixture
def raced(two_seeds):
    """A race of three methods and two seeds that has ended, with its own settings."""
    with unchanged(two_seeds):
        yield two_seeds


def test_the_built_in_text_is_named_before_it_is_written(monkeypatch):
    def load_text():
        raise AssertionError("writing the text takes longer than opening the app")

    monkeypatch.setattr(lab, "load_text", load_text)
    assert f"sequences of {LENGTH} bytes of {TEXT.name}" in small().caption


# The numbers


def test_rows_are_those_of_lab_race_for_each_seed(raced, by_hand):
    pd.testing.assert_frame_equal(raced.results, by_hand.rows)


@pytest.mark.parametrize("method", METHODS)
def test_models_are_those_of_the_last_seed(raced, by_hand, method):
    assert same_weights(raced.models[method], by_hand.models[method])


@pytest.mark.parametrize("method", METHODS)
def test_means_are_those_over_the_seeds(raced, by_hand, method):
    first = by_hand.losses(method, FIRST_SEED)
    second = by_hand.losses(method, SECOND_SEED)
    expected = {length: (first[length] + second[length]) / 2 for length in first}
    assert raced.means[method] == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("method", METHODS)
def test_thick_line_is_the_mean_where_the_method_is_defined(raced, by_hand, method):
    first = by_hand.defined_losses(method, FIRST_SEED)
    second = by_hand.defined_losses(method, SECOND_SEED)
    expected = {length: (first[length] + second[length]) / 2 for length in first}
    assert points(raced, "mean", method) == pytest.approx(expected)


@pytest.mark.parametrize("method", METHODS)
def test_thin_lines_are_the_seeds(raced, by_hand, method):
    first = list(by_hand.defined_losses(method, FIRST_SEED).values())
    second = list(by_hand.defined_losses(method, SECOND_SEED).values())
    gap = [math.nan]
    drawn = trace(raced, "seeds", method).y.tolist()
    assert drawn == pytest.approx([*first, *gap, *second, *gap], abs=0, nan_ok=True)


@pytest.mark.parametrize("method", METHODS)
def test_left_panel_is_the_training_loss_of_the_last_seed(raced, by_hand, method):
    expected = curve(by_hand.rows, TRAINING_LOSS, label=method, seed=SECOND_SEED)
    assert points(raced, "training", method) == expected


def test_caption_tells_what_holds_in_every_seed(raced):
    assert raced.caption.startswith("Up to 128 bytes, in every seed ")


def test_details_tell_what_the_models_were_trained_on(raced):
    told = "Trained 10 steps on sequences of 8 bytes of tales, seeds: 3 and 4."
    assert raced.details.endswith(told)


# Before a race, and one race after the other


def test_caption_before_a_race_invites_to_it():
    assert small().caption.startswith("Press Train: ALiBi and none train on sequences of 8 bytes")


def test_there_are_no_results_before_a_race():
    app = small()
    assert app.results.empty
    assert app.means == {}
    assert app.models == {}


def test_repr_is_the_state():
    assert "length=8, steps=10, seed=3, seeds=1" in repr(small(seed=3))


def test_repr_of_the_state_is_the_same_after_a_race(raced):
    untrained = small(methods=METHODS, seed=FIRST_SEED, seeds=2)
    assert repr(raced) == repr(untrained)


def test_training_again_starts_from_the_beginning():
    app = trained(methods=["none"])
    first = losses(app)
    app.train().result(DEADLINE)
    assert losses(app) == first


def test_caption_says_that_the_settings_have_changed_since_the_race(raced):
    raced.seed = 8
    assert raced.caption.startswith("The settings have changed since this race")


def test_training_again_applies_changed_settings():
    app = trained(methods=["none"], seed=3)
    first = losses(app)
    app.seed = 1
    app.train().result(DEADLINE)
    assert losses(app) != first
    assert "changed" not in app.caption


@each_case(
    ("task", "steps", "checkpoints"),
    {
        "at least 10 times on a text": ("text", 99, 10),
        "every 50 steps of a text": ("text", 949, 18),
        "at least 5 times on a task": ("needle", 99, 5),
        "every 60 steps of a task": ("needle", 959, 15),
    },
)
def test_models_are_tested_at_checkpoints(monkeypatch, task, steps, checkpoints):
    asked_for = []

    def race(*_, checkpoints, **settings):
        asked_for.append(checkpoints)

    monkeypatch.setattr("alibi_viz.lab.race", race)
    RaceState(task, ("alibi",), length=LENGTH, steps=steps, seed=0, seeds=1).start()
    assert asked_for == [checkpoints]


# A task has a race of its own


@pytest.fixture(scope="module")
def on_task(small_models):
    """A race on a task that has ended."""
    return trained(methods=["alibi", "none"], seed=5, question="needle")


def test_means_on_a_task_are_those_of_lab_race(on_task):
    race = lab.race(["none"], lab.TASKS["needle"], length=LENGTH, steps=10, seed=5, checkpoints=1)
    assert on_task.means["none"] == curve(results_table(race), "needle")


def test_means_on_a_task_are_drawn(on_task):
    assert points(on_task, "mean", "none") == on_task.means["none"]


def test_details_on_a_task_name_its_examples(on_task):
    told = "Trained 10 steps on needle examples of up to 8 tokens, seeds: 5."
    assert told in on_task.details


def test_training_loss_on_a_task_is_in_bits_per_answer(on_task):
    assert on_task.figure.layout.yaxis.title.text == "bits per answer"


def test_chance_is_drawn_on_a_task(on_task):
    shapes = CurveShapes(*on_task.figure.layout.shapes)
    assert shapes.chance.y0 == lab.TASKS["needle"].chance


def test_the_loss_while_training_is_compared_with_models_that_only_count(
    raced,
):
    shapes = CurveShapes(*raced.figure.layout.shapes)
    heights = [shape.y0 for shape in shapes.yardsticks_in_training]
    assert heights == list(TEXT.yardsticks.values())


def test_a_race_on_a_task_has_no_yardsticks(on_task):
    shapes = CurveShapes(*on_task.figure.layout.shapes)
    assert not any(shape.visible for shape in shapes.yardsticks_in_training)


def test_a_race_on_a_task_is_kept_while_a_question_about_the_text_is_open():
    app = trained(methods=["none"], question="needle")
    means = app.means
    app.question = "longer sequences"
    assert app.means == {}, "there was no race on the text"
    assert "sequences of 8 bytes" in app.caption

    app.question = "needle"
    assert app.means == means
    assert message(app) == ""
