"""The controls of LengthLab: methods, training length, Train and Stop, and further settings that can be unfolded."""

import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ipywidgets import (
    HTML,
    Button,
    Checkbox,
    Dropdown,
    HBox,
    IntText,
    Layout,
    Text,
    Textarea,
    ToggleButtons,
    VBox,
    Widget,
)

from alibi_viz.lab import evaluation_lengths
from alibi_viz.lab.say import MAX_RISE_HOLDING, MIN_RISE_FAILING, join
from alibi_viz.models import POSITIONS
from alibi_viz.models.positions.custom import custom_method
from alibi_viz.widgets.core.controls import FIT, column, labeled, row, unfold_button
from alibi_viz.widgets.core.traits import BadValue
from alibi_viz.widgets.race.state import COMMON_METHODS
from alibi_viz.widgets.race.traits import OUTCOMES, built_in_name, check_path

TYPING_DELAY = 0.1  # seconds: text typed just before a click may arrive after it, on another thread


class RaceControls(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """The controls, tied to the traits of a `LengthLab`, its `train`, its `stop` and its `save_models`.

    Simple mode shows the guesses, Train and Stop only.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._train = Button(description="Train", icon="play", button_style="primary", tooltip="Start a new race")
        self._stop = Button(description="Stop", icon="stop", disabled=True, tooltip="End the race, keep the curves")
        self._train.add_class("s-train").on_click(self._on_train)
        self._stop.add_class("s-stop").on_click(lambda _: app.stop())
        self._guesses = GuessRows(app)
        self._reset = app.reset_button()
        tip = "Further methods, seeds, the text, and saving models"
        self._more = unfold_button("More settings", tip, self._unfold)
        length = app.slider("length", "training length L", "s-length", "Bytes in a training window")
        self._own = row()
        self._own_boxes: dict[str, Checkbox] = {}
        common = row(*app.boxes("methods", COMMON_METHODS, _describe), self._own, length, self._guesses.box)
        self._settings = self._more_settings()
        self._locked = [common, self._settings]
        self._advanced = [common, self._more, self._reset]
        buttons = row(self._train, self._stop, self._more, self._reset)
        layout = {"width": "100%", "grid_gap": "4px", "overflow": "visible"}
        super().__init__([common, self._guesses, buttons, self._settings], layout=layout)

        self._offer_own()
        app.observe(self._offer_own, names="methods")
        app.observe(self._unfold, names="simple")

    def lock(self, running: bool) -> None:
        """During a race the settings are disabled, so that they show what is being trained."""
        for group in self._locked:
            _disable(group, running)
        self._guesses.disable(running)
        self._train.disabled = self._reset.disabled = running
        self._stop.disabled = not running

    def _more_settings(self) -> VBox:
        app = self._app
        self._picker = TextPicker(self._use_text).add_class("s-picker")
        self._picker.show(app.text)
        app.observe(lambda change: self._picker.show(change.new), names="text")
        self._folder = Text(
            placeholder="a new folder", tooltip="Where to save the models", layout=Layout(width="150px")
        ).add_class("s-folder")
        save = Button(description="Save models", icon="save", tooltip="Save the trained models in that folder")
        save.add_class("s-save").on_click(lambda _: app.attempt(self._save_models))
        seed = IntText(tooltip="Sets the starting weights and the batches", layout=Layout(width="72px"))
        app.link(seed.add_class("s-seed"), "seed")
        rate = app.field("learning_rate", "s-rate", "72px", "Step size of the optimizer; at 100, training diverges")
        numbers = row(
            app.slider("steps", "steps", "s-steps", "Training steps, each on a batch of 32 windows"),
            app.slider("seeds", "seeds", "s-seeds", "Number of races, one after the other, with different seeds"),
            labeled("seed", seed),
            labeled("learning rate", rate),
        )
        others = [name for name in POSITIONS if name not in COMMON_METHODS and custom_method(name) is None]
        return column(row(*app.boxes("methods", others, _describe)), numbers, self._picker, row(save, self._folder))

    def _offer_own(self, _: Any = None) -> None:
        """Show a checkbox for each of the user's own methods, also for those that are added later."""
        new = [name for name in POSITIONS if custom_method(name) is not None and name not in self._own_boxes]
        self._own_boxes |= dict(zip(new, self._app.boxes("methods", new, _describe), strict=True))
        self._own.children = tuple(self._own_boxes.values())
        self._own.layout.display = None if self._own_boxes else "none"
        _disable(self._own, self._train.disabled)

    def hide_in_simple_mode(self, *widgets: Widget) -> None:
        """Hide other parts of the app in simple mode."""
        self._advanced += widgets
        self._unfold()

    def _unfold(self, _: object = None) -> None:
        for widget in self._advanced:
            widget.layout.display = "none" if self._app.simple else None
        self._settings.layout.display = None if self._more.value and not self._app.simple else "none"

    def _use_text(self) -> bool:
        """Give the app the chosen text. If it is unusable, show why, leave it in its field, and return False."""
        return self._app.attempt(lambda: setattr(self._app, "text", self._picker.choice()))

    def _on_train(self, _: Button) -> None:
        time.sleep(TYPING_DELAY)
        if missing := self._guesses.missing():
            self._app.say(f"Make your guess first, for {join(missing)}.")
        elif self._use_text():  # again, because a text that was refused is still in its field
            self._app.attempt(self._app.train)

    def _save_models(self) -> None:
        folder = self._folder.value.strip()
        if not folder:
            raise BadValue("enter the folder in which to save the models")
        paths = self._app.save_models(folder)
        self._folder.value, self._folder.placeholder = "", f"saved {len(paths)} in {folder}"


def _describe(method: str) -> str:
    """What a position method does, for a tooltip."""
    return (inspect.getdoc(POSITIONS[method]) or "A position method of your own").partition("\n")[0]


def _disable(widget: Widget, disabled: bool) -> None:
    for child in getattr(widget, "children", ()):
        _disable(child, disabled)
    if widget.has_trait("disabled"):
        widget.disabled = disabled


class GuessRows(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """One row of buttons per method, shown while the checkbox `box` is checked and the race is one on a text.

    Checking the box asks for a guess about every method, unchecking it removes all guesses.
    """

    def __init__(self, app: Any) -> None:
        self._app, self._disabled = app, False
        self.box = app.checkbox(
            "guesses",
            "guess first",
            "s-guess",
            "Say what you expect, then train",
            read=lambda checked: dict.fromkeys(app.methods) if checked else {},
            show=bool,
        )
        self._buttons: dict[str, ToggleButtons] = {}  # of the methods that have been chosen so far
        self._rows: dict[str, HBox] = {}
        self._question = HTML()
        super().__init__(layout={"overflow": "visible"})
        self.add_class("s-guesses")
        self._update()
        app.observe(self._update, names=("methods", "guesses", "length", "question"))

    def disable(self, disabled: bool) -> None:
        """Lock the guesses, or unlock them."""
        self._disabled = disabled
        for control in (self.box, *self._buttons.values()):
            control.disabled = disabled

    def missing(self) -> list[str]:
        """The methods for which a guess was asked and not made."""
        asked = self._app.methods if self._are_shown() else ()
        return [method for method in asked if self._app.guesses.get(method) is None]

    def _are_shown(self) -> bool:
        return bool(self._app.guesses) and self._app.questions[self._app.question].task == "text"

    def _update(self, _: Any = None) -> None:
        """Show the rows of the chosen methods."""
        for method in self._app.methods:
            if method not in self._rows:
                self._buttons[method] = self._row_of_buttons(method)
                self._rows[method] = labeled(method, self._buttons[method])
                self._rows[method].children[0].layout.width = "80px"
        length, *_, longest = evaluation_lengths(self._app.length)
        self._question.value = (
            '<div style="line-height: 1.5; max-width: 60em">'
            f"What happens on windows of up to {longest:,} bytes, {longest // length} times the training length? A "
            f"model <b>holds</b> if its loss rises by at most {MAX_RISE_HOLDING} bits per byte, and <b>fails</b> from "
            f"{MIN_RISE_FAILING} on."
            "</div>"
        )
        self.layout.display = None if self._are_shown() else "none"
        self.children = [self._question, *(self._rows[method] for method in self._app.methods)]

    def _row_of_buttons(self, method: str) -> ToggleButtons:
        tips = [f"{method} {outcome}" for outcome in OUTCOMES]
        buttons = ToggleButtons(options=OUTCOMES, value=None, tooltips=tips, style={"button_width": "max-content"})
        buttons.disabled = self._disabled
        self._app.link(
            buttons.add_class(f"s-guess-{method}"),
            "guesses",
            read=lambda outcome: {**self._app.guesses, method: outcome},
            show=lambda guesses: guesses.get(method),
        )
        return buttons


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
