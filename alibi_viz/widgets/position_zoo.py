"""The app of lesson 3 on what position methods make of the distance: `PositionZoo`."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from ipywidgets import Widget
from numpy.typing import NDArray
from traitlets import Enum, Int

from alibi_viz.figures import position_plot as picture
from alibi_viz.figures.theme import named_trace
from alibi_viz.formatting import format_number
from alibi_viz.models.positions.absolute import Sinusoidal
from alibi_viz.models.positions.biases import T5Buckets
from alibi_viz.models.positions.rotary import rotary_frequencies
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.controls import show

TRAINED = 64  # tokens in training
DRAWN_TOKENS = 256  # tokens in the picture
USUAL_BASE = 10_000  # of rotary and of sinusoidal positions
SMALL_BASE = 8  # with which all four hands go round within 64 tokens
WAVE_SPEEDS = rotary_frequencies(64).numpy()  # of the waves, in radians per token
ONCE_ROUND = 2 * np.pi

MESSAGES = {
    "none": "To this model all distances look the same, so none can be new.",
    "alibi": "The same straight line goes on (head 4 of 8, slope 1/16).",
    "t5": (
        "From 15 tokens back on, all distances get the same learned number (here the steps follow "
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
        "Only what training showed is known to work.",
        "03_clocks",
        "Clocks",
    )
    method = Enum(("none", "alibi", "t5", "kerple-log", "sinusoidal", "rotary"), "alibi")
    distance = Int(200, min=0, max=DRAWN_TOKENS - 1)
    base = Enum((USUAL_BASE, SMALL_BASE), USUAL_BASE)

    def __init__(self, **state: Any) -> None:
        super().__init__(**state)
        named_trace(self.figure, "curve").on_click(self._go_to_point)
        for name in ("waves", "new waves"):
            named_trace(self.figure, name).on_click(self._go_to_cell)

    def controls(self) -> list[Widget]:
        self.below_figure = (
            self.handle("distance", ["distance", "position"], "Drag the distance"),
        )
        self._base_menu = self.menu(
            "base",
            "base",
            "s-base",
            "Of the speeds of the hands: with a small one, all go round in training",
            {USUAL_BASE: f"{USUAL_BASE:,}"},
        )
        return [
            self.tabs("method", "position method", _method_tip),
            self._base_menu,
            self.slider(
                "distance",
                "distance",
                "s-distance",
                "In tokens; for the waves, the position",
                play=True,  # how clocks turn
            ),
            self.reset_button(),
        ]

    def blank(self) -> go.Figure:
        positions = torch.arange(DRAWN_TOKENS)
        sines = Sinusoidal(64).table(positions).T[::2].numpy()
        return picture.blank(sines, _is_new(WAVE_SPEEDS[:, None], positions.numpy()), TRAINED)

    def draw(self) -> str:
        show(self.method == "rotary", self._base_menu)
        if self.method == "sinusoidal":
            return self._draw_waves()
        if self.method == "rotary":
            return self._draw_clocks()

        logits = logits_by_distance(self.method)
        with self.figure.batch_update():
            picture.hide_waves(self.figure)
            picture.hide_clocks(self.figure)
            picture.draw_curve(self.figure, self.distance, logits, low=False)
        logit = format_number(logits[self.distance] + 0.0)  # 0.0 and not -0.0
        return f"{self._place()}, with the logit {logit}. {MESSAGES[self.method]}"

    def _draw_waves(self) -> str:
        is_new = _is_new(WAVE_SPEEDS, self.distance)
        with self.figure.batch_update():
            picture.draw_curve(self.figure, self.distance, None, low=False)
            picture.hide_clocks(self.figure)
            picture.draw_waves(self.figure, self.distance, is_new, ONCE_ROUND / WAVE_SPEEDS)
        return (
            f"At position {self.distance}, {is_new.sum()} of 32 waves have a phase that never "
            "occurred in training (red)."
        )

    def _draw_clocks(self) -> str:
        speeds = clock_speeds(self.base)
        is_new = _is_new(speeds, self.distance)
        with self.figure.batch_update():
            picture.hide_waves(self.figure)
            picture.draw_curve(
                self.figure, self.distance, logits_by_distance("rotary", self.base), low=True
            )
            picture.draw_clocks(
                self.figure,
                turns=speeds * self.distance,
                seen_turns=np.minimum(speeds * (TRAINED - 1), ONCE_ROUND),
                is_new=is_new,
                periods=ONCE_ROUND / speeds,
            )

        hands = "all four hands of a head show angles that occurred in training."
        if is_new.any():
            hands = (
                f"{is_new.sum()} of the four hands of a head show an angle that never occurred in "
                "training (red)."
            )
        caption = f"{self._place()}: {hands}"
        if self.base == SMALL_BASE:
            slowest = format_number(ONCE_ROUND / speeds[-1])
            caption += (
                f" With base {self.base}, even the slowest hand goes round in {slowest} tokens, so "
                "no angle is ever new."
            )
        return caption

    def _place(self) -> str:
        """Whether training had the distance."""
        unit = "token" if self.distance == 1 else "tokens"
        known = "was seen in" if self.distance < TRAINED else "is longer than in"
        return f"{self.distance} {unit} back {known} training"

    def _go_to_point(self, _: Any, points: Any, __: Any) -> None:
        for point in points.point_inds:
            self.distance = int(point)

    def _go_to_cell(self, _: Any, points: Any, __: Any) -> None:
        for _row, position in points.point_inds:
            self.distance = int(position)


def clock_speeds(base: float) -> NDArray[np.float64]:
    """How fast the four hands of a head turn, in radians per token."""
    speeds: NDArray[np.float64] = rotary_frequencies(8, base).numpy()
    return speeds


def logits_by_distance(method: str, base: float = USUAL_BASE) -> NDArray[np.floating]:
    """The logit at each distance from 0 to 255, at equal content; 0 at distance 0.

    Methods that learn their curve get one that is typical of them. `base` is that of "rotary".
    """
    distance = np.arange(DRAWN_TOKENS)
    if method == "none":
        return 0.0 * distance
    if method == "alibi":
        return -distance / 16
    if method == "kerple-log":
        return -np.log1p(distance)
    if method == "t5":
        # Each step has the height that ALiBi's line has where the step begins.
        buckets = T5Buckets(1, TRAINED).bucket(torch.arange(DRAWN_TOKENS)).numpy()
        return -np.searchsorted(buckets, buckets) / 16

    # "rotary", with all channels equal: |q||k|/sqrt(d) = 8.
    return 8 * np.cos(distance[:, None] * clock_speeds(base)).mean(-1) - 8


def _method_tip(method: str) -> str:
    return f"What {method} makes of the distance"


def _is_new(speeds: NDArray[np.float64], distance: Any) -> NDArray[np.bool_]:
    """Which hands point, at this distance, where no distance of training has turned them."""
    return (speeds * distance) % ONCE_ROUND > speeds * (TRAINED - 1) + 1e-9
