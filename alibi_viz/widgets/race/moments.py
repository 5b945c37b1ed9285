"""The slider of LengthLab that goes back through a race: one stop for each of its tests."""

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets
from ipywidgets import Layout

from alibi_viz.widgets.core.controls import BEHIND_LABEL

# Milliseconds from one test to the next while it plays: time to see the texts change
INTERVAL = 800
TIP = "Go back through the race: what the models could do after each test"


class Moments(widgets.HBox):  # type: ignore[misc]  # ipywidgets has no types
    """A slider over the tests of a race, and a button that plays them from the first one on.

    Calls `go_back` with the step of a test.
    """

    def __init__(self, go_back: Callable[[int], None]) -> None:
        self._go_back = go_back
        self._slider = widgets.SelectionSlider(options=[0], tooltip=TIP).add_class("s-moment")
        self._play = widgets.Play(
            max=0,
            interval=INTERVAL,
            show_repeat=False,
            tooltip="Play the race from its first test on",
            layout=Layout(width="26px", flex="none", margin="2px 0 2px 6px"),
        )
        self._play.add_class("s-moment-play")
        self._label = widgets.Label("go back", layout=Layout(flex="none"))
        children = [self._label, self._play, self._slider]
        super().__init__(children, layout=Layout(**BEHIND_LABEL))
        self._play.observe(self._on_step, names="value")
        self._play.observe(self._on_play, names="playing")

    def offer(self, steps: Sequence[int], last: int) -> None:
        """Offer the tests after these steps of a race of `last` steps, and stand at the last one.

        With a new slider: on the page, the key "End" would go to the last stop that a slider had at
        first.
        """
        old = self._slider
        end = len(steps) - 1
        self._slider = widgets.SelectionSlider(
            options=[(f"step {step:,} of {last:,}", step) for step in steps],
            index=end,
            tooltip=TIP,
            layout=Layout(width="300px"),
        )
        self._slider.add_class("s-moment").observe(self._on_slider, names="index")
        self.children = [self._label, self._play, self._slider]
        for part in (old, old.style, old.layout):
            part.close()
        self._play.max = end
        self._play.value = end

    def go_to_end(self) -> None:
        """Stand at the last test again."""
        self._play.value = self._play.max

    def _on_slider(self, change: Any) -> None:
        self._play.value = change.new
        self._go_back(self._slider.value)

    def _on_step(self, change: Any) -> None:
        self._slider.index = change.new

    def _on_play(self, change: Any) -> None:
        """At the end, the button plays the race from its first test on."""
        if change.new and self._play.value == self._play.max:
            self._play.value = 0
