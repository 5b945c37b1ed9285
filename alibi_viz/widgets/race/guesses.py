"""What somebody expects of a race, set before it begins: a row of sliders for each method."""

from typing import Any

from ipywidgets import Checkbox, FloatSlider, HBox, Label, Layout, VBox

from alibi_viz.widgets.race.traits import METHODS, MULTIPLES

__all__ = ["GuessRows"]

MIDDLE = 4.0  # bits: where a slider stands before anything is guessed


class GuessRows(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A box to tick, and below it sliders for the loss at 2, 4 and 16 times the training length.

    Each slider is tied to its entry in the app's `guesses`, and counts once it was moved. Taking the tick away takes
    the guesses away.
    """

    def __init__(self, app: Any) -> None:
        self._app, self._silent = app, False
        self.box = Checkbox(
            description="guess first",
            indent=False,
            tooltip="Say what you expect, then train",
            layout=Layout(width="max-content"),
        ).add_class("s-guess")
        self._sliders = {(method, times): self._slider(method, times) for method in METHODS for times in MULTIPLES}
        self._rows = {
            method: HBox(
                [Label(method, layout=Layout(width="80px")), *(self._sliders[method, times] for times in MULTIPLES)],
                layout=Layout(flex_flow="row wrap", overflow="visible"),
            )
            for method in METHODS
        }
        said = Label("move a slider to guess the bits per byte at 2, 4 and 16 L (8 is knowing nothing)")
        self._open = VBox([said, *self._rows.values()], layout=Layout(overflow="visible"))
        super().__init__([self.box, self._open], layout=Layout(overflow="visible"))
        self.box.value = bool(app.guesses)
        self._show()
        self.box.observe(self._ticked, names="value")
        app.observe(lambda _: self._show(), names="methods")
        app.observe(self._guessed, names="guesses")

    def _slider(self, method: str, times: int) -> FloatSlider:
        slider = FloatSlider(
            value=MIDDLE,
            min=0,
            max=10,
            step=0.1,
            description=f"{times} L",
            readout_format=".1f",
            continuous_update=False,
            style={"description_width": "32px"},
            layout=Layout(width="190px"),
        )
        slider.add_class(f"s-guess-{method}-{times}")
        slider.observe(lambda change: self._moved(method, times, change.new), names="value")
        return slider

    def _guessed(self, change: Any) -> None:
        self._silent = True
        self.box.value = bool(change.new)
        self._silent = False
        self._show()

    def _show(self) -> None:
        """The sliders say what the trait says."""
        guesses = self._app.guesses
        self._silent = True
        for (method, times), slider in self._sliders.items():
            slider.value = guesses.get(method, {}).get(times, MIDDLE)
        self._silent = False
        self._open.layout.display = None if self.box.value else "none"
        for method, row in self._rows.items():
            row.layout.display = None if method in self._app.methods else "none"

    def _ticked(self, change: Any) -> None:
        if not self._silent:
            if not change.new:
                self._app.guesses = {}
            self._show()

    def _moved(self, method: str, times: int, bits: float) -> None:
        if not self._silent:
            own = {**self._app.guesses.get(method, {}), times: round(bits, 1)}
            self._app.guesses = {**self._app.guesses, method: own}
