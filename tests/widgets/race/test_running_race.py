"""A race of LengthLab while it runs, and one that is stopped, closed, interrupted or ended by an
error."""

import math
from functools import partial

import pytest
import torch

from alibi_viz import lab
from alibi_viz.measure.table import TRAINING_LOSS
from alibi_viz.train.race import race
from alibi_viz.train.training import limited_threads
from alibi_viz.widgets.core.background import Background
from alibi_viz.widgets.race import state
from tests.tables import curve, same_weights
from tests.widgets.race.paced_race import paced, race_threads
from tests.widgets.race.small_race import (
    DEADLINE,
    LENGTH,
    bars,
    column_text,
    control,
    curve_of,
    message,
    rows_of,
    small,
    wait_for_end,
)

STEPS = 20  # with a test of the models after each second step
TEXT = lab.load_text()


def losses(app, method):
    """The training loss at each step."""
    return list(curve(app.results, TRAINING_LOSS, label=method).values())


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


def test_models_are_tested_and_write_before_they_train(pace):
    app = small(steps=STEPS)
    pace.train(app)
    pace.go(0)
    app.refresh()
    assert app.caption.startswith("Before training they write at random.")
    assert bars(app) == {"alibi": 0, "none": 0}
    assert len(curve_of(app, "none")) == 5
    texts = lab.continuations(lab.make_model("alibi", max_length=LENGTH), TEXT, LENGTH)
    assert app.written["alibi"].texts == texts


def test_running_race_shows_its_last_test(running, monkeypatch):
    monkeypatch.setattr(state, "monotonic", lambda: 0.0)  # or a busy machine would say its minutes
    running.refresh()
    assert running.caption == (
        "They train and were last tested after step 2. Watch how their texts change."
    )
    assert running.details == "", "open details would close whenever they change"
    tested = curve(running.results, "longer sequences", label="none", step=2)
    assert running.means["none"] == curve_of(running, "none") == tested
    assert bars(running) == {"alibi": 3, "none": 3}
    assert '<span class="beyond">' in column_text(running, "alibi")


def test_race_that_takes_longer_than_a_minute_says_how_long(pace, monkeypatch):
    monkeypatch.setattr(state, "monotonic", lambda: 0.0)
    app = small(methods=["alibi"], steps=STEPS)
    pace.train(app)
    pace.go(rows_of(steps=3, tests=1, methods=1))
    monkeypatch.setattr(state, "monotonic", lambda: 30.0)  # of 200 seconds
    app.refresh()
    assert app.caption.startswith("They train, with about 3 minutes left, and were last tested")


def test_text_is_by_the_model_that_was_tested(pace):
    app = small(methods=["alibi"])
    pace.train(app)
    pace.go(rows_of(steps=1, tests=1, methods=1))
    model = lab.make_model("alibi", max_length=LENGTH)
    with limited_threads(1):
        next(lab.train(model, TEXT, length=LENGTH, steps=10))
        texts = lab.continuations(model, TEXT, LENGTH)
    assert app.written["alibi"].texts == texts


def test_tests_are_drawn_on_the_thread_of_the_race_and_between_them_only_bars_move(
    pace, monkeypatch
):
    monkeypatch.setattr(Background, "every", 0.0)  # seconds between two drawings
    monkeypatch.setattr(Background, "share", math.inf)  # of the time, for drawing
    app = small(methods=["alibi"], steps=STEPS)
    pace.train(app)
    pace.go(0)
    drawn = []
    monkeypatch.setattr(app, "refresh", lambda: drawn.append(len(app.results)))
    pace.go(1)  # the first step, after which the model isn't tested
    assert bars(app) == {"alibi": 1}
    assert drawn == []
    pace.go(rows_of(steps=1, tests=1, methods=1))
    assert drawn != []


@pytest.mark.parametrize("css", ["s-train", "s-alibi", "s-length", "s-seed", "s-guess-alibi"])
def test_settings_are_locked_during_a_race(running, css):
    assert control(running, css).disabled


@pytest.mark.parametrize("css", ["s-stop", "s-more"])
def test_stop_and_more_settings_work_all_the_time_during_a_race(running, css):
    changes = []
    control(running, css).observe(changes.append, names="disabled")
    running.refresh()
    assert not control(running, css).disabled
    assert changes == [], "a click would be lost"


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
    assert losses(app, "rotary") == []
    assert len(losses(app, "alibi")) == 2
    (shape,) = [shape for shape in app.figure.layout.shapes if shape.name == "training length"]
    assert shape.x0 == LENGTH


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


@pytest.mark.parametrize(("method", "steps"), {"alibi": 4, "rotary": 4, "none": 3}.items())
def test_rows_and_models_of_a_stopped_race_are_those_of_so_many_steps(stopped, method, steps):
    model = lab.make_model(method, seed=6, max_length=LENGTH)
    with limited_threads(1):
        training = lab.train(model, TEXT, length=LENGTH, steps=STEPS, seed=6)
        expected = [next(training)["value"] for _ in range(steps)]
    assert losses(stopped, method) == expected
    assert same_weights(stopped.models[method], model)


def test_caption_tells_where_a_race_was_stopped_and_settings_are_unlocked(stopped):
    assert stopped.caption == "Stopped after step 4 of 20.", "which judges no guess"
    assert stopped.details == ""
    locked = [css for css in ("s-train", "s-alibi", "s-stop") if control(stopped, css).disabled]
    assert locked == ["s-stop"]


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
    assert len(losses(app, "none")) == 2, "the row that was begun is the last"
    assert race_threads() == threads_before


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


# Ended by an error

DIVERGING = partial(race, learning_rate=1e30)


@pytest.fixture(scope="module")
def diverged(small_models):
    """A race whose loss became NaN in its second step."""
    app = small(steps=STEPS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alibi_viz.lab.race", DIVERGING)
        app.train()
        wait_for_end(app)
    return app


def test_error_that_ends_a_race_is_raised_shown_and_keeps_the_rows(diverged):
    (work,) = diverged.works
    told = r"the loss became nan at step 2 of 20; try a learning rate below 1e\+30"
    with pytest.raises(lab.TrainingDiverged, match=told):
        work.result()
    assert "the loss became nan at step 2" in message(diverged)
    assert diverged.caption == "Ended by an error after step 1 of 20."
    assert diverged.details == ""
    assert len(losses(diverged, "alibi")) == 1


def test_training_again_clears_the_error(diverged):
    diverged.steps = 10
    diverged.methods = ["none"]
    diverged.train().result(DEADLINE)
    assert message(diverged) == ""
