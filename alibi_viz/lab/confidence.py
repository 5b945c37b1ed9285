"""95% confidence intervals: of a mean over seeds, and of a share of correct answers.

Those of a mean over seeds are intervals of Student's t distribution: if a comparison were repeated with other seeds, on
the same text, the mean over many seeds would lie in such an interval 95 times out of 100.

A percentile bootstrap over seeds needs no assumption on how seeds are distributed, but with so few of them it promises
too much: of normal samples, its 95% interval contains the mean only about 84% of the time for five seeds, and 88% for
eight (`tests/lab/test_confidence.py` measures it).
"""

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist, mean, stdev

import numpy as np

__all__ = ["LEVEL", "SEEDS", "mean_interval", "share_interval", "share_with_interval", "t_quantile"]

LEVEL = 0.95
SEEDS = 3  # nothing is decided with fewer
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)  # standard deviations around the mean that hold 95% of a normal distribution


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean of one value per seed, and half the width of its interval, which is NaN for a single seed.

    >>> from alibi_viz.lab.confidence import mean_interval
    >>> [round(number, 3) for number in mean_interval([2.0, 2.1, 2.2])]
    [2.1, 0.248]
    """
    if len(values) < 2:
        return (values[0] if values else math.nan), math.nan
    return mean(values), t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))


@cache
def t_quantile(freedom: int) -> float:
    """Half the width of the central 95% of Student's t distribution; NaN below one degree of freedom.

    >>> from alibi_viz.lab.confidence import t_quantile
    >>> [round(t_quantile(freedom), 3) for freedom in (1, 2, 4, 1000)]
    [12.706, 4.303, 2.776, 1.962]
    """
    if freedom < 1:
        return math.nan
    # With t = sqrt(freedom) tan(angle), the density of the angle is proportional to cos(angle)^(freedom - 1).
    angle = np.linspace(0, math.pi / 2, 200_001)
    density = np.cos(angle) ** (freedom - 1)
    area = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return math.sqrt(freedom) * math.tan(np.interp(LEVEL * area[-1], area, angle))


def share_interval(share: float, count: int) -> tuple[float, float]:
    """The 95% interval of a share that was measured on `count` independent answers (Wilson 1927).

    It is about the answers, not about seeds: it says how far the measured share may be from that of the same model on
    endlessly many answers. Unlike the usual share ± 1.96 standard errors, it is sensible at 0% and 100% too.

    Raises ValueError for a share outside of 0 to 1 and a count below 1.

    >>> from alibi_viz.lab.confidence import share_interval
    >>> for share, count in ((1.0, 32), (1.0, 512), (0.25, 512)):
    ...     print([round(end, 3) for end in share_interval(share, count)])
    [0.893, 1.0]
    [0.993, 1.0]
    [0.214, 0.289]
    """
    if not 0 <= share <= 1 or count < 1:
        raise ValueError(f"share must be between 0 and 1, of at least 1 answer, got {share!r} of {count!r}")
    weight = Z**2 / count
    center = (share + weight / 2) / (1 + weight)
    half_width = Z * math.sqrt(share * (1 - share) / count + weight / (4 * count)) / (1 + weight)
    return max(0.0, center - half_width), min(1.0, center + half_width)


def share_with_interval(share: float, count: int) -> str:
    """A share in percent, with its interval.

    >>> from alibi_viz.lab.confidence import share_with_interval
    >>> share_with_interval(0.25, 512)
    '25.0% (21.4% to 28.9%)'
    """
    low, high = share_interval(share, count)
    return f"{share:.1%} ({low:.1%} to {high:.1%})"
