"""A race of LengthLab while it runs, and one that is stopped, closed, interrupted or ended by an
error."""

import math
from functools import partial
from typing import NamedTuple

import pytest
import torch

from alibi_viz import lab
from alibi_viz.figures.curve_plot import CurveShapes
from alibi_viz.measure.table import TRAINING_LOSS
from alibi_viz.train.race import race
from alibi_viz.train.training import limited_threads
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.core.background import Background
from tests.tables import curve, same_weights
from tests.widgets.race.paced_race import paced, race_threads
from tests.widgets.race.small_race import (
    DEADLINE,
    LENGTH,
    TESTED_LENGTHS,
    control,
    losses,
    message,
    open_tab,
    points,
    sentence_count,
    small,
    trace,
    wait_for_end,
)

STEPS = 20  # with a test of the models after each second step
TEXT = lab.load_text()


def rows_of(*, steps, tests, methods):
    """How many rows a race hands out for so many steps of each method, and tests of its model."""
    rows_of_a_step = 1  # the training loss
    rows_of_a_test = len(TESTED_LENGTHS) + 1  # a loss at each length, and the gap
    return methods * (steps * rows_of_a_step + tests * rows_of_a_test)


# While it runs


@pytest.fixture(scope="module")
def running(small_models):
    """A race of two methods that waits after its third step. It was tested after the second."""
    with paced() as pace:
        app = small(steps=STEPS, guesses={"alibi": "holds"})
        pace.train(app)
        pace.go(rows_of(steps=3, tests=1, methods=2))
        app.refresh()
        yield app


def test_rows_are_drawn_on_the_thread_of_the_race(pace, monkeypatch):
    monkeypatch.setattr(Background, "every", 0.0)  # seconds between two drawings
    monkeypatch.setattr(Background, "share", math.inf)  # of the time, for drawing
    app = small(methods=["alibi"], steps=STEPS)
    pace.train(app)
    pace.go(1)
    assert len(points(app, "training", "alibi")) == 1
    pace.go(1)
    assert len(points(app, "training", "alibi")) == 2


def test_caption_tells_when_the_models_were_last_tested(running):
    told = "Training on sequences of 8 bytes of tales, last tested after step 2."
    assert running.caption.startswith(told)


def test_caption_of_a_running_race_has_at_most_two_sentences(running):
    assert sentence_count(running) <= 2


def test_running_race_has_no_details_which_would_close_whenever_they_change(
    running,
):
    assert running.details == ""


def test_each_method_has_a_bar_with_its_steps(running):
    lanes = control(running, "s-lanes").value
    assert lanes.count('role="progressbar"') == 2
    assert lanes.count("<span>step 3 of 20</span>") == 2


@pytest.mark.parametrize("method", ["alibi", "none"])
def test_bar_of_a_method_has_the_color_of_its_curve(running, method):
    color = trace(running, "mean", method).line.color
    assert f"--color: {color};" in control(running, "s-lanes").value


def test_latest_test_is_what_the_means_show(running):
    tested = curve(running.results, "longer sequences", label="none", step=2)
    assert running.means["none"] == tested


@pytest.mark.parametrize(
    "css",
    ["s-train", "s-alibi", "s-length", "s-seed", "s-text", "s-guess", "s-guess-alibi"],
)
def test_settings_are_locked_during_a_race(running, css):
    assert control(running, css).disabled


@pytest.mark.parametrize("css", ["s-stop", "s-more"])
def test_stop_and_more_settings_work_during_a_race(running, css):
    assert not control(running, css).disabled


def test_second_race_at_the_same_time_is_refused(running):
    with pytest.raises(RuntimeError, match="a race is running: wait for its end or stop it"):
        running.train()


def test_settings_changed_in_code_are_for_the_next_race(pace):
    app = small(steps=STEPS)
    pace.train(app)
    pace.go(2)
    app.methods = ["rotary"]
    app.length = 16
    pace.go(2)
    app.refresh()
    assert {method: len(bits) for method, bits in losses(app).items()} == {"alibi": 2, "none": 2}
    assert CurveShapes(*app.figure.layout.shapes).training_length.x0 == LENGTH


def test_caption_says_that_the_running_race_is_for_another_question(pace):
    app = small(steps=STEPS)
    pace.train(app)
    pace.go(2)
    app.question = "needle"
    assert app.caption.startswith("The race that is running is for another question.")
    assert sentence_count(app) <= 2


