"""How numbers and names are written in captions, figures and hover texts."""

import math
from typing import SupportsFloat

# The names of methods and models in prose, where they differ from those in code
_IN_PROSE = {"alibi": "ALiBi", "alibi-large": "ALiBi (large)", "t5": "T5"}


def in_prose(name: str) -> str:
    """The name of a method or a model in a sentence.

    >>> in_prose("alibi"), in_prose("alibi, scaled slopes"), in_prose("rotary")
    ('ALiBi', 'ALiBi, scaled slopes', 'rotary')
    """
    method, comma, variant = name.partition(",")
    return _IN_PROSE.get(method, method) + comma + variant


def true_minus(text: str) -> str:
    """The text of a number with a real minus sign, which is as wide as a plus.

    plotly writes it at axes, but not in hover texts: those get texts instead of numbers.

    >>> true_minus("-0.5") == "\N{MINUS SIGN}0.5"
    True
    """
    return text.replace("-", "\N{MINUS SIGN}")


def format_slope(slope: SupportsFloat) -> str:
    """A power of two as a fraction, as the paper writes it; any other slope with three significant
    digits.

    >>> [format_slope(slope) for slope in (2**-8, 2**-20, 2**-0.5, 1.0)]
    ['1/256', '1/1,048,576', '0.707', '1']
    >>> format_slope(2**-21) == "2^\N{MINUS SIGN}21"
    True
    """
    mantissa, exponent = math.frexp(float(slope))  # slope = mantissa * 2^exponent
    is_power_below_1 = mantissa == 0.5 and exponent <= 0
    if not is_power_below_1:
        return true_minus(f"{float(slope):.3g}")
    power = exponent - 1
    return f"1/{2**-power:,}" if power >= -20 else true_minus(f"2^{power}")


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
        if exponent:
            text += f" x 10^{int(exponent)}"
    return true_minus(text)


def format_fixed(value: SupportsFloat, digits: int, *, plus: bool = False) -> str:
    """So many digits after the point, with a real minus sign; with `plus`, also with a plus sign.

    >>> format_fixed(2, 2), format_fixed(4.0, 1, plus=True), format_fixed(-0.001, 2)
    ('2.00', '+4.0', '0.00')
    >>> format_fixed(-31.875, 1) == "\N{MINUS SIGN}31.9"
    True
    """
    rounded = round(float(value), digits) + 0.0  # -0.0 becomes 0.0
    sign = "+" if plus else ""
    return true_minus(f"{rounded:{sign}.{digits}f}")


def format_percent(fraction: SupportsFloat) -> str:
    """A percentage, with one digit after the point below 10%; between 0 and 0.1% it is "under
    0.1%".

    >>> [format_percent(fraction) for fraction in (0.0996, 0.0312, 0.001, 1e-9, 0)]
    ['10%', '3.1%', '0.1%', 'under 0.1%', '0%']
    """
    percent = 100 * float(fraction)
    if percent == 0:
        return "0%"
    if percent < 0.1:
        return "under 0.1%"
    digits = 0 if percent >= 9.95 else 1
    return f"{percent:.{digits}f}%"
