"""Biases rounded to a dtype, equal neighbors, and the errors of the attention weights."""

import math

import numpy as np
import pytest
import torch

from alibi_viz import alibi_slopes, causal_mask
from alibi_viz.measure.rounding import FORMS, groups, rounded_bias, weight_errors
from tests.reference import reference_bias

# Slopes of the steepest and the flattest of 8 heads.
HEAD_1 = 1 / 2
HEAD_8 = 1 / 256
BF16 = torch.bfloat16


@pytest.mark.parametrize("form", FORMS)
def test_float64_bias_equals_its_formula_up_to_the_query(form):
    slope = float(alibi_slopes(12)[8])
    positions = list(range(100))
    formula = "relative" if form == "positions" else form
    (expected,) = reference_bias(torch.tensor([slope]), positions, positions, formula)
    expected = expected.masked_fill(~causal_mask(100), -math.inf)
    bias = rounded_bias(slope, 100, dtype=torch.float64, form=form)
    torch.testing.assert_close(bias, expected, rtol=1e-14, atol=0)


def test_key_form_collides_beside_the_query():
    last_query = rounded_bias(HEAD_1, 2048, dtype=BF16, form="key")[-1]
    assert len(groups(last_query[-64:])) == 9, "groups of equal bias among the 64 nearest keys"


@pytest.mark.parametrize("slope", [HEAD_1, HEAD_8], ids=["steepest", "flattest"])
def test_relative_form_collides_only_beyond_256_tokens(slope):
    last_query = rounded_bias(slope, 2048, dtype=BF16, form="relative")[-1]
    collisions = [group for group in groups(last_query) if len(group) > 1]
    nearest_colliding_key = collisions[-1][-1]
    assert 2047 - nearest_colliding_key == 256


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [1, 65, 1000])
def test_cells_are_the_largest_errors_and_the_largest_is_among_them(length, form):
    bias = rounded_bias(HEAD_1, length, dtype=BF16, form=form)
    exact = rounded_bias(HEAD_1, length, dtype=torch.float64, form="relative")
    difference = (bias.softmax(-1) - exact.softmax(-1)).abs().numpy()
    errors = weight_errors(HEAD_1, length, dtype=BF16, form=form)

    starts = range(0, length, errors.size)
    largest_by_row = np.maximum.reduceat(difference, starts, axis=0)
    expected = np.maximum.reduceat(largest_by_row, starts, axis=1)
    visible = np.tri(len(starts), dtype=bool)
    assert len(starts) <= 64, "cells are few enough to be seen"
    np.testing.assert_array_equal(np.isnan(errors.cells), ~visible)
    np.testing.assert_allclose(errors.cells[visible], expected[visible], atol=1e-12)
    assert errors.largest == pytest.approx(difference[errors.query, errors.key], abs=1e-12)
    assert errors.largest == pytest.approx(difference.max(), rel=1e-6, abs=1e-12)


def test_an_unknown_form_is_refused():
    message = "form must be one of key, end, positions, relative, got 'split'"
    with pytest.raises(ValueError, match=message):
        rounded_bias(HEAD_1, 8, dtype=BF16, form="split")


def test_a_length_of_zero_is_refused():
    with pytest.raises(ValueError, match="length must be at least 1, got 0"):
        rounded_bias(HEAD_1, 0, dtype=BF16, form="key")
