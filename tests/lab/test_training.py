"""Training reduces the loss, is reproducible, and refuses bad settings before the first step."""

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


def losses(model, text, **settings):
    return [step.loss for step in lab.train(model, text, **settings)]


@pytest.mark.parametrize("position", POSITIONS)
def test_every_method_learns(text, position):
    each = losses(lab.make_model(position, max_length=32), text, length=32, steps=40)
    assert each[0] > 7  # about log2(256) bits before the first step
    assert sum(each[-5:]) / 5 < each[0] - 2


def test_equal_seeds_give_equal_losses_and_weights(text):
    models = [lab.make_model(seed=3) for _ in range(2)]
    first, second = (losses(model, text, steps=15, seed=3) for model in models)
    assert first == second
    assert all(map(torch.equal, models[0].state_dict().values(), models[1].state_dict().values()))


def test_seed_of_the_model_and_seed_of_training_both_matter(text):
    expected = losses(lab.make_model(seed=0), text, steps=1, seed=0)
    assert losses(lab.make_model(seed=1), text, steps=1, seed=0) != expected
    assert losses(lab.make_model(seed=0), text, steps=1, seed=1) != expected


def test_first_loss_is_the_cross_entropy_in_bits(text):
    model = lab.make_model()
    window = next(batches(text.train, 32, 32, seed=5))
    expected = cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten()).item() / math.log(2)
    assert next(lab.train(model, text, length=32, batch_size=32, seed=5)).loss == pytest.approx(expected, rel=1e-6)


def test_models_of_one_seed_start_from_the_same_weights():
    expected = lab.make_model("none", seed=3, max_length=32).state_dict()
    for position in POSITIONS:
        weights = lab.make_model(position, seed=3, max_length=32).state_dict()
        assert all(torch.equal(weights[name], value) for name, value in expected.items())


def test_batches_are_windows_of_the_data_and_reproducible(text):
    data = bytes(text.train.tolist())
    windows = next(batches(text.train, 32, 16, seed=0))
    assert all(bytes(window.tolist()) in data for window in windows)
    assert torch.equal(windows, next(batches(text.train, 32, 16, seed=0)))


def test_making_a_model_leaves_the_global_generator_unchanged():
    state = torch.get_rng_state()
    lab.make_model(seed=1)
    assert torch.equal(torch.get_rng_state(), state)


def test_steps_count_up_and_training_can_stop_early(text):
    stream = lab.train(lab.make_model(), text, steps=10)
    indices = [next(stream).index for _ in range(3)]
    stream.close()
    assert indices == [1, 2, 3]


def test_diverging_loss_raises_after_the_valid_steps(text):
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
    ("setting", "message"),
    [
        ({"length": 0}, "length must be an integer of at least 1, got 0"),
        ({"length": 2.5}, "got 2.5"),
        ({"steps": -1}, "steps must be"),
        ({"batch_size": True}, "batch_size must be"),
        ({"learning_rate": 0.0}, "learning_rate must be a positive number"),
        ({"learning_rate": math.inf}, "learning_rate must be a positive number"),
        ({"length": 10**6}, "too short to train on windows of 1000000"),
    ],
)
def test_bad_settings_raise_at_the_call(text, setting, message):
    with pytest.raises(ValueError, match=message):
        lab.train(lab.make_model(), text, **setting)  # not iterated


def test_text_shorter_than_a_window_raises_and_names_the_needed_size():
    with pytest.raises(ValueError, match="its training part has 9 bytes, at least 65 are needed"):
        lab.train(lab.make_model(), lab.load_text("too short!"))


def test_task_that_does_not_fit_into_the_length_raises_at_the_call():
    task = lab.TASKS["copy"]
    with pytest.raises(ValueError, match="copy needs a length of at least 2, got 1"):
        lab.train(lab.make_model(vocabulary=task.vocabulary), task, length=1)


def test_auto_device_is_the_cpu_without_cuda(text, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    model = lab.make_model()
    first = next(lab.train(model, text, device="auto")).loss
    assert model.head.weight.device.type == "cpu"
    assert first == next(lab.train(lab.make_model(), text, device="cpu")).loss


def test_dropout_is_reproducible_when_random_numbers_are_drawn_between_steps(text):
    expected = losses(lab.make_model(dropout=0.2), text, steps=4)
    disturbed = []
    for step in lab.train(lab.make_model(dropout=0.2), text, steps=4):
        disturbed.append(step.loss)
        torch.rand(3)
    assert disturbed == expected


def test_training_with_dropout_leaves_the_global_generator_unchanged(text):
    state = torch.get_rng_state()
    losses(lab.make_model(dropout=0.2), text, steps=2)
    assert torch.equal(torch.get_rng_state(), state)


def test_dropout_depends_on_the_seed():
    """The training part is a single window, so that the batches of both seeds are equal and only dropout differs."""
    text = lab.load_text("a text that is used as a single window")
    length = len(text.train) - 1

    def first_loss(dropout, seed):
        return next(lab.train(lab.make_model(dropout=dropout), text, length=length, seed=seed)).loss

    assert first_loss(0.0, seed=0) == first_loss(0.0, seed=1)
    assert first_loss(0.2, seed=0) == first_loss(0.2, seed=0)
    assert first_loss(0.2, seed=0) != first_loss(0.2, seed=1)
