"""The kinds of state an app has, each with an error that names the value and what is allowed.

A trait made here is *state*: it shows in the app's repr and a change of it redraws the app. Give any other trait
`.tag(state=True)` to make it so, and let its validator raise `BadValue`.
"""

import numbers
import reprlib
from collections.abc import Sequence
from typing import Any

from traitlets import HasTraits, TraitError, TraitType

__all__ = ["BadValue", "Choice", "Count", "Flag", "Number", "shown"]


def shown(value: object) -> str:
    """A value for an error message: never longer than a line, whatever was given."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python refuses to print an integer of more than 4300 digits
        return f"a {type(value).__name__} too long to print"


class BadValue(TraitError, ValueError):
    """A value that an app cannot take. It is both traitlets' error and a ValueError."""


class Count(TraitType[Any, Any]):
    """A whole number from `low` to `high`; with `allow_none=True` also None."""

    def __init__(self, default: int | None, low: int, high: int, **options: Any) -> None:
        super().__init__(default, **options)
        self.low, self.high = low, high
        self.tag(state=True)

    def validate(self, obj: HasTraits, value: Any) -> int:
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not whole or not self.low <= value <= self.high:
            raise BadValue(f"{self.name} must be {self.info()}, got {shown(value)}")
        return int(value)

    def info(self) -> str:
        """What is allowed, in words."""
        return f"a whole number from {self.low} to {self.high}" + (" or None" if self.allow_none else "")


class Number(TraitType[Any, Any]):
    """A number from `low` to `high`."""

    def __init__(self, default: float, low: float, high: float, **options: Any) -> None:
        super().__init__(default, **options)
        self.low, self.high = low, high
        self.tag(state=True)

    def validate(self, obj: HasTraits, value: Any) -> float:
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not real or not self.low <= value <= self.high:
            raise BadValue(f"{self.name} must be {self.info()}, got {shown(value)}")
        return float(value)

    def info(self) -> str:
        """What is allowed, in words."""
        return f"a number from {self.low:g} to {self.high:g}"


class Choice(TraitType[Any, Any]):
    """One of `values`, strings (or None, if it is among them)."""

    def __init__(self, default: str | None, values: Sequence[str | None], **options: Any) -> None:
        super().__init__(default, allow_none=None in values, **options)
        self.values = tuple(values)
        self.tag(state=True)

    def validate(self, obj: HasTraits, value: Any) -> str | None:
        if not isinstance(value, str) or value not in self.values:
            raise BadValue(f"{self.name} must be {self.info()}, got {shown(value)}")
        return value

    def info(self) -> str:
        """What is allowed, in words."""
        return "one of " + ", ".join(map(str, self.values))


class Flag(TraitType[Any, Any]):
    """True or False, and nothing that merely behaves like one of them."""

    def __init__(self, default: bool, **options: Any) -> None:
        super().__init__(default, **options)
        self.tag(state=True)

    def validate(self, obj: HasTraits, value: Any) -> bool:
        if not isinstance(value, bool):
            raise BadValue(f"{self.name} must be True or False, got {shown(value)}")
        return value
