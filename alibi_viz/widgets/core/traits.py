"""Traits for the state of an app. Their errors name the trait, the value and what is allowed.

Every trait derived from `State` appears in the app's repr, and a change of it redraws the app. Any
other trait becomes state with `.tag(state=True)`; its validator should raise `BadValue`.
"""

import numbers
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

from traitlets import HasTraits, TraitError, TraitType, observe, validate

from alibi_viz import laws
from alibi_viz.models import register_method
from alibi_viz.models.positions.custom import LawFunction
from alibi_viz.models.positions.registry import custom_method, method_names

LINEAR = "linear"  # the law of ALiBi itself


class BadValue(TraitError, ValueError):
    """An app cannot take this value. Both a TraitError and a ValueError."""


@contextmanager
def raising_bad_value() -> Iterator[None]:
    """Turn the errors of code that checks or reads what the user gave into BadValue. Very long
    messages are cut."""
    try:
        yield
    except (OSError, TypeError, ValueError) as error:
        message = str(error)
        raise BadValue(
            message if len(message) <= 400 else f"{message[:200]} ... {message[-100:]}"
        ) from error


def short_repr(value: object, max_string: int = 30) -> str:
    """The repr of a value, cut to less than a line.

    The repr of a string has at most `max_string` characters.
    """
    short = reprlib.Repr()
    short.maxstring = max_string
    short.maxtuple = 7  # as many methods as an app has at most
    short.maxdict = 20
    try:
        return short.repr(value)
    except ValueError:  # Python refuses to print an integer of more than 4300 digits
        return f"a {type(value).__name__} too long to print"


class State(TraitType[Any, Any]):
    """Base class. A subclass defines `validate`, which calls `self.error` on bad values, and
    `info`."""

    metadata = {"state": True}  # noqa: RUF012  # of the base class, which copies it

    def error(
        self, obj: HasTraits | None, value: Any, error: Any = None, info: str | None = None
    ) -> NoReturn:
        """Raise BadValue: "NAME must be INFO, got VALUE"."""
        raise BadValue(f"{self.name} must be {info or self.info()}, got {short_repr(value)}")


class Flag(State):
    """True or False; traitlets' Bool takes 1 for True."""

    info_text = "True or False"

    def validate(self, obj: HasTraits, value: Any) -> bool:
        return value if isinstance(value, bool) else self.error(obj, value)


class Number(State):
    """A real number from `low` to `high`, stored as a float. traitlets' Float accepts NaN, and its
    Int accepts True."""

    noun: ClassVar[str] = "a number"
    kind: ClassVar[type[Any]] = numbers.Real
    convert: ClassVar[type[Any]] = float

    def __init__(
        self, default: Any, low: float, high: float, suggested: Sequence[float] = (), **options: Any
    ) -> None:
        super().__init__(default, **options)
        self.low, self.high, self.suggested = low, high, suggested  # which are in its menu

    def validate(self, obj: HasTraits, value: Any) -> Any:
        if (
            not isinstance(value, self.kind)
            or isinstance(value, bool)
            or not self.low <= value <= self.high
        ):
            self.error(obj, value)
        return self.convert(value)

    def info(self) -> str:
        return f"{self.noun} from {self.low} to {self.high}" + (
            " or None" if self.allow_none else ""
        )

    def offered(self, obj: Any) -> tuple[Any, ...]:
        """What can be chosen in a menu."""
        return (
            *[None] * self.allow_none,
            *sorted({*self.suggested, getattr(obj, str(self.name))} - {None}),
        )


class Count(Number):
    """An integer from `low` to `high`; NumPy integers are converted to int."""

    noun, kind, convert = "an integer", numbers.Integral, int


MAX_HEADS = 32  # as many pictures of heads are still told apart


class Head(Count):
    """One of the app's `num_heads`, counted from 1. See `HasHead`."""

    def __init__(self, default: int | None, **options: Any) -> None:
        super().__init__(default, 1, MAX_HEADS, **options)

    def offered(self, obj: "HasHead") -> tuple[int | None, ...]:
        return (*[None] * self.allow_none, *range(1, obj.num_heads + 1))


