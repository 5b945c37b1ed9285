import pytest
import torch

from alibi_viz import alibi_slopes
from alibi_viz.gallery import SLOPE_RULES, off_by_one, who_agrees


@pytest.mark.parametrize("num_heads", range(1, 65))
def test_who_makes_the_official_slopes(num_heads: int) -> None:
    """Three formulas that look nothing alike give them for every head count; the others only where they must."""
    power = num_heads & (num_heads - 1) == 0
    agreeing = {row["system"] for row in who_agrees(num_heads) if row["agrees"]}
    expected = {"fairseq", "bloom", "mpt"} | ({"labml 2021", "jaketae"} if power else set())
    assert agreeing == expected | ({"halving"} if num_heads == 8 else set())


def test_the_geometric_rules_are_ours_of_that_name() -> None:
    for num_heads in (1, 6, 12, 40):
        for system in ("labml 2021", "jaketae"):
            found = torch.tensor(SLOPE_RULES[system](num_heads), dtype=torch.float64).float()
            assert torch.allclose(found, alibi_slopes(num_heads, "geometric"), rtol=1e-6)
        assert SLOPE_RULES["halving"](num_heads) == pytest.approx(alibi_slopes(num_heads, "halving").tolist())


def test_groups_are_shared_by_those_who_agree() -> None:
    rows = {str(row["system"]): row for row in who_agrees(12)}
    assert rows["fairseq"]["group"] == rows["bloom"]["group"] == rows["mpt"]["group"] == "A"
    assert rows["labml 2021"]["group"] == rows["jaketae"]["group"] == "B"
    assert rows["halving"]["group"] == "C"
    assert rows["fairseq"]["largest_ratio"] == 1.0
    assert rows["labml 2021"]["largest_ratio"] == pytest.approx(2**5.5, rel=1e-5)  # head 8: 2^-1/2 against 2^-6
    assert len({len(row["slopes"]) for row in rows.values()}) == 1  # type: ignore[arg-type]


def test_off_by_one_starts_at_one_and_has_no_far_sighted_head() -> None:
    assert off_by_one(8) == [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125]
    assert min(off_by_one(8)) == 2 * float(alibi_slopes(8).min())


def test_a_wrong_head_count_is_named() -> None:
    with pytest.raises(ValueError, match="num_heads must be between 1 and"):
        who_agrees(0)
