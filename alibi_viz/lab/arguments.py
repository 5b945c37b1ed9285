"""Check arguments that several functions of the lab share."""

__all__ = ["check_positive_integers"]


def check_positive_integers(**values: object) -> None:
    """Raise ValueError, naming the argument, for a value that is not an integer of at least 1.

    >>> from alibi_viz.lab.arguments import check_positive_integers
    >>> check_positive_integers(length=32, steps=0)
    Traceback (most recent call last):
    ValueError: steps must be an integer of at least 1, got 0
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