class HasHead(HasTraits):
    """An app whose `head` is one of its `num_heads`. If there are fewer, it becomes None, or the
    last head."""

    num_heads: Any
    head: Any

    @validate("head")
    def _check_head(self, proposal: Any) -> int | None:
        if proposal.value is not None and proposal.value > self.num_heads:
            none = "None or " if proposal.trait.allow_none else ""
            raise BadValue(
                f"head must be {none}an integer from 1 to num_heads={self.num_heads}, got "
                f"{proposal.value}"
            )
        return proposal.value

    @observe("num_heads")
    def _move_removed_head(self, _: Any) -> None:
        if self.head is not None and self.head > self.num_heads:
            self.head = None if self.traits()["head"].allow_none else self.num_heads


class Choice(State):
    """One of `values`: strings, or None if it is among them; or the name of the app's attribute
    that holds them."""

    def __init__(
        self, default: Any, values: Sequence[str | None] | str, *, allow_none: bool = False
    ) -> None:
        super().__init__(
            default, allow_none=allow_none or (not isinstance(values, str) and None in values)
        )
        self.values = values

    def offered(self, obj: HasTraits) -> tuple[Any, ...]:
        """What can be chosen in an app."""
        return tuple(getattr(obj, self.values) if isinstance(self.values, str) else self.values)

    def validate(self, obj: HasTraits, value: Any) -> Any:
        if not isinstance(value, str) or value not in self.offered(obj):
            none = ["None"] * (self.allow_none and None not in self.offered(obj))
            self.error(
                obj, value, info=f"one of {', '.join([*none, *map(str, self.offered(obj))])}"
            )
        return value


class Names(Choice):
    """At most `most` different names out of `values`, kept in that order; there may be none."""

    def __init__(self, default: tuple[str, ...], values: str, most: int) -> None:
        super().__init__(default, values)
        self.most = most

    def validate(self, obj: HasTraits, value: Any) -> Any:
        offered = self.offered(obj)
        chosen = (
            list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [None]
        )
        known = all(isinstance(name, str) and name in offered for name in chosen)
        if not known or len(chosen) > min(self.most, len(set(chosen))):
            self.error(
                obj, value, info=f"at most {self.most} different names out of {'; '.join(offered)}"
            )
        return tuple(name for name in offered if name in chosen)


class Law(State):
    """The name of a law of `alibi_viz.laws`, or a function law(distance, head, num_heads), which
    apps then offer."""

    default_value = LINEAR

    def offered(self, obj: HasTraits | None = None) -> tuple[str | LawFunction, ...]:
        """The names of the laws, then all functions that were used as a law or as a position
        method."""
        custom = [
            method
            for method in map(custom_method, method_names())
            if method and not isinstance(method, type)
        ]
        return (
            *laws.__all__,
            *(law for law in custom if law is not getattr(laws, law.__name__, None)),
        )

    def validate(self, obj: HasTraits, value: Any) -> Any:
        if isinstance(value, str):
            known = {named_law(law)[0]: law for law in self.offered()}
            if value not in known:
                self.error(obj, value, info=f"one of {', '.join(known)}, or a function")
            return known[value]
        if isinstance(value, type) or not callable(value):
            self.error(obj, value, info="a name or a function law(distance, head, num_heads)")
        name = getattr(value, "__name__", "")
        if value is getattr(laws, name, None):
            return name
        if name == LINEAR:
            raise BadValue(
                f"a law of your own cannot be called {LINEAR!r}, which is ALiBi: choose another "
                "name"
            )
        with raising_bad_value():
            register_method(value)
        return value


def named_law(law: str | LawFunction) -> tuple[str, LawFunction]:
    """The name and the function of a law."""
    return (law, getattr(laws, law)) if isinstance(law, str) else (law.__name__, law)
