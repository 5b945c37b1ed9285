import pytest
import torch

from alibi_viz import alibi_slopes
from alibi_viz.gallery import SLOPE_RULES, compare_slope_rules
from alibi_viz.gallery.slopes import first_slope_is_one, llama_cpp_cann


@pytest.mark.parametrize("num_heads", range(1, 65))
def test_three_systems_agree_with_the_official_slopes_for_every_head_count(num_heads: int) -> None:
    is_power_of_two = num_heads & (num_heads - 1) == 0
    agreeing = {row["system"] for row in compare_slope_rules(num_heads) if row["agrees"]}
    expected = {"fairseq", "bloom", "mpt"} | ({"labml 2021", "jaketae", "mlx 2023"} if is_power_of_two else set())
    assert agreeing == expected | ({"halving"} if num_heads == 8 else set())


def test_other_rules_equal_our_schemes() -> None:
    for num_heads in (1, 6, 12, 40):
        for system in ("labml 2021", "jaketae", "mlx 2023"):
            actual = torch.tensor(SLOPE_RULES[system](num_heads), dtype=torch.float64).float()
            assert torch.allclose(actual, alibi_slopes(num_heads, "geometric"), rtol=1e-6)
        assert SLOPE_RULES["halving"](num_heads) == pytest.approx(alibi_slopes(num_heads, "halving").tolist())


def test_systems_that_agree_share_a_group() -> None:
    rows = {str(row["system"]): row for row in compare_slope_rules(12)}
    assert rows["fairseq"]["group"] == rows["bloom"]["group"] == rows["mpt"]["group"] == "A"
    assert rows["labml 2021"]["group"] == rows["jaketae"]["group"] == rows["mlx 2023"]["group"] == "B"
    assert rows["halving"]["group"] == "C"
    assert rows["fairseq"]["largest_ratio"] == 1.0
    assert rows["labml 2021"]["largest_ratio"] == pytest.approx(2**5.5, rel=1e-5)  # head 9: 2^-1/2 instead of 2^-6
    assert len({len(row["slopes"]) for row in rows.values()}) == 1  # type: ignore[arg-type]


def test_counting_from_zero_starts_at_one_and_lacks_the_smallest_slope() -> None:
    assert first_slope_is_one(8) == [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125]
    assert min(first_slope_is_one(8)) == 2 * float(alibi_slopes(8).min())
    assert first_slope_is_one(12)[8:] == pytest.approx(alibi_slopes(12)[8:].tolist())  # the last heads are right


def test_unwritten_slopes_are_those_beyond_the_power_of_two() -> None:
    assert llama_cpp_cann(8) == pytest.approx(alibi_slopes(8).tolist())
    assert llama_cpp_cann(12)[8:] == [0.0] * 4


def test_invalid_head_count_raises() -> None:
    with pytest.raises(ValueError, match="num_heads must be between 1 and"):
        compare_slope_rules(0)
