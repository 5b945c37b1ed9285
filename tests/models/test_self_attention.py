"""AlibiSelfAttention: outputs, decoding with a cache, padding, slopes and errors."""

import copy
import pickle

import pytest
import torch

from alibi_viz import AlibiSelfAttention, KeyValueCache, TransformerConfig, alibi_slopes
from alibi_viz.models import POSITIONS, SelfAttention
from alibi_viz.models.positions import NoPosition


@pytest.mark.parametrize("num_key_heads", [1, 2, 6])
@pytest.mark.parametrize("length", [1, 40, 800])
def test_trace_and_cached_decoding_agree_with_forward(num_key_heads: int, length: int) -> None:
    """The lengths are those at which `alibi_attention` chooses different backends."""
    torch.manual_seed(0)
    module = AlibiSelfAttention(24, 6, num_key_heads=num_key_heads, bias=True).double()
    x = torch.randn(2, length, 24, dtype=torch.float64)
    with torch.no_grad():
        output = module(x)
        _, _, value = module.heads(x)
        traced = module.trace(x).weights @ value.repeat_interleave(6 // num_key_heads, dim=1)
        assert torch.allclose(module.output(traced.transpose(1, 2).flatten(2)), output, atol=1e-12)
        cache, first = KeyValueCache(), max(0, length - 5)
        parts = [x[:, :first], *x[:, first:].split(1, dim=1)]
        steps = [module(part, cache=cache) for part in parts if part.shape[1]]
    assert torch.allclose(torch.cat(steps, dim=1), output, atol=1e-12)


def test_encoder_ignores_padding() -> None:
    torch.manual_seed(0)
    module = AlibiSelfAttention(24, 3, causal=False).double()
    x, is_real = torch.randn(1, 9, 24, dtype=torch.float64), torch.arange(9)[None] < 6
    padded = module(x, key_padding_mask=is_real)
    assert torch.allclose(padded[:, :6], module(x[:, :6]), atol=1e-12)
    assert not torch.allclose(padded[:, :6], module(x)[:, :6], atol=1e-3)
    with pytest.raises(ValueError, match="an encoder has no cache"):
        module(x, cache=KeyValueCache())


def test_slopes_can_be_given_or_learned_and_stay_float32() -> None:
    slopes = torch.tensor([0.4, 0.2, 0.1])
    assert torch.equal(AlibiSelfAttention(24, 3, slopes=slopes).slopes, slopes)
    assert torch.equal(AlibiSelfAttention(24, 3).half().slopes, alibi_slopes(3))
    learned = AlibiSelfAttention(24, 3, learned_slopes=True)
    learned(torch.randn(2, 9, 24)).square().sum().backward()
    gradient = learned.position.learned.log_slopes.grad
    assert gradient is not None
    assert bool(gradient.abs().min() > 0)


def test_sizes_that_do_not_fit_raise() -> None:
    with pytest.raises(ValueError, match="d_model must be a multiple of num_heads=3, got 25"):
        AlibiSelfAttention(25, 3)
    with pytest.raises(ValueError, match="num_key_heads must be a divisor of num_heads=6, got 4"):
        AlibiSelfAttention(24, 6, num_key_heads=4)
    with pytest.raises(ValueError, match=r"dropout must be at least 0 and below 1, got 1\.0"):
        AlibiSelfAttention(24, 6, dropout=1.0)
    with pytest.raises(TypeError, match="dropout must be a number, got 'x'"):
        AlibiSelfAttention(24, 6, dropout="x")
    with pytest.raises(ValueError, match="num_heads must be an integer of at least 1, got 0"):
        SelfAttention(NoPosition(), 24, 0)
    with pytest.raises(ValueError, match=r"x must be \[batch, length, d_model=24\], got shape \[2, 5, 23\]"):
        AlibiSelfAttention(24, 6)(torch.zeros(2, 5, 23))


def test_arguments_of_a_call_are_named() -> None:
    other = SelfAttention(POSITIONS["rotary"].from_config(TransformerConfig(d_model=24, num_heads=6)), 24, 6)
    x = torch.zeros(2, 5, 24)
    with pytest.raises(TypeError, match="key_padding_mask must be None, because only ALiBi takes one, not Rotary"):
        other(x, key_padding_mask=torch.ones(2, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match="last must be an integer of at least 1, got 0"):
        other(x, last=0)


def test_a_call_that_raises_leaves_the_cache_unchanged() -> None:
    attention, cache = AlibiSelfAttention(24, 3).eval(), KeyValueCache()
    x = torch.randn(2, 6, 24)
    with torch.no_grad():
        attention(x[:, :5], cache=cache)
        with pytest.raises(ValueError, match="key_padding_mask must be"):
            attention(x[:, 5:], cache=cache, key_padding_mask=torch.ones(2, 4, dtype=torch.bool))
        assert cache.length == 5
        assert torch.allclose(attention(x[:, 5:], cache=cache), attention(x)[:, 5:], atol=1e-6)


def test_a_first_call_that_raises_leaves_the_cache_empty() -> None:
    attention, cache = AlibiSelfAttention(24, 3).eval(), KeyValueCache()
    x = torch.randn(3, 6, 24)
    with torch.no_grad():
        with pytest.raises(ValueError, match="key_padding_mask must be"):
            attention(x[:2], cache=cache, key_padding_mask=torch.ones(2, 4, dtype=torch.bool))
        assert torch.allclose(attention(x, cache=cache), attention(x), atol=1e-6)  # of another batch size


def test_decoding_can_start_in_inference_mode_and_continue_outside() -> None:
    attention, cache, x = AlibiSelfAttention(24, 3).eval(), KeyValueCache(), torch.randn(2, 6, 24)
    with torch.inference_mode():
        attention(x[:, :5], cache=cache)
    with torch.no_grad():
        assert torch.allclose(attention(x[:, 5:], cache=cache), attention(x)[:, 5:], atol=1e-6)


def test_a_quantized_module_gives_almost_the_same_output() -> None:
    module, x = AlibiSelfAttention(32, 4).eval(), torch.randn(1, 9, 32)
    quantized = torch.ao.quantization.quantize_dynamic(module, {torch.nn.Linear}, dtype=torch.qint8)
    assert torch.allclose(quantized(x), module(x), atol=0.1)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(TypeError, match=r"x must be torch\.float32"):
        module(x.long())


@pytest.mark.parametrize("name", POSITIONS)
def test_grouped_query_attention_equals_attention_with_repeated_key_heads(name: str) -> None:
    torch.manual_seed(0)
    position = POSITIONS[name].from_config(TransformerConfig(d_model=24, num_heads=6, position=name))
    grouped, full = SelfAttention(position, 24, 6, num_key_heads=2), SelfAttention(position, 24, 6)
    query, *pair = grouped.qkv.weight.detach().split((24, 8, 8))
    repeated = [weight.view(2, 4, 24).repeat_interleave(3, dim=0).flatten(0, 1) for weight in pair]
    full.qkv.weight = torch.nn.Parameter(torch.cat((query, *repeated)))
    full.output = grouped.output
    x = torch.randn(2, 9, 24)
    torch.testing.assert_close(grouped(x), full(x))


@pytest.mark.parametrize("causal", [True, False])
def test_copies_and_files_of_a_module_do_not_contain_the_cached_bias(causal: bool) -> None:
    module, x = AlibiSelfAttention(32, 4, causal=causal), torch.randn(1, 9, 32)
    size = len(pickle.dumps(module))
    bias = module.position.bias(500, 500)  # 4 MiB
    assert len(pickle.dumps(module)) < size + 100
    for copied in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert torch.equal(copied(x), module(x))
        assert torch.equal(copied.position.bias(500, 500), bias)
