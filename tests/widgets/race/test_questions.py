"""LengthLab's questions and seeds: every number on the screen is a result of the lab."""

import math
import time

import numpy as np
import pytest

from alibi_viz import lab
from alibi_viz.lab.questions import HOLDS, TIE, by_position, same_targets
from alibi_viz.lab.questions.question import mean_curve
from alibi_viz.lab.results import seed_curves
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.core.traits import BadValue
from tests.widgets.race.small_race import DEADLINE, loss_trace, message, open_tab, points, small, trace, until

# Seeds.


def test_every_seed_is_trained_and_drawn_and_the_thick_line_is_their_mean(trained: LengthLab) -> None:
    alone = [small(methods=["alibi", "learned", "none"], seed=seed) for seed in (0, 1)]
    for app in alone:
        app.train().result(DEADLINE)
    for method in ("alibi", "none"):
        each = [app.means[method] for app in alone]
        assert trained.means[method] == pytest.approx(mean_curve(each))
        assert points(trained, "mean", method) == pytest.approx(trained.means[method])
        drawn = trace(trained, "seeds", method)
        cut = int(np.flatnonzero(np.isnan(drawn.y))[0])
        assert drawn.y[:cut].tolist() == list(each[0].values())
        assert drawn.y[cut + 1 :].tolist() == list(each[1].values())
        assert trained.losses[method] == alone[1].losses[method]
    assert "Thin lines are the 2 seeds, thick lines their mean." in trained.details


def test_a_method_is_called_best_only_if_it_is_best_in_every_seed(trained: LengthLab) -> None:
    each = [{m: board.scores(m)[8] for m in ("alibi", "learned", "none")} for board in trained._report.boards]
    best = [m for m in each[0] if all(bits[m] <= min(bits.values()) + TIE for bits in each)]
    (sentence,) = [part for part in trained.details.split(". ") if part.startswith("At the training length ")]
    if not best:
        assert "no method is best in every seed" in sentence
    elif len(best) == 3:
        assert "all are within 0.02 of the best in every seed" in sentence
    else:
        assert all(m in sentence for m in best)
        assert not any(m in sentence for m in each[0] if m not in best)


def test_a_stopped_seed_leaves_the_complete_ones() -> None:
    app = small(steps=300, seeds=5, length=8)
    app.train()
    until(lambda: app._report and len(app._report.complete) >= 1, "the first seed")
    until(lambda: len(app._report.boards) >= 2 and app._report.boards[-1].last_checkpoint(), "a test of the next seed")
    app.stop()
    until(lambda: not app.running, "the end")
    report, done = app._report, len(app._report.complete)
    assert 1 <= done < 5
    assert f"of seed {len(report.boards)} of 5" in app.caption
    assert "Trained 300 steps on windows of 8 bytes" in app.details
    boards = report.boards[:done]
    assert app.means["alibi"] == pytest.approx(mean_curve([board.scores("alibi") for board in boards]))
    assert app.models is boards[-1].models
    for name in ("gap", "by position", "same targets"):
        open_tab(app, name)
        until(lambda: not report.unmeasured(app._question) and not report.measuring, "the measurement")
        seeds = app.results.query("question == @name")["seed"]
        assert sorted(set(seeds)) == list(range(done)), "a seed that was cut short is not mixed in"
    app.close()


def test_a_seed_in_training_is_drawn_thin_beside_the_mean_of_complete_ones() -> None:
    app = small(steps=300, seeds=5)
    app.train()
    until(lambda: app._report and len(app._report.boards) == 2 and app._report.boards[1].last_checkpoint(), "a seed")
    with app._lock:
        app.refresh()
        board = app._report.boards[0]
        if app._report.complete == [0] and app._report.unfinished(app._question) is not None:
            assert points(app, "mean", "alibi") == board.scores("alibi")
            assert len(trace(app, "seeds", "alibi").x) == 11, "five points of each seed, and a gap between them"
    app.stop()
    until(lambda: not app.running, "the end")
    app.close()


# The table.


def test_the_table_holds_every_result_of_the_race(trained: LengthLab) -> None:
    for name in ("by position", "same targets"):
        open_tab(trained, name)
    table = trained.results
    assert list(table.columns) == list(lab.COLUMNS)
    assert set(table["question"]) == {"training loss", "longer windows", "gap", "by position", "same targets"}
    assert (set(table["origin"]), set(table["task"]), set(table["length"])) == ({"live"}, {"text"}, {8})
    assert set(table["text"]) == {lab.load_text().fingerprint}
    boards = trained._report.boards
    losses = table.query("question == 'training loss' and seed == 1 and method == 'none'")
    assert losses["value"].tolist() == boards[1].losses["none"]
    curves = seed_curves(table.query("question == 'longer windows'"))
    for seed in (0, 1):
        assert curves["alibi"][seed] == boards[seed].scores("alibi")
    assert math.isnan(curves["learned"][0][16])


def test_a_table_costs_little_at_each_update(trained: LengthLab) -> None:
    """An update comes every 0.2 s. A few hundred rows take some milliseconds; a hundred would show."""
    trained.question = "gap"
    started = time.process_time()
    for _ in range(5):
        trained._report.results(trained._question)
    assert (time.process_time() - started) / 5 < 0.1


# Questions.


def test_gap_shows_the_difference_at_each_checkpoint(trained: LengthLab) -> None:
    open_tab(trained, "gap")
    boards = trained._report.boards
    gaps = [{step: by[32] - by[8] for step, by in board.checkpoints["none"].items()} for board in boards]
    assert points(trained, "mean", "none") == pytest.approx(
        {step: (gaps[0][step] + gaps[1][step]) / 2 for step in gaps[0]}
    )
    assert "the loss on windows of 32 minus that on windows of 8, at the last checkpoint" in trained.caption
    ends = [list(gap.values())[-1] for gap in gaps]
    assert all(end <= HOLDS for end in ends)
    assert f"none ({sum(ends) / 2:+z.2f})" in trained.caption
    assert trace(trained, "mean", "learned").name == "learned (not defined)"
    assert loss_trace(trained, "alibi").visible is False


