"""Measure the effect of every fault in the gallery; the lessons quote these numbers."""

import math

import pytest
import torch
from torch import Tensor

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, causal_mask
from alibi_viz.gallery import attention, biases

SLOPES = alibi_slopes(8)


def weights(bias: Tensor) -> Tensor:
    """Causal attention weights at equal content: the softmax of the bias alone, float32 [heads, query, key]."""
    length = bias.shape[-1]
    bias = bias.expand(-1, length, -1) if bias.shape[1] == 1 else bias
    return bias.masked_fill(~causal_mask(length), -math.inf).softmax(-1)


def one_hot_inputs(length: int, head_dim: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    """Queries of zero and one-hot values, [1, 8, length, head_dim]: the output is the weights at equal content."""
    zeros = torch.zeros(1, 8, length, head_dim)
    return zeros, zeros, torch.eye(length, head_dim).expand(1, 8, -1, -1)


def test_bias_before_scaling_makes_every_slope_5_7_times_smaller() -> None:
    output = attention.labml_2021(*one_hot_inputs(16))[0, :, -1, :16]  # [heads, key]
    steps = output.log().diff(dim=-1)[:, -1]
    assert steps[0].item() == pytest.approx(0.0884, abs=5e-5)  # instead of 0.5
    assert torch.allclose(SLOPES / steps, torch.tensor(32**0.5), rtol=1e-3)


@pytest.mark.parametrize("rule", [biases.zeta, biases.attention_gym_2024])
def test_reversed_sign_prefers_the_oldest_key(rule: object) -> None:
    faulty, correct = weights(rule(8, 16, 16))[0, -1], weights(alibi_bias(SLOPES, 16))[0, -1]  # type: ignore[operator]
    assert int(faulty.argmax()) == 0
    assert int(correct.argmax()) == 15
    assert faulty[0].item() == pytest.approx(0.394, abs=5e-4)
    assert torch.allclose(faulty, correct.flip(0))


def test_jaketae_encoder_prefers_the_last_key() -> None:
    faulty = attention.jaketae_encoder(*one_hot_inputs(16))[0, ..., :16]
    correct = alibi_attention(*one_hot_inputs(16), SLOPES, causal=False)[0, ..., :16]
    assert bool((faulty.argmax(-1) == 15).all())
    assert bool((correct[0].argmax(-1) == torch.arange(16)).all())
    assert faulty[0, 0, 15].item() == pytest.approx(0.394, abs=5e-4)
    assert faulty[0, 0, 0].item() == pytest.approx(0.0002, abs=5e-5)


def test_jaketae_content_is_too_small_by_the_root_of_the_number_of_heads() -> None:
    query, key, value = torch.randn(3, 1, 8, 6, 16)
    weaker = alibi_attention(query / 8**0.5, key, value, SLOPES)
    assert torch.allclose(attention.jaketae_content(query, key, value), weaker, atol=1e-6)


def test_falcon_without_a_mask_prefers_the_last_token() -> None:
    faulty = attention.falcon_2024(*one_hot_inputs(16))[0, ..., :16]
    assert bool((faulty.argmax(-1) == 15).all())


def test_fairseq_mask_is_silently_too_small_beyond_the_built_size() -> None:
    fits = biases.fairseq_mask(8, 8, 8, tokens_per_sample=8)
    assert torch.allclose(fits.softmax(-1), weights(alibi_bias(SLOPES, 8)), atol=1e-6)
    assert biases.fairseq_mask(8, 64, 64, tokens_per_sample=8).shape == (8, 8, 8)


def test_bloom_in_bfloat16_gives_neighboring_keys_the_same_bias() -> None:
    near = biases.bloom_in_bfloat16(8, 2048, 2048)[0, 0, -64:]
    assert sum(int((near == bias).sum()) > 1 for bias in near) == 64
    assert len(near.unique()) == 9  # the 64 keys should have 64 different biases
    assert len(alibi_bias(SLOPES, 1, 2048, dtype=torch.bfloat16)[0, 0, -64:].unique()) == 64


def test_cache_from_the_wrong_corner_reverses_the_decoded_row() -> None:
    faulty, correct = biases.x_transformers_2022(8, 1, 10), alibi_bias(SLOPES, 1, 10)
    assert torch.equal(faulty, correct.flip(-1))
    assert torch.equal(biases.x_transformers_2022(8, 10, 10), alibi_bias(SLOPES, 10, form="symmetric"))


def test_bias_by_query_length_is_zero_for_a_single_query() -> None:
    assert bool((biases.keras_hub_falcon(8, 1, 10) == 0).all())
    assert torch.equal(biases.keras_hub_falcon(8, 10, 10)[:, :1], alibi_bias(SLOPES, 10, form="key"))
    with pytest.raises(RuntimeError):
        biases.keras_hub_falcon(8, 2, 10)


def test_bias_that_is_constant_along_the_keys_changes_no_weight() -> None:
    bias = biases.ggml_2023(8, 16, 16).expand(-1, 16, 16)
    assert torch.allclose(weights(bias), weights(torch.zeros(8, 16, 16)), atol=1e-6)


def test_square_root_makes_one_more_step_cost_less_and_less() -> None:
    steps = -biases.step_audio(8, 1, 102)[0, 0].diff().flip(0) / SLOPES[0]  # from distance 1 to 0 first
    assert [round(-float(steps[distance]), 3) for distance in (0, 1, 4, 16, 100)] == [1, 0.414, 0.236, 0.123, 0.05]


def test_falcon_eager_bias_is_twice_that_of_sdpa() -> None:
    once = alibi_attention(*one_hot_inputs(16), SLOPES / 32**0.5)
    twice = attention.falcon_eager(*one_hot_inputs(16))
    steps = [output[0, 0, -1, :16].log().diff()[-1].item() for output in (once, twice)]
    assert steps[1] == pytest.approx(2 * steps[0], rel=1e-4)


def test_megatron_gives_sequences_of_a_batch_different_slopes() -> None:
    query, key, value = (tensor.expand(2, -1, -1, -1) for tensor in one_hot_inputs(16))
    first, second = attention.megatron_2022(query, key, value)
    assert torch.allclose(first[:4], first[4:])  # both devices use slopes 1 to 4 for the first sequence
    assert torch.allclose(second[:4], second[4:])  # and 5 to 8 for the second
    assert torch.allclose(
        torch.cat((first[:4], second[:4])), alibi_attention(*one_hot_inputs(16), SLOPES)[0], atol=1e-6
    )
