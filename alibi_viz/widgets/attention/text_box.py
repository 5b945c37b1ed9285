"""The text of `AttentionExplorer`: its trait, and a box to edit it with notes below."""

from collections.abc import Callable
from typing import Any

from ipywidgets import Label, Layout, Textarea, VBox
from traitlets import HasTraits

from alibi_viz.widgets.core.debounce import Debounce
from alibi_viz.widgets.core.layout import labeled
from alibi_viz.widgets.core.traits import BadValue, State, short_repr

__all__ = ["Line", "TextBox"]

MAX_CHARACTERS = 50_000


class Line(State):
    """A string that is not blank and has at most `MAX_CHARACTERS`.

    Unpaired surrogates are replaced with U+FFFD, because they cannot be sent to a browser.
    """

    def validate(self, obj: HasTraits, value: Any) -> str:
        if not isinstance(value, str):
            self.error(obj, value, info="a string")
        if not value.strip():
            raise BadValue(f"{self.name} must have at least one word, got {short_repr(value)}")
        if len(value) > MAX_CHARACTERS:
            raise BadValue(f"{self.name} must have at most {MAX_CHARACTERS:,} characters, got {len(value):,}")
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class TextBox(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A box for a text, and two notes below it, hidden while empty.

    Unlike other controls, the box keeps a text that the app rejects, because it may be blank during typing.

    Args:
        text: the first text.
        read: called with the text `delay` seconds after it was changed; 0 calls it at every change.
    """

    def __init__(self, text: str, read: Callable[[str], object], delay: float) -> None:
        box = Textarea(text, tooltip="Your own text", layout=Layout(width="100%", height="58px"))
        self._box, self._notes = (
            box.add_class("s-text"),
            {name: Label().add_class(name) for name in ("s-note", "s-progress")},
        )
        for note in self._notes.values():
            note.layout.display = "none"
        self._on_text, self._is_reading = read, False
        later = Debounce(delay)

        def on_input(change: Any) -> None:
            later(lambda: self._read(change.new)) if delay else self._read(change.new)

        box.observe(on_input, names="value")
        super().__init__([labeled("text", box, width="100%"), *self._notes.values()], layout=Layout(width="100%"))

    def show(self, text: str) -> None:
        """Show another text, unless that in the box is just being read."""
        if not self._is_reading:
            self._box.value = text

    def note(self, text: str) -> None:
        """Say something about the text; nothing if empty."""
        self._show("s-note", text)

    def show_progress(self, text: str) -> None:
        """Say how far a model has read; nothing if empty."""
        self._show("s-progress", text)

    def _read(self, text: str) -> None:
        self._is_reading = True
        try:
            self._on_text(text)
        finally:
            self._is_reading = False

    def _show(self, name: str, text: str) -> None:
        note = self._notes[name]
        note.value, note.layout.display = text, None if text else "none"
