"""Measure the effect of every fault in the gallery; the lessons quote these numbers."""

import math

import pytest
import torch

from alibi_viz import alibi_bias, alibi_slopes, attention_trace, causal_mask, gallery

SLOPES = alibi_slopes(8)


def weights(bias: torch.Tensor, *, causal: bool = True) -> torch.Tensor:
    """Attention weights at equal content: the softmax of the bias alone, float32 [heads, query, key]."""
    length = bias.shape[-1]
    bias = bias.expand(-1, length, length) if bias.shape[1] == 1 else bias
    return (bias.masked_fill(~causal_mask(length), -math.inf) if causal else bias).softmax(-1)


def test_bias_before_scaling_makes_every_slope_5_7_times_smaller() -> None:
    bias = gallery.labml_2021(SLOPES, 64, head_dim=32)
    steps = bias[:, 0].diff(dim=-1)[:, 0]
    assert steps[0].item() == pytest.approx(0.0884, abs=5e-5)  # instead of 0.5
    assert torch.allclose(SLOPES / steps, torch.tensor(32**0.5))


def test_zeta_prefers_the_oldest_key() -> None:
    faulty, correct = weights(gallery.zeta(SLOPES, 16))[0, -1], weights(alibi_bias(SLOPES, 16))[0, -1]
    assert int(faulty.argmax()) == 0
    assert int(correct.argmax()) == 15
    assert faulty[0].item() == pytest.approx(0.394, abs=5e-4)
    assert torch.allclose(faulty, correct.flip(0))


def test_jaketae_encoder_prefers_the_last_key() -> None:
    faulty = weights(gallery.jaketae_encoder(SLOPES, 16), causal=False)
    correct = weights(alibi_bias(SLOPES, 16, form="symmetric"), causal=False)
    assert bool((faulty.argmax(-1) == 15).all())
    assert bool((correct[0].argmax(-1) == torch.arange(16)).all())
    assert faulty[0, 0, 15].item() == pytest.approx(0.394, abs=5e-4)
    assert faulty[0, 0, 0].item() == pytest.approx(0.0002, abs=5e-5)


def test_jaketae_content_is_too_small_by_the_root_of_the_number_of_heads() -> None:
    query, key = torch.randn(2, 1, 8, 6, 16)
    correct = attention_trace(query, key, SLOPES).content
    assert torch.allclose(correct, 8**0.5 * gallery.jaketae_content(query, key), atol=1e-6)
    # a content of 4 makes up for 8 tokens at slope 1/2; here the same vectors have a content of only 4 / sqrt(8) = 1.4
    match = torch.zeros(1, 8, 1, 16)
    match[..., 0] = 4 * 16**0.5
    unit = torch.zeros_like(match)
    unit[..., 0] = 1.0
    assert attention_trace(match, unit, SLOPES).content[0, 0].item() == pytest.approx(4)
    assert gallery.jaketae_content(match, unit)[0, 0].item() == pytest.approx(1.414, abs=1e-3)


def test_attention_gym_prefers_the_oldest_key() -> None:
    assert int(weights(gallery.attention_gym_2024(SLOPES, 16))[0, -1].argmax()) == 0


def test_fairseq_mask_is_silently_too_small_beyond_the_built_size() -> None:
    fits = gallery.fairseq_mask(SLOPES, 4, 8, tokens_per_sample=8, max_tokens=256)
    assert fits.shape == (4 * 8, 8, 8)
    assert torch.allclose(fits[8:16].softmax(-1), weights(alibi_bias(SLOPES, 8)), atol=1e-6)  # row b * heads + h
    # requests for 2 texts of 256 tokens, or for 40 texts, when built for 32 texts of 8 tokens
    assert gallery.fairseq_mask(SLOPES, 2, 256, tokens_per_sample=8, max_tokens=256).shape == (16, 8, 8)
    assert gallery.fairseq_mask(SLOPES, 40, 8, tokens_per_sample=8, max_tokens=256).shape[0] == 256  # not 320


def test_bloom_in_bfloat16_gives_neighboring_keys_the_same_bias() -> None:
    near = gallery.bloom_in_bfloat16(SLOPES, 2048)[0, 0, -64:]
    assert sum(int((near == bias).sum()) > 1 for bias in near) == 64
    assert len(near.unique()) == 9  # the 64 keys should have 64 different biases
    assert len(alibi_bias(SLOPES, 1, 2048, dtype=torch.bfloat16)[0, 0, -64:].unique()) == 64


def test_cache_from_the_wrong_corner_reverses_the_decoded_row() -> None:
    faulty, correct = gallery.cache_from_the_wrong_corner(SLOPES, 1, 10), alibi_bias(SLOPES, 1, 10)
    assert torch.equal(faulty, correct.flip(-1))
    assert torch.equal(gallery.cache_from_the_wrong_corner(SLOPES, 10, 10), alibi_bias(SLOPES, 10, form="symmetric"))


def test_decoding_by_query_length_adds_no_bias_to_a_single_query() -> None:
    assert bool((gallery.decoding_by_query_length(SLOPES, 1, 10) == 0).all())
    assert torch.equal(gallery.decoding_by_query_length(SLOPES, 10, 10)[:, :1], alibi_bias(SLOPES, 10, form="key"))
    with pytest.raises(RuntimeError):
        gallery.decoding_by_query_length(SLOPES, 2, 10)


def test_falcon_eager_bias_is_twice_that_of_sdpa() -> None:
    assert gallery.falcon_eager(SLOPES, 4, 64)[0, 0].tolist() == pytest.approx([0, 0.125, 0.25, 0.375])


def test_every_exhibit_has_a_unique_name_a_public_function_and_a_description() -> None:
    assert len({exhibit.name for exhibit in gallery.EXHIBITS}) == len(gallery.EXHIBITS) == 11
    for exhibit in gallery.EXHIBITS:
        assert getattr(gallery, exhibit.rule.__name__) is exhibit.rule
        assert exhibit.system
        assert exhibit.fault
        assert exhibit.source.startswith("https://") or exhibit.rule is gallery.off_by_one
