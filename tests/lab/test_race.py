"""A race: several methods trained side by side, evaluated at checkpoints, and collected on a scoreboard."""

import math
import threading

import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab.training import LENGTH
from alibi_viz.lab.turns import on_one_thread
from alibi_viz.models import Position


@pytest.fixture(scope="module")
def text():
    return lab.load_text()


def losses_of(method, laps):
    return [lap.step.loss for lap in laps if lap.method == method and lap.scores is None]


def test_alibi_holds_beyond_its_training_length_and_the_others_fail(text):
    laps = lab.race(["alibi", "sinusoidal", "rotary"], text, length=32, steps=150, checkpoints=1)
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
    *_, last = lab.race(["rotary"], text, length=32, steps=3, checkpoints=1, targets=1024)
    assert last.scores == lab.loss_by_length(last.model, text, lab.evaluation_lengths(32), targets=1024)


@pytest.fixture(params=[1, 2, 4])
def threads(request):
    """How many models train at the same time."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def trained_alone(method, source, **settings):
    """An untrained model, and its training by `lab.train` with one thread of torch."""
    sizes = {"dropout": settings.pop("dropout", 0.0), "vocabulary": source.vocabulary}
    model = lab.make_model(method, max_length=settings.get("length", LENGTH), **sizes)
    return model, on_one_thread(lab.train(model, source, **settings))


def same_weights(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize("sizes", [{}, {"dropout": 0.2}])
def test_race_trains_each_model_as_if_it_were_alone(text, threads, sizes):
    methods = ["rotary", "alibi", "kerple-log"]  # the last has learned parameters
    laps = list(lab.race(methods, text, length=32, steps=6, checkpoints=3, targets=512, **sizes))
    for method in methods:
        alone, training = trained_alone(method, text, length=32, steps=6, **sizes)
        last = [lap for lap in laps if lap.method == method][-1]
        assert losses_of(method, laps) == [step.loss for step in training]
        assert same_weights(last.model, alone)
        assert last.scores == lab.loss_by_length(alone, text, lab.evaluation_lengths(32), targets=512)


def test_models_of_earlier_laps_wait_although_the_next_step_has_begun(text, threads):
    methods = ["alibi", "none", "rotary"]
    alone = {method: trained_alone(method, text, steps=4) for method in methods}
    models = {}
    for lap in lab.race(methods, text, steps=4, checkpoints=1, lengths=[32], targets=32):
        models[lap.method] = lap.model
        if lap.scores is None:
            next(alone[lap.method][1])
        assert all(same_weights(model, alone[method][0]) for method, model in models.items())


def test_dropout_of_two_models_leaves_the_random_state_unchanged(text, threads):
    losses = [step.loss for step in trained_alone("alibi", text, steps=3, dropout=0.2)[1]]
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    laps = list(lab.race(["alibi", "none"], text, steps=3, checkpoints=1, lengths=[32], targets=32, dropout=0.2))
    assert losses_of("alibi", laps) == losses
    assert torch.equal(torch.rand(3), expected)


def test_closed_race_leaves_no_thread_and_the_models_at_their_laps(text, threads):
    laps, last = lab.race(["alibi", "none", "rotary"], text, steps=50, checkpoints=1, targets=512), {}
    for lap in laps:
        last[lap.method] = lap
        if lap.method == "none" and lap.step.index == 3:
            break
    laps.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("alibi_viz turns")]
    assert {method: lap.step.index for method, lap in last.items()} == {"alibi": 3, "none": 3, "rotary": 2}
    for method, lap in last.items():
        alone, training = trained_alone(method, text, steps=50)
        assert lap.step.loss == [next(training).loss for _ in range(lap.step.index)][-1]
        assert same_weights(lap.model, alone)


def test_race_on_a_task_is_scored_by_distance():
    task = lab.TASKS["needle"]
    laps = list(lab.race(["alibi", "learned"], task, length=8, steps=4, checkpoints=1))
    last = {lap.method: lap for lap in laps}
    assert list(last["alibi"].scores) == lab.evaluation_distances(task, 8) == [7, 15, 31, 63, 127, 255]
    assert last["alibi"].scores[7] == lab.accuracy(last["alibi"].model, task, 7)
    assert [math.isnan(score) for score in last["learned"].scores.values()] == [False] + [True] * 5
    alone = lab.make_model("alibi", max_length=8, vocabulary=task.vocabulary)
    steps = on_one_thread(lab.train(alone, task, length=8, steps=4))  # as in a race
    assert losses_of("alibi", laps) == [step.loss for step in steps]


@pytest.mark.parametrize("methods", [[], ["alibi", "alibi"]])
def test_missing_and_repeated_methods_raise(text, methods):
    with pytest.raises(ValueError, match="one or more different names"):
        lab.race(methods, text)


def test_unknown_method_raises(text):
    with pytest.raises(ValueError, match="got 'alibbi'"):
        lab.race(["alibbi"], text)


def test_text_too_short_for_the_longest_length_raises_at_the_call():
    with pytest.raises(ValueError, match=r"too short to test at length 1,024: its validation part has 100 bytes"):
        lab.race(["alibi"], lab.load_text("y" * 1000))


@pytest.mark.parametrize("source", [lab.load_text(), lab.TASKS["needle"]], ids=["text", "task"])
@pytest.mark.parametrize(("lengths", "got"), [([32, 0], "0"), ([32.0], "32.0"), ([], r"\[\]")])
def test_bad_lengths_raise_at_the_call(source, lengths, got):
    with pytest.raises(ValueError, match=rf"^lengths must .* got {got}$"):
        lab.race(["alibi"], source, lengths=lengths)


def test_divergence_in_training_names_the_method(text):
    with pytest.raises(lab.TrainingDiverged, match=r"^none: the loss became .* at step \d+ of 50; try a learning rate"):
        list(lab.race(["none"], text, steps=50, learning_rate=1e30))


class NanBeyond32(Position):
    """No positions, but no numbers either for more than 32 tokens."""

    def embed(self, tokens, start=0):
        return tokens if tokens.shape[1] <= 32 else tokens * math.nan


@pytest.mark.usefixtures("forget_custom_methods")
def test_divergence_in_an_evaluation_names_the_method_and_the_length(text, threads):
    settings = {"length": 32, "steps": 4, "checkpoints": 2, "lengths": [32, 64], "targets": 128}
    laps, seen = lab.race(["none", NanBeyond32], text, **settings), []
    with pytest.raises(lab.TrainingDiverged, match=r"^NanBeyond32: after step 2 of 4 the loss at length 64 is nan"):
        for lap in laps:
            seen.append((lap.method, lap.step.index, list(lap.scores or {})))
    assert seen[-2:] == [("NanBeyond32", 2, []), ("NanBeyond32", 2, [32])]
    assert max(index for _, index, _ in seen) == 2, "other models may be ahead, their laps are not"


@pytest.mark.usefixtures("forget_custom_methods")
def test_error_of_your_own_method_is_raised(text, threads):
    class Tired(Position):
        """Fails in training."""

        calls = 0

        def embed(self, tokens, start=0):
            Tired.calls += tokens.shape[0] == 32
            if Tired.calls > 3:
                raise KeyError("after three steps")
            return tokens

    laps = lab.race(["none", Tired], text, steps=10, batch_size=32, checkpoints=1, lengths=[32], targets=32)
    with pytest.raises(KeyError, match="after three steps"):
        list(laps)
    assert next(laps, None) is None


def test_learned_positions_beyond_their_table_are_not_divergence(text):
    *_, last = lab.race(["learned"], text, length=16, steps=2, checkpoints=1)
    assert math.isnan(last.scores[32])
    *_, last = lab.race(["learned"], lab.TASKS["copy"], length=32, steps=2, checkpoints=1)
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
