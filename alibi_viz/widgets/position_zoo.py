"""The app of lesson 3 on what position methods make of the distance: `PositionZoo`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from ipywidgets import Widget
from numpy.typing import NDArray
from traitlets import Enum, Int

from alibi_viz.figures.position_plot import (
    ONCE_ROUND,
    TOKENS,
    TRAINED,
    clocks_picture,
    is_new,
    logit_picture,
    waves_picture,
)
from alibi_viz.formatting import format_number
from alibi_viz.models.positions.biases import T5Buckets
from alibi_viz.models.positions.rotary import rotary_frequencies
from alibi_viz.widgets.core.app import App, Drawn, Why
from alibi_viz.widgets.core.controls import show

USUAL_BASE = 10_000  # of rotary and of sinusoidal positions
SMALL_BASE = 8  # with which all four hands go round within 64 tokens
WAVE_SPEEDS = rotary_frequencies(64).numpy()  # of the waves, in radians per token

MESSAGES = {
    "none": "To this model all distances look the same, so none can be new.",
    "alibi": "The same straight line goes on (head 4 of 8, slope 1/16).",
    "t5": (
        "From 15 letters back on, all distances get the same learned number (here the steps follow "
        "ALiBi's line)."
    ),
    "kerple-log": (
        "The curve goes on and flattens (its shape is learned, here it is \N{MINUS SIGN}ln(1 + d))."
    ),
}


class PositionZoo(App):
    """What each position method makes of the distance, within and beyond 64 tokens of training.

    A curve shows the logit at equal content. "sinusoidal" shows its waves as a barcode, and
    "rotary" its rotations as the hands of clocks. What training never showed is red. A click on the
    curve or on the barcode chooses the distance, which can be dragged as well.

    Traits:
        method: "none", "alibi", "t5", "kerple-log", "sinusoidal" or "rotary".
        distance: 0 to 255, in tokens; for "sinusoidal" the position.
        base: 10000, or 8, with which all hands of "rotary" go round in training.
    """

    why = Why(
        "A model learns only from what training shows it. Red is what it has never seen.",
        "03_clocks",
        "Clocks",
    )
    method = Enum(("none", "alibi", "t5", "kerple-log", "sinusoidal", "rotary"), "alibi")
    distance = Int(200, min=0, max=TOKENS - 1)
    base = Enum((USUAL_BASE, SMALL_BASE), USUAL_BASE)

    def controls(self) -> list[Widget]:
        self.handle("distance", ["distance", "position"], "Drag the distance")
        self._base_menu = self.menu(
            "base",
            "base",
            "s-base",
            "Of the speeds of the hands: with a small one, all go round in training",
            {USUAL_BASE: f"{USUAL_BASE:,}"},
        )
        self._distance = self.slider(
            "distance",
            "distance",
            "s-distance",
            "In letters; for the waves, the position",
            play=True,  # how clocks turn
        )
        return [
            self.tabs("method", "position method", "What {} makes of the distance".format),
            self._base_menu,
            self._distance,
            self.reset_button(),
        ]

    def draw(self) -> Drawn:
        show(self.method == "rotary", self._base_menu)
        is_waves = self.method == "sinusoidal"
        self._distance.label.value = "position" if is_waves else "distance"
        if is_waves:
            return self._draw_waves()
        if self.method == "rotary":
            return self._draw_clocks()

        logits = logits_by_distance(self.method)
        logit = format_number(logits[self.distance] + 0.0)  # 0.0 and not -0.0
        return Drawn(
            logit_picture(logits, self.distance),
            f"{self._place()}, with the logit {logit}. {MESSAGES[self.method]}",
        )

    def _draw_waves(self) -> Drawn:
        new = is_new(WAVE_SPEEDS, self.distance)
        return Drawn(
            waves_picture(WAVE_SPEEDS, self.distance),
            f"At position {self.distance}, {new.sum()} of 32 waves have a phase that never "
            "occurred in training (red).",
        )

    def _draw_clocks(self) -> Drawn:
        speeds = rotary_frequencies(8, self.base).numpy()  # of four hands, in radians per token
        new = is_new(speeds, self.distance)
        hands = "all four hands of a head show angles that occurred in training."
        if new.any():
            hands = (
                f"{new.sum()} of the four hands of a head show an angle that never occurred in "
                "training (red)."
            )
        caption = f"{self._place()}: {hands}"
        if self.base == SMALL_BASE:
            slowest = format_number(ONCE_ROUND / speeds[-1])
            caption += (
                f" With base {self.base}, even the slowest hand goes round in {slowest} letters, "
                "so no angle is ever new."
            )
        picture = clocks_picture(speeds, self.distance)
        return Drawn(picture, caption)

    def _place(self) -> str:
        """Whether training had the distance."""
        unit = "letter" if self.distance == 1 else "letters"
        known = "was seen in" if self.distance < TRAINED else "is longer than in"
        return f"{self.distance} {unit} back {known} training"

    def clicked(self, trace: str, point: Mapping[str, Any]) -> None:
        self.distance = round(point["x"])


def logits_by_distance(method: str) -> NDArray[np.floating]:
    """The logit at each distance from 0 to 255, at equal content; 0 at distance 0.

    Methods that learn their curve get one that is typical of them.
    """
    distance = np.arange(TOKENS)
    if method == "none":
        return 0.0 * distance
    if method == "alibi":
        return -distance / 16
    if method == "kerple-log":
        return -np.log1p(distance)
    # "t5": each step has the height that ALiBi's line has where the step begins.
    buckets = T5Buckets(1, TRAINED).bucket(torch.arange(TOKENS)).numpy()
    return -np.searchsorted(buckets, buckets) / 16
