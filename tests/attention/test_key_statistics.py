"""The ball of key statistics contains all keys, also after more were added."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz import KeyStatistics
from tests.attention.test_windows import DTYPES, normal


@given(
    length=st.integers(1, 60),
    center=st.sampled_from([0.0, 1.0, 1e4]),
    spread=st.sampled_from([0.0, 1e-3, 1.0, 100.0]),
    dtype=st.sampled_from(DTYPES),
    given_center=st.booleans(),
)
def test_the_ball_contains_all_keys(
    length: int, center: float, spread: float, dtype: torch.dtype, given_center: bool
) -> None:
    key = (normal(2, 3, length, 5) * spread + center).to(dtype)
    first = key[:, :, :1].to(torch.promote_types(dtype, torch.float32))
    ball = KeyStatistics.of(key, key, first if given_center else None)
    distances = (key.double() - ball.center.double()).norm(dim=-1).amax(-1)
    assert ball.radius.shape == (2, 3)
    assert bool((ball.radius * (1 + 1e-6) >= distances).all())
    assert bool((ball.radius <= distances * (1 + 1e-4) + 1e-4 * key.double().norm(dim=-1).amax(-1)).all())
