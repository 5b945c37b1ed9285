"""Texts to train on, as bytes, with a training part and a validation part: the tales, Python's
reference, your own."""

import hashlib
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch
from torch import Tensor

from alibi_viz.arguments import check_integer, check_positive_integers, check_tensor
from alibi_viz.data.tales import Fact, write_tales

# Enough for every lesson; a file of 50 MB, opened by mistake, would freeze a notebook
MAX_BYTES = 20_000_000
YOURS = "your text"  # the name of a string or bytes
# Bytes at least of a text of your own: the last tenth of each such stretch is for validation
STRETCH = 160_000
REPEAT, MAX_PIECES = (
    64,
    512,
)  # bytes of a piece that counts as repeated, and how many pieces are looked up


@dataclass(frozen=True, eq=False)  # compared by identity: tensors have no single truth value
class Text:
    """A text as bytes, with a training part and a validation part.

    Attributes:
        name: where the text came from, for titles and messages.
        train, validation: uint8 [bytes], in UTF-8.
        recalled: for tales, the facts that the validation part recalls; None for other texts.
    """

    name: str
    train: Tensor
    validation: Tensor
    recalled: tuple[Fact, ...] | None = None
    vocabulary: ClassVar[int] = 256  # of a model of bytes

    def __post_init__(self) -> None:
        for name in ("train", "validation"):
            check_tensor(name, part := getattr(self, name), "integer", "[bytes]", ndim=1)
            if part.dtype != torch.uint8:
                raise TypeError(
                    f"{name} must be a uint8 tensor [bytes], as `load_text` makes it, got "
                    f"{part.dtype}"
                )

    @property
    def facts(self) -> pd.DataFrame:
        """The facts that the validation part of a tale recalls: one row each, in the order of the
        text.

        Columns: start and stop of the bytes that recall it, where it was told last (the start of
            that mention), the
        distance from there to `start`, and the kind of the fact. Raises ValueError for a text
        without recorded facts.

        >>> text = lab.load_text()
        >>> fact = text.facts.iloc[0]
        >>> bytes(text.validation[fact.start : fact.stop]).decode(), fact.kind
        ('Leo', 'friend')
        """
        if self.recalled is None:
            raise ValueError(
                f"{self.name} has no recorded facts: only the tales have, see `lab.tales_text`"
            )
        return pd.DataFrame(self.recalled, columns=Fact._fields)

    @cached_property
    def fingerprint(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of all bytes, wherever training ends and
        validation begins."""
        return hashlib.sha256(
            self.train.numpy().tobytes() + self.validation.numpy().tobytes()
        ).hexdigest()[:16]

    @cached_property
    def repeats(self) -> float:
        """The share of the validation part, in pieces of 64 bytes, that also stands in the training
        part.

        A model can know such pieces by heart. About 512 evenly spaced pieces are looked up; 0 if
        there are none.
        """
        train, validation = self.train.numpy().tobytes(), self.validation.numpy().tobytes()
        step = max(REPEAT, len(validation) // MAX_PIECES)
        pieces = [
            validation[at : at + REPEAT] in train
            for at in range(0, len(validation) - REPEAT + 1, step)
        ]
        return sum(pieces) / max(1, len(pieces))

    def __repr__(self) -> str:
        return f"Text({self.name!r}, {len(self.train) + len(self.validation):,} bytes)"


def load_text(content: str | bytes | Path | None = None) -> Text:
    """Load a text to train on: the built-in tales, or your own string, bytes or file.

    The built-in text is `tales_text()`. In a text of your own, the last tenth of every 160 to 320
    kB is for validation, so nearly every byte there has the bytes before it that it has in the
    source.

    `content` is the text itself, a string or bytes in UTF-8, or the `pathlib.Path` of a file in
    UTF-8.

    Raises TypeError for another type, ValueError for a text that is empty, larger than 20 MB or not
    UTF-8, and OSError for a file that does not exist or cannot be read.

    >>> lab.load_text()
    Text('tales', 600,000 bytes)
    >>> lab.load_text("to be or not to be")
    Text('your text', 18 bytes)
    """
    if content is None:
        return _built_in()
    name, data = read_text(content)
    return Text(name, *_split(data))


def read_text(content: str | bytes | Path) -> tuple[str, bytes]:
    """The name and the bytes of a text of your own, as `load_text` takes it. Raises as
    `load_text`."""
    name = content.name if isinstance(content, Path) else YOURS
    if isinstance(content, Path):
        if not content.is_file():
            raise FileNotFoundError(
                f"there is no file {str(content)!r} (looked in {str(Path.cwd())!r})"
            )
        _check_size(name, content.stat().st_size)
        data = content.read_bytes()
    elif isinstance(content, str):
        data = content.encode("utf-8", "replace")  # an unpaired surrogate becomes "?"
    elif isinstance(content, bytes | bytearray | memoryview):
        data = bytes(content)
    else:
        raise TypeError(
            f"a text must be a str, bytes or a pathlib.Path, got {type(content).__name__}"
        )
    _check_size(name, len(data))
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{data[error.start]:02x} at position {error.start:,}"
        raise ValueError(f"{name} is not UTF-8 text: {byte} cannot be decoded") from None
    if b"\0" in data:
        raise ValueError(
            f"{name} looks binary: it has a zero byte at position {data.index(0):,}; give plain "
            "text"
        )
    return name, data


def tales_text(train: int = 500_000, validation: int = 100_000, *, seed: int = 0) -> Text:
    """Small tales in plain English, as many as you like, with a record of what they recall from how
    far back.

    The training part and the validation part are different tales, each whole and in order, except
    that the last tale of each is cut. Equal arguments give equal bytes on every platform and with
    every version of Python.

    Args:
        train, validation: the bytes of each part, at most 20 MB together.
        seed: of the tales. Different seeds give different tales of the same kind.

    Raises TypeError or ValueError for sizes or a seed out of range.

    >>> text = lab.tales_text(2_000, 1_000, seed=1)
    >>> bytes(text.validation[:42]).decode()
    'This is the story of Greta, a brave hare f'
    """
    check_positive_integers(train=train, validation=validation)
    check_integer("seed", seed, 0)
    _check_size("tales", train + validation)
    (train_tales, _), (validation_tales, facts) = (
        write_tales(train, 2 * seed),
        write_tales(validation, 2 * seed + 1),
    )
    parts = (
        _to_tensor(train_tales[:train].encode()),
        _to_tensor(validation_tales[:validation].encode()),
    )
    name = "tales" if seed == 0 else f"tales, seed {seed}"
    return Text(name, *parts, tuple(fact for fact in facts if fact.stop <= validation))


_built_in = cache(tales_text)


def python_text() -> Text:
    """The language reference of the Python that is running, as `help()` shows it: a real text,
    about 470 kB.

    It is read from Python's own `pydoc_data`. The last 15% of every 160 to 320 kB are for
    validation, about 70 kB. Each version of Python has another: compare `fingerprint` before
    results. Raises ImportError if this one has none.

    >>> lab.python_text().name.startswith("Python 3.")
    True
    """
    from pydoc_data.topics import topics  # noqa: PLC0415  # some distributions leave it out

    data = "\n\n".join(topics[topic].strip() for topic in sorted(topics)).encode()
    return Text(
        f"Python {sys.version_info.major}.{sys.version_info.minor} reference",
        *_split(data, held_out=15),
    )


def check_testable(text: Text, longest: int) -> None:
    """Raise ValueError unless models trained on the text can be tested on sequences of `longest`
    bytes."""
    if longest + 2 > len(text.validation):  # "same targets" starts a byte later than others
        is_name = " (is it the name of a file? give a pathlib.Path)" if text.name == YOURS else ""
        has = (
            f"its validation part has {len(text.validation):,} bytes, at least {longest + 2:,} "
            "are needed"
        )
        raise ValueError(f"{text.name} is too short to test at length {longest:,}: {has}{is_name}")
    if text.repeats == 1:
        repeats = f"each {REPEAT} bytes of its validation part also stand in its training part"
        why = f"{repeats}, so a test would only show what a model knows by heart"
        raise ValueError(f"{text.name} has nothing but repeats: {why}")


def _split(data: bytes, held_out: int = 10) -> tuple[Tensor, Tensor]:
    """The training part and the validation part, which is the last `held_out` percent of each
    stretch of the text."""
    stretches = max(1, len(data) // STRETCH)
    inner = [_boundary(data, len(data) * number // stretches) for number in range(1, stretches)]
    train, validation = bytearray(), bytearray()
    for start, end in zip([0, *inner], [*inner, len(data)], strict=True):
        cut = _boundary(data, start + (end - start) * (100 - held_out) // 100)
        train += data[start:cut]
        validation += data[cut:end]
    return _to_tensor(train), _to_tensor(validation)


def _boundary(data: bytes, position: int) -> int:
    """The start of a line soon after a position or, without one, of the next character."""
    line = data.find(b"\n", position, position + min(len(data), STRETCH) // 100) + 1
    if 0 < line < len(data):
        return line
    while (
        position < len(data) and data[position] & 0xC0 == 0x80
    ):  # inside a character of several bytes
        position += 1
    return position


def _check_size(name: str, size: int) -> None:
    if size == 0:
        raise ValueError(f"{name} is empty: a text needs at least one byte")
    if size > MAX_BYTES:
        raise ValueError(
            f"{name} has {size / 1e6:.1f} MB; at most {MAX_BYTES / 1e6:.0f} MB can be used: cut "
            "it first"
        )


def _to_tensor(data: bytes | bytearray) -> Tensor:
    return torch.frombuffer(bytearray(data or b"\0"), dtype=torch.uint8)[
        : len(data)
    ]  # an empty buffer is refused
