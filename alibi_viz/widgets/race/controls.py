"""The controls of LengthLab: methods, training length, Train and Stop, and further settings that can be unfolded."""

import inspect
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ipywidgets import HTML, Checkbox, Dropdown, HBox, Layout, Text, Textarea, ToggleButtons, VBox, Widget

from alibi_viz.lab import evaluation_lengths, load_text
from alibi_viz.lab.say import MAX_RISE_HOLDING, MIN_RISE_FAILING, join
from alibi_viz.models import POSITIONS
from alibi_viz.models.positions.custom import custom_method
from alibi_viz.widgets.core.controls import FIT, below, button, column, labeled, row, unfold_button
from alibi_viz.widgets.core.traits import BadValue, short_repr
from alibi_viz.widgets.race.state import COMMON_METHODS, OUTCOMES

TYPING_DELAY = 0.1  # seconds: text typed just before a click may arrive after it, on another thread


class RaceControls(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """The controls, tied to the traits of a `LengthLab`, its `train`, its `stop` and its `save_models`."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._boxes: dict[str, Checkbox] = {}  # of the methods that are known so far
        self._guess_rows: dict[str, HBox] = {}  # of the methods that have been chosen so far
        self._train = button("Train", "play", "s-train", "Start a new race", self._on_train)
        self._train.button_style = "primary"
        self._stop = button("Stop", "stop", "s-stop", "End the race, keep the curves", app.stop)
        tip = "Further methods, seeds, the text, and saving models"
        self._more = unfold_button("More settings", tip, lambda _: self.update())
        self._reset = app.reset_button()
        self._length = app.slider("length", "training length L", "s-length", "Bytes in a training window")
        self._guess = app.checkbox(
            "guesses",
            "guess first",
            "s-guess",
            "Say what you expect, then train",
            read=lambda checked: dict.fromkeys(app.methods) if checked else {},
            show=bool,
        )
        self._common, self._others = row(), row()
        self._guesses, self._guess_question = column().add_class("s-guesses"), HTML()
        self._settings = column(self._others, self._numbers(), self._text(), self._saving())
        buttons = row(self._train, self._stop, self._more, self._reset)
        rows = [self._common, self._guesses, buttons, self._settings]
        super().__init__(rows, layout={"width": "100%", "grid_gap": "4px", "overflow": "visible"})
        self.tabs = app.tabs("question", "What is measured", lambda name: app.questions[name].summary)

    def update(self) -> None:
        """Show what belongs to the mode and the methods, and lock the settings while a race shows their effect."""
        app = self._app
        self._show_methods()
        self._show_guesses()
        full, running = not app.simple, app.running
        shown = dict.fromkeys((self._common, self._more, self._reset, self.tabs, app.reason), full)
        shown |= {self._guesses: self._asks_for_guesses(), self._settings: full and self._more.value}
        shown |= {field: self._kind.value == kind for kind, field in self._fields.items()}
        for widget, visible in shown.items():
            widget.layout.display = None if visible else "none"
        for widget in below(self):
            if widget.has_trait("disabled") and widget is not self._more:
                widget.disabled = running != (widget is self._stop)

    def _numbers(self) -> Widget:
        app = self._app
        seed = app.field("seed", "s-seed", "72px", "Sets the starting weights and the batches")
        rate = app.field("learning_rate", "s-rate", "72px", "Step size of the optimizer; at 100, training diverges")
        return row(
            app.slider("steps", "steps", "s-steps", "Training steps, each on a batch of 32 windows"),
            app.slider("seeds", "seeds", "s-seeds", "Number of races, one after the other, with different seeds"),
            labeled("seed", seed),
            labeled("learning rate", rate),
        )

    def _saving(self) -> Widget:
        tip = "Where to save the models"
        self._folder = Text(placeholder="a new folder", tooltip=tip, layout=Layout(width="150px")).add_class("s-folder")
        tip = "Save the trained models in that folder"
        save = button("Save models", "save", "s-save", tip, lambda: self._app.attempt(self._save_models))
        return row(save, self._folder)

    def _save_models(self) -> None:
        folder = self._folder.value.strip()
        if not folder:
            raise BadValue("enter the folder in which to save the models")
        paths = self._app.save_models(folder)
        self._folder.value, self._folder.placeholder = "", f"saved {len(paths)} in {folder}"

    def _on_train(self) -> None:
        time.sleep(TYPING_DELAY)
        missing = [method for method in self._app.methods if not self._app.guesses.get(method)]
        if missing and self._asks_for_guesses():
            self._app.say(f"Make your guess first, for {join(missing)}.")
        elif self._use_text():  # again, because a text that was refused is still in its field
            self._app.attempt(self._app.train)

    # The methods.

    def _show_methods(self) -> None:
        """Show a checkbox for every method, also for the user's own ones, which may be added later."""
        new = [name for name in dict.fromkeys((*COMMON_METHODS, *POSITIONS)) if name not in self._boxes]
        self._boxes |= dict(zip(new, self._app.boxes("methods", new, _describe), strict=True))
        in_view = [name for name in self._boxes if name in COMMON_METHODS or custom_method(name)]
        self._common.children = [*(self._boxes[name] for name in in_view), self._length, self._guess]
        self._others.children = [box for name, box in self._boxes.items() if name not in in_view]

    # The guesses: one row of buttons per method, shown while the checkbox is checked and the race is one on a text.

    def _asks_for_guesses(self) -> bool:
        return bool(self._app.guesses) and self._app.questions[self._app.question].task == "text"

    def _show_guesses(self) -> None:
        length, *_, longest = evaluation_lengths(self._app.length)
        self._guess_question.value = (
            '<div style="line-height: 1.5; max-width: 60em">'
            f"What happens on windows of up to {longest:,} bytes, {longest // length} times the training length? A "
            f"model <b>holds</b> if its loss rises by at most {MAX_RISE_HOLDING} bits per byte, and <b>fails</b> from "
            f"{MIN_RISE_FAILING} on."
            "</div>"
        )
        self._guess_rows |= {name: self._guess_row(name) for name in self._app.methods if name not in self._guess_rows}
        self._guesses.children = [self._guess_question, *(self._guess_rows[name] for name in self._app.methods)]

    def _guess_row(self, method: str) -> HBox:
        tips = [f"{method} {outcome}" for outcome in OUTCOMES]
        buttons = ToggleButtons(options=OUTCOMES, value=None, tooltips=tips, style={"button_width": "max-content"})
        self._app.link(
            buttons.add_class(f"s-guess-{method}"),
            "guesses",
            read=lambda outcome: {**self._app.guesses, method: outcome},
            show=lambda guesses: guesses.get(method),
        )
        line = labeled(method, buttons)
        line.children[0].layout.width = "80px"
        return line

    # The text: a menu, and below it the field that the choice needs. Typed text stays in its field, even if it is
    # invalid. A file is named by its path, not uploaded: JupyterLab's file browser uploads files of any size, but a
    # message to the kernel that is too large closes the connection.

    def _text(self) -> Widget:
        options = [(f"{load_text().name} (built in)", "built in"), ("your own", "own"), ("a file", "file")]
        self._kind = Dropdown(options=options, tooltip="The text that the models are trained on", layout=FIT)
        hint = "Paste a text here: a few thousand bytes, in any language"
        layout = Layout(width="min(calc(100% - 6px), 620px)")
        own = Textarea(placeholder=hint, tooltip="Your own text", continuous_update=False, rows=4, layout=layout)
        hint = "the path of a file in UTF-8, at most 20 MB"
        layout = Layout(width="min(calc(100% - 6px), 420px)")
        path = Text(placeholder=hint, tooltip="The path of a text file", continuous_update=False, layout=layout)
        self._fields = {"own": own.add_class("s-own-text"), "file": path.add_class("s-path")}
        self._show_text()
        for widget in (self._kind.add_class("s-text"), *self._fields.values()):
            widget.observe(self._on_text, names="value")
        self._app.observe(self._show_text, names="text")
        return VBox([labeled("text", self._kind), *self._fields.values()], layout=Layout(overflow="visible"))

    def _show_text(self, _: Any = None) -> None:
        """Show the app's text, which may have been chosen elsewhere."""
        text = self._app.text
        kind = "built in" if text is None else "file" if isinstance(text, Path) else "own"
        if text is not None:
            self._fields[kind].value = str(text)
        self._kind.value = kind

    def _on_text(self, change: Any) -> None:
        self.update()
        field = self._fields.get(self._kind.value)
        is_used = field is None or field.value  # a field that was just opened is still empty
        if is_used and change.owner in (self._kind, field):
            self._use_text()

    def _use_text(self) -> bool:
        """Give the app the chosen text. If it is unusable, show why, leave it in its field, and return False."""
        return bool(self._app.attempt(lambda: setattr(self._app, "text", self._chosen_text())))

    def _chosen_text(self) -> str | Path | None:
        """The current choice, as `load_text` takes it; the text may be unusable."""
        if self._kind.value != "file":
            return self._fields["own"].value if self._kind.value == "own" else None
        if not self._fields["file"].value.strip():
            raise BadValue("enter the path of a text file in UTF-8, or choose another text")
        return check_path(self._fields["file"].value.strip())


def _describe(method: str) -> str:
    """What a position method does, for a tooltip."""
    return (inspect.getdoc(POSITIONS[method]) or "A position method of your own").partition("\n")[0]


def check_path(name: str | Path) -> Path:
    """A path that the user typed, with `~` expanded. Raises BadValue for an unknown user or an invalid name."""
    try:
        path = Path(name).expanduser()
        with suppress(FileNotFoundError, NotADirectoryError):  # the path need not exist
            path.lstat()  # raises for a name that contains NUL or is too long
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadValue(f"{short_repr(str(name))} is not a usable path: {reason}") from None
    return path
