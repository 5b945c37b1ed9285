"""Floor 3: one frozen set of target bytes, whatever the length."""

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


def slow_losses(model, text, length, windows):
    """Byte by byte, as the definition reads."""
    data = text.validation.long()
    losses = torch.zeros(windows, length)
    for window in range(windows):
        for position in range(length):
            start = window * length
            context = data[start : start + position + 1]
            probabilities = model.double()(context[None])[0, -1].softmax(-1)
            losses[window, position] = -probabilities[data[start + position + 1]].log2()
    model.float()
    return losses


def test_token_losses_equal_the_byte_by_byte_definition(model, text):
    with torch.inference_mode():
        expected = slow_losses(model, text, length=6, windows=3)
    torch.testing.assert_close(lab.token_losses(model, text, 6, targets=18), expected, atol=1e-4, rtol=1e-4)


def test_means_are_means_of_the_same_targets(model, text):
    lengths = [8, 16, 24]
    by_length = lab.loss_by_length(model, text, lengths, targets=500)
    frozen = 500 // 48 * 48
    for length in lengths:
        losses = lab.token_losses(model, text, length, targets=frozen)
        assert losses.numel() == frozen
        assert by_length[length] == pytest.approx(float(losses.mean()))
    torch.testing.assert_close(
        lab.loss_by_position(model, text, 8, targets=80), lab.token_losses(model, text, 8, targets=80).mean(0)
    )


def test_more_context_helps_early_targets(model, text):
    losses = lab.loss_by_position(model, text, 32)
    assert losses[0] > losses[8:].mean() + 0.3


def test_learned_positions_are_not_defined_beyond_their_table(text):
    learned = lab.make_model("learned", max_length=16)
    losses = lab.loss_by_length(learned, text, [16, 32])
    assert math.isfinite(losses[16])
    assert math.isnan(losses[32])


def test_evaluation_leaves_the_model_as_it_was(model, text):
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    lab.loss_by_length(model, text, [16])
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("length", [0, -3, 1.5, True])
def test_lengths_must_be_whole_numbers(model, text, length):
    with pytest.raises(ValueError, match="length must be a whole number"):
        lab.token_losses(model, text, length)


def test_too_long_a_length_names_what_fits(model):
    short = lab.load_text("x" * 1000)
    with pytest.raises(ValueError, match=r"length 128 is too long: .* windows of at most 99 fit"):
        lab.loss_by_length(model, short, [64, 128])


@pytest.mark.parametrize("lengths", [[0], [8, 0], [-5], [True]])
def test_a_length_that_is_none_is_named(model, text, lengths):
    with pytest.raises(ValueError, match="length must be a whole number from 1 up"):
        lab.loss_by_length(model, text, lengths)


@pytest.mark.parametrize("lengths", [[48, 100, 333], [7, 11, 13, 17], [200]])
def test_the_same_bytes_are_predicted_even_if_no_number_of_them_suits_all_lengths(model, text, lengths):
    targets = min(300, len(text.validation) - 1) if 333 not in lengths else 400
    shared = min(targets // length * length for length in lengths)
    shared = targets // math.lcm(*lengths) * math.lcm(*lengths) or shared
    for length, bits in lab.loss_by_length(model, text, lengths, targets=targets).items():
        every = lab.token_losses(model, text, length, targets=targets).flatten()
        assert len(every) >= shared
        assert bits == pytest.approx(float(every[:shared].mean()), abs=1e-5)
