"""Rotary positions and their scaling rules, compared with their formulas pair by pair."""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from alibi_viz.models.positions import Rotary
from alibi_viz.models.positions.rotary import ROTARY_RULES, ScaledRotary, yarn_frequencies
from tests.reference import reference_attention

DIM, TRAINING_LENGTH = 6, 8


def rotate_pairs(
    vectors: Tensor,
    first: int,
    base: float = 10000.0,
    factors: Sequence[float] = (1.0, 1.0, 1.0),
) -> Tensor:
    """`factors` says how many times slower each pair turns."""
    out = vectors.clone()
    for position in range(vectors.shape[2]):
        for pair in range(DIM // 2):
            angle = (first + position) / factors[pair] * base ** (-2 * pair / DIM)
            x, y = vectors[:, :, position, pair], vectors[:, :, position, pair + DIM // 2]
            out[:, :, position, pair] = x * math.cos(angle) - y * math.sin(angle)
            out[:, :, position, pair + DIM // 2] = x * math.sin(angle) + y * math.cos(angle)
    return out


@pytest.mark.parametrize(("rows", "columns"), [(0, 0), (1, 1), (5, 5), (1, 6), (3, 7)])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_equals_attention_on_rotated_pairs(rows: int, columns: int, causal: bool) -> None:
    generator = torch.Generator().manual_seed(rows * 10 + columns)
    key, value = torch.randn(2, 2, 3, columns, DIM, generator=generator, dtype=torch.float64)
    query = torch.randn(2, 3, rows, DIM, generator=generator, dtype=torch.float64)
    no_bias = torch.zeros(3, rows, columns, dtype=torch.float64)
    pair = rotate_pairs(query, columns - rows), rotate_pairs(key, 0)
    expected, _ = reference_attention(*pair, value, no_bias, causal=causal)
    assert torch.allclose(Rotary(DIM).attend(query, key, value, causal=causal), expected, atol=1e-6)


def test_dot_product_depends_on_the_distance_only() -> None:
    vectors = torch.randn(2, 1, 1, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    rotary = Rotary(DIM)

    def product(i: int, j: int) -> float:
        query, key = rotary.rotate(vectors[0], torch.tensor([i])), rotary.rotate(vectors[1], torch.tensor([j]))
        return float((query * key).sum())

    assert product(3, 1) == pytest.approx(product(903, 901), abs=1e-5)
    assert abs(product(3, 1) - product(3, 2)) > 1e-3


@pytest.mark.parametrize("length", [4, 8, 9, 24])
@pytest.mark.parametrize("rule", ROTARY_RULES)
def test_angles_follow_the_formula_of_the_rule(rule: str, length: int) -> None:
    query, key = torch.randn(1, 2, 3, DIM), torch.randn(1, 2, length, DIM)
    s = max(1.0, length / TRAINING_LENGTH)
    factors = {"pi": [s] * 3, "yarn": [1.0, s, s]}.get(rule, [1.0] * 3)  # only the fastest pair turns once in 8 tokens
    base = 10000.0 * s ** (DIM / (DIM - 2)) if rule == "ntk" else 10000.0
    scale = 0.1 * math.log(s) + 1 if rule == "yarn" else 1.0
    scaled = ScaledRotary(DIM, rule, TRAINING_LENGTH).transform(query, key)
    expected = rotate_pairs(query, length - 3, base, factors) * scale, rotate_pairs(key, 0, base, factors) * scale
    torch.testing.assert_close(scaled, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rule", ROTARY_RULES)
def test_every_rule_equals_plain_up_to_the_training_length(rule: str) -> None:
    query = key = torch.randn(1, 2, TRAINING_LENGTH, DIM)
    plain, scaled = Rotary(DIM).transform(query, key), ScaledRotary(DIM, rule, TRAINING_LENGTH).transform(query, key)
    assert all(map(torch.equal, plain, scaled))


def test_ntk_keeps_the_fastest_pair_and_stretches_the_slowest_by_s() -> None:
    s, vectors = 4, torch.ones(1, DIM)
    scaled = ScaledRotary(DIM, "ntk", TRAINING_LENGTH).for_length(s * TRAINING_LENGTH)
    at_position, at_stretched = (
        rotary.rotate(vectors, torch.tensor([place])).view(2, -1)
        for rotary, place in ((Rotary(DIM), 5), (scaled, 5 * s))
    )
    torch.testing.assert_close(at_stretched[:, -1], at_position[:, -1])  # slowest: s times as far, the same angle
    fastest = Rotary(DIM).rotate(vectors, torch.tensor([5 * s])).view(2, -1)[:, 0]
    torch.testing.assert_close(at_stretched[:, 0], fastest)
    assert not torch.allclose(at_stretched[:, 1], at_position[:, 1])


@pytest.mark.parametrize("s", [1.5, 4.0, 16.0])
@pytest.mark.parametrize(("head_dim", "trained_length"), [(16, 64), (16, 256), (64, 512), (128, 4096)])
def test_yarn_equals_transformers(head_dim: int, trained_length: int, s: float) -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: PLC0415  # after importorskip

    rope = {"rope_type": "yarn", "factor": s, "rope_theta": 10000.0, "original_max_position_embeddings": trained_length}
    config = transformers.LlamaConfig(hidden_size=2 * head_dim, num_attention_heads=2, rope_parameters=rope)
    frequencies, scale = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")
    torch.testing.assert_close(yarn_frequencies(head_dim, trained_length, s).float(), frequencies)
    scaled = ScaledRotary(head_dim, "yarn", trained_length).for_length(round(s * trained_length))
    assert scaled.scale == pytest.approx(scale)
    torch.testing.assert_close(scaled.frequencies.float(), frequencies)


def test_yarn_keeps_fast_pairs_slows_slow_ones_and_blends_those_between() -> None:
    """The authors' code, written out for the setting of the paper: head_dim 128, 4,096 tokens, s = 16."""
    slowed = []
    for pair, frequency in enumerate(yarn_frequencies(128, 4096, 16.0).tolist()):
        first, last = (128 * math.log(4096 / (turns * 2 * math.pi)) / (2 * math.log(10000)) for turns in (32, 1))
        ramp = min(max((pair - math.floor(first)) / (math.ceil(last) - math.floor(first)), 0.0), 1.0)
        plain = 10000 ** (-2 * pair / 128)
        assert frequency == pytest.approx(plain / 16 * ramp + plain * (1 - ramp))
        slowed.append(plain / frequency)
    assert slowed == sorted(slowed)
    assert slowed[:21] == pytest.approx([1.0] * 21)
    assert slowed[46:] == pytest.approx([16.0] * 18)


@pytest.mark.parametrize("trained_length", [1, 2, 6, 7])
def test_yarn_at_very_short_training_lengths_keeps_only_the_fastest_pair(trained_length: int) -> None:
    ratios = yarn_frequencies(8, trained_length, 4.0) / yarn_frequencies(8, trained_length, 1.0)
    assert ratios.tolist() == pytest.approx([1.0, 0.25, 0.25, 0.25])


def test_odd_head_dim_raises() -> None:
    with pytest.raises(ValueError, match="head_dim must be even, got 7"):
        Rotary(7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((6, "linear", 8), "must be one of plain, pi, ntk, yarn, got 'linear'"),
        ((6, "pi", 0), "trained_length must be an integer of at least 1, got 0"),
        ((2, "ntk", 8), "head_dim must be above 2, got 2"),
    ],
)
def test_invalid_rule_raises(settings: tuple[int, str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ScaledRotary(*settings)
