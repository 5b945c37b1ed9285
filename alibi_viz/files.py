"""Write a file whole or not at all, read text in the encodings that editors write, and find and
copy the lessons.

The content goes to a hidden file, which then replaces the old one, so a killed process leaves the
old file. If two processes write the same file, their contents don't mix: the last to finish wins.
"""

import codecs
import hashlib
import json
import os
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alibi_viz.arguments import as_path

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def decode(data: bytes) -> str:
    """The text of a file: in UTF-8, or in what its byte order mark says, which is left out.

    Raises UnicodeDecodeError for a file in another encoding.

    >>> from alibi_viz.files import decode
    >>> decode("grün".encode("utf-16"))
    'grün'
    """
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return data.decode(encoding)
    return data.decode("utf-8")


def create_folder(path: str | Path) -> Path:
    """The path of a folder, created if missing. Raises OSError if it can't be made."""
    folder = as_path("path", path)
    if folder.is_file():
        raise NotADirectoryError(f"{str(path)!r} must be a folder, and is a file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = str(error.strerror).lower()
        raise type(error)(f"{reason} while making the folder {str(path)!r}") from error
    return folder


def in_words(error: Exception) -> str:
    """The message of an error; of one from the system, such as "is a directory: notes"."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    words = error.strerror.lower()
    return words if error.filename is None else f"{words}: {error.filename}"


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A hidden file beside `path` to write to in a `with` block.

    It replaces `path` if the block ends without an error. Raises OSError that names `path`.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder")
    if path.exists() and not path.is_file():  # a pipe or a terminal
        yield path
        return

    target = Path(os.path.realpath(path))  # the file behind a link
    if not target.parent.is_dir():  # otherwise the error would name the hidden file
        raise FileNotFoundError(f"there is no folder {str(target.parent)!r}")
    writer = f"{os.getpid()}-{threading.get_ident()}"
    scratch = target.with_name(f".{target.name[-40:]}.{writer}")
    try:
        yield scratch
        scratch.replace(target)
    except OSError as error:
        if error.strerror is None:  # not from the system
            raise
        # The hidden file is not named: nobody knows it.
        raise type(error)(f"{error.strerror.lower()} while writing {str(path)!r}") from error
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


def lesson_files() -> list[Path]:
    """The notebooks of the lessons in their order: in the clone, or where pip has put them.

    Notebooks that a reader has added are left out. Raises FileNotFoundError if there are none.

    >>> from alibi_viz.files import lesson_files
    >>> lesson_files()[0].name
    '00_start_here.ipynb'
    """
    folders = [Path(__file__).parents[1] / "notebooks"]
    for_everybody = sysconfig.get_default_scheme()
    for_one_user = sysconfig.get_preferred_scheme("user")
    for scheme in (for_everybody, for_one_user):
        data = Path(sysconfig.get_path("data", scheme))
        folders.append(data / "share" / "alibi_viz" / "notebooks")

    for folder in folders:
        lessons = sorted(folder.glob("[0-9][0-9]_*.ipynb"))
        if lessons:
            return lessons
    searched = ", ".join(map(str, folders))
    raise FileNotFoundError(f"the lessons are in none of {searched}: install again")


def copy_lessons(path: str | Path) -> list[str]:
    """Copy the lessons, and the page that they link, into a folder, and replace no file there.

    Returns the names of those that the folder has in another edition. Running a lesson changes its
    file, so a copy says in its metadata which edition it was copied from. Raises OSError if the
    folder can't be written.
    """
    folder = create_folder(path)
    others = []
    for lesson in lesson_files():
        notebook = json.loads(lesson.read_text(encoding="utf-8"))
        edition = _edition(notebook)
        copy = folder / lesson.name
        if not copy.exists():
            notebook["metadata"]["alibi_viz"] = {"edition": edition}
            write(copy, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        elif _edition_of_copy(copy) != edition:
            others.append(copy.name)

    for page in lesson_files()[0].parent.glob("*.md"):
        copy = folder / page.name
        if not copy.exists():
            write(copy, page.read_bytes())
        elif copy.read_bytes() != page.read_bytes():
            others.append(copy.name)
    return others


def _edition(notebook: dict[str, Any]) -> str:
    """A fingerprint of the text and code of a lesson, without outputs."""
    sources = ["".join(cell["source"]) for cell in notebook["cells"]]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()[:12]


def _edition_of_copy(copy: Path) -> str | None:
    """The edition that a reader's lesson was copied from, or None if it doesn't say so."""
    try:
        return json.loads(copy.read_text(encoding="utf-8"))["metadata"]["alibi_viz"]["edition"]
    except (ValueError, LookupError, TypeError):  # damaged, or not ours
        return None
