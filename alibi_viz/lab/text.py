"""Something to read: a text as bytes, split into a part to train on and a part to test on."""

from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import torch
from torch import Tensor

__all__ = ["MAX_BYTES", "Text", "load_text"]

MAX_BYTES = 20_000_000  # a lesson reads a few megabytes at most; 50 MB by mistake should not freeze a notebook


@dataclass(frozen=True)
class Text:
    """A text as the numbers 0 to 255, one a byte of its UTF-8 form.

    Attributes:
        name: where it came from, for titles.
        data: uint8 [bytes].
    """

    name: str
    data: Tensor

    @property
    def train(self) -> Tensor:
        """The first nine tenths, uint8."""
        return self.data[: len(self.data) * 9 // 10]

    @property
    def validation(self) -> Tensor:
        """The last tenth, uint8, never trained on."""
        return self.data[len(self.data) * 9 // 10 :]

    def __repr__(self) -> str:
        return f"Text({self.name!r}, {len(self.data):,} bytes)"


def load_text(text: str | bytes | None = None, *, path: str | Path | None = None) -> Text:
    """A text to train on: your own string, bytes or file, or the built-in one.

    The built-in text is the language reference that every Python carries for `help()` (`pydoc_data.topics`), about
    465 kB of English prose and grammar. It differs a little between Python versions, and so do losses on it.

    Args:
        text: a string, or bytes in UTF-8. A `pathlib.Path` is taken as `path`.
        path: a file in UTF-8.

    Raises:
        TypeError: another type, or both arguments.
        ValueError: empty, over 20 MB, or bytes that are not UTF-8.
        OSError: the file is missing (FileNotFoundError) or cannot be read.

    >>> lab.load_text()
    Text('Python language reference', ... bytes)
    >>> lab.load_text("to be or not to be")
    Text('your text', 18 bytes)
    """
    if isinstance(text, Path):
        text, path = None, text
    if text is not None and path is not None:
        raise TypeError("give text or path, not both")
    if path is not None:
        return _text(Path(path).name, _read(Path(path)))
    if text is None:
        return _text("Python language reference", "\n".join(topics[name] for name in sorted(topics)).encode())
    if isinstance(text, str):
        return _text("your text", text.encode("utf-8", "replace"))  # half of a surrogate pair becomes "?"
    if isinstance(text, bytes | bytearray | memoryview):
        return _text("your text", bytes(text))
    raise TypeError(f"text must be a str, bytes or a pathlib.Path, got {type(text).__name__}")


def _read(path: Path) -> bytes:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r} (looked in {str(Path.cwd())!r})")
    if not path.is_file():
        raise ValueError(f"{str(path)!r} is not a file")
    _check_size(path.name, path.stat().st_size)
    return path.read_bytes()


def _text(name: str, data: bytes) -> Text:
    _check_size(name, len(data))
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not UTF-8 text: byte 0x{data[error.start]:02x} at position {error.start:,} cannot be decoded"
        ) from None
    if b"\0" in data:
        raise ValueError(f"{name} looks binary: it holds a zero byte at position {data.index(0):,}; give plain text")
    return Text(name, torch.frombuffer(bytearray(data), dtype=torch.uint8))


def _check_size(name: str, size: int) -> None:
    if size == 0:
        raise ValueError(f"{name} is empty: a text needs at least one byte")
    if size > MAX_BYTES:
        raise ValueError(f"{name} has {size / 1e6:.1f} MB; at most {MAX_BYTES / 1e6:.0f} MB can be used: cut it first")
