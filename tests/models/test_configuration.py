"""The settings of a transformer: which are refused, and where."""

import math
import re

import pytest

from alibi_viz import Transformer, TransformerConfig
from alibi_viz.slopes import SCHEMES
from tests.rows import each_case


@each_case(
    ("fields", "message"),
    {
        "a width that heads can't share": (
            {"d_model": 25, "num_heads": 3},
            "d_model=25 must be a multiple of num_heads=3",
        ),
        "an infinite factor of slopes": (
            {"slope_scale": math.inf},
            "slope_scale must be a positive, finite number, got inf",
        ),
        "a factor too large for float32": (
            {"slope_scale": 1e39},
            "slope_scale must be at most 3.4028e+38, beyond which slopes are infinite in float32, "
            "got 1e+39",
        ),
    },
)
def test_a_wrong_setting_is_named(fields, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        TransformerConfig(**fields)


@pytest.mark.parametrize("num_heads", [1, 6])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_largest_factor_gives_finite_slopes(scheme, num_heads):
    config = TransformerConfig(
        d_model=384, num_heads=num_heads, scheme=scheme, slope_scale=3.4028e38
    )
    assert bool(config.slopes.isfinite().all())


def test_what_only_a_position_method_asks_for_is_checked_when_the_model_is_made():
    config = TransformerConfig(position="rotary", d_model=12, num_heads=4)
    with pytest.raises(ValueError, match="head_dim must be even, got 3"):
        Transformer(config)
