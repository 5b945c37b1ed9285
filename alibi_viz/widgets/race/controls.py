"""The controls of LengthLab: methods, training length, Train and Stop, and further settings that can be unfolded."""

import time
from typing import Any

from ipywidgets import Button, HBox, IntText, Layout, Text, ToggleButton, VBox, Widget
from traitlets import TraitError

from alibi_viz.models import POSITIONS
from alibi_viz.widgets.core.choices import boxes
from alibi_viz.widgets.core.layout import column, labeled, row
from alibi_viz.widgets.core.traits import BadValue
from alibi_viz.widgets.race.guesses import GuessRows
from alibi_viz.widgets.race.text_picker import TextPicker

__all__ = ["COMMON_METHODS", "RaceControls"]

COMMON_METHODS = ("alibi", "sinusoidal", "rotary", "learned", "none")  # always in view, and always in the same colors
TYPING_DELAY = 0.1  # seconds: text typed just before a click may arrive after it, on another thread


class RaceControls(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """The controls, tied to the traits of a `LengthLab`, its `train` and its `stop`."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._train = Button(description="Train", icon="play", button_style="primary", tooltip="Start a new race")
        self._stop = Button(description="Stop", icon="stop", disabled=True, tooltip="End the race, keep the curves")
        self._train.add_class("s-train").on_click(self._on_train)
        self._stop.add_class("s-stop").on_click(lambda _: app.stop())
        self._guesses = GuessRows(app)
        self._more = ToggleButton(description="More settings", icon="caret-right", layout=Layout(width="max-content"))
        self._more.add_class("s-more").observe(self._on_more, names="value")
        common = row(
            *boxes(app, "methods", COMMON_METHODS),
            app.slider("length", "training length L", "s-length", "Bytes in a training window"),
        )
        self._settings = self._more_settings()
        self._settings.layout.display = "none"
        buttons = row(self._train, self._stop, self._guesses.box, self._more)
        self._locked = [common, self._settings]
        layout = Layout(width="100%", grid_gap="4px", overflow="visible")
        super().__init__([common, buttons, self._guesses, self._settings], layout=layout)

    def lock(self, running: bool) -> None:
        """During a race the settings are disabled, so that they show what is being trained."""
        for group in self._locked:
            _disable(group, running)
        self._guesses.disable(running)
        self._train.disabled, self._stop.disabled = running, not running

    def _more_settings(self) -> VBox:
        app = self._app
        self._picker = TextPicker(self._use_text).add_class("s-picker")
        self._picker.show(app.text)
        app.observe(lambda change: self._picker.show(change.new), names="text")
        self._folder = Text(placeholder="a new folder", layout=Layout(width="150px")).add_class("s-folder")
        keep = Button(description="Keep models", icon="save", tooltip="Save the trained models in that folder")
        keep.add_class("s-keep").on_click(self._on_keep)
        numbers = row(
            app.slider("steps", "steps", "s-steps", "Training steps, each on a batch of 32 windows"),
            app.slider("seeds", "seeds", "s-seeds", "Races, one after the other: one seed proves little"),
            self._field(IntText(), "seed", "s-seed", "Sets the starting weights and the batches"),
            self._field(Text(continuous_update=False), "learning_rate", "s-rate", "At 100, training diverges"),
        )
        others = boxes(app, "methods", [name for name in POSITIONS if name not in COMMON_METHODS])
        return column(row(*others), numbers, self._picker, row(keep, self._folder))

    def _field(self, widget: Widget, name: str, css: str, tip: str) -> HBox:
        widget.layout.width, widget.tooltip = "72px", tip
        if isinstance(widget, Text):
            self._app.link(widget.add_class(css), name, _number, lambda value: f"{value:g}")
        else:
            self._app.link(widget.add_class(css), name)
        return labeled(name.replace("_", " "), widget)

    def _on_more(self, change: Any) -> None:
        self._settings.layout.display = None if change.new else "none"
        self._more.icon = "caret-down" if change.new else "caret-right"

    def _use_text(self) -> bool:
        """Give the app the chosen text. If it is unusable, show why and leave it in its field."""
        try:
            self._app.text = self._picker.choice()
        except (TraitError, ValueError) as error:
            self._app.say(str(error))
            return False
        self._app.say("")
        return True

    def _on_train(self, _: Button) -> None:
        time.sleep(TYPING_DELAY)
        if self._use_text():  # again, because a text that was refused is still in its field
            try:
                self._app.train()
            except (RuntimeError, TraitError, ValueError) as error:
                self._app.say(str(error))

    def _on_keep(self, _: Button) -> None:
        folder = self._folder.value.strip()
        try:
            if not folder:
                raise BadValue("no folder is named: say where to keep the models")
            paths = self._app.keep(folder)
        except (TraitError, ValueError) as error:
            self._app.say(str(error))
            return
        self._app.say("")
        self._folder.value, self._folder.placeholder = "", f"kept {len(paths)} in {folder}"


def _disable(widget: Widget, disabled: bool) -> None:
    for child in getattr(widget, "children", ()):
        _disable(child, disabled)
    if widget.has_trait("disabled"):
        widget.disabled = disabled


def _number(text: str) -> float | str:
    """The text as a number; any other text is returned for the trait to reject."""
    try:
        return float(text)
    except ValueError:
        return text
