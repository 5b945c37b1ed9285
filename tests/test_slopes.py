import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz import minimal
from alibi_viz.slopes import MAX_HEADS, LearnedSlopes, alibi_slopes, half_life


@given(st.integers(1, 300), st.floats(0.5, 16))
def test_official_slopes_equal_the_minimal_implementation_and_follow_bias_max(
    num_heads: int, bias_max: float
) -> None:
    exact = torch.tensor(minimal.slopes(num_heads), dtype=torch.float64)
    assert torch.equal(alibi_slopes(num_heads), exact.float())
    assert alibi_slopes(num_heads, bias_max=bias_max).tolist() == pytest.approx(
        (exact ** (bias_max / 8)).tolist()
    )


def test_other_schemes_equal_their_formulas_and_any_number_of_heads_has_slopes() -> None:
    assert alibi_slopes(5, "halving").tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32]
    assert alibi_slopes(3, "geometric", bias_max=6.0).tolist() == [1 / 4, 1 / 16, 1 / 64]
    assert len(alibi_slopes(MAX_HEADS)) == MAX_HEADS


def test_half_life_equals_its_formula_also_for_numbers() -> None:
    slopes = torch.tensor([0.5, 1 / 256, 0.0])
    assert half_life(slopes).tolist() == pytest.approx(
        [2 * math.log(2), 256 * math.log(2), math.inf]
    )
    assert [float(half_life(m)) for m in slopes.tolist()] == pytest.approx(
        half_life(slopes).tolist()
    )


def test_learned_slopes_start_at_the_initial_slopes_and_stay_positive() -> None:
    module = LearnedSlopes(alibi_slopes(8))
    assert torch.allclose(module(), alibi_slopes(8), rtol=1e-6)
    optimizer = torch.optim.SGD(module.parameters(), lr=100.0)
    module().sum().backward()
    optimizer.step()
    assert bool((module() > 0).all() and (module() < alibi_slopes(8)).all())


INVALID: list[tuple[str, dict[str, Any]]] = [
    *(("num_heads", {"num_heads": wrong}) for wrong in (0, MAX_HEADS + 1, 8.0, "8", None, True)),
    *(("bias_max", {"bias_max": wrong}) for wrong in ("8", 0.0, -8.0, math.nan, math.inf)),
    ("scheme", {"scheme": "offical"}),
    ("bias_max is not supported", {"scheme": "halving", "bias_max": 4.0}),
]


@pytest.mark.parametrize(("message", "wrong"), INVALID)
def test_invalid_arguments_raise_with_their_name(message: str, wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{message}.*, got "):
        alibi_slopes(**{"num_heads": 8} | wrong)
    with pytest.raises(ValueError, match="initial slopes must be positive and finite"):
        LearnedSlopes(torch.tensor([0.5, 0.0]))
    with pytest.raises(
        TypeError, match=r"slopes must be a floating-point or integer tensor .* got torch\.bool"
    ):
        half_life(torch.tensor([True]))
