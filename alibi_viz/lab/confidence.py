"""95% confidence intervals of a mean over seeds.

They are intervals of Student's t distribution. They are about seeds: if a comparison were repeated with other seeds, on
the same text, the mean over many seeds would lie in such an interval 95 times out of 100.

A percentile bootstrap over seeds needs no assumption on how seeds are distributed, but with so few of them it promises
too much: of normal samples, its 95% interval contains the mean only about 84% of the time for five seeds, and 88% for
eight (`tests/lab/test_confidence.py` measures it).
"""

import math
from collections.abc import Sequence
from functools import cache
from statistics import mean, stdev

import numpy as np

__all__ = ["LEVEL", "SEEDS", "mean_interval", "t_quantile"]

LEVEL = 0.95
SEEDS = 3  # nothing is decided with fewer


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
