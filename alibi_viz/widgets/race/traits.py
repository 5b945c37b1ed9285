"""Traits and checks for methods, texts, files and guesses."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from traitlets import HasTraits

from alibi_viz.lab import Text, load_text
from alibi_viz.models import POSITIONS, register_method
from alibi_viz.widgets.core.traits import BadValue, Names, State, raising_bad_value, short_repr

OUTCOMES = ("holds", "degrades", "fails")  # of a method on longer windows, as `outcome` of lab.say classifies


class Guesses(State):
    """{method: one of `OUTCOMES`, or None while it is still to be guessed}; empty for none."""

    info_text = f"{{method: {', '.join(OUTCOMES)} or None}}"

    def validate(self, obj: HasTraits, value: Any) -> dict[str, str | None]:
        if not isinstance(value, Mapping) or not all(map(_is_guess, value.items())):
            self.error(obj, value)
        return dict(value)


def _is_guess(item: tuple[Any, Any]) -> bool:
    method, outcome = item
    return method in POSITIONS and (outcome is None or (isinstance(outcome, str) and outcome in OUTCOMES))


class Methods(Names):
    """Names of position methods. Your own functions and classes are registered and replaced by their names."""

    def validate(self, obj: HasTraits, value: Any) -> Any:
        if isinstance(value, Iterable) and not isinstance(value, str):
            with raising_bad_value():
                value = [method if isinstance(method, str) else register_method(method) for method in value]
        return super().validate(obj, value)


class TextSource(State):
    """A text: None for the built-in one, a string, bytes in UTF-8 (stored as a string), or a `pathlib.Path`."""

    def validate(self, obj: HasTraits, value: Any) -> str | Path | None:
        read_source(value)
        return bytes(value).decode() if isinstance(value, bytes | bytearray | memoryview) else value


def read_source(value: Any) -> Text:
    """Load a text. Raises BadValue if it cannot be used, or its file is missing or unreadable."""
    with raising_bad_value():
        return load_text(value)


@cache
def built_in_name() -> str:
    """The name of the built-in text, which is read once."""
    return load_text().name


def check_path(name: str | Path) -> Path:
    """A path that the user typed, with `~` expanded. Raises BadValue for an unknown user or an invalid name."""
    try:
        path = Path(name).expanduser()
        with suppress(FileNotFoundError, NotADirectoryError):  # the path need not exist
            path.lstat()  # raises for a name that contains NUL or is too long
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadValue(f"{short_repr(str(name))} is not a usable path: {reason}") from None
    return path
