"""Numbers in captions."""

import pytest

from alibi_viz.widgets.core.formatting import format_number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999.4, "999"),
        (999.6, "1,000"),
        (-999.6, "\N{MINUS SIGN}1,000"),
        (123456.7, "123,457"),
        (1e9, "1 x 10^9"),
        (-1.28e19, "\N{MINUS SIGN}1.28 x 10^19"),
        (0.00012, "0.00012"),
        (1.5e-5, "1.5 x 10^\N{MINUS SIGN}5"),
    ],
)
def test_three_digits_commas_or_a_power_of_ten(value: float, text: str) -> None:
    assert format_number(value) == text
