"""Biases rounded to a dtype, equal neighbors, and the errors of the attention weights."""

import math

import numpy as np
import pytest
import torch

from alibi_viz import alibi_slopes, causal_mask
from alibi_viz.measure.rounding import FORMS, groups, rounded_bias, weight_errors
from tests.reference import reference_bias

HEAD_1, HEAD_8 = 1 / 2, 1 / 256  # slopes of the steepest and the flattest of 8 heads
BF16 = torch.bfloat16


@pytest.mark.parametrize("form", FORMS)
def test_float64_bias_equals_its_formula_up_to_the_query(form: str) -> None:
    slope, positions = float(alibi_slopes(12)[8]), list(range(100))
    formula = "relative" if form == "positions" else form
    (expected,) = reference_bias(torch.tensor([slope]), positions, positions, formula)
    bias = rounded_bias(slope, 100, dtype=torch.float64, form=form)
    torch.testing.assert_close(
        bias, expected.masked_fill(~causal_mask(100), -math.inf), rtol=1e-14, atol=0
    )


def test_key_form_collides_beside_the_query_and_relative_form_only_beyond_256_tokens() -> None:
    assert len(groups(rounded_bias(HEAD_1, 2048, dtype=BF16, form="key")[-1, -64:])) == 9
    for slope in (HEAD_1, HEAD_8):
        runs = groups(rounded_bias(slope, 2048, dtype=BF16, form="relative")[-1])
        assert 2047 - [run for run in runs if len(run) > 1][-1][-1] == 256


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [1, 63, 64, 65, 300, 1000])
def test_cells_are_the_largest_errors_and_the_largest_is_among_them(length: int, form: str) -> None:
    bias = rounded_bias(HEAD_1, length, dtype=BF16, form=form)
    exact = rounded_bias(HEAD_1, length, dtype=torch.float64, form="relative")
    difference = (bias.softmax(-1) - exact.softmax(-1)).abs().numpy()
    errors = weight_errors(HEAD_1, length, dtype=BF16, form=form)
    starts = range(0, length, errors.size)
    expected = np.maximum.reduceat(np.maximum.reduceat(difference, starts, 0), starts, 1)
    visible = np.tri(len(starts), dtype=bool)
    assert len(starts) <= 64 and np.array_equal(np.isnan(errors.cells), ~visible)
    np.testing.assert_allclose(errors.cells[visible], expected[visible], atol=1e-12)
    assert errors.largest == pytest.approx(difference[errors.query, errors.key], abs=1e-12)
    assert errors.largest == pytest.approx(difference.max(), rel=1e-6, abs=1e-12)


def test_unknown_names_and_lengths_raise() -> None:
    with pytest.raises(
        ValueError, match="form must be one of key, end, positions, relative, got 'split'"
    ):
        rounded_bias(HEAD_1, 8, dtype=BF16, form="split")
    with pytest.raises(ValueError, match="length must be at least 1, got 0"):
        rounded_bias(HEAD_1, 0, dtype=BF16, form="key")
