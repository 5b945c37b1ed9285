"""Traits for the state of an app. Their errors name the trait, the value and what is allowed.

Every trait derived from `State` appears in the app's repr, and a change of it redraws the app. Any other trait becomes
state with `.tag(state=True)`; its validator should raise `BadValue`.
"""

import numbers
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from traitlets import HasTraits, TraitError, TraitType, validate

__all__ = [
    "BadValue",
    "Choice",
    "Count",
    "Flag",
    "HasHead",
    "Names",
    "Number",
    "State",
    "raising_bad_value",
    "short_repr",
]


class BadValue(TraitError, ValueError):
    """An app cannot take this value. Both a TraitError and a ValueError."""


@contextmanager
def raising_bad_value() -> Iterator[None]:
    """Turn the errors of code that checks or reads what the user gave into BadValue, with the same message."""
    try:
        yield
    except (OSError, TypeError, ValueError) as error:
        raise BadValue(str(error)) from error


def short_repr(value: object, max_string: int = 30) -> str:
    """The repr of a value, cut to less than a line; the repr of a string has at most `max_string` characters."""
    short = reprlib.Repr()
    short.maxstring = max_string
    try:
        return short.repr(value)
    except ValueError:  # Python refuses to print an integer of more than 4300 digits
        return f"a {type(value).__name__} too long to print"


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
        raise BadValue(f"{self.name} must be {info or self.info()}, got {short_repr(value)}")


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


class HasHead(HasTraits):
    """An app whose `head`, counted from 1, is one of its `num_heads`, or None if the trait allows it."""

    num_heads: Any
    head: Any

    @validate("head")
    def _check_head(self, proposal: Any) -> int | None:
        if proposal.value is not None and proposal.value > self.num_heads:
            none = "None or " if proposal.trait.allow_none else ""
            raise BadValue(f"head must be {none}an integer from 1 to num_heads={self.num_heads}, got {proposal.value}")
        return proposal.value


class Flag(State):
    """True or False; 0, 1 and None are refused."""

    info_text = "True or False"

    def validate(self, obj: HasTraits, value: Any) -> bool:
        if not isinstance(value, bool):
            self.error(obj, value)
        return value


class Choice(State):
    """One of `values`: strings, or None if it is among them.

    `values` may also be the name of the app's attribute that holds them. They are then read at each use, so that a
    question or a method that is added later is offered as well.
    """

    def __init__(self, default: str | None, values: Sequence[str | None] | str) -> None:
        super().__init__(default, allow_none=not isinstance(values, str) and None in values)
        self.values = values

    def offered(self, obj: HasTraits) -> tuple[Any, ...]:
        """What can be chosen in an app."""
        return tuple(getattr(obj, self.values) if isinstance(self.values, str) else self.values)

    def validate(self, obj: HasTraits, value: Any) -> str:
        offered = self.offered(obj)
        if not isinstance(value, str) or value not in offered:
            self.error(obj, value, info=f"one of {', '.join(map(str, offered))}")
        return value


class Names(Choice):
    """At most `most` different names out of `values`, kept in that order; there may be none."""

    def __init__(self, default: tuple[str, ...], values: Sequence[str] | str, most: int) -> None:
        super().__init__(default, values)  # type: ignore[arg-type]  # several names instead of one
        self.most = most

    def validate(self, obj: HasTraits, value: Any) -> Any:
        offered = self.offered(obj)
        chosen = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [None]
        unknown = [name for name in chosen if not isinstance(name, str) or name not in offered]
        if unknown or len(set(chosen)) < len(chosen) or len(chosen) > self.most:
            self.error(obj, value, info=f"at most {self.most} different names out of {'; '.join(offered)}")
        return tuple(name for name in offered if name in chosen)
