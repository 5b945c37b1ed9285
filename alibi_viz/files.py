"""Write a file whole or not at all.

The content goes to a hidden file, which then replaces the old one, so a killed process leaves the
old file. If two processes write the same file, their contents don't mix: the last to finish wins.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EISDIR, ENOENT
from pathlib import Path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A hidden file beside `path` to write to in a `with` block.

    It replaces `path` if the block ends without an error.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(EISDIR, "is a folder", str(path))
    if path.exists() and not path.is_file():  # a pipe or a terminal
        yield path
        return

    target = Path(os.path.realpath(path))  # the file behind a link
    if not target.parent.is_dir():  # otherwise the error would name the hidden file
        raise FileNotFoundError(ENOENT, "there is no folder", str(target.parent))
    writer = f"{os.getpid()}-{threading.get_ident()}"
    scratch = target.with_name(f".{target.name[-40:]}.{writer}")
    try:
        yield scratch
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


def write(path: str | Path, content: str | bytes) -> None:
    """Replace a file by one with this content.

    Text is written in UTF-8, with "?" for unpaired surrogates.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", "replace")
    with replacing(path) as scratch:
        scratch.write_bytes(content)
