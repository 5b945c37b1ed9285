"""LengthLab, driven through its traits, its controls and its methods, without a browser."""

import math
import threading
from pathlib import Path

import pandas as pd
import torch

from alibi_viz import lab
from alibi_viz.lab.turns import on_one_thread
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.race.report import CHECKPOINT_TARGETS
from tests.widgets.race.small_race import DEADLINE, ENGLISH, control, lanes, loss_trace, message, points, small, until

# A race.


def test_the_repr_shows_the_state_before_and_after_a_race() -> None:
    app = small(seed=3)
    expected = (
        "LengthLab(methods=('alibi', 'none'), length=8, steps=10, seed=3, seeds=1, learning_rate=0.012, text=None, "
        "guesses={}, question='longer windows', simple=False)"
    )
    assert repr(app) == expected
    assert app.caption.startswith("Press Train: alibi and none train on the same windows of 8 bytes")
    assert (app.losses, app.means, app.models, len(app.results)) == ({}, {}, {}, 0)
    app.train().result(DEADLINE)
    assert repr(app) == expected


def test_the_results_are_those_of_lab_race() -> None:
    app = small()
    app.train().result(DEADLINE)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    laps = list(lab.race(["alibi", "none"], lab.load_text(), length=8, steps=10, targets=CHECKPOINT_TARGETS))
    torch.set_num_threads(threads)
    for method in ("alibi", "none"):
        steps = [lap.step.loss for lap in laps if lap.method == method and lap.scores is None]
        assert app.losses[method] == steps
        tests = [lap for lap in laps if lap.method == method and lap.scores is not None]
        assert app.means[method] == tests[-1].scores
        for name, value in tests[-1].model.state_dict().items():
            assert torch.equal(value, app.models[method].state_dict()[name])


