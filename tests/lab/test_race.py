"""Floor 3: the race is the paper's claim in small, so the claim itself is tested here, on fixed steps and seeds."""

import math

import pytest
import torch

from alibi_viz import lab


@pytest.fixture(scope="module")
def text():
    return lab.load_text()


def test_alibi_does_not_break_beyond_its_training_length_and_the_others_do(text):
    last = {lap.method: lap for lap in lab.race(["alibi", "sinusoidal", "rotary"], text, steps=150, checkpoints=1)}
    by_length = {method: lap.by_length for method, lap in last.items()}
    assert max(by_length["alibi"].values()) < by_length["alibi"][32] + 0.1
    assert by_length["sinusoidal"][128] > by_length["alibi"][128] + 0.5
    assert by_length["rotary"][512] > by_length["alibi"][512] + 0.5


def test_models_advance_together_and_are_tested_at_the_checkpoints(text):
    laps = list(lab.race(["alibi", "none"], text, steps=10, checkpoints=2, lengths=[32, 64], targets=128))
    assert [(lap.method, lap.step.index) for lap in laps if lap.by_length is None] == [
        (method, index) for index in range(1, 11) for method in ("alibi", "none")
    ]
    tests = [(lap.method, lap.step.index, list(lap.by_length)) for lap in laps if lap.by_length is not None]
    assert tests == [
        (method, index, lengths) for index in (5, 10) for method in ("alibi", "none") for lengths in ([32], [32, 64])
    ]


def test_a_test_lap_says_what_loss_by_length_says(text):
    *_, last = lab.race(["rotary"], text, steps=3, checkpoints=1, targets=1024)
    assert last.by_length == lab.loss_by_length(last.model, text, lab.test_lengths(32), targets=1024)


def test_a_race_is_what_each_model_would_do_alone(text):
    laps = lab.race(["rotary", "alibi"], text, steps=6, checkpoints=1)
    raced = [lap for lap in laps if lap.method == "alibi" and lap.by_length is None]
    alone = lab.make_model("alibi")
    assert [lap.step.loss for lap in raced] == [step.loss for step in lab.train(alone, text, steps=6)]
    for name, value in alone.state_dict().items():
        assert torch.equal(value, raced[-1].model.state_dict()[name])


@pytest.mark.parametrize("methods", [[], ["alibi", "alibi"]])
def test_methods_must_be_different_names(text, methods):
    with pytest.raises(ValueError, match="one or more different names"):
        lab.race(methods, text)


def test_a_text_too_short_for_the_longest_test_is_refused_at_the_call():
    with pytest.raises(ValueError, match=r"too short to test at length 512: its last tenth has 100 bytes"):
        lab.race(["alibi"], lab.load_text("y" * 1000))


def test_unknown_method_is_named(text):
    with pytest.raises(ValueError, match="got 'alibbi'"):
        lab.race(["alibbi"], text)


def test_a_model_that_diverges_is_named(text):
    with pytest.raises(lab.TrainingDiverged, match=r"^none: the loss became .* at step \d+ of 50; try a learning rate"):
        list(lab.race(["none"], text, steps=50, learning_rate=1e30))


def test_a_race_on_a_task_is_tested_by_distance():
    task = lab.TASKS["needle"]
    laps = list(lab.race(["alibi", "learned"], task, length=8, steps=4, checkpoints=1))
    last = {lap.method: lap for lap in laps}
    assert list(last["alibi"].by_length) == lab.test_distances(task, 8) == [7, 15, 31, 63, 127, 255]
    assert last["alibi"].by_length[7] == lab.accuracy(last["alibi"].model, task, 7)
    assert [math.isnan(value) for value in last["learned"].by_length.values()] == [False] + [True] * 5
    alone = lab.make_model("alibi", max_length=8, vocabulary=task.vocabulary)
    steps = [step.loss for step in lab.train(alone, task, length=8, steps=4)]
    assert [lap.step.loss for lap in laps if lap.method == "alibi" and lap.by_length is None] == steps


def test_a_test_without_a_number_is_a_training_that_diverged(text):
    with pytest.raises(lab.TrainingDiverged, match=r"alibi: .*(gave no number|the loss became)"):
        for lap in lab.race(["alibi"], text, steps=6, checkpoints=6, learning_rate=1e3):
            if lap.by_length:
                assert all(map(math.isfinite, lap.by_length.values()))


def test_learned_positions_without_a_number_are_no_divergence(text):
    *_, last = lab.race(["learned"], text, length=16, steps=2, checkpoints=1)
    assert math.isnan(last.by_length[32])


def test_learned_positions_end_in_a_task_too():
    *_, last = lab.race(["learned"], lab.TASKS["copy"], steps=2, checkpoints=1)
    assert math.isfinite(last.by_length[16])
    assert math.isnan(last.by_length[32]), "32 symbols to copy are 64 tokens"
