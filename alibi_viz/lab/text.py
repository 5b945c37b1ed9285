"""Load a text as bytes and split it into a training part and a validation part."""

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

__all__ = ["MAX_BYTES", "Text", "load_text"]

MAX_BYTES = 20_000_000  # enough for every lesson; a file of 50 MB, opened by mistake, would freeze a notebook
VALIDATION_SHARE = 0.1  # the expected share of paragraphs
MIN_SHARE, MAX_SHARE = 0.05, 0.2  # of bytes; otherwise the text is split at one position
_BUILT_IN = files("alibi_viz.lab") / "python_reference.txt.gz"
PARAGRAPH_END = re.compile(rb"(?<=\n\n)|(?<=\n\r\n)")


@dataclass(frozen=True, eq=False)  # compared by identity: tensors have no single truth value
class Text:
    """A text as bytes, with a training part and a validation part.

    A hash of each paragraph decides which part it belongs to. So no paragraph is in both parts, and a paragraph that
    two versions of a text share is in the same part of both, however its lines are wrapped. If the validation part
    would have less than 5% or more than 20% of the bytes, it is the last tenth of the text instead.
    """

    name: str  # where the text came from, for titles and messages
    data: Tensor  # uint8 [bytes], the text in UTF-8
    vocabulary: ClassVar[int] = 256  # of a model of bytes

    def __post_init__(self) -> None:
        if not isinstance(self.data, Tensor) or self.data.dtype != torch.uint8 or self.data.ndim != 1:
            is_tensor = isinstance(self.data, Tensor)
            got = f"{self.data.dtype} {list(self.data.shape)}" if is_tensor else type(self.data).__name__
            raise TypeError(f"data must be a uint8 tensor [bytes], as `load_text` makes it, got {got}")

    @property
    def train(self) -> Tensor:
        """The training part, uint8 [bytes], about nine tenths of the text."""
        return self._parts[0]

    @property
    def validation(self) -> Tensor:
        """The validation part, uint8 [bytes], about a tenth of the text."""
        return self._parts[1]

    @cached_property
    def fingerprint(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the bytes. Results are comparable if these are equal."""
        return hashlib.sha256(self._bytes()).hexdigest()[:16]

    @cached_property
    def _parts(self) -> tuple[Tensor, Tensor]:
        data = self._bytes()
        parts: dict[bool, list[bytes]] = {False: [], True: []}
        for paragraph in PARAGRAPH_END.split(data):
            parts[_is_for_validation(paragraph)].append(paragraph)
        train, validation = (b"".join(paragraphs) for paragraphs in parts.values())
        if not MIN_SHARE * len(data) <= len(validation) <= MAX_SHARE * len(data):
            cut = len(data) * 9 // 10
            train, validation = data[:cut], data[cut:]
        return _to_tensor(train), _to_tensor(validation)

    def _bytes(self) -> bytes:
        return self.data.numpy().tobytes()

    def __repr__(self) -> str:
        return f"Text({self.name!r}, {len(self.data):,} bytes)"


def load_text(content: str | bytes | Path | None = None, *, path: str | Path | None = None) -> Text:
    """Load a text to train on: the built-in one, or your own string, bytes or file.

    The built-in text is the language reference of Python 3.11.7, as `help()` shows it: 466 kB of English prose and
    grammar. It ships with this package, so that losses on it are the same with every version of Python.

    `content` is a string, bytes in UTF-8, or a `pathlib.Path`, which is treated as `path`: a file in UTF-8.

    Raises TypeError for another type or both arguments, ValueError for a text that is empty, larger than 20 MB or not
    UTF-8, and OSError for a file that does not exist or cannot be read.

    >>> lab.load_text()
    Text('Python language reference', 466,195 bytes)
    >>> lab.load_text("to be or not to be")
    Text('your text', 18 bytes)
    """
    if isinstance(content, Path):
        content, path = None, content
    if content is not None and path is not None:
        raise TypeError("give content or path, not both")
    if path is not None:
        return _make_text(Path(path).name, _read(Path(path)))
    if content is None:
        return _make_text("Python language reference", gzip.decompress(_BUILT_IN.read_bytes()))
    if isinstance(content, str):
        return _make_text("your text", content.encode("utf-8", "replace"))  # an unpaired surrogate becomes "?"
    if isinstance(content, bytes | bytearray | memoryview):
        return _make_text("your text", bytes(content))
    raise TypeError(f"a text must be a str, bytes or a pathlib.Path, got {type(content).__name__}")


def _read(path: Path) -> bytes:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r} (looked in {str(Path.cwd())!r})")
    if not path.is_file():
        raise ValueError(f"{str(path)!r} is not a file")
    _check_size(path.name, path.stat().st_size)
    return path.read_bytes()


def _make_text(name: str, data: bytes) -> Text:
    _check_size(name, len(data))
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not UTF-8 text: byte 0x{data[error.start]:02x} at position {error.start:,} cannot be decoded"
        ) from None
    if b"\0" in data:
        raise ValueError(f"{name} looks binary: it has a zero byte at position {data.index(0):,}; give plain text")
    return Text(name, _to_tensor(data))


def _check_size(name: str, size: int) -> None:
    if size == 0:
        raise ValueError(f"{name} is empty: a text needs at least one byte")
    if size > MAX_BYTES:
        raise ValueError(f"{name} has {size / 1e6:.1f} MB; at most {MAX_BYTES / 1e6:.0f} MB can be used: cut it first")


def _is_for_validation(paragraph: bytes) -> bool:
    """Whether the hash of a paragraph, regardless of its white space, falls into the validation share."""
    digest = hashlib.sha256(b" ".join(paragraph.split())).digest()
    return int.from_bytes(digest[:8], "big") < VALIDATION_SHARE * 2**64


def _to_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
