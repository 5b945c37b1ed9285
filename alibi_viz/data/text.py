"""Texts to train on, as bytes: the tales, Python's reference, your own.

Each has a training part and a validation part.
"""

import hashlib
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch
from torch import Tensor

from alibi_viz.arguments import check_integer, check_tensor
from alibi_viz.data.tales import Recall, write_tales
from alibi_viz.files import decode

# Enough for every lesson. A file of 50 MB, opened by mistake, would freeze a notebook.
MAX_BYTES = 20_000_000
# The names of the built-in text, and of a string or bytes.
BUILT_IN = "tales"
YOURS = "your text"
# A text of your own is divided into stretches of at least so many bytes. The last tenth of each is
# for validation.
STRETCH = 160_000
# Such as "words.txt": a single word with an ending.
FILE_NAME = re.compile(r"\S{1,200}\.\w{1,5}")
# `Text.yardsticks` adds so much to the count of every byte: without it, a byte that training never
# had would cost infinitely many bits.
SMOOTHING = 0.5
# And so many pairs after every byte, divided like the letter frequencies. So what follows a rare
# byte isn't guessed from one or two pairs alone (a Dirichlet prior, as in MacKay and Peto 1995).
PRIOR_PAIRS = 5
# `Text.repeats` looks up about so many pieces of so many bytes.
MAX_PIECES = 512
REPEAT = 64


