import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz import minimal
from alibi_viz.slopes import MAX_HEADS, LearnedSlopes, alibi_slopes, half_life
from tests.rows import each_case


@given(st.integers(1, 300))
def test_official_slopes_equal_the_minimal_implementation(num_heads):
    exact = torch.tensor(minimal.slopes(num_heads), dtype=torch.float64)
    assert torch.equal(alibi_slopes(num_heads), exact.float())


@given(st.integers(1, 300), st.floats(0.5, 16))
def test_official_slopes_follow_bias_max(num_heads, bias_max):
    expected = [slope ** (bias_max / 8) for slope in minimal.slopes(num_heads)]
    assert alibi_slopes(num_heads, bias_max=bias_max).tolist() == pytest.approx(expected)


def test_halving_slopes_are_powers_of_one_half():
    assert alibi_slopes(5, "halving").tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32]


def test_geometric_slopes_follow_bias_max():
    assert alibi_slopes(3, "geometric", bias_max=6.0).tolist() == [1 / 4, 1 / 16, 1 / 64]


def test_the_largest_number_of_heads_has_slopes():
    assert len(alibi_slopes(MAX_HEADS)) == MAX_HEADS


@each_case(
    ("slope", "expected"),
    {
        "steep": (0.5, 2 * math.log(2)),
        "flat": (1 / 256, 256 * math.log(2)),
        "no slope": (0.0, math.inf),
    },
)
def test_half_life_of_a_number(slope, expected):
    assert float(half_life(slope)) == pytest.approx(expected)


def test_half_life_of_a_tensor_has_its_shape():
    half_lives = half_life(torch.tensor([[0.5], [1 / 256]]))
    assert half_lives.shape == (2, 1)
    assert half_lives.flatten().tolist() == pytest.approx([2 * math.log(2), 256 * math.log(2)])


def test_learned_slopes_start_at_the_initial_slopes():
    assert torch.allclose(LearnedSlopes(alibi_slopes(8))(), alibi_slopes(8), rtol=1e-6)


def test_learned_slopes_stay_positive():
    module = LearnedSlopes(alibi_slopes(8))
    optimizer = torch.optim.SGD(module.parameters(), lr=100.0)
    module().sum().backward()
    optimizer.step()
    slopes = module()
    assert bool((slopes > 0).all())
    assert bool((slopes < alibi_slopes(8)).all()), "the step has made all slopes smaller"


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("num_heads", 0),
        ("num_heads", MAX_HEADS + 1),
        ("num_heads", 8.0),
        ("num_heads", "8"),
        ("num_heads", None),
        ("num_heads", True),
        ("bias_max", "8"),
        ("bias_max", 0.0),
        ("bias_max", -8.0),
        ("bias_max", math.nan),
        ("bias_max", math.inf),
        ("scheme", "offical"),
    ],
)
def test_invalid_argument_is_named(argument, wrong):
    arguments = {"num_heads": 8, argument: wrong}
    with pytest.raises((TypeError, ValueError), match=f"^{argument}.*, got "):
        alibi_slopes(**arguments)


def test_bias_max_of_halving_slopes_is_refused():
    with pytest.raises(ValueError, match=r"^bias_max is not supported .*, got 4\.0"):
        alibi_slopes(8, "halving", bias_max=4.0)


def test_learned_slopes_that_start_at_0_are_refused():
    with pytest.raises(ValueError, match="initial slopes must be positive and finite"):
        LearnedSlopes(torch.tensor([0.5, 0.0]))


def test_half_life_of_a_bool_is_refused():
    message = r"slopes must be a floating-point or integer tensor .* got torch\.bool"
    with pytest.raises(TypeError, match=message):
        half_life(torch.tensor([True]))