# Stopped


@pytest.fixture(scope="module")
def stopped(small_models):
    """A race of three methods, stopped in its fourth step while the second took it."""
    with paced() as pace:
        app = small(
            methods=["alibi", "rotary", "none"], steps=STEPS, seed=6, guesses={"alibi": "holds"}
        )
        pace.train(app)
        pace.go(rows_of(steps=3, tests=1, methods=3))
        pace.go(1)  # the fourth step of the first method
        pace.stop(app)
    return app


def test_stopped_race_keeps_the_row_that_it_had_begun(stopped):
    steps = {method: len(bits) for method, bits in losses(stopped).items()}
    assert steps == {"alibi": 4, "rotary": 4, "none": 3}


@pytest.mark.parametrize("method", ["alibi", "rotary", "none"])
def test_rows_and_models_of_a_stopped_race_are_those_of_so_many_steps(stopped, method):
    bits = losses(stopped)[method]
    model = lab.make_model(method, seed=6, max_length=LENGTH)
    with limited_threads(1):
        training = lab.train(model, TEXT, length=LENGTH, steps=STEPS, seed=6)
        expected = [next(training)["value"] for _ in bits]
    assert bits == expected
    assert same_weights(stopped.models[method], model)


def test_caption_tells_where_a_race_was_stopped(stopped):
    assert stopped.caption.startswith("Stopped after step 4 of 20.")
    assert sentence_count(stopped) <= 2


def test_models_of_a_stopped_race_write_nothing(stopped):
    assert stopped.written == {}
    assert control(stopped, "s-written").value == ""


def test_stopped_race_has_no_details(stopped):
    assert stopped.details == ""


def test_guesses_are_not_judged_by_models_that_have_hardly_learned(stopped):
    assert "You guessed" not in stopped.caption


@pytest.mark.parametrize("css", ["s-train", "s-alibi", "s-guess-alibi"])
def test_settings_are_unlocked_after_a_race(stopped, css):
    assert not control(stopped, css).disabled


def test_stop_is_locked_after_a_race(stopped):
    assert control(stopped, "s-stop").disabled


def test_race_leaves_the_number_of_torch_threads(pace):
    app = small(methods=["none"], steps=STEPS)
    with limited_threads(2):
        pace.train(app)
        pace.go(1)
        pace.stop(app)
        assert torch.get_num_threads() == 2


def test_closed_app_trains_no_further(pace):
    threads_before = race_threads()
    app = small(methods=["none"], steps=STEPS)
    race_of_app = pace.train(app)
    pace.go(1)
    app.close()
    pace.hand_out_one_row()
    race_of_app.result(DEADLINE)
    race_of_app.join(DEADLINE)
    assert len(losses(app)["none"]) == 2, "the row that was begun is the last"
    assert race_threads() == threads_before


def test_closed_app_does_not_measure_its_models(pace):
    app = small(methods=["none"], steps=STEPS)
    race_of_app = pace.train(app)
    app.question = "by position"
    app.close()
    pace.hand_out_one_row()
    race_of_app.result(DEADLINE)
    assert app._race.measured == set()


