"""The checker names the fault of every exhibit, and each has the effect that its text and the
lessons state."""

import math

import pytest
import torch

from alibi_viz import alibi_attention, alibi_slopes, check, gallery
from alibi_viz.check.gallery import attention, biases
from tests.check.faulty import names

SLOPES = alibi_slopes(8)
# Faults that come with another one, because the system has both
ALSO = {
    attention.falcon_eager: {"bias before scaling"},
    biases.keras_hub_falcon: {"raises an error"},  # for 5 queries with a cache, as in keras-hub
    biases.flash_bias_2025: {"geometric slopes", "imprecise slopes"},  # with 12 heads
    biases.xformers_pattern: {"no bias"},
    attention.megatron_2022: {"slopes of a head slice"},  # with a batch of one
}
# The lengths at which these faults show; those of others show with 16 keys.
LENGTHS = {
    biases.bloom_in_bfloat16: 64,
    biases.faceformer: 64,
    biases.fairseq_mask: 300,
    biases.xformers_pattern: 300,
}


def name_of(exhibit):
    return exhibit.rule.__name__


each_exhibit = pytest.mark.parametrize("exhibit", gallery.EXHIBITS, ids=name_of)


@each_exhibit
def test_report_on_an_exhibit_names_its_fault_no_other_and_the_system(exhibit):
    checker = getattr(check, exhibit.kind)
    length = {} if exhibit.kind == "slopes" else {"length": LENGTHS.get(exhibit.rule, 16)}
    report = checker(exhibit.rule, **length, **exhibit.options)
    assert names(report) == {exhibit.fault} | ALSO.get(exhibit.rule, set())
    assert exhibit.system in str(report)


# Biases, for a slope m, the row of the query, its position i, and the position j of the key


def ggml_2023(m, row, i, j):
    return m * (row + 1)


def attention_gym_2024(m, row, i, j):
    return m * (i - j)


def zeta(m, row, i, j):
    return -m * j


def megatron_layer_scaling(m, row, i, j):
    return 24 * m * j


def fairseq_mask(m, row, i, j):
    return m * j if j <= row else -math.inf


def bloom_in_bfloat16(m, row, i, j):
    return m * j  # such small products are exact


def x_transformers_2022(m, row, i, j):
    return -m * abs(row - j)


def step_audio(m, row, i, j):
    return -m * max(i - j, 0) ** 0.5


def flash_bias_2025(m, row, i, j):
    return m * (i - j)


def transformer_lens(m, row, i, j):
    return -m * (7 + i - j)  # of later queries, which is the same under a softmax


def xformers_pattern(m, row, i, j):
    return 0.0 if m * j < 1 else -math.inf  # the first keys, for any query


FORMULAS = [
    ggml_2023,
    attention_gym_2024,
    zeta,
    megatron_layer_scaling,
    fairseq_mask,
    bloom_in_bfloat16,
    x_transformers_2022,
    step_audio,
    flash_bias_2025,
    transformer_lens,
    xformers_pattern,
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_bias_matches_its_formula(formula):
    """Three queries after four cached keys."""
    bias = getattr(biases, formula.__name__)(8, 3, 7).expand(8, 3, 7)
    for head, slope in enumerate(SLOPES.tolist()):
        for row in range(3):
            expected = [formula(slope, row, i=4 + row, j=key) for key in range(7)]
            assert bias[head, row].tolist() == pytest.approx(expected, rel=1e-6)


# Effects that the texts and the lessons state


def weights(function):
    """The weights at equal content, float32 [8, query, key]: the output for one-hot values."""
    zeros = torch.zeros(1, 8, 16, 32)
    one_hot = torch.eye(16, 32).expand(1, 8, -1, -1)
    return function(zeros, zeros, one_hot)[0, ..., :16]


def test_megatron_is_right_for_one_sequence_on_one_device():
    q, k, v = torch.randn(3, 1, 8, 16, 32, generator=torch.Generator().manual_seed(0))
    output = attention.megatron_2022(q, k, v, devices=1)
    assert torch.allclose(output, alibi_attention(q, k, v, SLOPES), atol=1e-5)


def test_an_encoder_of_jaketae_prefers_the_last_key():
    of_encoder = weights(attention.jaketae_encoder)
    assert bool((of_encoder.argmax(-1) == 15).all())
    of_first_query = of_encoder[0, 0]
    assert of_first_query[15].item() == pytest.approx(0.394, abs=5e-4)
    assert of_first_query[0].item() == pytest.approx(0.0002, abs=5e-4)


def test_leet_gpu_has_the_output_of_its_first_example():
    # Two queries, three keys, and a = 0.5, the first slope of eight heads
    query = torch.eye(2, 4).expand(1, 8, -1, -1)
    key = torch.eye(3, 4).expand(1, 8, -1, -1)
    value = torch.arange(1.0, 13).view(3, 4).expand(1, 8, -1, -1)
    first_row, second_row = attention.leet_gpu_2026(query, key, value)[0, 0]
    assert first_row.tolist() == pytest.approx([3.05, 4.05, 5.05, 6.05], abs=6e-3)
    assert second_row.tolist() == pytest.approx([3.93, 4.93, 5.93, 6.93], abs=6e-3)


def test_leet_gpu_prefers_the_first_key():
    assert bool((weights(attention.leet_gpu_2026).argmax(-1) == 0).all())


def test_flash_bias_rewards_distance():
    nearest_five = biases.flash_bias_2025(50, 1024, 1024)[0, -1, -5:]
    instead_of_minus_3_58_to_0 = [3.48, 2.58, 1.69, 0.79, -0.10]
    assert nearest_five.tolist() == pytest.approx(instead_of_minus_3_58_to_0, abs=6e-3)


def test_far_neighbors_share_a_bias_in_flash_bias():
    of_64_keys = biases.flash_bias_2025(8, 1, 4096)[0, 0, -64:]
    assert len(of_64_keys.unique()) == 33
    report = check.bias(biases.flash_bias_2025, num_heads=[8], length=2500)
    assert names(report) == {"sign reversed", "colliding positions"}


def test_transformer_lens_is_right_for_powers_of_two():
    assert check.bias(biases.transformer_lens, num_heads=[8, 16, 32]).ok


def test_transformer_lens_is_right_for_geometric_slopes():
    assert check.bias(biases.transformer_lens, slopes="geometric").ok
