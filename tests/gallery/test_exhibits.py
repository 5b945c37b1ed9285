"""The checker names the fault of every exhibit, and each has the effect that its text and the lessons state."""

import math

import pytest
import torch
from torch import Tensor

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, causal_mask, check, gallery
from alibi_viz.gallery import attention, biases

SLOPES = alibi_slopes(8)
# Faults that come with another one, because the system has both
ALSO = {
    attention.falcon_2024: {"bias before scaling"},
    attention.falcon_eager: {"bias before scaling"},
    biases.keras_hub_falcon: {"raises an error"},  # for 5 queries with a cache, as in keras-hub
    biases.flash_bias_2025: {"geometric slopes", "imprecise slopes"},  # with 12 heads
    biases.xformers_pattern: {"no bias"},
}


@pytest.mark.parametrize("exhibit", gallery.EXHIBITS, ids=lambda exhibit: exhibit.rule.__name__)
def test_exhibit_has_its_fault_and_no_other(exhibit: gallery.Exhibit) -> None:
    report = getattr(check, exhibit.kind)(exhibit.rule, **exhibit.options)
    assert {finding.name for finding in report.findings} == {exhibit.fault} | ALSO.get(exhibit.rule, set())
    assert exhibit.system in str(report)
    assert exhibit.effect and exhibit.source.startswith("https://")
    with pytest.raises(check.AlibiFaultError, match=exhibit.fault):
        report.raise_for_faults()


def weights(bias: Tensor) -> Tensor:
    """Causal attention weights at equal content: the softmax of the bias alone, float32 [heads, query, key]."""
    length = bias.shape[-1]
    return bias.expand(-1, length, -1).masked_fill(~causal_mask(length), -math.inf).softmax(-1)


def output(function: object) -> Tensor:
    """The output for zero queries and one-hot values, the weights at equal content: float32 [8, query, key]."""
    zeros = torch.zeros(1, 8, 16, 32)
    return function(zeros, zeros, torch.eye(16, 32).expand(1, 8, -1, -1))[0, ..., :16]  # type: ignore[operator]


def test_bias_before_scaling_makes_every_slope_5_7_times_smaller() -> None:
    steps = output(attention.labml_2021)[:, -1].log().diff(dim=-1)[:, -1]
    assert steps[0].item() == pytest.approx(0.0884, abs=5e-5)  # instead of 0.5
    assert torch.allclose(SLOPES / steps, torch.tensor(32**0.5), rtol=1e-3)


@pytest.mark.parametrize("rule", [biases.zeta, biases.attention_gym_2024])
def test_reversed_sign_mirrors_the_weights_of_the_last_query(rule: object) -> None:
    faulty, correct = weights(rule(8, 16, 16))[0, -1], weights(alibi_bias(SLOPES, 16))[0, -1]  # type: ignore[operator]
    assert faulty[0].item() == pytest.approx(0.394, abs=5e-4)
    assert torch.allclose(faulty, correct.flip(0))


def test_encoders_without_a_mask_prefer_the_last_key() -> None:
    for function in (attention.jaketae_encoder, attention.falcon_2024):
        assert bool((output(function).argmax(-1) == 15).all())
    first = output(attention.jaketae_encoder)[0, 0]
    assert (first[15].item(), first[0].item()) == pytest.approx((0.394, 0.0002), abs=5e-4)


def test_leet_gpu_prefers_the_first_key_for_a_positive_slope_and_the_last_for_a_negative_one() -> None:
    # the first example of the challenge, with two queries, three keys and a = 0.5 (the first slope of eight heads)
    inputs = torch.eye(2, 4), torch.eye(3, 4), torch.arange(1.0, 13).view(3, 4)
    out = attention.leet_gpu_2026(*(each.expand(1, 8, -1, -1) for each in inputs))[0, 0]
    assert out.flatten().tolist() == pytest.approx([3.05, 4.05, 5.05, 6.05, 3.93, 4.93, 5.93, 6.93], abs=6e-3)
    assert bool((output(attention.leet_gpu_2026).argmax(-1) == 0).all())


