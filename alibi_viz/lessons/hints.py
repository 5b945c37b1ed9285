"""Hints for mistakes in the exercises: each points to the place of the mistake without giving the solution."""

import math
import tomllib
from collections.abc import Callable
from importlib.resources import files

# {exercise: {fault: hint}}, and "any" for all exercises
HINTS: dict[str, dict[str, str]] = tomllib.loads((files("alibi_viz.lessons") / "hints.toml").read_text("utf-8"))
_LOGARITHM = "The weight is e to the power of -slope * distance. Which logarithm?"
_PROPORTION = "Half the slope, twice the window: how does yours depend on the slope?"


def window(slope: float, share: float) -> int:
    """The window that `grade_window` asks for.

    At equal content, a key d steps back has weight proportional to e^(-m d), so all keys more than w steps back
    together have the share e^(-m (w + 1)) of a text without end, and less of a shorter one.

    >>> window(1 / 2, 0.01)
    9
    """
    return _steps(-math.log(share), slope)


def _steps(logarithm: float, slope: float) -> int:
    """The smallest window w >= 0 with slope * (w + 1) >= logarithm."""
    return max(0, math.ceil(logarithm / slope) - 1)


# (hint, the rule (slope, share) -> window that has this mistake)
WINDOW_MISTAKES: tuple[tuple[str, Callable[[float, float], int]], ...] = (
    (
        "Nearly. A window of w steps contains w + 1 keys, because the query's own key is 0 steps back.",
        lambda m, s: window(m, s) + 1,
    ),
    ("It is too small by one. Did you round down?", lambda m, s: window(m, s) - 1),
    (_LOGARITHM, lambda m, s: _steps(-math.log2(s), m)),
    (_LOGARITHM, lambda m, s: _steps(-math.log10(s), m)),
    (_PROPORTION, lambda m, s: window(1.0, s)),
    (_PROPORTION, lambda m, s: window(1 / m, s)),
    (
        "This looks at a single key. All keys beyond the window count together.",
        lambda m, s: _steps(math.log(-math.expm1(-m) / s), m),
    ),
    (
        "This compares a key with the nearest one. Compare all keys beyond the window with the sum of all.",
        lambda m, s: math.ceil(math.log(1 / s / -math.expm1(-m)) / m) - 1,
    ),
)
