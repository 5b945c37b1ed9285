"""LengthLab's tabs, seeds, guesses and published seeds: each number on the screen is one that was measured."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from alibi_viz import lab
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.core.traits import BadValue
from alibi_viz.widgets.race.report import NEEDLE, mean_of
from alibi_viz.widgets.race.views import CONTEXT_STRIDE, CONTEXT_TARGETS, POSITION_TARGETS, unmeasured
from tests.widgets.race.small_race import DEADLINE, message, open_tab, points, small, trace, until


@pytest.fixture(scope="module")
def trained() -> LengthLab:
    app = small(methods=["alibi", "learned", "none"], seeds=2)
    app.train().result(DEADLINE)
    return app


@pytest.fixture(autouse=True)
def first_tab(trained: LengthLab) -> Iterator[None]:
    yield
    trained.view, trained.published, trained.guesses = "race", False, {}


# Seeds.


def test_every_seed_is_raced_and_drawn_and_the_thick_line_is_their_mean(trained: LengthLab) -> None:
    alone = [small(methods=["alibi", "learned", "none"], seed=seed) for seed in (0, 1)]
    for app in alone:
        app.train().result(DEADLINE)
    for method in ("alibi", "none"):
        each = [app.results[method] for app in alone]
        assert trained.results[method] == pytest.approx({at: (each[0][at] + each[1][at]) / 2 for at in each[0]})
        assert points(trained, "mean", method) == pytest.approx(trained.results[method])
        drawn = trace(trained, "seeds", method)
        cut = int(np.flatnonzero(np.isnan(drawn.y))[0])
        assert drawn.y[:cut].tolist() == list(each[0].values())
        assert drawn.y[cut + 1 :].tolist() == list(each[1].values())
        assert trained.losses[method] == alone[1].losses[method]
    assert trained.caption.startswith(
        "Trained 10 steps on windows of 8 bytes of Python language reference, seeds 0 and 1."
    )
    assert "Thin lines are the 2 seeds, thick lines their mean." in trained.caption


def test_one_seed_is_said_to_prove_little() -> None:
    app = small()
    app.train().result(DEADLINE)
    assert "One seed proves little: train several." in app.caption
    assert trace(app, "seeds", "alibi").visible is False


def test_a_method_is_called_best_only_if_it_is_in_every_seed(trained: LengthLab) -> None:
    each = [{m: board.scores(m)[8] for m in ("alibi", "learned", "none")} for board in trained._report.boards]
    best = {min(bits, key=bits.get) for bits in each}
    if len(best) == 1:
        assert f"At the training length itself {best.pop()} is best in every seed" in trained.caption
    else:
        assert "At the training length itself no method is best in every seed" in trained.caption


def test_a_second_seed_that_is_stopped_leaves_the_first() -> None:
    app = small(steps=300, seeds=5, length=8)
    app.train()
    until(lambda: app._report and len(app._report.complete) >= 1, "the first seed")
    until(lambda: len(app._report.boards) >= 2 and app._report.boards[-1].last_checkpoint(), "a test of the next seed")
    app.stop()
    until(lambda: not app.running, "the end")
    report, done = app._report, len(app._report.complete)
    assert 1 <= done < 5
    assert f"of seed {len(report.boards)} of 5. Shown: seed" in app.caption
    assert "trained 300 steps on windows of 8 bytes" in app.caption
    boards = report.boards[:done]
    assert app.results["alibi"] == pytest.approx(mean_of([board.scores("alibi") for board in boards]))
    assert app.models is boards[-1].models
    for view in ("gap", "by position", "same targets"):
        open_tab(app, view)
        if view != "gap":
            until(lambda view=view: not unmeasured(report, view) and not report.measuring, "the measurement")
            assert sorted(report.measured[view]) == list(range(done)), "a seed that was cut short is not mixed in"
    assert len(report.gaps("alibi")) == done
    app.close()


# Tabs.


def test_the_gap_tab_shows_what_four_times_the_length_costs_at_each_test(trained: LengthLab) -> None:
    open_tab(trained, "gap")
    boards = trained._report.boards
    gaps = [{step: by[32] - by[8] for step, by in board.checkpoints["none"].items()} for board in boards]
    assert points(trained, "mean", "none") == pytest.approx(
        {step: (gaps[0][step] + gaps[1][step]) / 2 for step in gaps[0]}
    )
    assert "At the last test, windows of 32 against windows of 8, in bits per byte: alibi" in trained.caption
    assert trace(trained, "mean", "learned").name == "learned (not defined)"
    assert trained.figure.data[0].visible is False


def test_positions_are_those_of_the_laboratory(trained: LengthLab) -> None:
    open_tab(trained, "by position")
    model = trained.models["none"]
    bits = lab.loss_by_position(model, lab.load_text(), 128, targets=POSITION_TARGETS)
    own = trained._report.measured["by position"][1]["none"]
    assert own[1] == pytest.approx(float(bits[0]), abs=1e-4)
    assert own[2] == pytest.approx(float(bits[1]), abs=1e-4)
    weights = {at: own[at] for at in own}
    assert min(weights.values()) >= float(bits.min()) - 1e-4
    assert "learned is not defined in windows this long" in trained.caption
    assert "Bits per byte in one long window: alibi" in trained.caption


def test_the_bins_of_positions_cover_each_position_once(trained: LengthLab, monkeypatch: pytest.MonkeyPatch) -> None:
    from alibi_viz.widgets.race import views as race_views  # noqa: PLC0415

    counted = np.zeros(128)

    class Ones:
        def __getitem__(self, part: slice) -> Any:
            counted[part] += 1
            return np.array([1.0])

    monkeypatch.setattr(race_views.lab, "loss_by_position", lambda *_, **__: Ones())
    list(race_views._positions(trained.models["none"], trained._report))
    assert counted.tolist() == [1.0] * 128


def test_the_same_targets_are_those_of_the_laboratory(trained: LengthLab) -> None:
    open_tab(trained, "same targets")
    stride = min(CONTEXT_STRIDE, 8)
    expected = lab.loss_by_context(
        trained.models["alibi"], lab.load_text(), [8, 16, 32, 64, 128], targets=CONTEXT_TARGETS, stride=stride
    )
    assert trained._report.measured["same targets"][1]["alibi"] == pytest.approx(expected, abs=1e-4)
    assert "From 8 to 128 bytes of context: alibi" in trained.caption


def test_what_was_measured_is_not_measured_again(trained: LengthLab, monkeypatch: pytest.MonkeyPatch) -> None:
    open_tab(trained, "same targets")
    monkeypatch.setattr("alibi_viz.widgets.race.views._contexts", lambda *_: pytest.fail("measured again"))
    open_tab(trained, "race")
    open_tab(trained, "same targets")
    assert message(trained) == ""


def test_a_tab_that_was_open_during_the_race_is_measured_at_its_end() -> None:
    app = small(view="same targets")
    assert "Train first; the trained models are measured then." in app.caption
    app.train().result(DEADLINE)
    until(lambda: "bytes of context" in app.caption, "the measurement")
    assert len(points(app, "mean", "alibi")) == 5


def test_training_again_while_models_are_measured_is_no_harm() -> None:
    app = small(methods=["alibi", "none", "rotary"])
    app.train().result(DEADLINE)
    app.view = "by position"
    app.train().result(DEADLINE)
    until(lambda: "in one long window" in app.caption, "the measurement of the new models")
    assert message(app) == ""


# The needle.


def test_the_needle_is_a_race_of_its_own() -> None:
    app = small(methods=["alibi", "none"], steps=20)
    app.train().result(DEADLINE)
    text = app.results
    app.view = "needle"
    assert app.results == {}
    assert "guessing finds 6.2%" in app.caption
    app.train().result(DEADLINE)
    laps = lab.race(["alibi", "none"], NEEDLE, length=8, steps=20, checkpoints=5)
    last = {lap.method: lap.scores for lap in laps if lap.scores is not None}
    assert app.results == last
    assert list(app.results["alibi"]) == lab.evaluation_distances(NEEDLE, 8)
    assert points(app, "mean", "alibi") == app.results["alibi"]
    assert app.figure.layout.shapes[4].y0 == 1 / 16
    app.view = "race"
    assert app.results == text, "the race on text is still there"


def test_while_one_race_is_on_the_other_tab_says_so() -> None:
    app = small(steps=2000)
    app.train()
    until(lambda: app.losses["none"], "a step")
    app.view = "needle"
    assert "The race that is on belongs to another tab." in app.caption
    with pytest.raises(RuntimeError, match="a race is running"):
        app.train()
    app.stop()
    until(lambda: not app.running, "the end")
    assert "another tab" not in app.caption


# Published seeds.


@pytest.mark.parametrize(
    ("view", "task", "table"),
    [("race", "text", "by_length"), ("same targets", "text", "by_context"), ("gap", "text", "gap")],
)
def test_published_seeds_are_drawn_at_the_same_multiples(trained: LengthLab, view: str, task: str, table: str) -> None:
    open_tab(trained, view)
    trained.published = True
    records = lab.published_curves(task, table)["none"]
    shown = trace(trained, "published", "none")
    expected = [value for seed in records.values() for value in seed.values()]
    assert shown.y[~np.isnan(shown.y)].tolist() == pytest.approx(expected)
    places = [at if view == "gap" else at * 8 // 64 for at in records[0]]
    assert shown.x[: len(places)].tolist() == places
    assert "Dotted: published seeds, not this machine's, trained 600 steps on windows of 64" in trained.caption
    trained.published = False
    assert trace(trained, "published", "none").visible is False


def test_published_needles_are_at_the_same_multiples_too(trained: LengthLab) -> None:
    trained.published = True
    trained.view = "needle"
    shown = trace(trained, "published", "alibi")
    assert shown.x[:6].tolist() == [7, 15, 31, 63, 127, 255]
    assert shown.y[0] == lab.published_curves("needle", "accuracy")["alibi"][0][63]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("guesses", {"alibi": {3: 2.0}}, "guesses must be {method: {2, 4, 16: bits per byte from 0 to 10}}"),
        ("guesses", {"alibi": {2: -1}}, "guesses must be"),
        ("guesses", {"alibi": {2: math.nan}}, "guesses must be"),
        ("guesses", {"t5": {2: 2.0}}, "guesses must be"),
        ("guesses", [2.0], "guesses must be"),
        ("seeds", 0, "seeds must be an integer from 1 to 5, got 0"),
        ("seeds", 6, "seeds must be an integer from 1 to 5, got 6"),
        ("view", "races", "view must be one of race, gap, by position, same targets, needle, got 'races'"),
        ("published", 1, "published must be True or False, got 1"),
    ],
)
def test_a_bad_value_is_told_and_changes_nothing(trained: LengthLab, name: str, value: object, said: str) -> None:
    before = (repr(trained), trained.caption)
    with pytest.raises(BadValue) as caught:
        setattr(trained, name, value)
    assert said in str(caught.value)
    assert (repr(trained), trained.caption) == before


def test_a_text_just_long_enough_to_race_is_long_enough_for_every_tab() -> None:
    app = small(text="abcdefgh" * 165)  # the validation part has 132 bytes, the longest test takes 129
    app.train().result(DEADLINE)
    for view in ("gap", "by position", "same targets"):
        open_tab(app, view)
        assert message(app) == "", view
