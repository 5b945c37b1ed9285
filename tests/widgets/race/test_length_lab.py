"""LengthLab without a browser: its numbers are those of `lab.race`, for every seed, and its race
ends when told to."""

import math
import threading
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch

from alibi_viz import lab
from alibi_viz.measure import sentences as say
from alibi_viz.measure.table import TRAINING_LOSS, results_table
from alibi_viz.models import POSITIONS
from alibi_viz.train.training import limited_threads
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.race import captions
from alibi_viz.widgets.race.state import CHECKPOINT_TARGETS, RaceState
from tests.tables import curve, same_weights, table
from tests.widgets.race import small_race
from tests.widgets.race.small_race import (
    DEADLINE,
    control,
    losses,
    open_tab,
    points,
    small,
    stop,
    trace,
    until,
)

TEXT = lab.load_text()


def test_rows_models_and_figure_are_those_of_lab_race_for_every_seed(raced: LengthLab) -> None:
    settings, tables = {"length": 8, "steps": 10, "targets": CHECKPOINT_TARGETS}, []
    for seed in (3, 4):
        with limited_threads(1):
            race = lab.race(["alibi", "learned", "none"], TEXT, seed=seed, **settings)
            tables.append(results_table(race))
    expected = pd.concat(tables, ignore_index=True)
    rows = raced.results[raced.results["question"].isin([TRAINING_LOSS, "longer sequences", "gap"])]
    pd.testing.assert_frame_equal(rows.reset_index(drop=True), expected)
    for method, model in race.models.items():
        assert same_weights(raced.models[method], model)
        first, second = (
            curve(expected, "longer sequences", label=method, seed=seed, step=10) for seed in (3, 4)
        )
        mean = {x: (value + second[x]) / 2 for x, value in first.items()}
        assert raced.means[method] == pytest.approx(mean, nan_ok=True)
        defined = {x: value for x, value in mean.items() if not math.isnan(value)}
        assert points(raced, "mean", method) == pytest.approx(defined)
        assert trace(raced, "seeds", method).y[: len(defined)].tolist() == [
            first[x] for x in defined
        ]
        bits = curve(expected, TRAINING_LOSS, label=method, seed=4)
        assert (
            losses(raced)[method] == list(bits.values()) == list(trace(raced, "losses", method).y)
        )
    last = expected[(expected["step"] == 10) & (expected["question"] == "longer sequences")]
    told = (
        f"Up to 128 bytes, in every seed {'; '.join(say.outcomes(say.rises(last)))}, in bits "
        "per byte."
    )
    told = " ".join(
        [told, *say.sentences(lab.find_question("longer sequences").findings(last))[1:]]
    )
    said = f"{raced.caption} {raced.details}"
    assert said == f"{told} Trained 10 steps on sequences of 8 bytes of tales, seeds: 3 and 4."


def test_the_repr_is_the_state_and_training_again_starts_from_the_beginning() -> None:
    app = small(seed=3)
    before = repr(app)
    assert "length=8, steps=10, seed=3, seeds=1" in before and app.caption.startswith(
        "Press Train: alibi and none"
    )
    assert (app.means, app.models, len(app.results)) == ({}, {}, 0)
    app.train().result(DEADLINE)
    first = losses(app)
    app.train().result(DEADLINE)
    assert (losses(app), repr(app)) == (first, before)
    control(app, "s-seed").value = "1"
    assert "The settings have changed since this race" in app.caption
    app.train().result(DEADLINE)
    assert losses(app) != first and "changed" not in app.caption


