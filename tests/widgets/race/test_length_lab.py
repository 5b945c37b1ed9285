"""LengthLab, driven through its traits, its controls and its methods, without a browser."""

import math
from pathlib import Path

import torch

from alibi_viz import lab
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.race.report import TARGETS
from tests.widgets.race.small_race import DEADLINE, ENGLISH, control, lanes, message, small, until

# The race.


def test_it_starts_readable_and_its_repr_never_changes() -> None:
    app = small(seed=3)
    words = (
        "LengthLab(methods=('alibi', 'none'), length=8, steps=10, seed=3, seeds=1, learning_rate=0.008, text=None, "
        "guesses={}, view='race', published=False)"
    )
    assert repr(app) == words
    assert app.caption.startswith("Train starts alibi and none from the same weights")
    assert (app.losses, app.results, app.models) == ({}, {}, {})
    app.train().result(DEADLINE)
    assert repr(app) == words


def test_the_numbers_are_those_of_the_laboratory() -> None:
    app = small()
    app.train().result(DEADLINE)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    laps = list(lab.race(["alibi", "none"], lab.load_text(), length=8, steps=10, targets=TARGETS))
    torch.set_num_threads(threads)
    for method in ("alibi", "none"):
        steps = [lap.step.loss for lap in laps if lap.method == method and lap.scores is None]
        assert app.losses[method] == steps
        tests = [lap for lap in laps if lap.method == method and lap.scores is not None]
        assert app.results[method] == tests[-1].scores
        for name, value in tests[-1].model.state_dict().items():
            assert torch.equal(value, app.models[method].state_dict()[name])


def test_the_threads_of_the_kernel_are_left_alone() -> None:
    before = torch.get_num_threads()
    app = small()
    app.train().result(DEADLINE)
    assert torch.get_num_threads() == before


def test_the_figure_shows_what_was_measured() -> None:
    app = small()
    app.train().result(DEADLINE)
    left, right = app.figure.data[0], app.figure.data[5]
    assert list(left.y) == app.losses["alibi"]
    assert dict(zip(right.x, right.y, strict=True)) == app.results["alibi"]
    assert [trace.visible for trace in app.figure.data] == [True, False, False, False, True] * 2 + [False] * 15


def test_the_caption_says_what_was_measured() -> None:
    app = small(methods=["alibi", "learned", "none"])
    app.train().result(DEADLINE)
    alibi, none = app.results["alibi"], app.results["none"]
    assert app.caption.startswith("Trained 10 steps on windows of 8 bytes of Python language reference, seed 0.")
    more = f"{abs(none[32] - alibi[32]):.2f} {'more' if none[32] >= alibi[32] else 'less'}"
    assert f"alibi needs {alibi[32]:.2f} bits per byte and none {more}" in app.caption.replace(", none", " and none")
    assert "learned: not defined beyond 8, where the table ends." in app.caption
    assert "1/e in 256 tokens (1/m) and is practically blind beyond 1,024 (4/m)" in app.caption
    assert [math.isnan(loss) for loss in app.results["learned"].values()] == [False, True, True, True, True]


def test_models_advance_together_with_bars_speeds_and_times(long_race: LengthLab) -> None:
    until(lambda: "s left" in lanes(long_race), "a time")
    words = lanes(long_race)
    assert words.count('role="progressbar"') == words.count("tokens/s") == words.count("s left") == 2
    assert words.count(" of 2,000</span>") == 2
    done = [len(losses) for losses in long_race.losses.values()]
    assert max(done) - min(done) <= 1


def test_the_picture_moves_while_it_trains(long_race: LengthLab) -> None:
    before = len(long_race.figure.data[0].x)
    until(lambda: len(long_race.figure.data[0].x) > before, "a longer curve")
    until(lambda: len(long_race.figure.data[5].x) == 5, "a test at every length")
    assert long_race.caption.startswith("Training on windows of 8 bytes")


def test_stop_leaves_a_usable_result(long_race: LengthLab) -> None:
    until(lambda: long_race.results["none"], "a test")
    long_race.stop()
    until(lambda: not long_race.running, "the end")
    done = len(long_race.losses["none"])
    assert f"Stopped after step {done:,} of 2,000" in long_race.caption
    assert "tested last after step 30" in long_race.caption
    assert list(long_race.results["none"]) == [8, 16, 32, 64, 128]
    assert long_race.models["none"](torch.zeros(1, 20, dtype=torch.long)).shape == (1, 20, 256)
    assert lanes(long_race).count("stopped") == 2


def test_training_again_starts_afresh() -> None:
    app = small()
    app.train().result(DEADLINE)
    first = app.losses
    app.train().result(DEADLINE)
    assert app.losses == first
    assert app.losses is not first
    app.seed = 1
    assert "The controls have changed since: Train again." in app.caption
    app.train().result(DEADLINE)
    assert app.losses != first
    assert "changed" not in app.caption


def test_changes_during_a_race_hold_for_the_next_one(long_race: LengthLab) -> None:
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


def test_controls_and_traits_are_one() -> None:
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
    assert (app.text, message(app)) == (None, ""), "an empty field that was just opened is no error"
    control(app, "s-own-text").value = ENGLISH
    assert app.text == ENGLISH
    control(app, "s-text").value = "file"
    control(app, "s-path").value = str(path)
    assert app.text == path
    app.train().result(DEADLINE)
    assert "of fox.txt, seed 0" in app.caption
    app.text = "short but own"
    assert (control(app, "s-text").value, control(app, "s-own-text").value) == ("own", "short but own")
    app.text = None
    assert control(app, "s-text").value == "built in"
