"""Floor 3: growing context against a loop over single targets; where attention looks; what length costs."""

import math

import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab.attention_stats import attention_weights
from alibi_viz.models import POSITIONS
from tests.literal import literal_attention


@pytest.fixture(scope="module")
def text():
    return lab.load_text()


@pytest.fixture(scope="module")
def model(text):
    model = lab.make_model("alibi")
    for _ in lab.train(model, text, steps=40):
        pass
    return model


def one_by_one(model, text, context, first, targets):
    """-log2 p of the bytes first + 1, first + 2, ..., each after exactly `context` bytes."""
    data, bits = text.validation.long(), []
    with torch.inference_mode():
        for place in range(first + 1, first + 1 + targets):
            probabilities = model(data[None, place - context : place])[0, -1].softmax(-1)
            bits.append(-float(probabilities[data[place]].log2()))
    return sum(bits) / len(bits)


def test_every_target_has_exactly_its_context(model, text):
    found = lab.loss_by_context(model, text, [3, 10, 40], targets=12)
    for context, bits in found.items():
        assert bits == pytest.approx(one_by_one(model, text, context, 40, 12), abs=1e-4)


def test_a_stride_scores_the_same_targets_with_a_little_less_context(model, text):
    exact = lab.loss_by_context(model, text, [64], targets=128)[64]
    slid = lab.loss_by_context(model, text, [64], targets=128, stride=8)[64]
    assert slid == pytest.approx(exact, abs=0.05)
    assert slid != exact


def test_a_stride_of_the_context_is_no_overlap(model, text):
    """With stride = context the windows are those of token_losses, started one context later."""
    losses = lab.token_losses(model, text, 32, targets=32 * 5)[1:]
    found = lab.loss_by_context(model, text, [32], targets=32 * 4, stride=32)[32]
    assert found == pytest.approx(float(losses.mean()), abs=1e-5)


def test_context_not_defined_and_out_of_range(model, text):
    learned = lab.make_model("learned", max_length=16)
    losses = lab.loss_by_context(learned, text, [16, 17], targets=4)
    assert math.isfinite(losses[16])
    assert math.isnan(losses[17])
    for settings, says in (
        ({"contexts": [0]}, "context must be a whole number from 1 up, got 0"),
        ({"contexts": [8], "stride": 9}, "must be at least the stride 9"),
        ({"contexts": [8], "targets": 10**6}, "need 1,000,009 bytes"),
        ({"contexts": [8], "longest": 4}, "contexts up to 8"),
    ):
        with pytest.raises(ValueError, match=says):
            lab.loss_by_context(model, text, **settings)


@pytest.mark.parametrize("position", POSITIONS)
def test_attention_weights_of_every_method_are_the_literal_ones(position):
    torch.manual_seed(0)
    method = lab.make_model(position, max_length=8).transformer.position
    query, key, value = torch.randn(3, 1, 4, 6, 16)
    x = torch.randn(1, 6, 64)
    turned = method.transform(query[:, :, -2:], key)
    bias = method.bias(2, 6, x)
    bias = torch.zeros(4, 2, 6) if bias is None else bias.detach().reshape(4, 2, 6)
    _, expected = literal_attention(*turned, value, bias)
    found = attention_weights(method, query[:, :, -2:], key, x)
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-4)


def test_reach_of_a_model_that_looks_evenly(text):
    """Without queries every visible key has the same weight, so all three numbers are known."""
    model = lab.make_model("none")
    for block in model.transformer.blocks:
        torch.nn.init.zeros_(block.attention.qkv.weight)
    reach = lab.attention_reach(model, text, 64, trained=16, windows=2, queries=1)
    assert reach.entropy.shape == (2, 4)
    torch.testing.assert_close(reach.entropy, torch.full((2, 4), 6.0))  # log2(64)
    torch.testing.assert_close(reach.distance, torch.full((2, 4), 31.5))
    torch.testing.assert_close(reach.beyond, torch.full((2, 4), 48 / 64))


def test_a_flatter_slope_looks_further(model, text):
    reach = lab.attention_reach(model, text, 256, trained=32)
    steep, flat = reach.distance[:, 0], reach.distance[:, 3]
    assert bool((flat > steep).all())
    assert bool((reach.beyond[:, 0] < 0.01).all())
    with pytest.raises(ValueError, match="8 windows of 100000 bytes need 800,000"):
        lab.attention_reach(model, text, 100_000, trained=32)


def test_cost_grows_with_length_and_memory_of_a_known_pass_is_seen():
    costs = lab.cost_by_length(lab.make_model("alibi"), [64, 1024], repeats=3)
    assert costs[1024].seconds > costs[64].seconds > 0
    logits = 1024 * 256 * 4  # bytes of float32
    assert logits < costs[1024].memory < 100 * logits
    learned = lab.cost_by_length(lab.make_model("learned", max_length=8), [9], repeats=1)
    assert math.isnan(learned[9].seconds)
    with pytest.raises(ValueError, match="must be 1 or more"):
        lab.cost_by_length(lab.make_model(), [0])
