"""Floor 3: training is a stream that decreases the loss, reproduces, and says what is wrong before it starts."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from alibi_viz import lab
from alibi_viz.lab.training import batches
from alibi_viz.models import POSITIONS


@pytest.fixture(scope="module")
def text():
    return lab.load_text()


@pytest.mark.parametrize("position", POSITIONS)
def test_every_method_learns(text, position):
    model = lab.make_model(position, max_length=32)
    losses = [step.loss for step in lab.train(model, text, steps=40)]
    assert losses[0] > 7  # about log2(256) bits before the first step
    assert sum(losses[-5:]) / 5 < losses[0] - 2


def test_equal_seeds_give_equal_numbers(text):
    def run(seed):
        model = lab.make_model(seed=seed)
        return [step.loss for step in lab.train(model, text, steps=15, seed=seed)], model.state_dict()

    (losses, weights), (again, weights_again), (other, _) = run(0), run(0), run(1)
    assert losses == again
    assert all(torch.equal(weights[name], weights_again[name]) for name in weights)
    assert losses != other


def test_first_loss_is_the_cross_entropy_in_bits(text):
    model = lab.make_model()
    window = next(batches(text.train, 32, 32, seed=5))
    expected = cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten()).item() / math.log(2)
    assert next(lab.train(model, text, seed=5)).loss == pytest.approx(expected, rel=1e-6)


def test_models_of_one_seed_start_alike_and_see_the_same_batches(text):
    models = {position: lab.make_model(position, seed=3, max_length=32) for position in POSITIONS}
    for model in models.values():
        for name, value in models["none"].state_dict().items():
            assert torch.equal(value, model.state_dict()[name])
    assert torch.equal(next(batches(text.train, 8, 4, seed=1)), next(batches(text.train, 8, 4, seed=1)))


def test_windows_are_pieces_of_the_training_part(text):
    data = bytes(text.train.tolist())
    for row in next(batches(text.train, 32, 16, seed=0)):
        assert bytes(row.tolist()) in data


def test_making_a_model_leaves_the_global_generator_alone():
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    lab.make_model(seed=1)
    assert torch.equal(torch.rand(1), expected)


def test_steps_count_up_and_can_be_left_early(text):
    stream = lab.train(lab.make_model(), text, steps=10)
    indices = [next(stream).index for _ in range(3)]
    stream.close()
    assert indices == [1, 2, 3]


def test_a_diverging_loss_is_named_and_the_steps_before_it_stand(text):
    model = lab.make_model()
    steps = []
    with pytest.raises(lab.TrainingDiverged, match=r"the loss became nan at step 3 of 10"):
        for step in lab.train(model, text, steps=10):
            steps.append(step)
            if step.index == 2:
                with torch.no_grad():
                    model.head.weight.fill_(math.nan)
    assert [step.index for step in steps] == [1, 2]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"length": 0}, "length must be a whole number from 1 up, got 0"),
        ({"length": 2.5}, "got 2.5"),
        ({"steps": -1}, "steps must be"),
        ({"batch_size": True}, "batch_size must be"),
        ({"learning_rate": 0.0}, "learning_rate must be a positive number"),
        ({"learning_rate": math.inf}, "learning_rate must be a positive number"),
        ({"length": 10**6}, "too short to train on windows of 1000000"),
    ],
)
def test_bad_settings_are_refused_at_the_call(text, setting, says):
    with pytest.raises(ValueError, match=says):
        lab.train(lab.make_model(), text, **setting)  # not iterated: it must not wait for the first step


def test_a_text_shorter_than_a_window_says_how_long_it_must_be():
    with pytest.raises(ValueError, match="nine tenths of it are 9 bytes, and at least 33 are needed"):
        lab.train(lab.make_model(), lab.load_text("too short!"))


def test_the_larger_preset_is_for_cuda_and_is_one_that_a_run_takes(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert lab.preset("cpu") == {}
    larger = lab.preset("cuda")
    assert lab.Run("alibi", **larger).length > lab.Run("alibi").length
    assert lab.preset() == larger
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert lab.preset() == {}
    with pytest.raises(ValueError, match="there is no CUDA device here"):
        lab.preset("cuda")


def test_auto_device_is_the_cpu_without_cuda(text, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    model = lab.make_model()
    first = next(lab.train(model, text, device="auto")).loss
    assert model.head.weight.device.type == "cpu"
    assert first == next(lab.train(lab.make_model(), text, device="cpu")).loss


def test_dropout_is_reproducible_whatever_else_is_drawn_meanwhile(text):
    def losses(seed, disturb):
        seen = []
        for step in lab.train(lab.make_model("alibi", dropout=0.2), text, steps=4, seed=seed):
            seen.append(step.loss)
            if disturb:
                torch.rand(3)
        return seen

    assert losses(0, False) == losses(0, True)
    assert losses(0, False) != losses(1, False)
    state = torch.get_rng_state()
    losses(0, False)
    assert torch.equal(torch.get_rng_state(), state)
