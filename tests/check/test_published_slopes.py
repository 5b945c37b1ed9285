"""Which systems compute the official slopes, and for which head counts."""

import pytest

from alibi_viz import alibi_slopes
from alibi_viz.check.gallery import SLOPE_RULES, compare_slope_rules
from alibi_viz.check.gallery.published_slopes import first_slope_is_one, flashinfer, llama_cpp_cann
from tests.rows import each_case


def agreeing(num_heads):
    """The systems whose slopes are the official ones."""
    return {row["system"] for row in compare_slope_rules(num_heads) if row["agrees"]}


@pytest.mark.parametrize("num_heads", [1, 2, 64])
def test_six_systems_agree_for_powers_of_two(num_heads):
    assert agreeing(num_heads) == {"fairseq", "bloom", "mpt", "labml 2021", "jaketae", "mlx 2023"}


def test_halving_agrees_too_for_eight_heads():
    assert agreeing(8) == {
        "fairseq",
        "bloom",
        "mpt",
        "labml 2021",
        "jaketae",
        "mlx 2023",
        "halving",
    }


@pytest.mark.parametrize("num_heads", [3, 12, 40])
def test_three_systems_agree_for_other_head_counts(num_heads):
    assert agreeing(num_heads) == {"fairseq", "bloom", "mpt"}


def test_systems_that_agree_with_each_other_share_a_group():
    groups = {row["system"]: row["group"] for row in compare_slope_rules(12)}
    assert groups == {
        "fairseq": "A",
        "bloom": "A",
        "mpt": "A",
        "labml 2021": "B",
        "jaketae": "B",
        "mlx 2023": "B",
        "halving": "C",
        "realizar 2025": "D",
    }


def test_without_heads_there_is_nothing_to_compare():
    with pytest.raises(ValueError, match="num_heads must be between 1 and"):
        compare_slope_rules(0)


# The faults that systems have or had


@each_case(
    ("system", "scheme"),
    {
        "mlx 2023": ("mlx 2023", "geometric"),
        "halving": ("halving", "halving"),
    },
)
def test_slopes_of_another_scheme_are_those_that_we_offer(system, scheme):
    assert SLOPE_RULES[system](12) == pytest.approx(alibi_slopes(12, scheme).tolist())


def test_realizar_starts_with_a_slope_of_1():
    assert first_slope_is_one(8) == [1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128]


def test_the_heads_of_realizar_beyond_a_power_of_two_are_right():
    official = alibi_slopes(12).tolist()
    assert first_slope_is_one(12)[8:] == pytest.approx(official[8:])


def test_flashinfer_repeats_the_slopes_of_half_the_heads_on_two_devices():
    assert flashinfer(8) == [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 4, 1 / 16, 1 / 64, 1 / 256]


def test_llama_cpp_cann_is_right_for_a_power_of_two():
    assert llama_cpp_cann(8) == pytest.approx(alibi_slopes(8).tolist())


def test_llama_cpp_cann_leaves_the_heads_beyond_a_power_of_two_without_a_slope():
    assert llama_cpp_cann(12)[8:] == [0, 0, 0, 0]
