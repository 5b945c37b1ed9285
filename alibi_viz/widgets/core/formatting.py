"""Number formats shared by the captions."""

import math
from typing import SupportsFloat


def format_slope(slope: SupportsFloat) -> str:
    """A power of two as a fraction, as the paper writes it; any other slope with three significant
    digits.

    >>> format_slope(2**-8), format_slope(2**-0.5), format_slope(2**-20), format_slope(2**-21), format_slope(1.0)
    ('1/256', '0.707', '1/1,048,576', '2^-21', '1')
    """
    mantissa, exponent = math.frexp(float(slope))
    if mantissa == 0.5 and exponent <= 0:
        return f"1/{2 ** (1 - exponent):,}" if exponent > -20 else f"2^{exponent - 1}"
    return f"{float(slope):.3g}"


def format_number(value: SupportsFloat) -> str:
    """Three significant digits with a real minus sign; integers with commas from 1,000 on.

    From 10^9 on and below 10^-4, numbers are written as powers of ten.

    >>> format_number(1.386), format_number(999.6), format_number(1e9)
    ('1.39', '1,000', '1 x 10^9')
    >>> format_number(-0.24609375) == "\N{MINUS SIGN}0.246"
    True
    """
    number = float(value)
    if 999.5 <= abs(number) < 1e9:
        text = f"{number:,.0f}"
    else:
        text, _, exponent = f"{number:.3g}".partition("e")
        text += f" x 10^{int(exponent)}" if exponent else ""
    return text.replace("-", "\N{MINUS SIGN}")


def format_percent(fraction: SupportsFloat) -> str:
    """A percentage, with one digit after the point below 10%; between 0 and 0.1% it is "under
    0.1%".

    >>> format_percent(0.0312), format_percent(0.0996), format_percent(0.001), format_percent(1e-9), format_percent(0)
    ('3.1%', '10%', '0.1%', 'under 0.1%', '0%')
    """
    value = 100 * float(fraction)
    if value < 0.1:
        return "0%" if value == 0 else "under 0.1%"
    return f"{value:.0f}%" if value >= 9.95 else f"{value:.1f}%"