def test_losses_by_position_are_those_of_the_lab(trained: LengthLab) -> None:
    open_tab(trained, "by position")
    model = trained.models["none"]
    bits = lab.loss_by_position(model, lab.load_text(), 128, targets=128 * by_position.MAX_WINDOWS)
    measured = seed_curves(trained.results.query("question == 'by position'"))["none"][1]
    assert measured[1] == pytest.approx(float(bits[0]), abs=1e-4)
    assert measured[2] == pytest.approx(float(bits[1]), abs=1e-4)
    assert min(measured.values()) >= float(bits.min()) - 1e-4
    assert "learned is not defined in windows this long" in trained.caption + trained.details
    assert "Bits per byte in one long window: alibi" in trained.caption


def test_losses_on_the_same_targets_are_those_of_the_lab(trained: LengthLab) -> None:
    open_tab(trained, "same targets")
    settings = {"targets": same_targets.TARGETS, "stride": min(same_targets.STRIDE, 8)}
    expected = lab.loss_by_context(trained.models["alibi"], lab.load_text(), [8, 16, 32, 64, 128], **settings)
    measured = seed_curves(trained.results.query("question == 'same targets'"))["alibi"][1]
    assert measured == pytest.approx(expected, abs=1e-4)
    assert "from the context shown or up to 7 bytes less" in trained.caption


def test_models_are_measured_once(trained: LengthLab, monkeypatch: pytest.MonkeyPatch) -> None:
    open_tab(trained, "same targets")
    monkeypatch.setattr(same_targets, "loss_by_context", lambda *_, **__: pytest.fail("measured again"))
    open_tab(trained, "longer windows")
    open_tab(trained, "same targets")
    assert message(trained) == ""


def test_a_question_that_was_open_during_the_race_is_measured_at_its_end() -> None:
    app = small(question="same targets")
    assert "each predicted from more and more context" in app.caption
    app.train().result(DEADLINE)
    until(lambda: "The same bytes each time" in app.caption, "the measurement")
    assert len(points(app, "mean", "alibi")) == 5


def test_training_again_while_models_are_measured() -> None:
    app = small(methods=["alibi", "none", "rotary"])
    app.train().result(DEADLINE)
    app.question = "by position"
    app.train().result(DEADLINE)
    until(lambda: "in one long window" in app.caption, "the measurement of the new models")
    assert message(app) == ""


# Tasks.


def test_a_task_has_a_race_of_its_own() -> None:
    app, task = small(methods=["alibi", "none"]), lab.TASKS["needle"]
    app.train().result(DEADLINE)
    text = app.means
    app.question = "needle"
    assert app.means == {}
    assert "train on the same needle examples of up to 8 tokens" in app.caption
    app.train().result(DEADLINE)
    laps = lab.race(["alibi", "none"], task, length=8, steps=10, checkpoints=5)
    last = {lap.method: lap.scores for lap in laps if lap.scores is not None}
    assert app.means == last
    assert list(app.means["alibi"]) == lab.evaluation_distances(task, 8)
    assert points(app, "mean", "alibi") == app.means["alibi"]
    assert app.figure.layout.shapes[4].y0 == 1 / 16
    assert "Guessing is right 6.2% of the time." in app.details
    assert app.figure.layout.yaxis.title.text == "bits per answer"
    assert set(app.results["question"]) == {"needle", "training loss"}
    app.question = "longer windows"
    assert app.means == text, "the race on text is still there"


@pytest.mark.parametrize("name", ["copy", "induction"])
def test_every_task_can_be_raced(name: str) -> None:
    app = small(methods=["none"], question=name)
    app.train().result(DEADLINE)
    assert f"Trained 10 steps on {name} examples of up to 8 tokens, seed 0." in app.details
    assert points(app, "mean", "none") == app.means["none"] == app._report.board.scores("none")
    assert list(app.means["none"]) == lab.evaluation_distances(lab.TASKS[name], 8)


def test_the_caption_says_that_a_race_for_another_question_is_running() -> None:
    app = small(steps=2000)
    app.train()
    until(lambda: app.losses["none"], "a step")
    app.question = "needle"
    assert "The race that is running is for another question." in app.caption
    with pytest.raises(RuntimeError, match="a race is running"):
        app.train()
    app.stop()
    until(lambda: not app.running, "the end")
    assert "another question" not in app.caption


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("guesses", {"alibi": "wins"}, "guesses must be {method: holds, degrades, fails or None}, got"),
        ("guesses", {"alibi": ["holds"]}, "guesses must be"),
        ("guesses", {"rope": "holds"}, "guesses must be"),
        ("guesses", ["holds"], "guesses must be"),
        ("seeds", 0, "seeds must be an integer from 1 to 5, got 0"),
        ("seeds", 6, "seeds must be an integer from 1 to 5, got 6"),
        (
            "question",
            "races",
            "question must be one of longer windows, gap, by position, same targets, ",
        ),
        ("simple", 1, "simple must be True or False, got 1"),
    ],
)
def test_a_bad_value_is_named_and_changes_nothing(trained: LengthLab, name: str, value: object, text: str) -> None:
    before = (repr(trained), trained.caption)
    with pytest.raises(BadValue) as caught:
        setattr(trained, name, value)
    assert text in str(caught.value)
    assert (repr(trained), trained.caption) == before
