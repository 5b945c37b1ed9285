"""Losses at other lengths than the training length: the same target bytes at each length, only the context differs."""

import math

import pytest
import torch

from alibi_viz import lab


@pytest.fixture(scope="module")
def text():
    return lab.load_text()


@pytest.fixture(scope="module")
def model(text):
    model = lab.make_model("alibi")
    for _ in lab.train(model, text, steps=100):
        pass
    return model


def bits_of_byte(model, context, target):
    """-log2 p of one byte after a context, both from the definition: one window, the last position."""
    return -float(model(context[None])[0, -1].double().softmax(-1)[target].log2())


def test_token_losses_equal_predictions_one_byte_at_a_time(model, text):
    data = text.validation.long()
    with torch.inference_mode():
        expected = [
            [bits_of_byte(model, data[start : start + p + 1], data[start + p + 1]) for p in range(6)]
            for start in (0, 6, 12)
        ]
    losses = lab.token_losses(model, text, 6, targets=18)
    torch.testing.assert_close(losses, torch.tensor(expected), atol=1e-4, rtol=1e-4)


def test_loss_by_length_and_by_position_are_means_of_token_losses(model, text):
    lengths = [8, 16, 24]
    by_length = lab.loss_by_length(model, text, lengths, targets=500)
    shared = 500 // 48 * 48  # 48 is a multiple of every length
    for length in lengths:
        losses = lab.token_losses(model, text, length, targets=shared)
        assert losses.numel() == shared
        assert by_length[length] == pytest.approx(float(losses.mean()))
    torch.testing.assert_close(
        lab.loss_by_position(model, text, 8, targets=80), lab.token_losses(model, text, 8, targets=80).mean(0)
    )


@pytest.mark.parametrize(("lengths", "targets"), [([48, 100, 333], 400), ([7, 11, 13, 17], 300), ([200], 300)])
def test_targets_are_the_same_at_each_length_if_no_multiple_of_all_lengths_fits(model, text, lengths, targets):
    shared = min(targets // length * length for length in lengths)
    for length, bits in lab.loss_by_length(model, text, lengths, targets=targets).items():
        losses = lab.token_losses(model, text, length, targets=targets).flatten()
        assert len(losses) >= shared
        assert bits == pytest.approx(float(losses[:shared].mean()), abs=1e-5)


def test_loss_is_higher_at_the_first_positions(model, text):
    losses = lab.loss_by_position(model, text, 32)
    assert losses[0] > losses[8:].mean() + 0.3


def test_loss_is_nan_beyond_a_learned_table(text):
    learned = lab.make_model("learned", max_length=16)
    for losses in (
        lab.loss_by_length(learned, text, [16, 17]),
        lab.loss_by_context(learned, text, [16, 17], targets=4),
    ):
        assert math.isfinite(losses[16])
        assert math.isnan(losses[17])


def test_nan_is_divergence_only_where_the_model_is_defined():
    learned = lab.make_model("learned", max_length=16)
    assert not lab.diverged(learned, {16: 2.0, 17: math.nan})
    assert lab.diverged(learned, {16: math.nan})
    assert lab.diverged(lab.make_model("alibi"), {17: math.inf})


def test_evaluation_leaves_the_model_unchanged(model, text):
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    lab.loss_by_length(model, text, [16])
    lab.loss_by_context(model, text, [16], targets=4)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("length", [0, -3, 1.5, True])
def test_lengths_that_are_not_positive_integers_raise(model, text, length):
    message = f"length must be an integer of at least 1, got {length!r}"
    with pytest.raises((TypeError, ValueError), match=message):
        lab.token_losses(model, text, length)
    with pytest.raises((TypeError, ValueError), match=message):
        lab.loss_by_length(model, text, [8, length])


def test_length_beyond_the_validation_part_raises_and_names_what_fits(model):
    short = lab.load_text("x" * 1000)
    with pytest.raises(ValueError, match=r"length 128 is too long: .* windows of at most 99 fit"):
        lab.loss_by_length(model, short, [64, 128])


def test_each_target_of_loss_by_context_sees_exactly_that_context(model, text):
    data = text.validation.long()
    losses = lab.loss_by_context(model, text, [3, 10, 40], targets=12)
    for context, bits in losses.items():
        with torch.inference_mode():
            expected = [bits_of_byte(model, data[at - context : at], data[at]) for at in range(41, 41 + 12)]
        assert bits == pytest.approx(sum(expected) / 12, abs=1e-4)


def test_loss_by_context_with_a_stride_is_close_to_the_exact_loss(model, text):
    exact = lab.loss_by_context(model, text, [64], targets=128)[64]
    strided = lab.loss_by_context(model, text, [64], targets=128, stride=8)[64]
    assert strided == pytest.approx(exact, abs=0.05)
    assert strided != exact


def test_loss_by_context_with_a_stride_of_the_context_equals_windows_without_overlap(model, text):
    windows = lab.token_losses(model, text, 32, targets=32 * 5)[1:]  # the targets start after the first context
    bits = lab.loss_by_context(model, text, [32], targets=32 * 4, stride=32)[32]
    assert bits == pytest.approx(float(windows.mean()), abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"contexts": [0]}, "contexts must be an integer of at least 1, got 0"),
        ({"contexts": [8], "targets": 2.5}, "targets must be an integer of at least 1, got 2.5"),
        ({"contexts": [8], "stride": 9}, "must be at least the stride 9"),
        ({"contexts": [8], "targets": 10**6}, "need 1,000,009 bytes"),
        ({"contexts": [8], "longest": 4}, "contexts up to 8"),
        ({"contexts": [8], "longest": 10.5}, "longest must be an integer of at least 1, got 10.5"),
        ({"contexts": []}, r"contexts must have at least one integer, got \[\]"),
    ],
)
def test_loss_by_context_refuses_numbers_out_of_range(model, text, arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        lab.loss_by_context(model, text, **arguments)
