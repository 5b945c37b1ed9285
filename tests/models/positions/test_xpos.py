"""xPos compared with its formula for one pair of channels at a time, and its range."""

import math

import pytest
import torch
from torch import Tensor

from alibi_viz.models.positions import Xpos
from tests.reference import reference_attention

DIM = 6


def reference_logit(query: Tensor, key: Tensor, i: int, j: int) -> float:
    """q . k with pair k rotated by (i - j) theta_k and multiplied by z_k^((i - j) / 512)."""
    total, q, k = 0.0, query.tolist(), key.tolist()
    for pair in range(DIM // 2):
        angle = (i - j) * 10000 ** (-2 * pair / DIM)
        z = (2 * pair / DIM + 0.4) / 1.4
        q1, q2, k1, k2 = q[pair], q[pair + DIM // 2], k[pair], k[pair + DIM // 2]
        rotated = (q1 * k1 + q2 * k2) * math.cos(angle) + (q1 * k2 - q2 * k1) * math.sin(angle)
        total += z ** ((i - j) / 512) * rotated
    return total


@pytest.mark.parametrize(("rows", "columns"), [(0, 0), (1, 1), (5, 5), (1, 6), (3, 40)])
def test_attention_matches_the_formula_for_every_pair_of_tokens(rows: int, columns: int) -> None:
    generator = torch.Generator().manual_seed(rows * 10 + columns)
    key, value = torch.randn(2, 1, 2, columns, DIM, generator=generator, dtype=torch.float64)
    query = torch.randn(1, 2, rows, DIM, generator=generator, dtype=torch.float64)
    logits = torch.zeros(2, rows, columns, dtype=torch.float64)
    for h in range(2):
        for row in range(rows):
            for j in range(columns):
                i = columns - rows + row
                logits[h, row, j] = reference_logit(query[0, h, row], key[0, h, j], i, j) / math.sqrt(DIM)
    expected, weights = reference_attention(torch.zeros_like(query), key, value, logits)
    torch.testing.assert_close(Xpos(DIM).attend(query, key, value, causal=True), expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(Xpos(DIM).weights(query, key).double(), weights, atol=1e-6, rtol=1e-5)


def test_far_logits_match_the_formula() -> None:
    query, key = torch.randn(2, 1, 1, 4097, DIM, generator=torch.Generator().manual_seed(0))
    rotated_query, rotated_key = Xpos(DIM).transform(query, key)
    for i, j in ((4096, 0), (4096, 4000), (100, 0), (2048, 1)):
        logit = float(rotated_query[0, 0, i] @ rotated_key[0, 0, j])
        assert logit == pytest.approx(reference_logit(query[0, 0, i], key[0, 0, j], i, j), abs=1e-4, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_factors_and_all_products_are_finite_at_the_largest_length(dtype: torch.dtype) -> None:
    """Also the products of masked pairs, where the factor grows: -inf is added to them, and inf - inf is NaN."""
    length = Xpos.max_length
    query, key = Xpos(16).transform(*torch.randn(2, 1, 1, length, 16).to(dtype))
    ends = torch.tensor([0, 1, length // 2, length - 1])
    products = query[0, 0, ends] @ key[0, 0].mT
    assert bool(products.isfinite().all())
    assert bool(query.isfinite().all())
    assert bool(key.isfinite().all())


def test_text_beyond_the_largest_length_raises() -> None:
    long = torch.zeros(1, 1, 32_769, 2)
    with pytest.raises(ValueError, match="xPos is not defined beyond 32768 tokens, got 32769"):
        Xpos(2).transform(long[:, :, -1:], long)
    assert [Xpos(2).is_defined_at(length) for length in (32_768, 32_769)] == [True, False]


def test_odd_head_dim_raises() -> None:
    with pytest.raises(ValueError, match="head_dim must be even, got 7"):
        Xpos(7)
