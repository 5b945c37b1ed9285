"""The checker names the fault of every exhibit, and each has the effect that its text and the
lessons state."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from alibi_viz import alibi_attention, alibi_slopes, check, gallery
from alibi_viz.check.gallery import attention, biases

SLOPES = alibi_slopes(8)
# Faults that come with another one, because the system has both
ALSO = {
    attention.falcon_eager: {"bias before scaling"},
    biases.keras_hub_falcon: {"raises an error"},  # for 5 queries with a cache, as in keras-hub
    biases.flash_bias_2025: {"geometric slopes", "imprecise slopes"},  # with 12 heads
    biases.xformers_pattern: {"no bias"},
    attention.megatron_2022: {"slopes of a head slice"},  # with a batch of one
}


@pytest.mark.parametrize("exhibit", gallery.EXHIBITS, ids=lambda exhibit: exhibit.rule.__name__)
def test_exhibit_has_its_fault_and_no_other(exhibit: gallery.Exhibit) -> None:
    report = getattr(check, exhibit.kind)(exhibit.rule, **exhibit.options)
    assert {finding.name for finding in report.findings} == {exhibit.fault} | ALSO.get(
        exhibit.rule, set()
    )
    assert (
        exhibit.system in str(report) and exhibit.effect and exhibit.source.startswith("https://")
    )
    with pytest.raises(check.AlibiFaultError, match=exhibit.fault):
        report.raise_for_faults()


def output(function: object) -> Tensor:
    """The output for zero queries and one-hot values, the weights at equal content: float32 [8,
    query, key]."""
    zeros = torch.zeros(1, 8, 16, 32)
    return function(zeros, zeros, torch.eye(16, 32).expand(1, 8, -1, -1))[0, ..., :16]  # type: ignore[operator]


# {bias: its value for a slope m, the row of the query, its position i, and the position j of the
# key}
FORMULAS: dict[Callable[..., Tensor], Callable[..., float]] = {
    biases.ggml_2023: lambda m, row, i, j: m * (row + 1),
    biases.attention_gym_2024: lambda m, row, i, j: m * (i - j),
    biases.zeta: lambda m, row, i, j: -m * j,
    biases.megatron_layer_scaling: lambda m, row, i, j: 24 * m * j,
    biases.fairseq_mask: lambda m, row, i, j: m * j if j <= row else -math.inf,
    biases.bloom_in_bfloat16: lambda m, row, i, j: m * j,  # such small products are exact
    biases.x_transformers_2022: lambda m, row, i, j: -m * abs(row - j),
    biases.step_audio: lambda m, row, i, j: -m * max(i - j, 0) ** 0.5,
    biases.flash_bias_2025: lambda m, row, i, j: m * (i - j),
    biases.transformer_lens: lambda m, row, i, j: (
        -m * (7 + i - j)
    ),  # of later queries, the same under a softmax
    biases.xformers_pattern: lambda m, row, i, j: (
        0.0 if m * j < 1 else -math.inf
    ),  # the first keys, at any query
}


@pytest.mark.parametrize("rule", FORMULAS, ids=lambda rule: rule.__name__)
def test_biases_match_their_formulas(rule: Callable[..., Tensor]) -> None:
    rows = [
        [[FORMULAS[rule](m, row, 4 + row, j) for j in range(7)] for row in range(3)]
        for m in SLOPES.tolist()
    ]
    assert torch.allclose(rule(8, 3, 7).expand(8, 3, 7).float(), torch.tensor(rows), rtol=1e-6)


def test_megatron_is_right_for_one_sequence_on_one_device() -> None:
    q, k, v = torch.randn(3, 1, 8, 16, 32, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(
        attention.megatron_2022(q, k, v, devices=1), alibi_attention(q, k, v, SLOPES), atol=1e-5
    )


def test_encoders_without_a_mask_prefer_the_last_key() -> None:
    assert bool((output(attention.jaketae_encoder).argmax(-1) == 15).all())
    first = output(attention.jaketae_encoder)[0, 0]
    assert (first[15].item(), first[0].item()) == pytest.approx((0.394, 0.0002), abs=5e-4)


def test_leet_gpu_prefers_the_first_key_for_a_positive_slope_and_the_last_for_a_negative_one() -> (
    None
):
    # the first example of the challenge, with two queries, three keys and a = 0.5 (the first slope
    # of eight heads)
    inputs = torch.eye(2, 4), torch.eye(3, 4), torch.arange(1.0, 13).view(3, 4)
    out = attention.leet_gpu_2026(*(each.expand(1, 8, -1, -1) for each in inputs))[0, 0]
    assert out.flatten().tolist() == pytest.approx(
        [3.05, 4.05, 5.05, 6.05, 3.93, 4.93, 5.93, 6.93], abs=6e-3
    )
    assert bool((output(attention.leet_gpu_2026).argmax(-1) == 0).all())


def test_flash_bias_rewards_distance_and_its_far_neighbors_share_a_bias() -> None:
    bias = biases.flash_bias_2025(50, 1024, 1024)[0, -1, -5:]
    assert bias.tolist() == pytest.approx(
        [3.48, 2.58, 1.69, 0.79, -0.10], abs=6e-3
    )  # instead of -3.58 to 0
    assert len(biases.flash_bias_2025(8, 1, 4096)[0, 0, -64:].unique()) == 33
    report = check.bias(biases.flash_bias_2025, num_heads=[8], length=4096)
    assert {finding.name for finding in report.findings} == {"sign reversed", "colliding positions"}


def test_transformer_lens_is_right_for_powers_of_two_and_for_geometric_slopes() -> None:
    assert check.bias(biases.transformer_lens, num_heads=[8, 16, 32]).ok
    assert check.bias(biases.transformer_lens, slopes="geometric").ok
