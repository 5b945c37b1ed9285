"""What a `Run` can train on, by the name of its task."""

from collections.abc import Callable
from pathlib import Path

from alibi_viz.lab.passages import passages_text
from alibi_viz.lab.tasks import TASKS, Task
from alibi_viz.lab.text import Text, load_text

__all__ = ["SOURCES"]

# Functions of a path, which is None for the built-in text. A fixed seed makes the texts equal for all runs.
SOURCES: dict[str, Callable[[str | Path | None], Text | Task]] = {
    "text": lambda path: load_text(path=path),
    "passages": lambda path: passages_text(),
    "text with passages": lambda path: passages_text(load_text(path=path)),
    **{name: lambda path, task=task: task for name, task in TASKS.items()},  # type: ignore[misc]
}
