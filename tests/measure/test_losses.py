"""Losses at other lengths than the training length: the same target bytes at each length, only the
context differs."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from alibi_viz import lab
from alibi_viz.measure.attention_statistics import attention_stats
from alibi_viz.measure.losses import diverged, shared_losses
from alibi_viz.models import LanguageModel, TransformerConfig
from tests.tables import SMALL

TEXT = lab.load_text()
DATA = TEXT.validation.long()


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    model = lab.make_model("alibi", seed=1, **SMALL)
    list(lab.train(model, TEXT, length=16, steps=5, device="cpu"))
    return model


def bits_of_byte(model: LanguageModel, start: int, at: int) -> float:
    """-log2 p of the byte at `at` after those from `start`, from the definition: one window, the
    last position."""
    with torch.inference_mode():
        return -float(model(DATA[None, start:at])[0, -1].double().softmax(-1)[DATA[at]].log2())


@pytest.mark.parametrize(
    ("lengths", "targets", "shared"),
    [
        ([8, 16, 24], 100, 96),  # a multiple of every length
        (
            [48, 17, 33],
            60,
            33,
        ),  # no such multiple fits, so the last windows reach beyond the shared targets
        ([7, 11, 13, 17], 40, 33),
        ([*torch.tensor([20])], 30, 20),  # numbers of an array are taken too
    ],
)
def test_lengths_predict_the_same_bytes(
    model: LanguageModel, lengths: list[int], targets: int, shared: int
) -> None:
    means = lab.loss_by_length(model, TEXT, lengths, targets=targets)
    for length, bits in shared_losses(model, TEXT, lengths, targets=targets):
        expected = [bits_of_byte(model, at // length * length, at + 1) for at in range(shared)]
        assert bits.tolist() == pytest.approx(expected, abs=1e-3) and means[
            length
        ] == pytest.approx(float(bits.mean()))


def test_the_loss_by_position_is_the_mean_over_windows(model: LanguageModel) -> None:
    expected = [
        sum(bits_of_byte(model, 8 * n, 8 * n + p + 1) for n in range(10)) / 10 for p in range(8)
    ]
    assert lab.loss_by_position(model, TEXT, 8, targets=85).tolist() == pytest.approx(
        expected, abs=1e-4
    )


def test_the_loss_is_nan_beyond_a_learned_table_and_that_is_not_divergence(
    model: LanguageModel,
) -> None:
    learned = lab.make_model("learned", max_length=16, **SMALL)
    by_length = lab.loss_by_length(learned, TEXT, [16, 17], targets=64)
    assert (
        math.isfinite(by_length[16])
        and math.isnan(by_length[17])
        and not diverged(learned, by_length)
    )
    assert diverged(learned, {16: math.nan}) and diverged(model, {17: math.inf})


EVALUATIONS: dict[str, Callable[[LanguageModel], Any]] = {
    "loss_by_length": lambda model: lab.loss_by_length(model, TEXT, [16], targets=64),
    "loss_by_position": lambda model: lab.loss_by_position(model, TEXT, 16, targets=64),
    "accuracy": lambda model: lab.accuracy(model, lab.TASKS["needle"], 5, samples=4),
    "continuations": lambda model: lab.continuations(model, TEXT, 4),
    "attention_stats": lambda model: attention_stats(model, TEXT, 8, trained=4, windows=1),
}


@pytest.mark.parametrize("name", EVALUATIONS)
@pytest.mark.parametrize("training", [True, False])
def test_evaluation_without_dropout_leaves_the_model_and_its_mode_as_they_were(
    name: str, training: bool
) -> None:
    model = lab.make_model("alibi", dropout=0.5, **SMALL).train(training)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    first, again = (EVALUATIONS[name](model) for _ in range(2))
    assert str(first) == str(again), "dropout is off"
    assert all(module.training == training for module in model.modules())
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_a_failing_evaluation_leaves_the_model_in_its_mode_and_a_length_that_does_not_fit_is_named() -> (
    None
):
    model = lab.make_model("alibi", **SMALL).train()
    model.head.weight = torch.nn.Parameter(torch.zeros(3, 5))
    with pytest.raises(RuntimeError):
        lab.loss_by_length(model, TEXT, [8], targets=8)
    assert model.training
    for text, fit in (
        (lab.load_text("x" * 1000), 99),
        (lab.Text("a", TEXT.train, TEXT.train[:0]), 0),
    ):
        with pytest.raises(
            ValueError,
            match=f"length 100 is too long: .* 8,192 .*, so sequences of at most {fit} fit",
        ):
            lab.loss_by_length(model, text, [64, 100])
    with pytest.raises(ValueError, match="an encoder sees the tokens that it should predict"):
        lab.loss_by_length(LanguageModel(TransformerConfig(causal=False, **SMALL)), TEXT, [8])


@pytest.mark.parametrize(
    ("longest", "factors"), [(0, []), (1, [1]), (16, [1, 2, 4, 8, 16]), (31, [1, 2, 4, 8, 16])]
)
def test_evaluation_lengths_are_doubled_up_to_the_longest(longest: int, factors: list[int]) -> None:
    assert lab.evaluation_lengths(24, longest) == [24 * factor for factor in factors]
