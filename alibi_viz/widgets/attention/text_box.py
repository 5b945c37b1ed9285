"""The text of `AttentionExplorer`: its trait, and a box to edit it with notes below."""

from collections.abc import Callable
from typing import Any

from ipywidgets import Label, Layout, Textarea, VBox
from traitlets import HasTraits

from alibi_viz.widgets.core.background import Debounce
from alibi_viz.widgets.core.controls import labeled
from alibi_viz.widgets.core.traits import BadValue, State, short_repr

__all__ = ["NonBlank", "TextBox"]

MAX_CHARACTERS = 50_000


class NonBlank(State):
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
        on_text: called with the text after it was changed.
        delay: seconds without a change before that; 0 calls `on_text` at every change.
    """

    def __init__(self, text: str, on_text: Callable[[str], object], delay: float) -> None:
        box = Textarea(text, tooltip="Your own text", layout=Layout(width="100%", height="58px"))
        self._box = box.add_class("s-text")
        self._notes = {css: Label(layout=Layout(display="none")).add_class(css) for css in ("s-note", "s-progress")}
        self._on_text, self._is_reading = on_text, False
        self.debounce = Debounce(delay)

        def on_input(change: Any) -> None:
            if delay:
                self.debounce(lambda: self._read(change.new))
            else:
                self._read(change.new)

        box.observe(on_input, names="value")
        super().__init__([labeled("text", box, width="100%"), *self._notes.values()], layout=Layout(width="100%"))

    def show(self, text: str) -> None:
        """Show another text, unless the one in the box is being read right now."""
        if not self._is_reading:
            self._box.value = text

    def note(self, text: str) -> None:
        """Show a note about the text; an empty one hides it."""
        self._show("s-note", text)

    def show_progress(self, text: str) -> None:
        """Show how far a model has read; an empty text hides it."""
        self._show("s-progress", text)

    def _read(self, text: str) -> None:
        self._is_reading = True
        try:
            self._on_text(text)
        finally:
            self._is_reading = False

    def _show(self, css: str, text: str) -> None:
        note = self._notes[css]
        note.value, note.layout.display = text, None if text else "none"
