"""Biases rounded to a dtype, and the errors of the attention weights."""

import math

import pytest
import torch

from alibi_viz import alibi_slopes, causal_mask
from alibi_viz.measure.rounding import FORMS, largest_error, rounded_bias
from tests.reference import reference_bias
from tests.rows import each_case

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
    assert len(last_query[-64:].unique()) == 9, "different biases of the 64 nearest keys"


@pytest.mark.parametrize("slope", [HEAD_1, HEAD_8], ids=["steepest", "flattest"])
def test_relative_form_collides_only_beyond_256_tokens(slope):
    last_query = rounded_bias(slope, 2048, dtype=BF16, form="relative")[-1]
    collides_with_next = last_query.diff() == 0
    nearest_colliding_key = int(collides_with_next.nonzero().max()) + 1
    assert 2047 - nearest_colliding_key == 256


@pytest.mark.parametrize("form", FORMS)
def test_the_largest_error_is_that_of_all_weights(form):
    bias = rounded_bias(HEAD_1, 1000, dtype=BF16, form=form)
    exact = rounded_bias(HEAD_1, 1000, dtype=torch.float64, form="relative")
    difference = (bias.softmax(-1) - exact.softmax(-1)).abs().max()
    error = largest_error(HEAD_1, 1000, dtype=BF16, form=form)
    assert error == pytest.approx(float(difference), abs=1e-12)


@each_case(
    ("form", "dtype", "error"),
    {
        "neighbors collide": ("key", BF16, 0.491),
        "the first keys collide": ("end", BF16, 0.503),
        "positions collide": ("positions", BF16, 0.491),
        "nothing collides": ("relative", torch.float32, 0.0),
    },
)
def test_the_largest_error_of_the_steepest_head(form, dtype, error):
    assert largest_error(HEAD_1, 2048, dtype=dtype, form=form) == pytest.approx(error, abs=5e-4)


def test_an_unknown_form_is_refused():
    message = "form must be one of key, end, positions, relative, got 'split'"
    with pytest.raises(ValueError, match=message):
        rounded_bias(HEAD_1, 8, dtype=BF16, form="split")