def test_flash_bias_rewards_distance_and_its_far_neighbors_share_a_bias() -> None:
    bias = biases.flash_bias_2025(50, 1024, 1024)[0, -1, -5:]
    assert bias.tolist() == pytest.approx([3.48, 2.58, 1.69, 0.79, -0.10], abs=6e-3)  # instead of -3.58 to 0
    assert len(biases.flash_bias_2025(8, 1, 4096)[0, 0, -64:].unique()) == 33
    report = check.bias(biases.flash_bias_2025, num_heads=[8], length=4096)
    assert {finding.name for finding in report.findings} == {"sign reversed", "colliding positions"}


def test_sequence_toy_changes_no_weight_and_cracked_ai_code_doubles_the_slopes_of_eight_heads() -> None:
    bias = biases.sequence_toy(8, 16, 16)
    assert torch.allclose(weights(bias.expand(8, 16, 16)), weights(torch.zeros(8, 16, 16)))
    bias = biases.cracked_ai_code(8, 16, 16)
    assert torch.allclose(bias, 2 * alibi_bias(SLOPES, 16, form="symmetric"))
    assert bias[0, -1, -2:].tolist() == [-1, 0]


def test_transformer_lens_keeps_the_weights_with_its_cache_and_is_wrong_with_12_heads() -> None:
    assert torch.allclose(weights(biases.transformer_lens(8, 16, 16)), weights(alibi_bias(SLOPES, 16)), atol=1e-6)
    assert check.bias(biases.transformer_lens, num_heads=[8, 16, 32]).ok
    assert check.bias(biases.transformer_lens, slopes="geometric").ok


def test_xformers_pattern_keeps_the_first_keys_for_every_query() -> None:
    visible = biases.xformers_pattern(8, 16, 600).isfinite()
    assert visible.sum(-1).flatten().tolist() == [2, 4, 8, 16, 32, 64, 128, 256]
    assert bool(visible[0, 0, :2].all())


def test_jaketae_weakens_the_content_and_falcon_eager_doubles_the_bias() -> None:
    query, key, value = torch.randn(3, 1, 8, 6, 16)
    weaker = alibi_attention(query / 8**0.5, key, value, SLOPES)
    assert torch.allclose(attention.jaketae_content(query, key, value), weaker, atol=1e-6)
    twice = alibi_attention(query, key, value, 2 * SLOPES / 16**0.5)
    assert torch.allclose(attention.falcon_eager(query, key, value), twice, atol=1e-6)


def test_megatron_gives_the_second_sequence_the_slopes_of_the_second_device() -> None:
    query = torch.zeros(2, 8, 16, 32)
    first, second = attention.megatron_2022(query, query, torch.eye(16, 32).expand(2, 8, -1, -1))[..., :16]
    correct = output(lambda *inputs: alibi_attention(*inputs, SLOPES))
    assert torch.allclose(first, correct[:4].repeat(2, 1, 1), atol=1e-6)
    assert torch.allclose(second, correct[4:].repeat(2, 1, 1), atol=1e-6)


def test_fairseq_mask_is_silently_too_small_beyond_the_built_size() -> None:
    fits = biases.fairseq_mask(8, 8, 8, tokens_per_sample=8)
    assert torch.allclose(fits.softmax(-1), weights(alibi_bias(SLOPES, 8)), atol=1e-6)
    assert biases.fairseq_mask(8, 64, 64, tokens_per_sample=8).shape == (8, 8, 8)


def test_bloom_in_bfloat16_gives_neighboring_keys_the_same_bias() -> None:
    assert len(biases.bloom_in_bfloat16(8, 2048, 2048)[0, 0, -64:].unique()) == 9  # the 64 keys should have 64
    assert len(alibi_bias(SLOPES, 1, 2048, dtype=torch.bfloat16)[0, 0, -64:].unique()) == 64


def test_cache_from_the_wrong_corner_reverses_the_decoded_row() -> None:
    assert torch.equal(biases.x_transformers_2022(8, 1, 10), alibi_bias(SLOPES, 1, 10).flip(-1))
    assert torch.equal(biases.x_transformers_2022(8, 10, 10), alibi_bias(SLOPES, 10, form="symmetric"))


def test_square_root_makes_one_more_step_cost_less_and_less() -> None:
    steps = -biases.step_audio(8, 1, 102)[0, 0].diff().flip(0) / SLOPES[0]  # from distance 1 to 0 first
    assert [round(-float(steps[distance]), 3) for distance in (0, 1, 4, 16, 100)] == [1, 0.414, 0.236, 0.123, 0.05]