def test_models_that_train_at_the_same_time_give_the_results_of_one_after_the_other() -> None:
    before, apps = torch.get_num_threads(), {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        apps[threads] = small(methods=["alibi", "rotary", "none"], seeds=2)
        apps[threads].train().result(DEADLINE)
        assert torch.get_num_threads() == threads, "and a race leaves it unchanged"
    torch.set_num_threads(before)
    pd.testing.assert_frame_equal(apps[1].results, apps[2].results)


def test_stopped_race_has_the_models_of_its_last_steps() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    app = small(methods=["alibi", "rotary", "none"], steps=2000)
    app.train()
    torch.set_num_threads(before)
    until(lambda: len(app.losses.get("none", ())) > 3, "a few steps")
    app.stop()
    until(lambda: not app.running, "the end")
    for method, losses in app.losses.items():
        model = lab.make_model(method, max_length=8)
        steps = on_one_thread(lab.train(model, lab.load_text(), length=8, steps=2000))
        assert [next(steps).loss for _ in losses] == losses
        for name, value in model.state_dict().items():
            assert torch.equal(value, app.models[method].state_dict()[name])
    assert not any(thread.name.startswith("alibi_viz turns") for thread in threading.enumerate())


def test_the_figure_shows_the_results() -> None:
    app = small()
    app.train().result(DEADLINE)
    assert list(loss_trace(app, "alibi").y) == app.losses["alibi"]
    assert points(app, "mean", "alibi") == app.means["alibi"]
    visible = [True, False, False, False, True, False, False]
    assert [trace.visible for trace in app.figure.data] == visible + [False] * 7 + visible


def test_details_of_a_finished_race_say_what_its_outcome_rests_on() -> None:
    app = small(methods=["alibi", "learned", "none"])
    app.train().result(DEADLINE)
    alibi, none = app.means["alibi"], app.means["none"]
    more = f"{abs(none[32] - alibi[32]):.2f} {'more' if none[32] >= alibi[32] else 'less'}"
    for part in (
        f"Trained 10 steps on windows of 8 bytes of {lab.load_text().name}, seed 0.",
        f"alibi needs {alibi[32]:.2f} bits per byte, none {more}",
        "Not defined beyond 8: learned.",
        f"Each point is the mean over {CHECKPOINT_TARGETS:,} predicted bytes.",
        "a key 256 tokens back (1/m) gets 37% of the weight of the current one",
        "a key 1,024 back (4/m) gets 2%",
        "This is a single seed: train several to see how much results vary.",
    ):
        assert part in app.details
    assert [math.isnan(loss) for loss in app.means["learned"].values()] == [False, True, True, True, True]


def test_models_advance_together_and_lanes_show_their_progress(long_race: LengthLab) -> None:
    until(lambda: "s left" in lanes(long_race), "a time")
    words = lanes(long_race)
    assert words.count('role="progressbar"') == words.count("tokens/s") == words.count("s left") == 2
    assert words.count(" of 2,000</span>") == 2
    done = [len(losses) for losses in long_race.losses.values()]
    assert max(done) - min(done) <= 1


def test_the_figure_is_updated_during_a_race(long_race: LengthLab) -> None:
    before = len(loss_trace(long_race, "alibi").x)
    until(lambda: len(loss_trace(long_race, "alibi").x) > before, "a longer curve")
    until(lambda: len(points(long_race, "mean", "alibi")) == 5, "results at every length")
    assert long_race.caption.startswith("Training on windows of 8 bytes")


def test_stop_leaves_a_usable_result(long_race: LengthLab) -> None:
    until(lambda: long_race.means["none"], "a checkpoint")
    long_race.stop()
    until(lambda: not long_race.running, "the end")
    done = len(long_race.losses["none"])
    assert f"Stopped after step {done:,} of 2,000" in long_race.caption
    assert "last tested after step 50" in long_race.caption
    assert list(long_race.means["none"]) == [8, 16, 32, 64, 128]
    assert long_race.models["none"](torch.zeros(1, 20, dtype=torch.long)).shape == (1, 20, 256)
    assert lanes(long_race).count("stopped") == 2


def test_training_again_starts_from_the_beginning() -> None:
    app = small()
    app.train().result(DEADLINE)
    first = app.losses
    app.train().result(DEADLINE)
    assert app.losses == first
    assert app.losses is not first
    app.seed = 1
    assert "The settings have changed since this race: train again to apply them." in app.caption
    app.train().result(DEADLINE)
    assert app.losses != first
    assert "changed" not in app.caption


def test_changes_during_a_race_apply_to_the_next_one(long_race: LengthLab) -> None:
    long_race.methods = ["rotary"]
    long_race.length = 16
    assert set(long_race.losses) == {"alibi", "none"}
    assert long_race.figure.layout.shapes[1].x0 == 8
    assert "windows of 8 bytes" in long_race.caption


# The controls.


def test_the_buttons_train_and_stop() -> None:
    app = small(steps=2000)
    train, stop = control(app, "s-train"), control(app, "s-stop")
    assert (train.disabled, stop.disabled) == (False, True)
    train.click()
    assert (train.disabled, stop.disabled) == (True, False)
    assert all(control(app, css).disabled for css in ("s-alibi", "s-length", "s-steps-field", "s-seed", "s-text"))
    stop.click()
    until(lambda: not app.running, "the end")
    assert (train.disabled, stop.disabled) == (False, True)
    assert not control(app, "s-alibi").disabled


def test_controls_and_traits_agree() -> None:
    app = small()
    control(app, "s-rotary").value = True
    control(app, "s-none").value = False
    assert app.methods == ("alibi", "rotary")
    app.methods = ["learned"]
    assert [control(app, f"s-{method}").value for method in ("alibi", "rotary", "learned")] == [False, False, True]
    control(app, "s-rate").value = "0.01"
    control(app, "s-seed").value = 7
    assert (app.learning_rate, app.seed) == (0.01, 7)


def test_a_text_is_chosen_by_menu_field_or_trait(tmp_path: Path) -> None:
    path = tmp_path / "fox.txt"
    path.write_text(ENGLISH)
    app = small()
    control(app, "s-text").value = "own"
    assert control(app, "s-own-text").layout.display != "none"
    assert (app.text, message(app)) == (None, ""), "an empty field that was just opened is not an error"
    control(app, "s-own-text").value = ENGLISH
    assert app.text == ENGLISH
    control(app, "s-text").value = "file"
    control(app, "s-path").value = str(path)
    assert app.text == path
    app.train().result(DEADLINE)
    assert "of fox.txt, seed 0" in app.details
    app.text = "short but own"
    assert (control(app, "s-text").value, control(app, "s-own-text").value) == ("own", "short but own")
    app.text = None
    assert control(app, "s-text").value == "built in"
