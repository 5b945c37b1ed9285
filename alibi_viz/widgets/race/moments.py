"""The slider of LengthLab that goes back through a race: one stop for each of its tests."""

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets
from ipywidgets import Layout

from alibi_viz.widgets.core.controls import BEHIND_LABEL, show

# Milliseconds from one test to the next while it plays: time to see the texts change
INTERVAL = 800
TIP = "Go back through the race: what the models could do after each test"


Options = Sequence[tuple[str, int]]  # what the slider shows at a stop, and the step


class Moments(widgets.HBox):  # type: ignore[misc]  # ipywidgets has no types
    """A slider over the tests of a race, and a button that plays them from the first one on.

    Calls `go_back` with the step of a test, or None for the last one. Hidden until there are two
    tests to choose from.
    """

    def __init__(self, go_back: Callable[[int | None], None]) -> None:
        self._go_back = go_back
        self._is_updating = False
        self.is_offered = False  # whether there are tests to go back to
        self.slider = _slider([("step 0", 0)])
        self.play = widgets.Play(
            min=0,
            max=0,
            interval=INTERVAL,
            show_repeat=False,
            tooltip="Play the race from its first test on",
            layout=Layout(width="26px", flex="none", margin="2px 0 2px 6px"),
        )
        self.play.add_class("s-moment-play")
        self._label = widgets.Label("go back", layout=Layout(flex="none"))
        children = [self._label, self.play, self.slider]
        super().__init__(children, layout=Layout(**BEHIND_LABEL))
        show(False, self)
        self.play.observe(self._on_step, names="value")
        self.play.observe(self._on_play, names="playing")

    def offer(self, steps: Sequence[int], last: int, now: int | None) -> None:
        """Offer the tests after these steps of a race of `last` steps, and stand at one of them;
        at the last one by default."""
        self.is_offered = len(steps) > 1
        show(self.is_offered, self)
        if not self.is_offered:
            return
        options = tuple((f"step {step:,} of {last:,}", step) for step in steps)
        self._is_updating = True
        if self.slider.options != options:
            self._replace_slider(options)
        index = len(steps) - 1 if now is None else list(steps).index(now)
        self.slider.index = index
        self.play.max = len(steps) - 1
        self.play.value = index
        self._is_updating = False

    def _replace_slider(self, options: Options) -> None:
        """Show a new slider with these stops: on the page, the key "End" would go to the last stop
        that a slider had at first."""
        old = self.slider
        self.slider = _slider(options)
        self.slider.observe(self._on_slider, names="index")
        self.children = [self._label, self.play, self.slider]
        for part in (old, old.style, old.layout):
            part.close()

    def _on_slider(self, change: Any) -> None:
        if self._is_updating:
            return
        is_last = change.new == len(self.slider.options) - 1
        self._go_back(None if is_last else self.slider.value)

    def _on_step(self, change: Any) -> None:
        if not self._is_updating:
            self.slider.index = change.new

    def _on_play(self, change: Any) -> None:
        """At the end, the button plays the race from its first test on."""
        if change.new and self.play.value == self.play.max:
            self.play.value = 0


def _slider(options: Options) -> widgets.SelectionSlider:
    slider = widgets.SelectionSlider(options=options, tooltip=TIP, layout=Layout(width="300px"))
    return slider.add_class("s-moment")
