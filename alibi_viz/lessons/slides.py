"""Save the pictures of the lessons as files, for slides:

python -m alibi_viz.lessons.slides FOLDER
"""

import argparse
import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

from alibi_viz.files import create_folder, in_words, lesson_files, write


def save_slides(folder: Path) -> list[Path]:
    """Save the picture of each app in the lessons as a PNG file, and return the files.

    They are named by lesson and app, such as `01_the_line-Forgetting.png`; a second picture of the
    same app in a lesson has a number. The folder is created if missing. Raises OSError if it can't
    be written.
    """
    create_folder(folder)
    files: list[Path] = []
    for lesson in lesson_files():
        for name, picture in _pictures(lesson):
            number = sum(file.name.startswith(f"{lesson.stem}-{name}") for file in files) + 1
            suffix = "" if number == 1 else f"-{number}"
            file = folder / f"{lesson.stem}-{name}{suffix}.png"
            write(file, picture)
            files.append(file)
    return files


def _pictures(lesson: Path) -> Iterator[tuple[str, bytes]]:
    """The name of each app that a lesson shows, and its picture as a PNG."""
    notebook = json.loads(lesson.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" not in data:
                continue
            text = "".join(data["text/plain"])
            app = re.match(r"(\w+)\(", text)
            yield app[1] if app else "guess", base64.b64decode(data["image/png"])


def main() -> None:
    """Save the pictures, and say how many there are."""
    parser = argparse.ArgumentParser(prog="python -m alibi_viz.lessons.slides")
    parser.add_argument("folder", type=Path, help="where to save the pictures")
    folder = parser.parse_args().folder
    try:
        print(f"{len(save_slides(folder))} pictures in {folder}")
    except OSError as error:
        parser.exit(2, f"slides: {in_words(error)}\n")


if __name__ == "__main__":
    main()