def test_a_running_race_shows_its_progress_and_locks_its_settings(long_race: LengthLab) -> None:
    def drawn() -> int:
        x = trace(long_race, "losses", "alibi").x
        return 0 if x is None else len(x)

    caption, before = long_race.caption, drawn()
    until(lambda: drawn() > before, "a longer curve")
    until(lambda: long_race.caption != caption, "a checkpoint")
    assert long_race.caption.startswith(
        "Training on sequences of 8 bytes of tales, last tested after step "
    )
    assert long_race.results.query("question == 'longer sequences'")["step"].min() == 50
    assert long_race.details == "", "open details would close when their text changes"
    lanes = control(long_race, "s-lanes").value
    assert (
        lanes.count('role="progressbar"')
        == lanes.count(" of 2,000</span>")
        == 2
        == len(long_race.means)
    )
    assert all(
        f"--color: {trace(long_race, 'mean', method).line.color};" in lanes
        for method in ("alibi", "none")
    )
    assert all(
        control(long_race, css).disabled
        for css in ("s-train", "s-alibi", "s-length", "s-seed", "s-text")
    )
    assert not any(control(long_race, css).disabled for css in ("s-more", "s-stop"))
    done = len(losses(long_race)["alibi"])
    long_race.methods, long_race.length = ["rotary"], 16  # for the next one
    with pytest.raises(RuntimeError, match="a race is running: wait for its end or stop it"):
        long_race.train()
    until(lambda: len(losses(long_race)["alibi"]) > done, "more steps")
    assert set(losses(long_race)) == {"alibi", "none"} and long_race.figure.layout.shapes[1].x0 == 8


def test_the_caption_tells_when_a_seed_was_last_tested_and_how_much_of_its_text_is_repeated() -> (
    None
):
    def caption(measuring: bool = False) -> tuple[str, str]:
        return captions.caption(race, lab.find_question("by position"), race.table, "", measuring)

    race, later = (
        RaceState("text", ("alibi",), 8, 100, 3, 2),
        "The models will be measured when the race is over.",
    )
    race.state, race.models, begin = (
        "running",
        {3: {}},
        "Training on sequences of 8 bytes of tales, seed",
    )
    assert caption() == (
        f"{begin} 1 of 2, not tested yet. {later}",
        "",
    ) and "step 0 of 100" in captions.lanes(race)
    race.rows += table("longer sequences", {"alibi": [{8: 2.0}]}, 8, step=50).to_dict("records")
    race.rows += table("gap", {"alibi": [{70: 2.0}]}, 8, step=70).to_dict("records")
    assert caption() == (f"{begin} 1 of 2, last tested after step 50. {later}", "")
    race.models[4] = {}
    assert caption() == (f"{begin} 2 of 2, not tested yet. {later}", "")
    race.state = "stopped"
    race.complete, race.source = [3], lab.load_text(small_race.ENGLISH)
    for share, told in (
        (0.12, "12% of its validation part also stands in its training part."),
        (0.09, "seeds: 3."),
    ):
        vars(race.source)["repeats"] = share
        assert caption()[0].endswith("The models were not measured.") and caption()[1].endswith(
            told
        )
    assert caption(measuring=True)[0].endswith("The models are being measured.")


def test_an_interrupt_while_it_is_drawn_leaves_a_race_that_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = small(methods=["alibi"], steps=2000)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(app, "refresh", lambda: (_ for _ in ()).throw(KeyboardInterrupt()))
        app.train()
    stop(app)
    assert not app.running and not control(app, "s-train").disabled


def test_a_stopped_race_keeps_its_rows_and_the_models_of_its_last_steps() -> None:
    app = small(methods=["alibi", "rotary", "none"], steps=2000, seed=6, guesses={"alibi": "holds"})
    with limited_threads(2):
        app.train()
        until(lambda: app.means.get("none"), "a checkpoint")
        assert control(app, "s-guess-alibi").disabled and control(app, "s-guess").disabled
        stop(app)
        assert torch.get_num_threads() == 2, "a race leaves it unchanged"
    for method, bits in losses(app).items():
        model = lab.make_model(method, seed=6, max_length=8)
        with limited_threads(1):
            steps = lab.train(model, TEXT, length=8, steps=2000, seed=6)
            assert [next(steps)["value"] for _ in bits] == bits
        assert same_weights(app.models[method], model)
    done = max(map(len, losses(app).values()))
    assert (
        f"Stopped after step {done:,} of 2,000." in app.caption and control(app, "s-stop").disabled
    )
    assert (app.written, control(app, "s-written").value, app.details) == ({}, "", "")
    assert "You guessed" not in app.caption, "models that have hardly learned anything can't fail"
    assert not any(control(app, css).disabled for css in ("s-train", "s-alibi", "s-guess-alibi"))


