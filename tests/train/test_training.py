"""Training does what its docstring says, is reproducible, stops when its stream is closed, and
refuses bad settings."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from alibi_viz import lab
from alibi_viz.models import POSITIONS, LanguageModel, Position, TransformerConfig
from alibi_viz.train.training import batches, choose_device
from tests.tables import SMALL, same_weights

TEXT = lab.load_text()


class Noise(Position):
    is_random = True

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        return tokens + self.training * torch.randn_like(tokens)


def model_of(position: Any = "alibi", **settings: Any) -> LanguageModel:
    return lab.make_model(position, **{**SMALL, **settings})


def losses(model: LanguageModel, source: lab.Text = TEXT, **settings: Any) -> list[float]:
    """The training losses of four steps on the CPU, unless the settings say otherwise."""
    settings = {"length": 16, "steps": 4, "device": "cpu", **settings}
    return [row["value"] for row in lab.train(model, source, **settings)]


def test_rows_and_weights_are_those_of_the_documented_loop() -> None:
    """The loop of the docstring, by hand: AdamW, warm-up over a twentieth, a cosine to a tenth,
    gradients of norm 1."""
    length = 16
    steps = 70
    rate = 0.02
    seed = 5
    model = model_of(seed=1)
    training = lab.train(
        model,
        TEXT,
        length=length,
        steps=steps,
        batch_size=8,
        learning_rate=rate,
        seed=seed,
        device="cpu",
    )
    rows = list(training)

    by_hand = model_of(seed=1)
    optimizer = torch.optim.AdamW(
        by_hand.parameters(), betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    windows = batches(TEXT.train, length, 8, seed)
    clipped_steps = 0
    warm_up = 3
    for step, row in enumerate(rows, start=1):
        if step <= warm_up:
            share = step / warm_up
        else:
            cosine = (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up))) / 2
            share = 0.1 + 0.9 * cosine
        optimizer.param_groups[0]["lr"] = rate * share

        window = next(windows)
        logits = by_hand(window[:, :-1])
        loss = cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        assert row["step"] == step
        assert row["x"] == step
        assert row["count"] == 8
        assert row["unit"] == "bits per byte"
        assert row["value"] == pytest.approx(loss.item() / math.log(2), rel=1e-4)

        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(by_hand.parameters(), 1.0)
        clipped_steps += int(norm > 1)
        optimizer.step()

    assert clipped_steps > 0, "otherwise the norm is not tested"
    for name, weights in model.state_dict().items():
        torch.testing.assert_close(weights, by_hand.state_dict()[name], atol=1e-4, rtol=1e-3)
    assert rows[-1]["value"] < rows[0]["value"] - 2


def test_speed_is_the_tokens_of_a_batch_by_the_seconds_of_its_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A clock that is read at the start and at the end of each step: 2 seconds, then 4.
    readings = iter([10.0, 12.0, 20.0, 24.0])
    clock = SimpleNamespace(perf_counter=readings.__next__)
    monkeypatch.setattr("alibi_viz.train.training.time", clock)
    rows = lab.train(model_of(), TEXT, length=16, steps=2, batch_size=8, device="cpu")
    assert [row["tokens_per_second"] for row in rows] == [64.0, 32.0]


@pytest.mark.parametrize("position", POSITIONS)
def test_models_start_from_their_seed_and_train_every_weight(
    position: str,
) -> None:
    common = model_of("none", seed=3, max_length=16)
    model = model_of(position, seed=3, max_length=16)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    for name, value in common.state_dict().items():
        assert torch.equal(start[name], value), name

    losses(model, steps=3)
    for name, value in model.named_parameters():
        assert not torch.equal(value, start[name]), f"{name} was not trained"


RANDOM_MODELS = pytest.mark.parametrize(
    "sizes",
    [
        pytest.param({}, id="nothing random"),
        pytest.param({"dropout": 0.2}, id="dropout"),
        pytest.param({"position": Noise}, id="random position"),
    ],
)


@RANDOM_MODELS
def test_equal_seeds_give_equal_numbers_whatever_else_draws_random_numbers(
    sizes: dict[str, Any],
) -> None:
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
def test_torch_generator_is_left_as_it_was(sizes: dict[str, Any]) -> None:
    state = torch.get_rng_state()
    losses(model_of(seed=3, **sizes), seed=3)
    assert torch.equal(torch.get_rng_state(), state)


@RANDOM_MODELS
def test_other_seeds_of_the_model_or_the_batches_give_other_numbers(sizes: dict[str, Any]) -> None:
    expected = losses(model_of(seed=3, **sizes), seed=3)
    assert losses(model_of(seed=4, **sizes), seed=3) != expected
    assert losses(model_of(seed=3, **sizes), seed=4) != expected


@RANDOM_MODELS
def test_default_device_changes_no_number(sizes: dict[str, Any]) -> None:
    expected = losses(model_of(seed=3, **sizes), seed=3)
    with torch.device("meta"):  # as a user sets a GPU
        assert losses(model_of(seed=3, **sizes), seed=3) == expected


def test_batches_are_windows_of_the_data() -> None:
    data = bytes(TEXT.train.tolist())
    windows = next(batches(TEXT.train, 32, 16, seed=0))
    assert windows.dtype == torch.int64
    assert windows.shape == (16, 33)
    for window in windows:
        assert bytes(window.tolist()) in data


def test_windows_start_at_every_byte_up_to_the_last_whole_one() -> None:
    data = torch.arange(9, dtype=torch.uint8)
    windows = next(batches(data, 4, 200, seed=0))
    assert set(windows[:, 0].tolist()) == {0, 1, 2, 3, 4}


def test_a_loss_that_is_not_finite_raises_after_the_valid_rows() -> None:
    model = model_of()
    steps = []
    message = "the loss became nan at step 3 of 10; try a learning rate below"
    with pytest.raises(lab.TrainingDiverged, match=message):
        for row in lab.train(model, TEXT, length=16, steps=10):
            steps.append(row["step"])
            if len(steps) == 2:
                model.head.weight.data.fill_(math.nan)
    assert steps == [1, 2]


def test_a_record_says_how_training_diverged() -> None:
    run = lab.Run("t5", length=16, steps=6, batch_size=2, learning_rate=1e30, longest=2, targets=16)
    assert "the loss became nan at step 2" in lab.measure(run)["error"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param(
            {"source": lab.load_text("x" * 18), "length": 16},
            "has 16 bytes, at least 17 are needed",
            id="short text",
        ),
        pytest.param(
            {"source": lab.TASKS["needle"], "length": 1},
            "needle needs a length of at least 2",
            id="short task",
        ),
        pytest.param(
            {"model": LanguageModel(TransformerConfig(causal=False))},
            "must have causal=True",
            id="symmetric attention",
        ),
        pytest.param(
            {"learning_rate": math.inf},
            "learning_rate must be a positive, finite",
            id="infinite learning rate",
        ),
        pytest.param(
            {"device": "tpu-9"},
            "device must be auto, cpu, cuda .*, got 'tpu-9'",
            id="unknown device",
        ),
    ],
)
def test_what_can_not_be_trained_is_refused_at_the_call(
    settings: dict[str, Any], message: str
) -> None:
    arguments = {"model": model_of(), "source": TEXT, **settings}
    with pytest.raises(ValueError, match=message):
        lab.train(**arguments)


def test_the_only_gpu_is_found_by_each_of_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert {choose_device(name).type for name in ("auto", "cuda", "cuda:0")} == {"cuda"}
    with pytest.raises(ValueError, match="'cuda:1' was requested"):
        choose_device("cuda:1")


def test_a_compiled_model_is_trained_and_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    model = torch.compile(model_of(), backend="eager")
    assert len(losses(model, steps=2)) == 2
    assert set(lab.loss_by_length(model, TEXT, [8], targets=64)) == {8}


def test_the_device_auto_is_the_cpu_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto").type == "cpu"


@pytest.mark.parametrize("device", ["cuda", "xpu", "hpu", "vulkan", "meta"])
def test_a_device_that_is_not_there_is_refused(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = f"'{device}' was requested, but there is no {device.upper()} device"
    with pytest.raises(ValueError, match=message):
        lab.train(model_of(), TEXT, device=device)
