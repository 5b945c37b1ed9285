"""Losses at other lengths than the training length.

The targets are the same bytes at each length, only the context differs.
"""

import math

import pytest
import torch

from alibi_viz import lab
from alibi_viz.measure.attention_statistics import attention_stats
from alibi_viz.measure.losses import diverged, shared_losses
from alibi_viz.measure.task_accuracy import accuracy
from alibi_viz.models import LanguageModel, TransformerConfig
from tests.rows import each_case
from tests.tables import SMALL

TEXT = lab.load_text()
DATA = TEXT.validation.long()


@pytest.fixture(scope="module")
def model():
    model = lab.make_model("alibi", seed=1, **SMALL)
    list(lab.train(model, TEXT, length=16, steps=5, device="cpu"))
    return model


def bits_of_byte(model, start, position):
    """-log2 p of the byte at a position after those from `start`, from the definition.

    Of a forward pass on this one context, it reads the last position.
    """
    with torch.inference_mode():
        logits = model(DATA[None, start:position])[0, -1]
    return -float(logits.double().softmax(-1)[DATA[position]].log2())


@each_case(
    ("lengths", "targets", "shared"),
    {
        "a multiple of every length": ([8, 16, 24], 100, 96),
        "whole sequences of the length that predicts least": ([48, 17, 33], 60, 33),
        "no length has that many whole sequences": ([7, 11, 13, 17], 40, 33),
        "a number of an array": ([*torch.tensor([20])], 30, 20),
    },
)
def test_all_lengths_predict_the_same_bytes(model, lengths, targets, shared):
    for length, bits in shared_losses(model, TEXT, lengths, targets=targets):
        starts = [target // length * length for target in range(shared)]
        expected = [bits_of_byte(model, start, n + 1) for n, start in enumerate(starts)]
        assert bits.tolist() == pytest.approx(expected, abs=1e-3)


def test_the_loss_by_length_is_the_mean_over_the_shared_targets(model):
    means = lab.loss_by_length(model, TEXT, [8, 16, 24], targets=100)
    expected = {
        length: float(bits.mean())
        for length, bits in shared_losses(model, TEXT, [8, 16, 24], targets=100)
    }
    assert means == pytest.approx(expected)


def test_the_loss_by_position_is_the_mean_over_sequences(model):
    losses = lab.loss_by_position(model, TEXT, 8, targets=85)  # of which ten sequences predict 80
    for position, loss in enumerate(losses.tolist()):
        bits = [bits_of_byte(model, start, start + position + 1) for start in range(0, 80, 8)]
        assert loss == pytest.approx(sum(bits) / 10, abs=1e-4)


def test_the_loss_is_nan_beyond_a_learned_table():
    learned = lab.make_model("learned", max_length=16, **SMALL)
    losses = lab.loss_by_length(learned, TEXT, [16, 17], targets=64)
    assert math.isfinite(losses[16])
    assert math.isnan(losses[17])


def test_a_loss_that_is_no_number_is_divergence_only_where_the_model_is_defined(
    model,
):
    learned = lab.make_model("learned", max_length=16, **SMALL)
    assert not diverged(learned, {16: 2.0, 17: math.nan})
    assert diverged(learned, {16: math.nan})
    assert diverged(model, {17: math.inf})


def loss_by_length(model):
    return lab.loss_by_length(model, TEXT, [16], targets=64)


def loss_by_position(model):
    return lab.loss_by_position(model, TEXT, 16, targets=64)


def needles_found(model):
    return accuracy(model, lab.TASKS["needle"], 5, samples=4)


def continuations(model):
    return lab.continuations(model, TEXT, 4)


def statistics(model):
    return attention_stats(model, TEXT, 8, trained=4, windows=1)


each_evaluation = pytest.mark.parametrize(
    "evaluate", [loss_by_length, loss_by_position, needles_found, continuations, statistics]
)


@each_evaluation
def test_evaluation_is_without_dropout(evaluate):
    model = lab.make_model("alibi", dropout=0.5, **SMALL).train()
    assert str(evaluate(model)) == str(evaluate(model))


@each_evaluation
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluating"])
def test_evaluation_leaves_the_model_and_its_mode_as_they_were(evaluate, training):
    model = lab.make_model("alibi", dropout=0.5, **SMALL).train(training)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    evaluate(model)
    assert {module.training for module in model.modules()} == {training}
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


def test_an_evaluation_that_fails_leaves_the_model_in_its_mode():
    model = lab.make_model("alibi", **SMALL).train()
    model.head.weight = torch.nn.Parameter(torch.zeros(3, 5))
    with pytest.raises(RuntimeError):
        lab.loss_by_length(model, TEXT, [8], targets=8)
    assert model.training


@each_case(
    ("text", "size"),
    {
        "100 bytes": (lab.load_text("x" * 1000), 100),
        "no byte": (lab.Text("a", TEXT.train, TEXT.train[:0]), 0),
    },
)
def test_a_length_that_does_not_fit_into_the_text_is_refused(model, text, size):
    message = f"too short to test at length 100: .* has {size} bytes and 101 are needed"
    with pytest.raises(ValueError, match=message):
        lab.loss_by_length(model, text, [64, 100])


def test_a_length_beyond_the_targets_is_refused(model):
    with pytest.raises(ValueError, match="targets must be at least the longest length, 64, got 63"):
        lab.loss_by_length(model, TEXT, [64], targets=63)


def test_an_encoder_is_refused():
    encoder = LanguageModel(TransformerConfig(causal=False, **SMALL))
    with pytest.raises(ValueError, match="an encoder sees the tokens that it should predict"):
        lab.loss_by_length(encoder, TEXT, [8])


@pytest.mark.parametrize(
    ("longest", "lengths"),
    [(0, []), (1, [24]), (16, [24, 48, 96, 192, 384]), (31, [24, 48, 96, 192, 384])],
)
def test_evaluation_lengths_are_doubled_up_to_the_longest(longest, lengths):
    assert lab.evaluation_lengths(24, longest) == lengths


def test_numbers_do_not_depend_on_the_default_dtype(model):
    losses = lab.loss_by_length(model, TEXT, [8, 32], targets=256)
    torch.set_default_dtype(torch.float64)
    try:
        assert lab.loss_by_length(model, TEXT, [8, 32], targets=256) == losses
    finally:
        torch.set_default_dtype(torch.float32)
