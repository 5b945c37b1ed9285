"""Intervals of a mean over few seeds and of a share, compared with equations and printed values."""

import math
import statistics

import numpy as np
import pytest

from alibi_viz.lab.confidence import mean_interval, share_interval, share_with_interval, t_quantile


@pytest.mark.parametrize(
    ("freedom", "quantile"),  # from printed tables, two-sided 95%
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423), (100_000, 1.9600)],
)
def test_quantiles_are_those_of_printed_tables(freedom: int, quantile: float) -> None:
    assert t_quantile(freedom) == pytest.approx(quantile, abs=1e-4)


def test_the_half_width_is_t_times_the_standard_error() -> None:
    values = [2.0, 2.1, 2.3, 2.2]
    mean, half_width = mean_interval(values)
    assert mean == pytest.approx(2.15)
    assert half_width == pytest.approx(3.182446 * statistics.stdev(values) / 2, rel=1e-5)


def test_a_single_value_has_no_interval_and_no_value_no_mean() -> None:
    assert mean_interval([2.0])[0] == 2.0
    assert math.isnan(mean_interval([2.0])[1])
    assert all(map(math.isnan, mean_interval([])))


@pytest.mark.parametrize(("seeds", "bootstrap"), [(5, 0.84), (8, 0.88)])
def test_t_intervals_contain_the_mean_as_often_as_they_say_and_bootstrap_intervals_less_often(seeds, bootstrap) -> None:
    """The module's docstring quotes these figures as the reason for Student's t."""
    generator = np.random.default_rng(0)
    samples = generator.normal(size=(3000, seeds))
    intervals = np.array([mean_interval(sample.tolist()) for sample in samples])
    assert (abs(intervals[:, 0]) <= intervals[:, 1]).mean() == pytest.approx(0.95, abs=0.015)
    drawn = generator.integers(seeds, size=(3000, 500, seeds))
    means = np.take_along_axis(samples[:, None], drawn, axis=2).mean(axis=2)
    low, high = np.quantile(means, [0.025, 0.975], axis=1)
    assert ((low <= 0) & (high >= 0)).mean() == pytest.approx(bootstrap, abs=0.02)


@pytest.mark.parametrize("count", [1, 32, 512, 100_000])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.999, 1.0])
def test_at_the_ends_the_share_is_1_96_standard_deviations_away(share: float, count: int) -> None:
    """Wilson's interval holds the shares p with |share - p| <= 1.96 sqrt(p (1 - p) / count)."""
    for end in share_interval(share, count):
        assert abs(share - end) == pytest.approx(1.9599639845 * math.sqrt(end * (1 - end) / count), abs=1e-9)
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