def test_a_closed_app_trains_and_measures_no_further() -> None:
    app = small(steps=2000)
    future = app.train()
    until(lambda: losses(app).get("none"), "a step")
    app.question = "by position"
    app.close()
    future.result(DEADLINE)
    future.join(DEADLINE)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("alibi_viz")]
    assert len(app._races["text"].rows) < 2000 and not app._races["text"].measured


def test_a_seed_that_is_stopped_is_not_mixed_with_complete_ones() -> None:
    app = small(steps=300, seed=2, seeds=5)
    app.train()
    until(lambda: set(app.results["seed"]) >= {2, 3}, "the second seed")
    with app._lock:
        app.refresh()
        if app._race.complete == [2]:
            first = curve(app.results, "longer sequences", label="alibi", seed=2, step=300)
            assert points(app, "mean", "alibi") == first
    stop(app)
    done = app._race.complete
    assert done == list(range(2, 2 + len(done))) and len(done) < 5
    assert (
        f"seed {len(app._race.models)} of 5" in app.caption
        and app.models is app._race.models[done[-1]]
    )
    open_tab(app, "gap")
    open_tab(app, "same targets")
    assert set(app.results.query("question == 'same targets'")["seed"]) == set(done)


def test_a_loss_that_is_nan_ends_the_race_keeps_the_curves_and_claims_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = small(steps=300)
    monkeypatch.setattr("alibi_viz.lab.race", partial(lab.race, learning_rate=1000))
    with pytest.raises(
        lab.TrainingDiverged, match=r"the loss became nan at step .* try a learning rate below 1000"
    ):
        app.train().result(DEADLINE)
    assert "the loss became nan" in small_race.message(app)
    assert (
        app.caption.startswith("Ended by an error after step")
        and 0 < len(losses(app)["alibi"]) < 300
    )
    for question in ("longer sequences", "gap", "by position", "same targets"):
        open_tab(app, question)
        assert "Training did not finish, so the methods cannot be compared." in app.caption
        assert "not defined" not in app.caption + app.details
    assert not app._race.measured
    monkeypatch.undo()
    app.steps, app.question = 10, "longer sequences"
    app.train().result(DEADLINE)
    assert small_race.message(app) == ""


def test_each_question_shows_what_the_lab_measures_and_measures_it_once(raced: LengthLab) -> None:
    for name in ("by position", "same targets", "softmax denominator"):
        open_tab(raced, name)
        expected = {
            x: value
            for x, value, _ in lab.find_question(name).measure(raced.models["none"], TEXT, 8, 16)
        }
        assert curve(raced.results, name, label="none", seed=4) == pytest.approx(expected, abs=1e-4)
        assert set(raced.results.query("question == @name")["seed"]) == {3, 4}
    open_tab(raced, "gap")
    gaps = [curve(raced.results, "gap", label="none", seed=seed) for seed in (3, 4)]
    mean = {step: (gaps[0][step] + gaps[1][step]) / 2 for step in gaps[0]}
    assert points(raced, "mean", "none") == pytest.approx(mean)
    assert f"none ({list(mean.values())[-1]:+z.2f})" in raced.caption
    assert trace(raced, "mean", "learned").name == "learned (not defined)"
    assert trace(raced, "losses", "alibi").visible is False
    rows = len(raced.results)
    open_tab(raced, "same targets")
    assert ([*raced.results.index], small_race.message(raced)) == ([*range(rows)], "")


def test_a_question_that_is_open_during_a_race_or_a_second_race_is_measured_at_the_end() -> None:
    app = small(question="same targets")
    assert "How does more context change the loss" in app.caption
    app.train().result(DEADLINE)
    app.question = "by position"
    app.train().result(DEADLINE)  # while the models of the first race are measured
    until(
        lambda: "From position 1 to" in app.caption + app.details,
        "the measurement of the new models",
    )
    app.question = "same targets"
    stop(app)
    assert "being measured" not in app.caption and small_race.message(app) == ""


def test_a_race_is_tested_every_50_steps_on_text_and_every_60_on_a_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        "alibi_viz.lab.race", lambda *_, checkpoints, **__: asked.append(checkpoints)
    )
    for task, steps in (("text", 99), ("text", 949), ("needle", 99), ("needle", 959)):
        RaceState(task, ("alibi",), 8, steps, 0, 1).start()
    assert asked == [10, 18, 5, 15], "and at least 10 or 5 times"


