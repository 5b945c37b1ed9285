"""What the traits of an app take, and the errors that say so.

The traits are those of traitlets. Its own rules would take True for 1 and NaN for any number, and
its messages do not name the range. So `App` asks `taken` before it sets a trait.
"""

import math
import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from traitlets import (
    Bool,
    Enum,
    Float,
    HasTraits,
    Int,
    TraitError,
    Tuple,
    Unicode,
    observe,
)

MAX_DRAWN_HEADS = 32  # as many pictures of heads are still told apart


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


def choices(app: HasTraits, name: str) -> tuple[Any, ...]:
    """What can be chosen for a trait now: the values of an `Enum`, or those in the attribute of the
    app that is tagged as its `choices`. Empty for any other trait."""
    trait = getattr(type(app), name)
    source = trait.metadata.get("choices")
    if source is not None:
        values = getattr(app, source)
    elif isinstance(trait, Enum):
        values = trait.values
    else:
        return ()
    return (None, *values) if trait.allow_none else tuple(values)


def allowed(app: HasTraits, name: str) -> str:
    """What a trait takes, in words: those of its `help` for one that is of no simple kind."""
    trait = getattr(type(app), name)
    offered = [str(choice) for choice in choices(app, name) if choice is not None]
    if offered and isinstance(trait, Tuple):
        words = trait.help or f"names out of {'; '.join(offered)}"
    elif isinstance(trait, Tuple):
        words = "a list or tuple"
    elif offered:
        words = f"one of {', '.join(offered)}"
    elif isinstance(trait, Bool):
        words = "True or False"
    elif isinstance(trait, Int):
        words = f"an integer from {trait.min} to {trait.max}"
    elif isinstance(trait, Float):
        words = f"a number from {trait.min} to {trait.max}"
    elif isinstance(trait, Unicode):
        words = "a string"
    else:
        return trait.help or str(trait.info())
    return f"{words} or None" if trait.allow_none else words


def taken(app: HasTraits, name: str, value: Any) -> Any:
    """What a trait becomes when it is set to a value: Python's number for NumPy's, and names in the
    order in which they are offered.

    Raises BadValue for what the trait doesn't take.
    """
    trait = getattr(type(app), name)
    # An `Any` has only checks of the app's own.
    if not hasattr(trait, "validate") or (value is None and trait.allow_none):
        return value
    try:
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, bool) and not isinstance(trait, Bool):
            raise TraitError("a truth value is no number")
        plain = trait.validate(app, plain)
        if isinstance(plain, float) and math.isnan(plain):
            raise TraitError("NaN is in no range")

        offered = choices(app, name)
        if not offered:
            return plain
        if not isinstance(trait, Tuple):
            return offered[offered.index(plain)]
        chosen = {offered.index(each) for each in plain}
        return tuple(offered[place] for place in sorted(chosen))
    # An array or a tensor raises ValueError or RuntimeError where it is compared with a choice.
    except (OverflowError, RuntimeError, TraitError, ValueError) as error:
        message = f"{name} must be {allowed(app, name)}, got {short_repr(value)}"
        raise BadValue(message) from error


class HasHead(HasTraits):
    """An app whose `head` is one of its `num_heads`, tagged with the choices "heads". If there are
    fewer, it becomes None, or the last head."""

    num_heads: Any
    head: Any

    @property
    def heads(self) -> range:
        """The numbers of the heads, counted from 1."""
        return range(1, self.num_heads + 1)

    @observe("num_heads")
    def _move_removed_head(self, _: Any) -> None:
        if self.head is None or self.head <= self.num_heads:
            return
        may_be_none = self.traits()["head"].allow_none
        self.head = None if may_be_none else self.num_heads
