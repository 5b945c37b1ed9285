"""The app of lesson 3 on what position methods make of the distance: `PositionZoo`."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from ipywidgets import Widget
from numpy.typing import NDArray

from alibi_viz.figures import theme
from alibi_viz.models.positions.absolute import Sinusoidal
from alibi_viz.models.positions.relative import T5Buckets
from alibi_viz.models.positions.rotary import rotary_frequencies
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.traits import ChoiceOf, Count

RED = "#D53C28"  # what training never showed
UNSEEN = "rgba(213, 60, 40, 0.16)"
SEEN = "rgba(0, 114, 178, 0.35)"

TRAINED = 64  # tokens in training
DRAWN_TOKENS = 256  # tokens in the picture
CLOCK_SPEEDS = rotary_frequencies(8).numpy()  # of the hands, in radians per token
WAVE_SPEEDS = rotary_frequencies(64).numpy()  # of the waves, in radians per token

MESSAGES = {
    "none": "To this model all distances look the same, so nothing is new, and nothing is far.",
    "alibi": "The same straight line goes on: further is just less (head 4 of 8, slope 1/16).",
    "t5": "The last step goes on forever (steps are learned; here they follow ALiBi's line).",
    "kerple-log": "The curve goes on and flattens (it is learned; here it is -ln(1 + d)).",
}


class PositionZoo(App):
    """What each position method makes of the distance, within and beyond 64 tokens of training.

    The curve is drawn for equal content. Below it, "sinusoidal" shows its waves as a barcode, and
    "rotary" its rotations as the hands of clocks.

    Traits:
        method: "none", "alibi", "t5", "kerple-log", "sinusoidal" or "rotary".
        distance: 0 to 255, in tokens; for "sinusoidal" the position.
    """

    why = Why(
        "Only what training showed is known to work.",
        "03_clocks",
        "One picture for each",
    )
    method = ChoiceOf(("none", "alibi", "t5", "kerple-log", "sinusoidal", "rotary"), "alibi")
    distance = Count(200, min=0, max=DRAWN_TOKENS - 1)

    def controls(self) -> list[Widget]:
        return [
            self.tabs("method", "position method", _method_tip),
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
        figure = theme.blank(height=320, showlegend=False, margin_t=36)
        bare = {"showgrid": False, "showticklabels": False, "ticks": ""}
        figure.update_layout(
            xaxis={"range": [-1, DRAWN_TOKENS], "anchor": "free", "showgrid": False},
            yaxis_range=[-17, 1.5],
            # The waves share the x axis of the curve; the clocks have axes of their own.
            yaxis2={"title_text": "waves", "autorange": "reversed", "domain": [0, 0.4], **bare},
            xaxis2={"anchor": "y3", "range": [-0.6, 3.6], **bare},
            yaxis3={
                "anchor": "x2",
                "range": [-0.65, 0.5],
                "scaleanchor": "x2",
                "domain": [0, 0.36],
                **bare,
            },
        )
        figure.add_scatter(
            name="curve",
            line={"color": theme.BLUE, "width": 3},
            hovertemplate="%{x} back: %{y:.2f}<extra></extra>",
        )
        figure.add_scatter(
            name="distance", marker={"size": 13, "color": theme.ORANGE}, hoverinfo="skip"
        )
        _add_waves(figure)
        _add_clocks(figure)
        _add_training_range(figure)
        return figure

    def draw(self) -> str:
        logits = logits_by_distance(self.method)
        shows_waves = self.method == "sinusoidal"
        shows_clocks = self.method == "rotary"

        # The waves or clocks take the lower part of a taller figure.
        curve_starts = 0.0
        axis_position = 0.0
        height = 320
        title = "distance, tokens back"
        legend = "logit at equal content"
        if shows_waves:
            curve_starts = 0.5
            height = 500
            title = "distance (below: position), tokens"
            legend = "likeness of two patterns, 0 if equal"
        elif shows_clocks:
            curve_starts = 0.56
            axis_position = 0.56
            height = 500

        hands = _on_clocks(np.array([0, 0.36]), CLOCK_SPEEDS[:, None] * self.distance)
        new_hands = _is_new(CLOCK_SPEEDS, self.distance)

        figure = self.figure
        with figure.batch_update():
            figure.layout.height = height
            figure.layout.xaxis.update(position=axis_position, title_text=title)
            figure.layout.yaxis.update(domain=[curve_starts, 1], title_text=legend)
            figure.update_traces({"x": np.arange(DRAWN_TOKENS), "y": logits}, {"name": "curve"})
            figure.update_traces(
                {"x": [self.distance], "y": logits[[self.distance]]}, {"name": "distance"}
            )

            figure.layout.yaxis2.visible = shows_waves
            figure.update_traces({"visible": shows_waves}, {"name": "waves"})
            figure.update_shapes({"visible": shows_waves}, {"name": "waves never seen"})
            figure.update_shapes(
                {"x0": self.distance, "x1": self.distance, "visible": shows_waves},
                {"name": "position"},
            )

            clock = {"visible": shows_clocks}
            figure.update_traces(clock, {"name": "clocks"})
            figure.update_traces(clock, {"name": "turns of training"})
            figure.update_traces(clock | _outline(hands[~new_hands]), {"name": "known hands"})
            figure.update_traces(clock | _outline(hands[new_hands]), {"name": "new hands"})
            figure.update_annotations(clock, {"name": "period"})

        if shows_waves:
            new_waves = _is_new(WAVE_SPEEDS, self.distance).sum()
            return (
                f"At position {self.distance}, {new_waves} of 32 waves are where they never were "
                "in training."
            )

        kind = "a distance of training" if self.distance < TRAINED else "a new distance"
        if shows_clocks:
            return (
                f"{self.distance} is {kind}: {new_hands.sum()} of the four hands of a head are "
                "where they never were in training (red)."
            )
        logit = logits[self.distance] + 0.0  # 0.0 and not -0.0
        return f"{self.distance} is {kind}, with the logit {logit:.1f}. {MESSAGES[self.method]}"


def logits_by_distance(method: str) -> NDArray[np.floating]:
    """The logit at each distance from 0 to 255, at equal content; 0 at distance 0.

    Methods that learn their curve get one that is typical of them.
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

    # "rotary" and "sinusoidal", with all channels equal: |q||k|/sqrt(d) = 8.
    speeds = CLOCK_SPEEDS if method == "rotary" else WAVE_SPEEDS
    return 8 * np.cos(distance[:, None] * speeds).mean(-1) - 8


