"""A table of cases, each with a name, for a test that is run with each of them."""

import pytest


def each_case(names, rows):
    """Run a test once per row: {"the id of the case": value or tuple of values}.

    >>> @each_case("number, square", {"two": (2, 4), "three": (3, 9)})
    ... def test_square(number, square):
    ...     assert number**2 == square
    """
    return pytest.mark.parametrize(names, list(rows.values()), ids=list(rows))
