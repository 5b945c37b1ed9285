"""Check folders before training, so that results are not lost after it."""

from pathlib import Path
from tempfile import TemporaryFile

__all__ = ["check_new", "create_folder"]


def check_new(path: Path) -> None:
    """Raise FileExistsError if there is a folder or file of this name."""
    if path.exists():
        raise FileExistsError(f"{str(path)!r} exists already and is not overwritten; choose another name or remove it")


def create_folder(path: str | Path) -> Path:
    """The path of a folder, created if missing. Raises OSError if it can't be created or written in."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(f"cannot write in the folder {str(folder)!r}: {error.strerror}") from error
    return folder
