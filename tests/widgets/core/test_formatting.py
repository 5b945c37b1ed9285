"""Numbers in captions: three digits, commas or a power of ten."""

import pytest

from alibi_viz.widgets.core.formatting import format_number

TEXTS = {0: "0", 999.4: "999", 999.6: "1,000", -999.6: "\N{MINUS SIGN}1,000", 123456.7: "123,457", 1e9: "1 x 10^9"}
TEXTS |= {-1.28e19: "\N{MINUS SIGN}1.28 x 10^19", 0.00012: "0.00012", 1.5e-5: "1.5 x 10^\N{MINUS SIGN}5"}


@pytest.mark.parametrize("value", TEXTS)
def test_three_digits_commas_or_a_power_of_ten(value: float) -> None:
    assert format_number(value) == TEXTS[value]