def test_interrupt_while_the_start_is_drawn_leaves_a_race_that_can_be_stopped(pace, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    app = small(methods=["none"], steps=STEPS)
    with monkeypatch.context() as patch:
        patch.setattr(app, "refresh", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pace.train(app)
    pace.stop(app)
    assert not app.running
    assert not control(app, "s-train").disabled


# In its second seed


class SecondSeed(NamedTuple):
    """What was seen of a race of three seeds that was stopped in its second one."""

    complete_while_running: list[int]  # seeds
    curve_while_running: dict[float, float]  # the mean: {length: loss}
    measured_when_stopped: set[int]  # seeds whose models were measured for another question
    stopped: LengthLab  # with the question of its start

    @property
    def end_of_first_seed(self):
        """The losses of the first seed after its last step."""
        results = self.stopped.results
        return curve(results, "longer sequences", label="alibi", seed=2, step=10)


@pytest.fixture(scope="module")
def second_seed(small_models):
    """Of the seeds 2, 3 and 4, it has trained with 2 to the end, and two steps with 3."""
    app = small(methods=["alibi"], steps=10, seed=2, seeds=3)
    with paced() as pace:
        pace.train(app)
        # So short a race is tested after every step.
        pace.go(rows_of(steps=10, tests=10, methods=1))
        pace.go(rows_of(steps=1, tests=1, methods=1))
        app.refresh()
        complete_while_running = list(app._race.complete)
        curve_while_running = points(app, "mean", "alibi")
        pace.stop(app)

    open_tab(app, "same targets")
    is_measured = app.results["question"] == "same targets"
    measured_when_stopped = set(app.results.loc[is_measured, "seed"])
    open_tab(app, "longer sequences")
    return SecondSeed(complete_while_running, curve_while_running, measured_when_stopped, app)


def test_seed_is_complete_while_another_trains(second_seed):
    assert second_seed.complete_while_running == [2]


def test_curve_of_complete_seeds_is_drawn_while_another_trains(second_seed):
    assert second_seed.curve_while_running == second_seed.end_of_first_seed


def test_seed_that_was_stopped_keeps_its_rows(second_seed):
    assert set(second_seed.stopped.results["seed"]) == {2, 3}


def test_seed_that_was_stopped_is_left_out_of_the_means(second_seed):
    assert second_seed.stopped.means == {"alibi": second_seed.end_of_first_seed}


def test_caption_tells_the_seed_that_was_stopped(second_seed):
    told = "Stopped after step 2 of 10, seed 2 of 3."
    assert second_seed.stopped.caption.startswith(told)


def test_models_are_those_of_the_last_complete_seed(second_seed):
    app = second_seed.stopped
    assert app.models is app._race.models[2]


def test_seed_that_was_stopped_is_not_measured(second_seed):
    assert second_seed.measured_when_stopped == {2}


# Ended by an error

DIVERGING = partial(race, learning_rate=1e30)
QUESTIONS = ["longer sequences", "gap", "by position", "same targets"]


class Tab(NamedTuple):
    """What an app tells about a question."""

    caption: str
    details: str
    measured: set[str]  # the questions for which the models were measured after their training


class Diverged(NamedTuple):
    """A race whose loss became NaN in its second step."""

    app: LengthLab  # with the question of its start
    tabs: dict[str, Tab]  # by question


def diverge(app):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alibi_viz.lab.race", DIVERGING)
        app.train()
        wait_for_end(app)


@pytest.fixture(scope="module")
def diverged(small_models):
    app = small(steps=STEPS)
    diverge(app)
    tabs = {}
    for question in QUESTIONS:
        open_tab(app, question)
        tabs[question] = Tab(app.caption, app.details, set(app._race.measured))
    open_tab(app, "longer sequences")
    return Diverged(app, tabs)


def test_divergence_is_raised_by_the_future():
    app = small(methods=["none"], steps=STEPS)
    diverge(app)
    (work,) = app.works
    message = r"the loss became nan at step 2 of 20; try a learning rate below 1e\+30"
    with pytest.raises(lab.TrainingDiverged, match=message):
        work.result()


def test_divergence_is_shown(diverged):
    assert "the loss became nan at step 2" in message(diverged.app)


def test_caption_tells_where_the_error_ended_the_race(diverged):
    assert diverged.app.caption.startswith("Ended by an error after step 1 of 20.")


def test_losses_before_the_error_are_kept(diverged):
    rows = diverged.app.results
    assert rows.loc[rows["question"] == TRAINING_LOSS, "step"].tolist() == [1, 1]


@pytest.mark.parametrize("question", QUESTIONS)
def test_caption_does_not_compare_models_that_diverged(diverged, question):
    caption = diverged.tabs[question].caption
    assert "Training did not finish, so the methods cannot be compared." in caption
    assert "not defined" not in caption


@pytest.mark.parametrize("question", QUESTIONS)
def test_race_that_diverged_has_no_details(diverged, question):
    assert diverged.tabs[question].details == ""


@pytest.mark.parametrize("question", QUESTIONS)
def test_models_that_diverged_are_not_measured(diverged, question):
    assert diverged.tabs[question].measured == set()


def test_training_again_clears_the_error():
    app = small(methods=["none"])
    diverge(app)
    assert message(app) != ""
    app.train().result(DEADLINE)
    assert message(app) == ""