@dataclass(frozen=True, eq=False)  # compared by identity: tensors have no single truth value
class Text:
    """A text as bytes, with a training part and a validation part.

    Attributes:
        name: where the text came from, for titles and messages.
        train, validation: uint8 [bytes], in UTF-8.
        recalled: for tales, where the validation part recalls facts; None for other texts.
    """

    name: str
    train: Tensor
    validation: Tensor
    recalled: tuple[Recall, ...] | None = None
    vocabulary: ClassVar[int] = 256  # of a model of bytes

    def __post_init__(self) -> None:
        for name in ("train", "validation"):
            part = getattr(self, name)
            check_tensor(name, part, "integer", "[bytes]", ndim=1)
            if part.dtype != torch.uint8:
                raise TypeError(
                    f"{name} must be a uint8 tensor [bytes], as `load_text` makes it, got "
                    f"{part.dtype}"
                )

    @property
    def facts(self) -> pd.DataFrame:
        """The facts that the validation part of the tales recalls, one row each.

        They are in the order of the text. Columns:

        - start, stop: of the bytes that recall the fact
        - told: where it was told last, the start of that mention
        - distance: from there to `start`
        - kind: of the fact, such as "hero"

        Raises ValueError for a text without recorded facts.

        >>> from alibi_viz import lab
        >>> text = lab.load_text()
        >>> fact = text.facts.iloc[0]
        >>> bytes(text.validation[fact.start : fact.stop]).decode(), fact.kind
        ('Leo', 'friend')
        """
        if self.recalled is None:
            raise ValueError(
                f"{self.name} has no recorded facts: only the tales have, see `lab.tales_text`"
            )
        return pd.DataFrame(self.recalled, columns=Recall._fields)

    @cached_property
    def fingerprint(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of all bytes.

        It doesn't depend on where training ends and validation begins.
        """
        data = self.train.numpy().tobytes() + self.validation.numpy().tobytes()
        return hashlib.sha256(data).hexdigest()[:16]

    @cached_property
    def repeats(self) -> float:
        """The share of the validation part that also stands in the training part.

        A model can know such pieces by heart. About 512 evenly spaced pieces of 64 bytes are looked
        up; 0 if there are none.
        """
        train = self.train.numpy().tobytes()
        validation = self.validation.numpy().tobytes()
        spacing = max(REPEAT, len(validation) // MAX_PIECES)
        starts = range(0, len(validation) - REPEAT + 1, spacing)
        if not starts:
            return 0.0
        repeated = sum(validation[start : start + REPEAT] in train for start in starts)
        return repeated / len(starts)

    @cached_property
    def yardsticks(self) -> dict[str, float]:
        """Bits per byte of two models that only count, to compare the losses of others with.

        - letter frequencies: knows how often each byte occurs
        - letter pairs: also knows how often each byte follows each other one

        They count in the training part. Their cross-entropy is that on the validation part, without
        its first byte. Counts are smoothed: half is added to the count of each byte, and after each
        byte five pairs are added, divided like the letter frequencies. NaN if the validation part
        has fewer than two bytes.

        A model that knows nothing needs 8 bits. A trained model with a higher loss than these two
        isn't ignorant: it is sure and wrong.

        >>> from alibi_viz import lab
        >>> for name, bits in lab.load_text().yardsticks.items():
        ...     print(f"{name}: {bits:.2f}")
        letter frequencies: 4.49
        letter pairs: 3.29
        """
        counts = torch.bincount(self.train, minlength=256).double() + SMOOTHING
        letters = counts / counts.sum()

        # The number of each pair, below 65,536. There may be 20 million, so 4 bytes each must do.
        pair = self.train[:-1].int() * 256 + self.train[1:]
        counts = torch.bincount(pair, minlength=256**2).view(256, 256).double()
        counts += PRIOR_PAIRS * letters
        pairs = counts / counts.sum(1, keepdim=True)  # [byte before, byte]

        before = self.validation[:-1].long()
        predicted = self.validation[1:].long()
        return {
            "letter frequencies": float(-letters[predicted].log2().mean()),
            "letter pairs": float(-pairs[before, predicted].log2().mean()),
        }

    def __repr__(self) -> str:
        return f"Text({self.name!r}, {len(self.train) + len(self.validation):,} bytes)"


def load_text(content: str | bytes | Path | None = None) -> Text:
    """Load a text to train on: the built-in tales, or your own string, bytes or file.

    The built-in text is `tales_text()`. In a text of your own, the last tenth of every 160 to 320
    kB is for validation, so nearly every byte there has the bytes before it that it has in the
    source.

    Args:
        content: the text itself, a string or bytes, or the `pathlib.Path` of a file. Bytes are
            UTF-8, or UTF-16 with a byte order mark. By default the built-in text.

    Raises TypeError for another type, ValueError for a text that is empty, larger than 20 MB, in
    another encoding or only the name of a file, and OSError for a file that does not exist or
    cannot be read.

    >>> from alibi_viz import lab
    >>> lab.load_text()
    Text('tales', 600,000 bytes)
    >>> lab.load_text("to be or not to be")
    Text('your text', 18 bytes)
    """
    if content is None:
        return _built_in()
    name, data = read_text(content)
    train, validation = _split(data)
    return Text(name, train, validation)


def read_text(content: str | bytes | Path) -> tuple[str, bytes]:
    """The name and the bytes of a text of your own. Takes and raises what `load_text` does."""
    name = YOURS
    if isinstance(content, Path):
        name = content.name
        if not content.is_file():
            raise FileNotFoundError(
                f"there is no file {str(content)!r} (looked in {str(Path.cwd())!r})"
            )
        _check_size(name, content.stat().st_size)
        data = content.read_bytes()
    elif isinstance(content, str):
        if FILE_NAME.fullmatch(content):
            raise ValueError(
                f"a string must be the text itself, got {content!r}; if that is a file, give "
                f"pathlib.Path({content!r})"
            )
        data = to_utf8(content, name)
    elif isinstance(content, bytes | bytearray | memoryview):
        data = bytes(content)
    else:
        raise TypeError(
            f"a text must be a str, bytes or a pathlib.Path, got {type(content).__name__}"
        )
    _check_size(name, len(data))
    try:
        data = decode(data).encode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{data[error.start]:02x} at position {error.start:,}"
        raise ValueError(
            f"{name} is not UTF-8 text: {byte} cannot be decoded; if you know its encoding, give "
            'the text itself, such as Path("words.txt").read_text("cp1252")'
        ) from None
    if b"\0" in data:
        raise ValueError(
            f"{name} looks binary: it has a zero byte at position {data.index(0):,}; give plain "
            "text"
        )
    return name, data


def tales_text(train: int = 500_000, validation: int = 100_000, *, seed: int = 0) -> Text:
    """Small tales in plain English, as many as you like.

    A record says what they recall from how far back, see `Text.facts`. The training part and the
    validation part are different tales, each whole and in order, except that the last tale of each
    is cut. Equal arguments give equal bytes on every platform and with every version of Python.

    Args:
        train: the bytes of the training part.
        validation: the bytes of the validation part; at most 20 MB together.
        seed: of the tales. Different seeds give different tales of the same kind.

    Raises TypeError or ValueError for sizes or a seed out of range.

    >>> from alibi_viz import lab
    >>> text = lab.tales_text(2_000, 1_000, seed=1)
    >>> bytes(text.validation[:42]).decode()
    'This is the story of Greta, a brave hare f'
    """
    check_integer("train", train, 1)
    check_integer("validation", validation, 1)
    check_integer("seed", seed, 0)
    _check_size("tales", train + validation)
    train_tales, _ = write_tales(train, 2 * seed)
    validation_tales, recalls = write_tales(validation, 2 * seed + 1)
    return Text(
        name=BUILT_IN if seed == 0 else f"{BUILT_IN}, seed {seed}",
        train=_to_tensor(train_tales[:train].encode()),
        validation=_to_tensor(validation_tales[:validation].encode()),
        recalled=tuple(recall for recall in recalls if recall.stop <= validation),
    )


_built_in = cache(tales_text)


def python_text() -> Text:
    """The language reference of the Python that is running, as `help()` shows it.

    It is a real text of about 470 kB, read from Python's own `pydoc_data`. The last 15% of every
    160 to 320 kB are for validation, about 70 kB. Each version of Python has another: compare
    `fingerprint` before results. Raises ImportError if this one has none.

    >>> from alibi_viz import lab
    >>> lab.python_text().name.startswith("Python 3.")
    True
    """
    from pydoc_data.topics import topics  # noqa: PLC0415  # some distributions leave it out

    data = "\n\n".join(topics[topic].strip() for topic in sorted(topics)).encode()
    train, validation = _split(data, held_out=15)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Text(f"Python {version} reference", train, validation)


@cache
def find_built_in(fingerprint: str) -> Text | None:
    """The tales or the reference of this Python, if the text has this fingerprint.

    None for all other texts: nobody can tell from a fingerprint what they say.

    >>> from alibi_viz.data.text import find_built_in
    >>> find_built_in("5703b75f5f663a6b")
    Text('tales', 600,000 bytes)
    """
    # The reference first, because it takes less time than writing the tales.
    with suppress(ImportError):  # some distributions of Python leave it out
        reference = python_text()
        if reference.fingerprint == fingerprint:
            return reference
    tales = load_text()
    return tales if tales.fingerprint == fingerprint else None


def to_utf8(content: str, name: str) -> bytes:
    """The text in UTF-8. Raises ValueError, with the place, for half of a surrogate pair."""
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} cannot be encoded: {content[error.start]!r} at position {error.start:,} is "
            "half of a surrogate pair"
        ) from None


def check_long_enough(text: Text, needed: int, purpose: str) -> None:
    """Raise ValueError if the validation part has fewer than `needed` bytes.

    `purpose` says in words what they are needed for, such as "to test at length 1,024".
    """
    if len(text.validation) < needed:
        # A tenth of a text is for validation, or a bit less, see `_boundary`.
        in_all = (needed + 3) * 100 // 9 + 1
        raise ValueError(
            f"{text.name} is too short {purpose}: its validation part has "
            f"{len(text.validation):,} bytes and {needed:,} are needed; a text of your own with "
            f"{in_all:,} bytes in all is long enough"
        )


def check_testable(text: Text, longest: int) -> None:
    """Raise ValueError unless models can be tested on sequences of `longest` bytes of the text."""
    # The byte that follows the longest sequence, and one to spare
    check_long_enough(text, longest + 2, f"to test at length {longest:,}")
    if text.repeats == 1:
        raise ValueError(
            f"{text.name} has nothing but repeats: each {REPEAT} bytes of its validation part also "
            "stand in its training part, so a test would only show what a model knows by heart"
        )


def _split(data: bytes, held_out: int = 10) -> tuple[Tensor, Tensor]:
    """The training part, and the last `held_out` percent of each stretch for validation."""
    stretches = max(1, len(data) // STRETCH)
    edges = [0]
    for number in range(1, stretches):
        edges.append(_boundary(data, len(data) * number // stretches))
    edges.append(len(data))

    train = bytearray()
    validation = bytearray()
    for start, end in pairwise(edges):
        cut = _boundary(data, start + (end - start) * (100 - held_out) // 100)
        train += data[start:cut]
        validation += data[cut:end]
    return _to_tensor(train), _to_tensor(validation)


def _boundary(data: bytes, position: int) -> int:
    """The start of a line soon after a position or, without one, of the next character."""
    search_end = position + min(len(data), STRETCH) // 100
    newline = data.find(b"\n", position, search_end)  # -1 if there is none
    if 0 <= newline < len(data) - 1:
        return newline + 1
    # Leave a character of several bytes.
    while position < len(data) and data[position] & 0xC0 == 0x80:
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
    if not data:  # torch refuses an empty buffer
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)
