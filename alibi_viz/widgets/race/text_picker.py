"""Choose a text: the built-in one, your own, or a file."""

from collections.abc import Callable
from pathlib import Path

from ipywidgets import Dropdown, Layout, Text, Textarea, VBox

from alibi_viz.widgets.core.controls import FIT, labeled
from alibi_viz.widgets.race.traits import built_in_name, check_path


class TextPicker(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A menu, and below it the field that the choice needs. Typed text stays in its field, even if it is invalid.

    A file is named by its path, not uploaded: JupyterLab's file browser uploads files of any size, but a message to the
    kernel that is too large closes the connection.

    Args:
        changed: called when another text has been chosen or typed.
    """

    def __init__(self, changed: Callable[[], object]) -> None:
        self._changed, self._updating = changed, False
        options = [(f"{built_in_name()} (built in)", "built in"), ("your own", "own"), ("a file", "file")]
        self.kind = Dropdown(options=options, tooltip="The text that the models are trained on", layout=FIT)
        hint = "Paste a text here: a few thousand bytes, in any language"
        layout = Layout(width="min(calc(100% - 6px), 620px)", display="none")
        self.own = Textarea(placeholder=hint, tooltip="Your own text", continuous_update=False, rows=4, layout=layout)
        hint = "the path of a file in UTF-8, at most 20 MB"
        layout = Layout(width="min(calc(100% - 6px), 420px)", display="none")
        self.path = Text(placeholder=hint, tooltip="The path of a text file", continuous_update=False, layout=layout)
        for widget, css in ((self.kind, "s-text"), (self.own, "s-own-text"), (self.path, "s-path")):
            widget.add_class(css).observe(self._on_change, names="value")
        super().__init__([labeled("text", self.kind), self.own, self.path], layout=Layout(overflow="visible"))

    def choice(self) -> str | Path | None:
        """The current choice, as `load_text` takes it; the text may be unusable.

        Raises ValueError for a file without a path, or with an invalid one.
        """
        if self.kind.value == "built in":
            return None
        if self.kind.value == "own":
            return str(self.own.value)
        if not self.path.value.strip():
            raise ValueError("enter the path of a text file in UTF-8, or choose another text")
        return check_path(self.path.value.strip())

    def show(self, value: str | Path | None) -> None:
        """Show a text that was chosen elsewhere."""
        self._updating = True
        if isinstance(value, Path):
            self.kind.value, self.path.value = "file", str(value)
        elif value is None:
            self.kind.value = "built in"
        else:
            self.kind.value, self.own.value = "own", value
        self._updating = False

    def _on_change(self, change: object) -> None:
        fields = {"own": self.own, "file": self.path}
        for kind, field in fields.items():
            field.layout.display = None if self.kind.value == kind else "none"
        chosen = fields.get(self.kind.value)
        if not self._updating and (chosen is None or chosen.value):  # a field that was just opened is still empty
            self._changed()
