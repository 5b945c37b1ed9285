"""Copy the lessons out of an installed package, never over what a reader has changed."""

import hashlib
import json
import sysconfig
from pathlib import Path

from alibi_viz.files import write

# Where pip puts them, for everybody and for one user.
PIP_SCHEMES = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
INSTALLED = [
    Path(sysconfig.get_path("data", scheme)) / "share" / "alibi_viz" / "notebooks"
    for scheme in PIP_SCHEMES
]
# In the reader's folder: the fingerprints of the lessons as we wrote them.
MANIFEST = ".lessons.json"


def lessons_folder() -> Path:
    """Where the lessons are: in the clone, or where pip has put them.

    Raises FileNotFoundError if they are in neither.

    >>> from alibi_viz.lessons.copies import lessons_folder
    >>> (lessons_folder() / "00_start_here.ipynb").exists()
    True
    """
    clone = Path(__file__).parents[2] / "notebooks"
    for folder in (clone, *INSTALLED):
        if (folder / "00_start_here.ipynb").exists():
            return folder
    raise FileNotFoundError(
        f"the lessons are in none of {clone}, {', '.join(map(str, INSTALLED))}: install again"
    )


def lesson_files() -> list[Path]:
    """The notebooks of the lessons in their order, without those that a reader has added.

    >>> from alibi_viz.lessons.copies import lesson_files
    >>> lesson_files()[0].name
    '00_start_here.ipynb'
    """
    return sorted(lessons_folder().glob("[0-9][0-9]_*.ipynb"))


def copy_lessons(target: Path) -> list[str]:
    """Copy the lessons into a folder, and return the names of those left alone.

    A lesson that somebody has changed is left alone; any other is replaced by the installed
    version. Raises OSError for a read-only folder.
    """
    target.mkdir(parents=True, exist_ok=True)
    manifest = target / MANIFEST
    fingerprints = _read_fingerprints(manifest)

    left_alone = []
    for lesson in lesson_files():
        copy = target / lesson.name
        installed = _fingerprint(lesson)
        # What we wrote: the lesson as it is now, or as it was when it was copied.
        ours = (installed, fingerprints.get(lesson.name))
        if copy.exists() and _fingerprint(copy) not in ours:
            left_alone.append(lesson.name)
            continue
        write(copy, lesson.read_bytes())
        fingerprints[lesson.name] = installed

    write(manifest, json.dumps(fingerprints))
    return left_alone


def _read_fingerprints(manifest: Path) -> dict[str, str]:
    """{lesson: fingerprint} when it was copied; empty if the file is missing or damaged.

    Without fingerprints, every lesson that differs is left alone.
    """
    try:
        return dict(json.loads(manifest.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return {}


def _fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
