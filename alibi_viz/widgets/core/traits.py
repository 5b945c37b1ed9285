"""Traits for the state of an app. Their errors name the trait, the value and what is allowed.

Every trait derived from `State` appears in the app's repr, and a change of it redraws the app. Any
other trait becomes state with `.tag(state=True)`; its validator should raise `BadValue`.
"""

import numbers
import reprlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from traitlets import (
    Bool,
    Enum,
    Float,
    HasTraits,
    Int,
    TraitError,
    TraitType,
    observe,
    validate,
)

from alibi_viz import laws
from alibi_viz.models.positions.methods import LawFunction, method_name
from alibi_viz.widgets.core.own_methods import known_methods, remember_method

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
        if len(message) > 400:
            message = f"{message[:200]} ... {message[-100:]}"
        raise BadValue(message) from error


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
    """A trait that belongs to the state of its app.

    Its errors are BadValue: "NAME must be INFO, got VALUE".

    A mixin for traitlets' traits, and the base class of those that traitlets doesn't have.
    """

    metadata = {"state": True}  # noqa: RUF012  # of the base class, which copies it

    def error(
        self, obj: HasTraits | None, value: Any, error: Any = None, info: str | None = None
    ) -> NoReturn:
        """Raise BadValue. `info` says what is allowed, by default what `self.info()` says."""
        raise BadValue(f"{self.name} must be {info or self.info()}, got {short_repr(value)}")


class Flag(State, Bool[Any, Any]):
    """True or False. Unlike traitlets' Bool, it doesn't take 1 for True."""

    info_text = "True or False"

    def validate(self, obj: Any, value: Any) -> Any:
        if not isinstance(value, bool):
            self.error(obj, value)
        return value


class Count(State, Int[Any, Any]):
    """An integer from `min` to `max`.

    Unlike traitlets' Int, it doesn't take True for 1, and it takes NumPy's integers.
    """

    def validate(self, obj: Any, value: Any) -> Any:
        if not isinstance(value, numbers.Integral) or not _is_in_range(self, value):
            self.error(obj, value)
        return int(value)

    def info(self) -> str:
        none = " or None" if self.allow_none else ""
        return f"an integer from {self.min} to {self.max}{none}"


class Number(State, Float[Any, Any]):
    """A real number from `min` to `max`, stored as a float.

    Unlike traitlets' Float, it refuses NaN.
    """

    def validate(self, obj: Any, value: Any) -> Any:
        if not isinstance(value, numbers.Real) or not _is_in_range(self, value):
            self.error(obj, value)
        return float(value)

    def info(self) -> str:
        return f"a number from {self.min} to {self.max}"


def _is_in_range(trait: Count | Number, value: Any) -> bool:
    """Whether a number is within the bounds, in which NaN is not. True and False are no numbers."""
    if isinstance(value, bool):
        return False
    return bool(trait.min <= value <= trait.max)


MAX_DRAWN_HEADS = 32  # as many pictures of heads are still told apart


class Head(Count):
    """One of the app's `num_heads`, counted from 1; with `allow_none`, None stands for all. See
    `HasHead`."""

    def __init__(self, default_value: int | None, **options: Any) -> None:
        super().__init__(default_value, min=1, max=MAX_DRAWN_HEADS, **options)

    def offered(self, obj: "HasHead") -> tuple[int | None, ...]:
        """What can be chosen in a menu."""
        heads = range(1, obj.num_heads + 1)
        return (None, *heads) if self.allow_none else tuple(heads)


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
        if self.head is None or self.head <= self.num_heads:
            return
        may_be_none = self.traits()["head"].allow_none
        self.head = None if may_be_none else self.num_heads


class ChoiceOf(State, Enum[Any]):
    """One of `values`, which are strings. With `allow_none`, None is a choice as well."""

    def validate(self, obj: Any, value: Any) -> Any:
        if not isinstance(value, str) or value not in self.offered(obj):
            self.error(obj, value, info=f"one of {', '.join(map(str, self.offered(obj)))}")
        return value

    def offered(self, obj: Any) -> tuple[str | None, ...]:
        """What can be chosen in an app."""
        values = tuple(self._current_values(obj))
        return (None, *values) if self.allow_none else values

    def _current_values(self, obj: Any) -> Iterable[str]:
        return self.values or ()


class ChoiceFrom(ChoiceOf):
    """One of the strings in an attribute of the app, `source`, which may change."""

    def __init__(self, source: str, default_value: str | None, **options: Any) -> None:
        super().__init__((), default_value, **options)
        self.source = source

    def _current_values(self, obj: Any) -> Iterable[str]:
        values: Iterable[str] = getattr(obj, self.source)
        return values


class Names(State):
    """At most `most` different strings of those in an attribute of the app, `source`, kept in that
    order. There may be none."""

    def __init__(self, source: str, default_value: tuple[str, ...], *, most: int) -> None:
        super().__init__(default_value)
        self.source = source
        self.most = most

    def offered(self, obj: Any) -> tuple[str, ...]:
        """What can be chosen in an app."""
        return tuple(getattr(obj, self.source))

    def validate(self, obj: Any, value: Any) -> tuple[str, ...]:
        offered = self.offered(obj)
        if not self._are_possible(value, offered):
            allowed = f"at most {self.most} different names out of {'; '.join(offered)}"
            self.error(obj, value, info=allowed)
        return tuple(name for name in offered if name in value)

    def _are_possible(self, names: Any, offered: tuple[str, ...]) -> bool:
        if isinstance(names, str) or not isinstance(names, Collection):
            return False
        for name in names:
            if not isinstance(name, str) or name not in offered:
                return False
        return len(set(names)) == len(names) <= self.most


class LawChoice(State):
    """The name of a law of `alibi_viz.laws`, or a function law(distance, head, num_heads), which
    apps then offer."""

    default_value = LINEAR

    def offered(self, obj: HasTraits | None = None) -> tuple[str | LawFunction, ...]:
        """The names of the laws, then all functions that an app was given."""
        own_laws = []
        for name, method in known_methods().items():
            if isinstance(method, str | type):
                continue  # a method of the library, or a subclass of Position
            if method is not getattr(laws, name, None):
                own_laws.append(method)
        return (*laws.__all__, *own_laws)

    def validate(self, obj: HasTraits, value: Any) -> Any:
        if isinstance(value, str):
            return self._law_of_name(obj, value)
        if isinstance(value, type) or not callable(value):
            self.error(obj, value, info="a name or a function law(distance, head, num_heads)")

        name = method_name(value)
        if value is getattr(laws, name, None):
            return name
        if name == LINEAR:
            raise BadValue(
                f"a law of your own cannot be called {LINEAR!r}, which is ALiBi: choose another "
                "name"
            )
        with raising_bad_value():
            remember_method(value, getattr(obj, "num_heads", 4))
        return value

    def _law_of_name(self, obj: HasTraits, name: str) -> str | LawFunction:
        laws_by_name = {}
        for law in self.offered():
            law_name, _ = named_law(law)
            laws_by_name[law_name] = law
        if name not in laws_by_name:
            self.error(obj, name, info=f"one of {', '.join(laws_by_name)}, or a function")
        return laws_by_name[name]


def named_law(law: str | LawFunction) -> tuple[str, LawFunction]:
    """The name and the function of a law."""
    if isinstance(law, str):
        return law, getattr(laws, law)
    return method_name(law), law
