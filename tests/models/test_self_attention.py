"""Self-attention as a layer of its own."""

import copy
import pickle
import re

import pytest
import torch

from alibi_viz import AlibiSelfAttention, KeyValueCache, alibi_slopes
from alibi_viz.models import SelfAttention
from alibi_viz.models.positions.rotary import Rotary
from tests.rows import each_case

X = torch.zeros(2, 5, 24)


@each_case(
    ("arguments", "message"),
    {
        "width": (
            {"d_model": 25, "num_heads": 3},
            "d_model must be a multiple of num_heads=3, got 25",
        ),
        "key heads": (
            {"num_key_heads": 4},
            "num_key_heads must be a divisor of num_heads=6, got 4",
        ),
        "dropout": ({"dropout": 1}, "dropout must be at least 0 and below 1, got 1"),
    },
)
def test_a_wrong_setting_is_named(arguments, message):
    valid = {"d_model": 24, "num_heads": 6}
    with pytest.raises(ValueError, match=re.escape(message)):
        AlibiSelfAttention(**valid | arguments)


@each_case(
    ("arguments", "error", "message"),
    {
        "width": (
            {"x": torch.zeros(2, 5, 25)},
            ValueError,
            "x must be [batch, length, d_model=24], got shape [2, 5, 25]",
        ),
        "dtype": ({"x": X.half()}, TypeError, "x must be torch.float32, like the weights"),
        "last": ({"last": 0}, ValueError, "last must be an integer of at least 1, got 0"),
        "cache": ({"cache": X}, TypeError, "cache must be an instance of KeyValueCache"),
    },
)
def test_a_wrong_input_is_named(arguments, error, message):
    attention = AlibiSelfAttention(24, 6)
    with pytest.raises(error, match=re.escape(message)):
        attention(**{"x": X} | arguments)


def test_only_alibi_takes_padding():
    attention = SelfAttention(Rotary(8), 24, 3)
    is_real = torch.ones(2, 5, dtype=torch.bool)
    with pytest.raises(TypeError, match=r"key_padding_mask must be None, .*, not Rotary"):
        attention(X, key_padding_mask=is_real)


def test_an_encoder_has_no_cache():
    attention = AlibiSelfAttention(24, 6, causal=False)
    with pytest.raises(ValueError, match="an encoder has no cache"):
        attention(X, KeyValueCache())


def test_an_encoder_ignores_padding():
    torch.manual_seed(0)
    attention = AlibiSelfAttention(24, 3, causal=False).double()
    x = torch.randn(1, 9, 24, dtype=torch.float64)
    is_real = torch.arange(9)[None] < 6
    padded = attention(x, key_padding_mask=is_real)
    without_padding = attention(x[:, :6])
    torch.testing.assert_close(padded[:, :6], without_padding, atol=1e-12, rtol=0)
    unmasked = attention(x)[:, :6]
    assert not torch.allclose(unmasked, without_padding, atol=1e-3), "the mask has an effect"


def test_dropout_acts_in_training_only():
    torch.manual_seed(0)
    attention = AlibiSelfAttention(24, 3, dropout=0.5)
    x = torch.randn(2, 9, 24)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    assert torch.equal(attention(x), attention(x))


def test_slopes_can_be_given():
    slopes = torch.tensor([0.4, 0.2, 0.1])
    assert torch.equal(AlibiSelfAttention(24, 3, slopes=slopes).slopes, slopes)


def test_slopes_stay_float32_in_a_half_precision_layer():
    assert torch.equal(AlibiSelfAttention(24, 3).half().slopes, alibi_slopes(3))


def test_learned_slopes_start_at_those_of_the_scheme():
    attention = AlibiSelfAttention(24, 3, learned_slopes=True)
    torch.testing.assert_close(attention.slopes, alibi_slopes(3))


def test_learned_slopes_get_gradients():
    torch.manual_seed(0)
    attention = AlibiSelfAttention(24, 3, learned_slopes=True)
    attention(torch.randn(2, 9, 24)).square().sum().backward()
    (log_slopes,) = attention.position.parameters()
    assert log_slopes.grad is not None
    assert bool((log_slopes.grad != 0).all())


@pytest.mark.parametrize("causal", [True, False], ids=["decoder", "encoder"])
def test_a_file_of_a_layer_does_not_contain_the_cached_bias(causal):
    attention = AlibiSelfAttention(32, 4, causal=causal)
    size = len(pickle.dumps(attention))
    attention.position.bias(500, 500)  # 4 MiB
    assert len(pickle.dumps(attention)) < size + 100


@pytest.mark.parametrize("causal", [True, False], ids=["decoder", "encoder"])
def test_copies_of_a_layer_compute_the_same(causal):
    attention = AlibiSelfAttention(32, 4, causal=causal)
    x = torch.randn(1, 9, 32)
    expected = attention(x)
    assert torch.equal(pickle.loads(pickle.dumps(attention))(x), expected)
    assert torch.equal(copy.deepcopy(attention)(x), expected)


def test_a_copy_of_a_layer_with_a_cached_bias_has_the_same_bias():
    position = AlibiSelfAttention(32, 4).position
    bias = position.bias(500, 500)
    assert torch.equal(copy.deepcopy(position).bias(500, 500), bias)


WRONG_MASK = torch.ones(2, 4, dtype=torch.bool)  # another length than any input below


@torch.no_grad()
def test_an_error_leaves_an_empty_cache_empty():
    attention = AlibiSelfAttention(24, 3).eval()
    cache = KeyValueCache()
    three_texts = torch.randn(3, 5, 24)
    with pytest.raises(ValueError, match="key_padding_mask must be"):
        attention(three_texts, cache, key_padding_mask=WRONG_MASK)
    assert cache.length == 0
    two_texts = torch.randn(2, 5, 24)
    torch.testing.assert_close(attention(two_texts, cache), attention(two_texts))


@torch.no_grad()
def test_an_error_leaves_the_tokens_in_a_cache():
    attention = AlibiSelfAttention(24, 3).eval()
    cache = KeyValueCache()
    x = torch.randn(2, 6, 24)
    attention(x[:, :5], cache)
    with pytest.raises(ValueError, match="key_padding_mask must be"):
        attention(x[:, 5:], cache, key_padding_mask=WRONG_MASK)
    assert cache.length == 5
    torch.testing.assert_close(attention(x[:, 5:], cache), attention(x)[:, 5:])
