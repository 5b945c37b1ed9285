"""Copy the lessons out of an installed package, never over what a reader has changed."""

import hashlib
import json
import sysconfig
from pathlib import Path

from alibi_viz.files import write

SCHEMES = (
    sysconfig.get_default_scheme(),
    sysconfig.get_preferred_scheme("user"),
)  # where pip puts them
INSTALLED = [
    Path(sysconfig.get_path("data", scheme)) / "share" / "alibi_viz" / "notebooks"
    for scheme in SCHEMES
]
MANIFEST = (
    ".lessons.json"  # in the reader's folder: the fingerprints of the lessons as we wrote them
)


def lessons_folder() -> Path:
    """Where the lessons are: in the clone, or where pip has put them. Raises FileNotFoundError if
    they are not there.

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


def copy_lessons(target: Path) -> list[str]:
    """Copy the lessons into a folder, and return the names of those left alone, because somebody
    has changed them.

    A lesson that nobody has changed is replaced by the installed version. Raises OSError for a
    read-only folder.
    """
    target.mkdir(parents=True, exist_ok=True)
    manifest, kept = target / MANIFEST, []
    try:
        written = dict(json.loads(manifest.read_text(encoding="utf-8")))
    except (
        FileNotFoundError,
        ValueError,
        TypeError,
    ):  # without fingerprints every lesson that differs is left alone
        written = {}
    for lesson in sorted(lessons_folder().glob("*.ipynb")):
        copy, ours = target / lesson.name, _fingerprint(lesson)
        if copy.exists() and _fingerprint(copy) not in (written.get(lesson.name), ours):
            kept.append(lesson.name)
        else:
            write(copy, lesson.read_bytes())
            written[lesson.name] = ours
    write(manifest, json.dumps(written))
    return kept


def _fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