def _method_tip(method: str) -> str:
    return f"What {method} makes of the distance"


def _add_waves(figure: go.Figure) -> None:
    """Add the barcode of the sinusoidal table, one row per wave."""
    sines = Sinusoidal(64).table(torch.arange(DRAWN_TOKENS)).T[::2].numpy()
    figure.add_heatmap(
        name="waves",
        z=sines,
        yaxis="y2",
        colorscale=theme.DIVERGING,
        showscale=False,
        hoverinfo="skip",
    )


def _add_clocks(figure: go.Figure) -> None:
    """Add four clocks: their outlines, the turns seen in training, and their hands."""
    turns = np.linspace(0, 2 * np.pi, 100)
    outlines = _on_clocks(0.44, turns)
    seen = _on_clocks(0.4, np.minimum(turns, CLOCK_SPEEDS[:, None] * (TRAINED - 1)))
    no_hands = seen[:0]
    for name, color, width, points in (
        ("clocks", theme.GRAY, 1, outlines),
        ("turns of training", SEEN, 10, seen),
        ("known hands", theme.BLUE, 4, no_hands),
        ("new hands", RED, 4, no_hands),
    ):
        figure.add_scatter(
            name=name,
            xaxis="x2",
            yaxis="y3",
            mode="lines",
            line={"color": color, "width": width, "simplify": False},
            hoverinfo="skip",
            **_outline(points),
        )


def _add_training_range(figure: go.Figure) -> None:
    """Mark what training never showed, the position in the waves, and the period of each clock."""
    for name, axis in (("never seen", "y"), ("waves never seen", "y2")):
        figure.add_shape(
            name=name,
            type="rect",
            x0=TRAINED - 0.5,
            x1=DRAWN_TOKENS,
            y0=0,
            y1=1,
            yref=f"{axis} domain",
            line={"color": RED, "width": 1},
            fillcolor=UNSEEN,
        )
    figure.add_shape(
        name="position",
        type="line",
        y0=0,
        y1=1,
        yref="y2 domain",
        line={"color": theme.ORANGE, "width": 3},
    )

    for text, middle in (("seen in training", TRAINED / 2), ("never seen", 2.5 * TRAINED)):
        figure.add_annotation(text=text, x=middle, y=1, yref="paper", yshift=18, showarrow=False)
    for clock, period in enumerate(2 * np.pi / CLOCK_SPEEDS):
        figure.add_annotation(
            name="period",
            text=f"turns in {period:,.0f}",
            x=clock,
            y=-0.58,
            xref="x2",
            yref="y3",
            showarrow=False,
        )


def _is_new(speeds: NDArray[np.float64], distance: int) -> NDArray[np.bool_]:
    """Which hands point, at this distance, where no distance of training has turned them."""
    return (speeds * distance) % (2 * np.pi) > speeds * (TRAINED - 1) + 1e-9


def _on_clocks(radius: Any, turns: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Points on the four clocks, turned clockwise from noon: complex [clocks, points]."""
    centers = np.arange(4)[:, None]
    return centers + radius * np.exp(1j * (np.pi / 2 - turns))


def _outline(points: NDArray[np.complex128]) -> dict[str, NDArray[np.float64]]:
    """The x and y of one line per clock, with gaps between them."""
    with_gaps = np.pad(points, ((0, 0), (0, 1)), constant_values=np.nan).ravel()
    return {"x": with_gaps.real, "y": with_gaps.imag}
