"""Something to read: a text as bytes, split into a part to train on and a part to test on."""

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pydoc_data.topics import topics

import torch
from torch import Tensor

__all__ = ["MAX_BYTES", "Text", "load_text"]

VALIDATION_SHARE = 0.1  # of the paragraphs
_SMALLEST_SHARE, _LARGEST_SHARE = 0.05, 0.2  # of the bytes; outside of this the text is split by place
_PARAGRAPH_END = re.compile(rb"(?<=\n\n)")
MAX_BYTES = 20_000_000  # a lesson reads a few megabytes at most; 50 MB by mistake should not freeze a notebook


@dataclass(frozen=True)
class Text:
    """A text as bytes, split into a training part and a validation part by the content of its paragraphs.

    A hash of each paragraph decides its side, so a paragraph that two versions of a text share is on the same side in
    both, and no paragraph is on both sides. A text for which this gives too little or too much validation text (few
    paragraphs, or one repeated) is split by place instead: the last tenth is for validation.

    Attributes:
        name: where the text came from, for titles.
        data: uint8 [bytes], the UTF-8 bytes of the text.
    """

    name: str
    data: Tensor

    @cached_property
    def train(self) -> Tensor:
        """uint8, about nine tenths of the text."""
        return self._parts[0]

    @cached_property
    def validation(self) -> Tensor:
        """uint8, about a tenth of the text, never trained on."""
        return self._parts[1]

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the text; results name it."""
        return hashlib.sha256(self.data.numpy().tobytes()).hexdigest()[:16]

    @cached_property
    def _parts(self) -> tuple[Tensor, Tensor]:
        data = self.data.numpy().tobytes()
        held_out: dict[bool, list[bytes]] = {False: [], True: []}
        for paragraph in _PARAGRAPH_END.split(data):
            held_out[_is_held_out(paragraph)].append(paragraph)
        train, validation = (b"".join(part) for part in held_out.values())
        if not _SMALLEST_SHARE <= len(validation) / len(data) <= _LARGEST_SHARE:
            cut = len(data) * 9 // 10
            train, validation = data[:cut], data[cut:]
        return _as_tensor(train), _as_tensor(validation)

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
    return Text(name, _as_tensor(data))


def _is_held_out(paragraph: bytes) -> bool:
    """Whether a paragraph is for validation. Line breaks do not matter, so it may be wrapped differently elsewhere."""
    digest = hashlib.sha256(b" ".join(paragraph.split())).digest()
    return int.from_bytes(digest[:8], "big") < VALIDATION_SHARE * 2**64


def _as_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def _check_size(name: str, size: int) -> None:
    if size == 0:
        raise ValueError(f"{name} is empty: a text needs at least one byte")
    if size > MAX_BYTES:
        raise ValueError(f"{name} has {size / 1e6:.1f} MB; at most {MAX_BYTES / 1e6:.0f} MB can be used: cut it first")
