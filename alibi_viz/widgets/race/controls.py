"""What one sets before a race, and the two buttons that begin and end it."""

import time
from functools import partial
from typing import Any

from ipywidgets import Button, Checkbox, HBox, IntText, Layout, Text, VBox, Widget
from traitlets import TraitError

from alibi_viz.widgets.core.layout import labeled, row
from alibi_viz.widgets.core.traits import BadValue
from alibi_viz.widgets.race.guesses import GuessRows
from alibi_viz.widgets.race.text_picker import TextPicker
from alibi_viz.widgets.race.traits import METHODS

__all__ = ["RaceControls"]

IN_FLIGHT = 0.1  # seconds: what was typed just before the click may arrive after it, on another thread


class RaceControls(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """The controls of a `LengthLab`, tied to its traits, its `train` and its `stop`."""

    def __init__(self, app: Any) -> None:
        self._app: Any = app
        self.start = Button(description="Train", icon="play", button_style="primary", tooltip="Start the race afresh")
        self.end = Button(description="Stop", icon="stop", disabled=True, tooltip="End the race; the curves stay")
        self.start.add_class("s-train").on_click(self._pressed)
        self.end.add_class("s-stop").on_click(lambda _: app.stop())
        self.picker = TextPicker(self._picked).add_class("s-picker")
        self.picker.show(app.text)
        app.observe(lambda change: self.picker.show(change.new), names="text")
        numbers = [
            app.slider("length", "training length L", "s-length", "Bytes in a training window"),
            app.slider("steps", "steps", "s-steps", "How often each model learns from a batch of 32 windows"),
            app.slider("seeds", "seeds", "s-seeds", "How many races, one after the other: one seed proves little"),
            self._field(IntText(), "seed", "s-seed", "Sets the starting weights and the batches"),
            self._field(Text(continuous_update=False), "learning_rate", "s-rate", "100 makes the training diverge"),
        ]
        self._boxes = row(*(self._box(method) for method in METHODS))
        self._numbers = row(*numbers)
        self._guesses = GuessRows(app)
        self._folder = Text(placeholder="a new folder", layout=Layout(width="150px")).add_class("s-folder")
        keep = Button(description="Keep models", icon="save", tooltip="Save the trained models into that folder")
        keep.add_class("s-keep").on_click(self._keep)
        buttons = row(self.start, self.end, self._folder, keep)
        rows = [self._boxes, self._numbers, self.picker, self._guesses, buttons]
        super().__init__(rows, layout=Layout(width="100%", grid_gap="4px", overflow="visible"))

    def race_is_on(self, running: bool) -> None:
        """While a race is on nothing can be set, so that the controls say what is being raced."""
        for control in (self._boxes, self._numbers, self.picker, self._guesses):
            _disable(control, running)
        self.start.disabled, self.end.disabled = running, not running

    def _box(self, method: str) -> Checkbox:
        def with_or_without(taken: bool) -> set[str]:
            return {*self._app.methods, method} if taken else {*self._app.methods} - {method}

        box = Checkbox(description=method, indent=False, layout=Layout(width="max-content")).add_class(f"s-{method}")
        self._app.link(box, "methods", with_or_without, partial(_holds, method))
        return box

    def _field(self, widget: Widget, name: str, css: str, tip: str) -> HBox:
        widget.layout.width, widget.tooltip = "72px", tip
        if isinstance(widget, Text):
            self._app.link(widget.add_class(css), name, _number, lambda value: f"{value:g}")
        else:
            self._app.link(widget.add_class(css), name)
        return labeled(name.replace("_", " "), widget)

    def _picked(self) -> bool:
        """Give the app the chosen text; where it cannot be used, say so and leave what was typed to be mended."""
        try:
            self._app.text = self.picker.choice()
        except (TraitError, ValueError) as error:
            self._app.say(str(error))
            return False
        self._app.say("")
        return True

    def _keep(self, _: Button) -> None:
        """Save what was trained; where it went is said beside the button."""
        folder = self._folder.value.strip()
        try:
            if not folder:
                raise BadValue("no folder was named: say where the models are to be kept")
            kept = self._app.keep(folder)
        except (TraitError, ValueError) as error:
            self._app.say(str(error))
            return
        self._app.say("")
        self._folder.value, self._folder.placeholder = "", f"kept {len(kept)} in {folder}"

    def _pressed(self, _: Button) -> None:
        time.sleep(IN_FLIGHT)
        if self._picked():  # what is typed counts, even where it was refused before
            try:
                self._app.train()
            except (RuntimeError, TraitError, ValueError) as error:
                self._app.say(str(error))


def _holds(method: str, methods: tuple[str, ...]) -> bool:
    return method in methods


def _disable(widget: Widget, disabled: bool) -> None:
    for child in getattr(widget, "children", ()):
        _disable(child, disabled)
    if widget.has_trait("disabled"):
        widget.disabled = disabled


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text  # for the trait to refuse by name
