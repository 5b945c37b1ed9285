"""A race: several methods trained side by side, evaluated at checkpoints, and collected on a scoreboard."""

import math

import pytest
import torch

from alibi_viz import lab


@pytest.fixture(scope="module")
def text():
    return lab.load_text()


def losses_of(method, laps):
    return [lap.step.loss for lap in laps if lap.method == method and lap.scores is None]


def test_alibi_holds_beyond_its_training_length_and_the_others_fail(text):
    laps = lab.race(["alibi", "sinusoidal", "rotary"], text, steps=150, checkpoints=1)
    scores = {lap.method: lap.scores for lap in laps}  # the last lap of each method has all lengths
    assert max(scores["alibi"].values()) < scores["alibi"][32] + 0.1
    assert scores["sinusoidal"][128] > scores["alibi"][128] + 0.5
    assert scores["rotary"][512] > scores["alibi"][512] + 0.5


def test_models_take_steps_in_turn_and_are_evaluated_at_checkpoints(text):
    laps = list(lab.race(["alibi", "none"], text, steps=10, checkpoints=2, lengths=[32, 64], targets=128))
    assert [(lap.method, lap.step.index) for lap in laps if lap.scores is None] == [
        (method, index) for index in range(1, 11) for method in ("alibi", "none")
    ]
    assert [(lap.method, lap.step.index, list(lap.scores)) for lap in laps if lap.scores is not None] == [
        (method, index, lengths) for index in (5, 10) for method in ("alibi", "none") for lengths in ([32], [32, 64])
    ]


def test_scores_equal_loss_by_length(text):
    *_, last = lab.race(["rotary"], text, steps=3, checkpoints=1, targets=1024)
    assert last.scores == lab.loss_by_length(last.model, text, lab.evaluation_lengths(32), targets=1024)


def test_race_trains_each_model_as_if_it_were_alone(text):
    laps = [lap for lap in lab.race(["rotary", "alibi"], text, steps=6, checkpoints=1) if lap.method == "alibi"]
    alone = lab.make_model("alibi")
    assert losses_of("alibi", laps) == [step.loss for step in lab.train(alone, text, steps=6)]
    for name, value in alone.state_dict().items():
        assert torch.equal(value, laps[-1].model.state_dict()[name])


def test_race_on_a_task_is_scored_by_distance():
    task = lab.TASKS["needle"]
    laps = list(lab.race(["alibi", "learned"], task, length=8, steps=4, checkpoints=1))
    last = {lap.method: lap for lap in laps}
    assert list(last["alibi"].scores) == lab.evaluation_distances(task, 8) == [7, 15, 31, 63, 127, 255]
    assert last["alibi"].scores[7] == lab.accuracy(last["alibi"].model, task, 7)
    assert [math.isnan(score) for score in last["learned"].scores.values()] == [False] + [True] * 5
    alone = lab.make_model("alibi", max_length=8, vocabulary=task.vocabulary)
    assert losses_of("alibi", laps) == [step.loss for step in lab.train(alone, task, length=8, steps=4)]


@pytest.mark.parametrize("methods", [[], ["alibi", "alibi"]])
def test_missing_and_repeated_methods_raise(text, methods):
    with pytest.raises(ValueError, match="one or more different names"):
        lab.race(methods, text)


def test_unknown_method_raises(text):
    with pytest.raises(ValueError, match="got 'alibbi'"):
        lab.race(["alibbi"], text)


def test_text_too_short_for_the_longest_length_raises_at_the_call():
    with pytest.raises(ValueError, match=r"too short to test at length 512: its validation part has 100 bytes"):
        lab.race(["alibi"], lab.load_text("y" * 1000))


def test_divergence_in_training_names_the_method(text):
    with pytest.raises(lab.TrainingDiverged, match=r"^none: the loss became .* at step \d+ of 50; try a learning rate"):
        list(lab.race(["none"], text, steps=50, learning_rate=1e30))


def test_divergence_in_an_evaluation_names_the_method_and_the_length(text):
    stream = lab.race(["none", "alibi"], text, steps=2, checkpoints=1, lengths=[32, 64], targets=128)
    with pytest.raises(lab.TrainingDiverged, match=r"^alibi: after step 2 of 2 the loss at length 32 is nan; try a"):
        for lap in stream:
            if lap.method == "alibi" and lap.step.index == 2:
                lap.model.head.weight.data.fill_(math.nan)


def test_learned_positions_beyond_their_table_are_not_divergence(text):
    *_, last = lab.race(["learned"], text, length=16, steps=2, checkpoints=1)
    assert math.isnan(last.scores[32])
    *_, last = lab.race(["learned"], lab.TASKS["copy"], steps=2, checkpoints=1)
    assert math.isfinite(last.scores[16])
    assert math.isnan(last.scores[32]), "32 symbols to copy are 64 tokens, the table has 32"


def lap(method="alibi", index=1, *, loss=4.0, speed=1000.0, scores=None):
    return lab.Lap(method, lab.Step(index, 10, loss, speed), scores, model=lab.make_model(method))


def scoreboard(*methods):
    return lab.Scoreboard(methods, steps=10, lengths=[32, 64])


def test_scoreboard_collects_losses_and_models():
    board = scoreboard("alibi", "none")
    for one in (lap(loss=4.0), lap(scores={32: 5.0}), lap(index=2, loss=3.0)):
        board.add(one)
    assert board.losses == {"alibi": [4.0, 3.0], "none": []}
    assert (board.step("alibi"), board.step("none")) == (2, 0)
    assert list(board.models) == ["alibi"]


def test_last_checkpoint_is_complete_for_every_method():
    board = scoreboard("alibi", "none")
    board.add(lap(scores={32: 5.0}))
    board.add(lap(scores={32: 5.0, 64: 6.0}))
    assert (board.last_checkpoint(), board.scores("alibi")) == (0, {})  # none has not been evaluated
    board.add(lap("none", scores={32: 7.0, 64: 8.0}))
    board.add(lap(index=2, scores={32: 4.0}))
    assert board.last_checkpoint() == 1  # the evaluation of alibi after step 2 is not complete
    assert (board.scores("alibi"), board.scores("none")) == ({32: 5.0, 64: 6.0}, {32: 7.0, 64: 8.0})


def test_tokens_per_second_is_averaged_over_recent_steps():
    board = scoreboard("alibi")
    assert board.tokens_per_second("alibi") == 0
    for index, speed in enumerate([1.0] * 40 + [1000.0, 3000.0] * 10):
        board.add(lap(index=index, speed=speed))
    assert board.tokens_per_second("alibi") == pytest.approx(1500)  # the same number of tokens at each speed


def test_seconds_left_extrapolates_the_pace_so_far(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    board = scoreboard("alibi")
    assert board.seconds_left("alibi") is None
    monkeypatch.setattr("time.monotonic", lambda: 104.0)
    for index in (1, 2):
        board.add(lap(index=index))
    assert board.seconds_left("alibi") == pytest.approx(4 / 2 * 8)
