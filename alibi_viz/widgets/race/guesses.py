"""Guesses that the reader makes before a race: a row of sliders for each method."""

from typing import Any

from ipywidgets import Checkbox, FloatSlider, HBox, Label, VBox

from alibi_viz.widgets.core.app import FIT
from alibi_viz.widgets.race.traits import MAX_BITS, MULTIPLES

__all__ = ["GuessRows"]

MIDDLE = 4.0  # bits: where a slider is before anything is guessed


class GuessRows(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Sliders for the loss at 2, 4 and 16 times the training length, shown while the checkbox `box` is checked.

    A slider that was moved is an entry in the app's `guesses`. Unchecking the box removes all guesses.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        tip = "Say what you expect, then train"
        self.box = Checkbox(description="guess first", indent=False, tooltip=tip, layout=FIT).add_class("s-guess")
        self._sliders: dict[str, dict[int, FloatSlider]] = {}  # of the methods that have been chosen so far
        self._rows: dict[str, HBox] = {}
        super().__init__(layout={"overflow": "visible"})
        hint = "Guess the bits per byte at 2, 4 and 16 L by moving sliders. A model that knows nothing needs 8."
        self._help = Label(hint)
        self.box.value = bool(app.guesses)
        self._update()
        self.box.observe(self._on_box, names="value")
        app.observe(self._update, names="methods")
        app.observe(self._on_guesses, names="guesses")

    def disable(self, disabled: bool) -> None:
        """Lock the guesses, or unlock them."""
        for control in (self.box, *(slider for row in self._sliders.values() for slider in row.values())):
            control.disabled = disabled

    def _slider(self, method: str, multiple: int) -> FloatSlider:
        options = {"min": 0, "max": MAX_BITS, "step": 0.1, "readout_format": ".1f", "disabled": self.box.disabled}
        style, layout = {"description_width": "32px"}, {"width": "190px"}
        slider = FloatSlider(MIDDLE, description=f"{multiple} L", style=style, layout=layout, **options)
        slider.continuous_update = False
        slider.add_class(f"s-guess-{method}-{multiple}")
        slider.observe(lambda change: self._on_slider(method, multiple, change.new), names="value")
        return slider

    def _guess(self, method: str, multiple: int) -> float:
        return self._app.guesses.get(method, {}).get(multiple, MIDDLE)

    def _update(self, _: Any = None) -> None:
        """Show the rows of the chosen methods, at the values of the trait."""
        for method in self._app.methods:
            if method not in self._sliders:
                self._sliders[method] = {multiple: self._slider(method, multiple) for multiple in MULTIPLES}
                label = Label(method, layout={"width": "80px"})
                layout = {"flex_flow": "row wrap", "overflow": "visible"}
                self._rows[method] = HBox([label, *self._sliders[method].values()], layout=layout)
        for method, sliders in self._sliders.items():
            for multiple, slider in sliders.items():
                slider.value = self._guess(method, multiple)
        self.layout.display = None if self.box.value else "none"
        self.children = [self._help, *(self._rows[method] for method in self._app.methods)]

    def _on_guesses(self, change: Any) -> None:
        self.box.value = bool(change.new)
        self._update()

    def _on_box(self, change: Any) -> None:
        if not change.new:
            self._app.guesses = {}
        self._update()

    def _on_slider(self, method: str, multiple: int, bits: float) -> None:
        if bits != self._guess(method, multiple):  # else the trait has just set the slider
            row = {**self._app.guesses.get(method, {}), multiple: round(bits, 1)}
            self._app.guesses = {**self._app.guesses, method: row}
