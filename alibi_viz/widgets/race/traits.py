"""Traits and checks for methods, texts, files and guesses."""

import numbers
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from traitlets import HasTraits

from alibi_viz.lab import Text, load_text
from alibi_viz.lab.questions import main_question
from alibi_viz.models import POSITIONS, method_name
from alibi_viz.widgets.core.traits import BadValue, Names, State, raising_bad_value, short_repr

__all__ = ["MAX_BITS", "MULTIPLES", "Guesses", "Methods", "TextSource", "check_path", "read_source"]

MULTIPLES = main_question("text").guess_at  # of the training length, at which the loss may be guessed
MAX_BITS = 10.0


class Guesses(State):
    """{method: {multiple of the training length: bits per byte}}; empty for none."""

    info_text = f"{{method: {{{', '.join(map(str, MULTIPLES))}: bits per byte from 0 to {MAX_BITS:g}}}}}"

    def validate(self, obj: HasTraits, value: Any) -> dict[str, dict[int, float]]:
        if not isinstance(value, Mapping):
            self.error(obj, value)
        for method, bits in value.items():
            if method not in POSITIONS or not isinstance(bits, Mapping) or not all(map(_is_guess, bits.items())):
                self.error(obj, dict(value))
        return {
            method: {multiple: float(bits[multiple]) for multiple in MULTIPLES if multiple in bits}
            for method, bits in value.items()
            if bits
        }


def _is_guess(item: tuple[Any, Any]) -> bool:
    multiple, bits = item
    is_number = isinstance(bits, numbers.Real) and not isinstance(bits, bool)
    return multiple in MULTIPLES and is_number and 0 <= bits <= MAX_BITS


class Methods(Names):
    """Names of position methods. Your own functions and classes are registered and replaced by their names."""

    def validate(self, obj: HasTraits, value: Any) -> Any:
        if isinstance(value, Iterable) and not isinstance(value, str):
            with raising_bad_value():
                value = [method if isinstance(method, str) else method_name(method) for method in value]
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
