"""Rotary positions beyond the training length: the rules against their formulas, pair by pair."""

import math

import pytest
import torch
from torch import Tensor

from alibi_viz.models.positions import Rotary
from alibi_viz.models.positions.rotary_rules import RuledRotary

DIM, TRAINED = 6, 8


def turned(vectors: Tensor, first: int, stretch: float, base: float) -> Tensor:
    out = vectors.clone()
    for position in range(vectors.shape[2]):
        for pair in range(DIM // 2):
            angle = (first + position) / stretch * base ** (-2 * pair / DIM)
            x, y = vectors[:, :, position, pair], vectors[:, :, position, pair + DIM // 2]
            out[:, :, position, pair] = x * math.cos(angle) - y * math.sin(angle)
            out[:, :, position, pair + DIM // 2] = x * math.sin(angle) + y * math.cos(angle)
    return out


@pytest.mark.parametrize("length", [4, 8, 9, 24])
@pytest.mark.parametrize("rule", ["plain", "pi", "ntk"])
def test_angles_follow_the_rule(rule: str, length: int) -> None:
    query, key = torch.randn(1, 2, 3, DIM), torch.randn(1, 2, length, DIM)
    s = max(1.0, length / TRAINED)
    stretch = s if rule == "pi" else 1.0
    base = 10000.0 * s ** (DIM / (DIM - 2)) if rule == "ntk" else 10000.0
    found = RuledRotary(DIM, rule, TRAINED).transform(query, key)
    torch.testing.assert_close(found[0], turned(query, length - 3, stretch, base), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[1], turned(key, 0, stretch, base), atol=1e-5, rtol=1e-5)


def test_up_to_the_training_length_every_rule_is_plain() -> None:
    query = key = torch.randn(1, 2, TRAINED, DIM)
    plain = Rotary(DIM).transform(query, key)
    for rule in ("plain", "pi", "ntk"):
        assert all(map(torch.equal, plain, RuledRotary(DIM, rule, TRAINED).transform(query, key)))


def test_ntk_keeps_the_fastest_pair_and_stretches_the_slowest_by_s() -> None:
    s = 4
    base = RuledRotary(DIM, "ntk", TRAINED).at(s * TRAINED).base
    slowest = (DIM - 2) / DIM
    assert base**-0.0 == 1.0
    assert (base**-slowest) == pytest.approx(10000.0**-slowest / s)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ((6, "yarn", 8), "must be one of plain, pi, ntk, got 'yarn'"),
        ((6, "pi", 0), "trained_length must be 1 or more, got 0"),
        ((2, "ntk", 8), "head_dim must be above 2, got 2"),
    ],
)
def test_bad_settings_are_named(settings: tuple[int, str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        RuledRotary(*settings)
