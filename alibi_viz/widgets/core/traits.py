"""Traits for the state of an app. Their errors name the trait, the value and what is allowed.

Every trait derived from `State` appears in the app's repr, and a change of it redraws the app. Any other trait becomes
state with `.tag(state=True)`; its validator should raise `BadValue`.
"""

import numbers
import reprlib
from collections.abc import Sequence
from typing import Any, NoReturn

from traitlets import HasTraits, TraitError, TraitType

__all__ = ["BadValue", "Choice", "Count", "Flag", "Number", "State", "shown"]


def shown(value: object) -> str:
    """The repr of a value for an error message, cut to less than a line."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python refuses to print an integer of more than 4300 digits
        return f"a {type(value).__name__} too long to print"


class BadValue(TraitError, ValueError):
    """An app cannot take this value. Both a TraitError and a ValueError."""


class State(TraitType[Any, Any]):
    """Base class. A subclass defines `validate`, which calls `self.error` on bad values, and `info`.

    traitlets' own types are too permissive here: Bool takes 1 for True, Int takes 2.0 for 2.
    """

    def __init__(self, default: Any, **options: Any) -> None:
        super().__init__(default, **options)
        self.tag(state=True)

    def error(
        self, obj: HasTraits | None, value: Any, error: Exception | None = None, info: str | None = None
    ) -> NoReturn:
        """Raise BadValue: "NAME must be INFO, got VALUE"."""
        raise BadValue(f"{self.name} must be {info or self.info()}, got {shown(value)}")


class Number(State):
    """A real number from `low` to `high`; also None with `allow_none=True`. Stored as a float."""

    noun = "a number"
    kind: type[Any] = numbers.Real
    convert: type[Any] = float

    def __init__(self, default: float | None, low: float, high: float, **options: Any) -> None:
        super().__init__(default, **options)
        self.low, self.high = low, high

    def validate(self, obj: HasTraits, value: Any) -> Any:
        if not isinstance(value, self.kind) or isinstance(value, bool) or not self.low <= value <= self.high:
            self.error(obj, value)
        return self.convert(value)

    def info(self) -> str:
        low, high = (bound if isinstance(bound, int) else f"{bound:g}" for bound in (self.low, self.high))
        return f"{self.noun} from {low} to {high}" + (" or None" if self.allow_none else "")


class Count(Number):
    """An integer from `low` to `high`; also None with `allow_none=True`. NumPy integers are converted to int."""

    noun = "an integer"
    kind = numbers.Integral
    convert = int


class Choice(State):
    """One of `values`: strings, or None if it is among them."""

    def __init__(self, default: str | None, values: Sequence[str | None], **options: Any) -> None:
        super().__init__(default, allow_none=None in values, **options)
        self.values = tuple(values)

    def validate(self, obj: HasTraits, value: Any) -> str:
        if not isinstance(value, str) or value not in self.values:
            self.error(obj, value)
        return value

    def info(self) -> str:
        return "one of " + ", ".join(map(str, self.values))


class Flag(State):
    """True or False; 0, 1 and None are refused."""

    info_text = "True or False"

    def validate(self, obj: HasTraits, value: Any) -> bool:
        if not isinstance(value, bool):
            self.error(obj, value)
        return value
