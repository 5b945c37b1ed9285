"""The controls of LengthLab: methods, training length, Train and Stop, and further settings that can be unfolded."""

import inspect
import time
from typing import Any

from ipywidgets import Button, Checkbox, IntText, Layout, Text, VBox, Widget

from alibi_viz.lab.say import join
from alibi_viz.models import POSITIONS
from alibi_viz.models.positions.custom import custom_method
from alibi_viz.widgets.core.controls import column, labeled, row, unfold_button
from alibi_viz.widgets.core.traits import BadValue
from alibi_viz.widgets.race.guesses import GuessRows
from alibi_viz.widgets.race.state import COMMON_METHODS
from alibi_viz.widgets.race.text_picker import TextPicker

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
