"""Write a file whole or not at all: under another name, which is then changed, so a killed process
leaves the old file.

Two processes that write one file don't mix: the last to finish wins.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EISDIR, ENOENT
from pathlib import Path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A hidden file beside `path` to write to in a `with` block, which replaces `path` if the block
    ends well."""
    given, target = Path(path), Path(os.path.realpath(path))  # the file behind a link
    if given.is_dir():
        raise IsADirectoryError(EISDIR, "is a folder", str(given))
    if given.exists() and not given.is_file():  # a pipe or a terminal
        yield given
        return
    if not target.parent.is_dir():
        raise FileNotFoundError(
            ENOENT, "there is no folder", str(target.parent)
        )  # not the name of the hidden file
    scratch = target.with_name(f".{target.name[-40:]}.{os.getpid()}-{threading.get_ident()}")
    try:
        yield scratch
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


def write(path: str | Path, content: str | bytes) -> None:
    """Write text, in UTF-8 with "?" for unpaired surrogates, or bytes to a file, which is
    replaced."""
    with replacing(path) as scratch:
        scratch.write_bytes(
            content.encode("utf-8", "replace") if isinstance(content, str) else content
        )