@pytest.mark.parametrize("name", ["needle", "induction"])
def test_a_task_has_a_race_of_its_own_with_its_own_settings(raced: LengthLab, name: str) -> None:
    app, task = small(methods=["alibi", "none"], seed=5, question=name), lab.TASKS[name]
    app.train().result(DEADLINE)
    rows = results_table(
        lab.race(["alibi", "none"], task, length=8, steps=10, seed=5, checkpoints=5)
    )
    assert (
        app.means["none"] == points(app, "mean", "none") == curve(rows, name, label="none", step=10)
    )
    assert f"Trained 10 steps on {name} examples of up to 8 tokens, seeds: 5." in app.details
    assert (
        app.figure.layout.yaxis.title.text == "bits per answer"
        and app.figure.layout.shapes[-1].y0 == task.chance
    )
    app.question, app.length = "longer sequences", 16
    assert app.means == {} and "sequences of 16 bytes" in app.caption
    app.question = name
    assert app.means and "changed since" in app.caption


def test_the_caption_has_at_most_two_sentences_in_every_state(
    raced: LengthLab, long_race: LengthLab
) -> None:
    told = [small().caption, long_race.caption]
    long_race.question = "needle"
    told += [long_race.caption]
    long_race.question = "longer sequences"
    stop(long_race)
    told += [long_race.caption]
    assert (
        "The race that is running is for another question." in told[2]
        and "Stopped after step" in told[3]
    )
    for question in ("longer sequences", "gap", "by position", "same targets", "names", "needle"):
        open_tab(raced, question)
        for seed in (8, 3):  # with other settings, and with those of the race
            raced.seed = seed
            told += [raced.caption]
    assert {len(say.sentences([caption])) for caption in told} <= {1, 2}, told


def test_a_text_is_chosen_by_menu_field_or_trait(tmp_path: Path) -> None:
    path = tmp_path / "<b>fox.txt"
    path.write_text("🐢 <script>".join(small_race.ENGLISH.split()[:500]))
    app = small()
    menu, field = control(app, "s-text"), control(app, "s-own-text")
    field.value = str(path)
    assert (app.text.name, menu.value, field.value) == (
        "<b>fox.txt",
        "<b>fox.txt",
        "",
    ) and not field.continuous_update
    app.train().result(DEADLINE)
    assert "of <b>fox.txt, seeds: 0" in app.details and "<b>" not in app._details.value
    app.text = small_race.ENGLISH
    assert menu.value == "your text"
    python = lab.python_text().name
    menu.value = python
    assert app.text.name == python and python in app._planned().source_name
    assert list(dict(menu.options)) == ["tales", python, "<b>fox.txt", "your text"]
    menu.value = "tales"
    assert app.text is None


def test_the_first_screen_has_six_controls_and_simple_mode_guesses_train_and_stop() -> None:
    app = small(guesses={"alibi": None, "none": None}, simple=True)
    assert small_race.visible_controls(app) == [
        "s-guess-alibi",
        "s-guess-none",
        "s-train",
        "s-stop",
    ]
    assert app.reason not in small_race.visible(app)
    app.simple, app.guesses = False, {}
    assert [*app.children[2:-1]] == [
        app._message,
        app.figure,
        app._caption,
        app._written,
        app._details,
        app.reason,
    ]
    first = ["s-train", "s-stop", "s-guess", "s-more", "s-reset", "s-question"]
    assert small_race.visible_controls(app) == small_race.visible_controls(small()) == first
    control(app, "s-more").value = True
    more = [*POSITIONS, "length", "steps", "seeds", "seed", "text", "own-text"]
    assert small_race.visible_controls(app) == [
        *first[:5],
        *(f"s-{name}" for name in more),
        "s-question",
    ]
    assert control(app, "s-alibi").tooltip == str(POSITIONS["alibi"].__doc__).partition("\n")[0]
    app.simple = True
    assert small_race.visible_controls(app) == ["s-train", "s-stop"]
