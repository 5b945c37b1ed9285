"""How certain a share of correct answers is, given how many were tested."""

import math

__all__ = ["share_interval", "share_with_interval"]

Z = 1.959964  # 95% of a normal distribution lies within so many standard deviations of its mean


def share_interval(share: float, count: int) -> tuple[float, float]:
    """The 95% interval of a share that was measured on `count` independent answers (Wilson 1927).

    It is about the answers, not about seeds: it says how far the measured share may be from that of the same model on
    endlessly many answers. Unlike the usual share ± 1.96 standard errors, it is sensible at 0% and 100% too.

    Raises ValueError for a share outside of 0 to 1 and a count below 1.

    >>> from alibi_viz.lab.shares import share_interval
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

    >>> from alibi_viz.lab.shares import share_with_interval
    >>> share_with_interval(0.25, 512)
    '25.0% (21.4% to 28.9%)'
    """
    low, high = share_interval(share, count)
    return f"{share:.1%} ({low:.1%} to {high:.1%})"
