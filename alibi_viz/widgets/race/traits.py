"""The kinds of state that only a race has: who takes part, how fast they learn, and what they read."""

import numbers
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from traitlets import HasTraits, TraitType

from alibi_viz.lab import Text, load_text
from alibi_viz.widgets.core.traits import BadValue, shown

__all__ = ["METHODS", "MULTIPLES", "Guesses", "Methods", "Rate", "Source", "named_path", "read_source", "source_name"]

METHODS = ("alibi", "sinusoidal", "rotary", "learned", "none")
MULTIPLES = (2, 4, 16)  # of the training length, at which the loss may be guessed
MOST_BITS = 10.0


class Methods(TraitType[Any, Any]):
    """Names of position methods, each at most once, kept in the order of `METHODS`; there may be none yet."""

    def __init__(self, default: tuple[str, ...], **options: Any) -> None:
        super().__init__(default, **options)
        self.tag(state=True)

    def validate(self, obj: HasTraits, value: Any) -> tuple[str, ...]:
        names = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [None]
        if not all(isinstance(name, str) and name in METHODS for name in names) or len(set(names)) < len(names):
            raise BadValue(f"{self.name} must be {self.info()}, got {shown(value)}")
        return tuple(name for name in METHODS if name in names)

    def info(self) -> str:
        """What is allowed, in words."""
        return f"different names among {', '.join(METHODS)}"


class Rate(TraitType[Any, Any]):
    """A finite number above 0 and at most `high`."""

    def __init__(self, default: float, high: float, **options: Any) -> None:
        super().__init__(default, **options)
        self.high = high
        self.tag(state=True)

    def validate(self, obj: HasTraits, value: Any) -> float:
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not number or not 0 < value <= self.high:  # NaN is in no order
            raise BadValue(f"{self.name} must be {self.info()}, got {shown(value)}")
        return float(value)

    def info(self) -> str:
        """What is allowed, in words."""
        return f"a number above 0 and at most {self.high:g}"


class Guesses(TraitType[Any, Any]):
    """{method: {multiple of the training length: bits per byte}}, made before a race; empty for none."""

    def __init__(self, **options: Any) -> None:
        super().__init__({}, **options)
        self.tag(state=True)

    def validate(self, obj: HasTraits, value: Any) -> dict[str, dict[int, float]]:
        if not isinstance(value, Mapping):
            raise BadValue(f"{self.name} must be {self.info()}, got {shown(value)}")
        kept: dict[str, dict[int, float]] = {}
        for method, own in value.items():
            if method not in METHODS or not isinstance(own, Mapping) or not all(map(_is_guess, own.items())):
                raise BadValue(f"{self.name} must be {self.info()}, got {shown(dict(value))}")
            if own:
                kept[method] = {times: float(own[times]) for times in MULTIPLES if times in own}
        return kept

    def info(self) -> str:
        """What is allowed, in words."""
        times = ", ".join(map(str, MULTIPLES))
        return f"{{method: {{{times}: bits per byte from 0 to {MOST_BITS:g}}}}}"


def _is_guess(item: tuple[Any, Any]) -> bool:
    times, bits = item
    number = isinstance(bits, numbers.Real) and not isinstance(bits, bool)
    return times in MULTIPLES and number and 0 <= bits <= MOST_BITS


class Source(TraitType[Any, Any]):
    """What is read: None for the built-in text, a string, bytes in UTF-8 (kept as a string), or a `pathlib.Path`."""

    def __init__(self, default: str | None, **options: Any) -> None:
        super().__init__(default, allow_none=True, **options)
        self.tag(state=True)

    def validate(self, obj: HasTraits, value: Any) -> str | Path | None:
        read_source(value)
        return bytes(value).decode() if isinstance(value, bytes | bytearray | memoryview) else value


def read_source(value: Any) -> Text:
    """The text itself. Raises BadValue, also where a file is missing or cannot be read."""
    try:
        return load_text(value)
    except (OSError, TypeError, ValueError) as error:
        raise BadValue(str(error)) from error


def named_path(given: str | Path) -> Path:
    """A path that somebody typed, with its `~`. Raises BadValue for a user or a name that cannot be.

    >>> from alibi_viz.widgets.race.traits import named_path
    >>> named_path("my/run")
    PosixPath('my/run')
    """
    try:
        path = Path(given).expanduser()
        with suppress(FileNotFoundError, NotADirectoryError):  # there need be nothing
            path.lstat()  # a name with a NUL, or one too long, is no name
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadValue(f"{shown(str(given))} is no path that can be used: {reason}") from None
    return path


def source_name(value: str | Path | None) -> str:
    """What a text is called before it is read.

    >>> from alibi_viz.widgets.race.traits import source_name
    >>> source_name(None), source_name("to be or not to be")
    ('Python language reference', 'your text')
    """
    own = value.name if isinstance(value, Path) else "your text"
    return "Python language reference" if value is None else own
