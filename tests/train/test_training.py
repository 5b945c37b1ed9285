"""Training does what its docstring says, is reproducible, stops when its stream is closed, and
refuses bad settings."""

import itertools
import math
from dataclasses import dataclass
from functools import cache
from unittest.mock import Mock

import pytest
import torch
from torch.nn.functional import cross_entropy

from alibi_viz import lab
from alibi_viz.models import LanguageModel, Position, TransformerConfig
from alibi_viz.train.muon import Muon
from alibi_viz.train.training import batches, choose_device
from tests.rows import each_case
from tests.tables import SMALL, same_weights

TEXT = lab.load_text()


class Noise(Position):
    is_random = True

    def embed(self, tokens, start=0):
        return tokens + self.training * torch.randn_like(tokens)


def model_of(position="alibi", **settings):
    return lab.make_model(position, **{**SMALL, **settings})


def losses(model, source=TEXT, **settings):
    """The loss of each of a few steps."""
    settings = {"length": 16, "steps": 4, "device": "cpu", **settings}
    return [row["value"] for row in lab.train(model, source, **settings)]


# The documented training

LENGTH = 16
STEPS = 70
WARM_UP = 3  # a twentieth of the steps
RATE = 0.02
BATCH = 8


@dataclass
class TrainedByHand:
    """The loop of the docstring, written out."""

    model: LanguageModel
    losses: list[float]
    norms: list[float]  # of the gradients before they were clipped


