"""Training does what its docstring says, is reproducible, stops when its stream is closed, and
refuses bad settings."""

import math
import time
from collections.abc import Callable
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
    return [
        row["value"]
        for row in lab.train(
            model, source, **{"length": 16, "steps": 4, "device": "cpu", **settings}
        )
    ]


def test_rows_and_weights_are_those_of_the_documented_optimizer_schedule_and_batches() -> None:
    """The loop of the docstring, by hand: AdamW, warm-up over a twentieth, a cosine to a tenth,
    gradients of norm 1."""
    length, steps, rate, seed, started = 16, 70, 0.02, 5, time.perf_counter()
    model, by_hand = model_of(seed=1), model_of(seed=1)
    rows = [
        *lab.train(
            model,
            TEXT,
            length=16,
            steps=steps,
            batch_size=8,
            learning_rate=rate,
            seed=5,
            device="cpu",
        )
    ]
    assert (
        0
        < sum(8 * length / row["tokens_per_second"] for row in rows)
        < time.perf_counter() - started
    )
    optimizer = torch.optim.AdamW(
        by_hand.parameters(), betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    windows, clipped = batches(TEXT.train, length, 8, seed), 0
    for step, row in enumerate(rows, start=1):
        cosine = (1 + math.cos(math.pi * (step - 3) / (steps - 3))) / 2
        optimizer.param_groups[0]["lr"] = rate * (step / 3 if step <= 3 else 0.1 + 0.9 * cosine)
        window = next(windows)
        loss = cross_entropy(by_hand(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        assert (row["step"], row["x"], row["count"], row["unit"]) == (
            step,
            step,
            8,
            "bits per byte",
        )
        assert row["value"] == pytest.approx(loss.item() / math.log(2), rel=1e-4)
        optimizer.zero_grad()
        loss.backward()
        clipped += torch.nn.utils.clip_grad_norm_(by_hand.parameters(), 1.0) > 1
        optimizer.step()
    assert clipped, "otherwise the norm is not tested"
    for name, weights in model.state_dict().items():
        torch.testing.assert_close(weights, by_hand.state_dict()[name], atol=1e-4, rtol=1e-3)
    assert rows[-1]["value"] < rows[0]["value"] - 2


@pytest.mark.parametrize("position", POSITIONS)
def test_a_model_starts_from_the_weights_of_its_seed_and_training_moves_all_of_them(
    position: str,
) -> None:
    common, model = (
        model_of("none", seed=3, max_length=16),
        model_of(position, seed=3, max_length=16),
    )
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    assert all(torch.equal(weights[name], value) for name, value in common.state_dict().items())
    losses(model, steps=3)
    assert not [
        name for name, value in model.named_parameters() if torch.equal(value, weights[name])
    ]


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
    model, steps = model_of(), []
    with pytest.raises(
        lab.TrainingDiverged, match="the loss became nan at step 3 of 10; try a learning rate below"
    ):
        for row in lab.train(model, TEXT, length=16, steps=10):
            steps.append(row["step"])
            if len(steps) == 2:
                model.head.weight.data.fill_(math.nan)
    assert steps == [1, 2]
    run = lab.Run("t5", length=16, steps=6, batch_size=2, learning_rate=1e30, longest=2, targets=16)
    assert "the loss became nan at step 2" in lab.measure(run)["error"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: losses(model_of(), lab.load_text("x" * 18)),
            r"has 16 bytes, at least 17 are needed",
        ),
        (
            lambda: lab.train(model_of(), lab.TASKS["needle"], length=1),
            "needle needs a length of at least 2",
        ),
        (
            lambda: lab.train(LanguageModel(TransformerConfig(causal=False)), TEXT),
            "must have causal=True",
        ),
        (
            lambda: lab.train(model_of(), TEXT, learning_rate=math.inf),
            "learning_rate must be a positive, finite",
        ),
        (
            lambda: lab.train(model_of(), TEXT, device="tpu-9"),
            "device must be auto, cpu, cuda .*, got 'tpu-9'",
        ),
    ],
)
def test_what_can_not_be_trained_is_refused_at_the_call(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_the_only_gpu_is_found_by_each_of_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert {choose_device(name).type for name in ("auto", "cuda", "cuda:0")} == {"cuda"}
    with pytest.raises(ValueError, match="'cuda:1' was requested"):
        choose_device("cuda:1")


def test_a_compiled_model_is_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    model = torch.compile(model_of(), backend="eager")
    assert len(losses(model, steps=2)) == 2
    assert next(model.parameters()).device.type == "cpu", "the device auto without CUDA"
    for device in ("cuda", "xpu", "hpu", "vulkan", "meta"):
        with pytest.raises(
            ValueError, match=f"'{device}' was requested, but there is no {device.upper()} device"
        ):
            lab.train(model, TEXT, device=device)
    assert set(lab.loss_by_length(model, TEXT, [8], targets=64)) == {8}
