"""The questions of LengthLab: each is answered by what the lab measures, once, for the trained
models of every seed."""

import threading
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from alibi_viz import lab
from alibi_viz.widgets.core.background import Background
from tests.tables import curve
from tests.widgets.race.small_race import (
    DEADLINE,
    LENGTH,
    message,
    open_tab,
    points,
    sentence_count,
    small,
    trace,
    trained,
    unchanged,
    wait_for_end,
)

MEASURED_AFTERWARDS = ["by position", "same targets", "softmax denominator"]
TEXT = lab.load_text()


@pytest.fixture(scope="module")
def two_seeds(small_models):
    return trained(methods=["learned", "none"], seed=3, seeds=2)


@pytest.fixture
def raced(two_seeds):
    """A race of two methods and two seeds that has ended."""
    with unchanged(two_seeds):
        yield two_seeds


@pytest.mark.parametrize("question", MEASURED_AFTERWARDS)
def test_open_question_shows_what_the_lab_measures(raced, question):
    open_tab(raced, question)
    model = raced.models["none"]  # of the last seed
    measured = lab.find_question(question).measure(model, TEXT, LENGTH, 16)
    # A value may be a list, the means of blocks of the text.
    expected = {x: np.mean(value) for x, value, _ in measured}
    assert curve(raced.results, question, label="none", seed=4) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("question", MEASURED_AFTERWARDS)
def test_open_question_is_measured_for_every_seed(raced, question):
    open_tab(raced, question)
    rows = raced.results
    assert set(rows.loc[rows["question"] == question, "seed"]) == {3, 4}


def test_question_that_is_opened_again_is_not_measured_again(raced):
    open_tab(raced, "same targets")
    rows = len(raced.results)
    open_tab(raced, "gap")
    open_tab(raced, "same targets")
    assert raced.results.index.tolist() == list(range(rows))


@pytest.mark.parametrize("question", ["longer sequences", "by position", "needle"])
def test_caption_of_each_question_has_at_most_two_sentences(raced, question):
    open_tab(raced, question)
    assert sentence_count(raced) <= 2
    raced.seed = 8  # with a note that the settings have changed
    assert sentence_count(raced) <= 2


# The gap, which is measured during the race


def gap_by_step(app, method):
    """The mean over the two seeds."""
    first = curve(app.results, "gap", label=method, seed=3)
    second = curve(app.results, "gap", label=method, seed=4)
    return {step: fmean([first[step], second[step]]) for step in first}


def test_gap_is_drawn_as_its_mean_over_the_seeds(raced):
    open_tab(raced, "gap")
    assert points(raced, "mean", "none") == pytest.approx(gap_by_step(raced, "none"))


def test_caption_tells_the_gap_at_the_last_step(raced):
    open_tab(raced, "gap")
    last_gap = gap_by_step(raced, "none")[10]
    with_a_true_minus = f"{last_gap:+z.2f}".replace("-", "−")  # noqa: RUF001
    assert "From step 1 to step 10, means over seeds: none " in raced.caption
    assert f" to {with_a_true_minus} bits per byte." in raced.caption


def test_legend_names_a_method_whose_gap_is_not_defined(raced):
    open_tab(raced, "gap")
    assert trace(raced, "mean", "learned").name == "learned (not defined)"


def test_training_loss_is_hidden_beside_another_question(raced):
    open_tab(raced, "gap")
    assert trace(raced, "training", "none").visible is False


# Questions that are opened while the app is at work


class Measurement:
    """A measurement that takes until a test ends it."""

    def __init__(self):
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def measure(self, model, source, length, longest):
        self.begun.set()
        assert self.may_end.wait(DEADLINE)
        yield length, 1.0, 1
        yield 2 * length, 1.0, 1


@pytest.fixture(scope="module")
def one_seed(small_models):
    return trained(methods=["none"])


@pytest.fixture
def measuring(one_seed):
    """A race that has ended, whose models are being measured for the question "by position"."""
    measurement = Measurement()
    by_position = one_seed.questions["by position"]
    one_seed.questions["by position"] = replace(by_position, measure=measurement.measure)
    one_seed.question = "by position"
    assert measurement.begun.wait(DEADLINE)
    yield one_seed, measurement

    measurement.may_end.set()
    wait_for_end(one_seed)
    one_seed.question = "longer sequences"
    one_seed._race.measured.clear()
    one_seed.questions["by position"] = by_position


def test_caption_says_that_the_models_are_being_measured(
    measuring,
):
    app, _ = measuring
    app.refresh()
    assert app.caption.endswith("The models are being measured.")


def test_question_that_is_opened_during_a_measurement_is_measured_after_it(
    measuring,
):
    app, measurement = measuring
    app.question = "same targets"
    measurement.may_end.set()
    wait_for_end(app)
    assert set(app.means["none"]) == {8, 16, 32, 64, 128}
    assert "being measured" not in app.caption


def test_a_new_race_stops_the_measurement_of_the_last(measuring, monkeypatch):
    app, measurement = measuring
    measured_race = app._race
    (work,) = app.works

    def stop():
        Background.stop(work)
        measurement.may_end.set()

    monkeypatch.setattr(work, "stop", stop)
    app.train().result(DEADLINE)
    assert app._race is not measured_race
    assert measured_race.measured == set()
    assert app._race.measured == {"by position"}, "the question is still open"


def test_caption_before_a_race_says_what_the_open_question_asks():
    app = small(question="same targets")
    assert "How does more context change the loss" in app.caption


def test_question_that_is_open_during_a_race_is_measured_at_its_end():
    app = trained(methods=["none"], question="by position")
    assert app.caption.startswith("From position 1 to ")
    assert message(app) == ""
