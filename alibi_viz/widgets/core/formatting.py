"""What captions share: numbers as they say them, and when a loss that rises with length is said to break."""

import math
from collections.abc import Sequence
from typing import SupportsFloat

__all__ = ["BREAKS", "HOLDS", "bias", "join", "slope", "tokens"]

HOLDS = 0.1  # bits per byte that the loss may rise beyond the training length and still count as not broken
BREAKS = 0.5  # a rise that counts as broken; between the two it is said to drift


def slope(value: SupportsFloat) -> str:
    """A power of two as a fraction, as the paper writes it; three digits otherwise.

    >>> from alibi_viz.widgets.core import formatting as words
    >>> words.slope(2**-8), words.slope(2**-0.5), words.slope(2**-40), words.slope(1.0)
    ('1/256', '0.707', '2^-40', '1')
    """
    mantissa, exponent = math.frexp(float(value))
    if mantissa == 0.5 and exponent <= 0:
        return f"1/{2 ** (1 - exponent):,}" if exponent > -20 else f"2^{exponent - 1}"
    return f"{float(value):.3g}"


def tokens(value: SupportsFloat) -> str:
    """Three digits, which is all that a count of tokens in an exponential deserves.

    >>> from alibi_viz.widgets.core import formatting as words
    >>> words.tokens(1.386), words.tokens(1024), words.tokens(1.28e19)
    ('1.39', '1,024', '1.28e+19')
    """
    number = float(value)
    if number < 1000:
        return f"{number:.3g}"
    return f"{number:,.0f}" if number < 1e9 else f"{number:.2e}"


def bias(value: SupportsFloat) -> str:
    """Three digits and a real minus sign.

    >>> from alibi_viz.widgets.core import formatting as words
    >>> words.bias(-0.24609375) == "\N{MINUS SIGN}0.246"
    True
    """
    return f"{float(value):.3g}".replace("-", "\N{MINUS SIGN}")


def join(parts: Sequence[str]) -> str:
    """Words with commas and an "and".

    >>> from alibi_viz.widgets.core import formatting as words
    >>> words.join(["a"]), words.join(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
