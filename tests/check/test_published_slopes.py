import pytest

from alibi_viz import alibi_slopes
from alibi_viz.check.gallery import SLOPE_RULES, compare_slope_rules
from alibi_viz.check.gallery.published_slopes import first_slope_is_one, flashinfer, llama_cpp_cann


@pytest.mark.parametrize("num_heads", [1, 2, 3, 7, 8, 12, 31, 32, 40, 64])
def test_three_systems_agree_with_the_official_slopes_for_every_head_count(num_heads: int) -> None:
    is_power_of_two = num_heads & (num_heads - 1) == 0
    agreeing = {row["system"] for row in compare_slope_rules(num_heads) if row["agrees"]}
    expected = {"fairseq", "bloom", "mpt"} | (
        {"labml 2021", "jaketae", "mlx 2023"} if is_power_of_two else set()
    )
    assert agreeing == expected | ({"halving"} if num_heads == 8 else set())


def test_systems_that_agree_share_a_group() -> None:
    groups = {row["system"]: row["group"] for row in compare_slope_rules(12)}
    assert [groups[system] for system in ("fairseq", "bloom", "mpt")] == ["A"] * 3
    assert [groups[system] for system in ("labml 2021", "jaketae", "mlx 2023")] == ["B"] * 3
    assert groups["halving"] == "C"
    assert SLOPE_RULES["mlx 2023"](12) == pytest.approx(alibi_slopes(12, "geometric").tolist())
    assert SLOPE_RULES["halving"](12) == pytest.approx(alibi_slopes(12, "halving").tolist())
    with pytest.raises(ValueError, match="num_heads must be between 1 and"):
        compare_slope_rules(0)


def test_faulty_slopes_are_wrong_where_their_texts_say() -> None:
    assert first_slope_is_one(8) == [2.0**-head for head in range(8)]
    assert first_slope_is_one(12)[8:] == pytest.approx(
        alibi_slopes(12)[8:].tolist()
    )  # the last heads are right
    assert flashinfer(8) == [1 / 4, 1 / 16, 1 / 64, 1 / 256] * 2
    assert (
        llama_cpp_cann(8) == pytest.approx(alibi_slopes(8).tolist())
        and llama_cpp_cann(12)[8:] == [0.0] * 4
    )
