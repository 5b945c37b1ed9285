"""Rotary positions and their scaling rules, compared with their formulas pair by pair."""

import math

import pytest
import torch
from torch import Tensor

from alibi_viz.models.positions import Rotary
from alibi_viz.models.positions.rotary import ROTARY_RULES, ScaledRotary
from tests.reference import reference_attention

DIM, TRAINING_LENGTH = 6, 8


def rotate_pairs(vectors: Tensor, first: int, scaling_factor: float = 1.0, base: float = 10000.0) -> Tensor:
    out = vectors.clone()
    for position in range(vectors.shape[2]):
        for pair in range(DIM // 2):
            angle = (first + position) / scaling_factor * base ** (-2 * pair / DIM)
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
    scaling_factor = s if rule == "pi" else 1.0
    base = 10000.0 * s ** (DIM / (DIM - 2)) if rule == "ntk" else 10000.0
    scaled = ScaledRotary(DIM, rule, TRAINING_LENGTH).transform(query, key)
    torch.testing.assert_close(scaled[0], rotate_pairs(query, length - 3, scaling_factor, base), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(scaled[1], rotate_pairs(key, 0, scaling_factor, base), atol=1e-5, rtol=1e-5)


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


def test_odd_head_dim_raises() -> None:
    with pytest.raises(ValueError, match="head_dim must be even, got 7"):
        Rotary(7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((6, "yarn", 8), "must be one of plain, pi, ntk, got 'yarn'"),
        ((6, "pi", 0), "trained_length must be an integer of at least 1, got 0"),
        ((2, "ntk", 8), "head_dim must be above 2, got 2"),
    ],
)
def test_invalid_rule_raises(settings: tuple[int, str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ScaledRotary(*settings)
