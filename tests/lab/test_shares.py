"""Intervals of shares, compared with the equation that defines them and with printed values."""

import math

import pytest

from alibi_viz.lab.shares import share_interval, share_with_interval


@pytest.mark.parametrize("count", [1, 32, 512, 100_000])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.999, 1.0])
def test_at_the_ends_the_share_is_1_96_standard_deviations_away(share: float, count: int) -> None:
    """Wilson's interval holds the shares p with |share - p| <= 1.96 sqrt(p (1 - p) / count)."""
    for end in share_interval(share, count):
        assert abs(share - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / count), abs=1e-9)
        assert 0 <= end <= 1


def test_an_interval_is_the_published_one() -> None:
    """Newcombe 1998, table I: 81 of 263, and 0 of 20."""
    assert share_interval(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert share_interval(0 / 20, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)


@pytest.mark.parametrize(("share", "count"), [(-0.1, 5), (1.1, 5), (0.5, 0), (math.nan, 5)])
def test_an_impossible_share_is_refused(share: float, count: int) -> None:
    with pytest.raises(ValueError, match="share must be between 0 and 1, of at least 1 answer, got"):
        share_interval(share, count)
    with pytest.raises(ValueError, match="share must be between"):
        share_with_interval(share, count)