def by_adamw(parameters):
    return torch.optim.AdamW(parameters, lr=RATE, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def adamw_alone(model):
    return [by_adamw(model.parameters())]


def muon_and_adamw(model):
    """Muon at twice the rate for the four matrices of the only block, AdamW for the rest."""
    weights = dict(model.named_parameters())
    block = "transformer.blocks.0."
    projections = weights.pop(block + "attention.qkv.weight")
    others = [
        weights.pop(block + "attention.output.weight"),
        weights.pop(block + "feed_forward.0.weight"),
        weights.pop(block + "feed_forward.2.weight"),
    ]
    groups = [{"params": [projections], "parts": 3}, {"params": others}]
    return [Muon(groups, lr=2 * RATE), by_adamw(weights.values())]


OPTIMIZERS = {"adamw": adamw_alone, "muon": muon_and_adamw}
WITH_EACH_OPTIMIZER = pytest.mark.parametrize("optimizer", OPTIMIZERS)


@cache
def trained_by_hand(optimizer):
    """A warm-up, a cosine to a tenth of the rate, and gradients of a norm of at most 1."""
    model = model_of(seed=1)
    optimizers = OPTIMIZERS[optimizer](model)
    highest_rates = [each.defaults["lr"] for each in optimizers]
    windows = batches(TEXT.train, LENGTH, BATCH, 5)
    done = TrainedByHand(model, [], [])
    for step in range(1, STEPS + 1):
        if step <= WARM_UP:
            factor = step / WARM_UP
        else:
            progress = (step - WARM_UP) / (STEPS - WARM_UP)
            factor = 0.1 + 0.9 * (1 + math.cos(math.pi * progress)) / 2

        window = next(windows)
        logits = model(window[:, :-1])
        loss = cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        model.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for each, rate in zip(optimizers, highest_rates, strict=True):
            for group in each.param_groups:
                group["lr"] = rate * factor
            each.step()
        done.losses.append(loss.item() / math.log(2))
        done.norms.append(float(norm))
    return done


@cache
def trained(optimizer):
    """A model that the lab has trained like that, and the rows."""
    model = model_of(seed=1)
    rows = lab.train(
        model,
        TEXT,
        length=LENGTH,
        steps=STEPS,
        batch_size=BATCH,
        optimizer=optimizer,
        learning_rate=RATE,
        seed=5,
        device="cpu",
    )
    return model, list(rows)


@WITH_EACH_OPTIMIZER
def test_losses_are_those_of_the_documented_loop(optimizer):
    _, rows = trained(optimizer)
    expected = trained_by_hand(optimizer).losses
    assert [row["value"] for row in rows] == pytest.approx(expected, rel=1e-4)


@WITH_EACH_OPTIMIZER
def test_weights_are_those_of_the_documented_loop(optimizer):
    model, _ = trained(optimizer)
    by_hand = trained_by_hand(optimizer).model.state_dict()
    for name, weights in model.state_dict().items():
        torch.testing.assert_close(weights, by_hand[name], atol=1e-4, rtol=1e-3)


def test_muon_learns_faster_than_adamw():
    last_losses = {}
    for optimizer in OPTIMIZERS:
        _, rows = trained(optimizer)
        last_losses[optimizer] = rows[-1]["value"]
    assert last_losses["muon"] < last_losses["adamw"]


def test_muon_is_the_default_and_each_optimizer_has_a_learning_rate():
    assert losses(model_of()) == losses(model_of(), optimizer="muon", learning_rate=0.02)
    adamw = losses(model_of(), optimizer="adamw")
    assert adamw == losses(model_of(), optimizer="adamw", learning_rate=0.012)


@WITH_EACH_OPTIMIZER
def test_some_gradients_are_clipped(optimizer):
    """Otherwise the tests of the documented loop would say nothing about it."""
    assert max(trained_by_hand(optimizer).norms) > 1


def test_a_row_says_which_step_it_is_and_what_its_loss_counts():
    _, rows = trained("muon")
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    for row in rows:
        assert row["x"] == row["step"]
        assert row["count"] == BATCH
        assert row["unit"] == "bits per byte"


def test_training_lowers_the_loss():
    _, rows = trained("muon")
    assert rows[-1]["value"] < rows[0]["value"] - 2


def test_speed_is_tokens_of_a_step_divided_by_its_time(monkeypatch):
    clock = Mock(side_effect=itertools.count(start=100, step=2))  # seconds, read twice a step
    monkeypatch.setattr("alibi_viz.train.training.time.perf_counter", clock)
    rows = list(lab.train(model_of(), TEXT, length=16, steps=2, batch_size=8, device="cpu"))
    assert [row["tokens_per_second"] for row in rows] == [8 * 16 / 2] * 2


# The start


each_kind_of_parameters = pytest.mark.parametrize("position", ["rotary", "fire", "forget"])


@each_kind_of_parameters
def test_models_of_a_seed_share_all_weights_that_they_have_in_common(position):
    plain = model_of("none", seed=3, max_length=16).state_dict()
    weights = model_of(position, seed=3, max_length=16).state_dict()
    for name, values in plain.items():
        assert torch.equal(weights[name], values), name


@each_kind_of_parameters
def test_training_moves_every_parameter(position):
    model = model_of(position, seed=3, max_length=16)
    before = {name: values.clone() for name, values in model.named_parameters()}
    losses(model, steps=3)
    unmoved = [
        name for name, values in model.named_parameters() if torch.equal(values, before[name])
    ]
    assert unmoved == []


# Reproducible

RANDOM_MODELS = each_case(
    "sizes",
    {
        "nothing random": {},
        "dropout": {"dropout": 0.2},
        "random position": {"position": Noise},
    },
)


@RANDOM_MODELS
def test_equal_seeds_give_equal_numbers_whatever_else_draws_random_numbers(
    sizes,
):
    model = model_of(seed=3, **sizes)
    expected = losses(model, seed=3)
    other = model_of(seed=3, **sizes)
    values = []
    for row in lab.train(other, TEXT, length=16, steps=4, seed=3, device="cpu"):
        values.append(row["value"])
        torch.rand(3)
    assert values == expected
    assert same_weights(model, other)


@RANDOM_MODELS
def test_torch_generator_is_left_as_it_was(sizes):
    state = torch.get_rng_state()
    losses(model_of(seed=3, **sizes), seed=3)
    assert torch.equal(torch.get_rng_state(), state)


@RANDOM_MODELS
def test_other_seeds_of_the_model_or_the_batches_give_other_numbers(sizes):
    expected = losses(model_of(seed=3, **sizes), seed=3)
    assert losses(model_of(seed=4, **sizes), seed=3) != expected
    assert losses(model_of(seed=3, **sizes), seed=4) != expected


@RANDOM_MODELS
def test_default_device_changes_no_number(sizes):
    expected = losses(model_of(seed=3, **sizes), seed=3)
    with torch.device("meta"):  # as a user sets a GPU
        assert losses(model_of(seed=3, **sizes), seed=3) == expected


def test_batches_are_windows_of_the_data():
    data = bytes(TEXT.train.tolist())
    windows = next(batches(TEXT.train, 32, 16, seed=0))
    assert windows.dtype == torch.int64
    assert windows.shape == (16, 33)
    for window in windows:
        assert bytes(window.tolist()) in data


def test_windows_start_at_every_byte_up_to_the_last_whole_one():
    data = torch.arange(9, dtype=torch.uint8)
    windows = next(batches(data, 4, 200, seed=0))
    assert set(windows[:, 0].tolist()) == {0, 1, 2, 3, 4}


# What ends a training, or is refused


def test_a_loss_that_is_not_finite_raises_after_the_valid_rows():
    model = model_of()
    steps = []
    message = "the loss became nan at step 3 of 10; try a learning rate below"
    with pytest.raises(lab.TrainingDiverged, match=message):
        for row in lab.train(model, TEXT, length=16, steps=10):
            steps.append(row["step"])
            if len(steps) == 2:
                model.head.weight.data.fill_(math.nan)
    assert steps == [1, 2]


def test_a_run_that_diverges_is_recorded_with_the_reason():
    run = lab.Run("t5", length=16, steps=6, batch_size=2, learning_rate=1e30, longest=2, targets=16)
    (record,) = lab.sweep([run], progress=False)
    assert "the loss became nan at step 2" in record["error"]


@each_case(
    ("options", "message"),
    {
        "short text": (
            {"source": lab.load_text("x" * 18)},
            r"has 16 bytes and 17 are needed",
        ),
        "short task": (
            {"source": lab.TASKS["needle"], "length": 1},
            "needle needs a length of at least 2",
        ),
        "encoder": (
            {"model": LanguageModel(TransformerConfig(causal=False))},
            "must have causal=True",
        ),
        "vocabulary of a text for a task": (
            {"source": lab.TASKS["needle"]},
            "model must have vocabulary=33, for the source 'needle', got 256",
        ),
        "vocabulary of a task for a text": (
            {"model": model_of(vocabulary=33)},
            "model must have vocabulary=256, for the source 'text', got 33",
        ),
        "too few positions": (
            {"model": model_of("learned", max_length=8)},
            "length must be .* for which the model's 'learned' positions are defined, got 16",
        ),
        "infinite rate": ({"learning_rate": math.inf}, "learning_rate must be a positive, finite"),
        "optimizer": ({"optimizer": "sgd"}, "optimizer must be .*muon.*, got 'sgd'"),
        "device": ({"device": "tpu-9"}, "device must be auto, cpu, cuda .*, got 'tpu-9'"),
    },
)
def test_what_can_not_be_trained_is_refused_at_the_call(options, message):
    valid = {"model": model_of(), "source": TEXT, "length": 16}
    with pytest.raises(ValueError, match=message):
        lab.train(**{**valid, **options})


# Devices and compiled models


@pytest.fixture
def one_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("one_gpu")
@pytest.mark.parametrize("name", ["auto", "cuda", "cuda:0"])
def test_the_only_gpu_is_found_by_each_of_its_names(name):
    assert choose_device(name).type == "cuda"


@pytest.mark.usefixtures("one_gpu")
def test_a_second_gpu_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="'cuda:1' was requested"):
        choose_device("cuda:1")


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_the_device_auto_is_the_cpu():
    assert choose_device("auto").type == "cpu"


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("device", ["cuda", "hpu", "meta"])
def test_a_device_that_is_not_there_is_refused(device):
    message = f"'{device}' was requested, but there is no {device.upper()} device"
    with pytest.raises(ValueError, match=message):
        lab.train(model_of(), TEXT, device=device)


def test_a_compiled_model_can_be_trained_and_tested():
    model = torch.compile(model_of(), backend="eager")
    assert len(losses(model, steps=2)) == 2
    assert set(lab.loss_by_length(model, TEXT, [8], targets=64)) == {8}


def test_training_without_gradients_is_refused():
    rows = lab.train(model_of(), TEXT, steps=1, length=8)
    with torch.no_grad(), pytest.raises(ValueError, match=r"training needs gradients: .*no_grad"):
        next(rows)


def test_training_a_frozen_model_is_refused():
    frozen = model_of().requires_grad_(False)
    with pytest.raises(ValueError, match="with parameters that require a gradient"):
        next(lab.train(frozen, TEXT, steps=1, length=8))


def test_equal_seeds_make_equal_models_whatever_the_default_dtype_is():
    expected = model_of("fire").state_dict()
    torch.set_default_dtype(torch.float64)
    try:
        state = model_of("fire").state_dict()
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(state[name], values) for name, values in expected.items())
