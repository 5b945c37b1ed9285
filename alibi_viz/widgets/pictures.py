"""The small pictures of the lessons: each lets the reader move one or two numbers and shows what
follows.

`Forgetting` (lesson 1), `AddConstant` (lesson 2), `TugOfWar` (lesson 3) and `PositionZoo` (lesson
4).
"""

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from ipywidgets import Layout, Text, Widget
from numpy.typing import NDArray
from traitlets import HasTraits

from alibi_viz.bias import alibi_bias, causal_mask
from alibi_viz.figures import theme
from alibi_viz.figures.token_labels import label
from alibi_viz.models.positions.absolute import Sinusoidal
from alibi_viz.models.positions.relative import T5Buckets
from alibi_viz.models.positions.rotary import rotary_frequencies
from alibi_viz.slopes import alibi_slopes
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.formatting import format_percent
from alibi_viz.widgets.core.traits import Choice, Count, Flag, State

BLUE, ORANGE, GREEN, GRAY = theme.COLORS[0], theme.COLORS[1], theme.COLORS[2], theme.COLORS[-1]
RED, UNSEEN, SEEN = (
    "#D53C28",
    "rgba(213, 60, 40, 0.16)",
    "rgba(0, 114, 178, 0.35)",
)  # red: training never showed it
SENTENCE = (
    "The bell is hidden under the bridge. Emma asks the old fox, and the fox asks her: "
    "where is the bell?"
)
SPEEDS = rotary_frequencies(8).numpy()  # of the hands, in radians per token
TRAINED, LONGEST = 64, 256  # tokens in training, and in the pictures of the zoo
MESSAGES = {
    "none": "To this model all distances look the same, so nothing is new, and nothing is far.",
    "alibi": "The same straight line goes on: further is just less (head 4 of 8, slope 1/16).",
    "t5": "The last step goes on forever (steps are learned; here they follow ALiBi's line).",
    "kerple-log": "The curve goes on and flattens (it is learned; here it is -ln(1 + d)).",
}


class Words(State):
    """A text of 2 to 40 words."""

    info_text = "a text of 2 to 40 words"

    def validate(self, obj: HasTraits, value: Any) -> str:
        if not isinstance(value, str) or not 2 <= len(value.split()) <= 40:
            self.error(obj, value)
        return value


class Picture(App):
    """An app with a slider for each of its `Count` traits, whose `help` is "label: tooltip"."""

    def controls(self) -> list[Widget]:
        traits = {name: self.traits()[name] for name in self._names()}
        words = {
            name: trait.help.split(": ")
            for name, trait in traits.items()
            if isinstance(trait, Count)
        }
        sliders = [
            self.slider(name, label, f"s-{name}", tip) for name, (label, tip) in words.items()
        ]
        return [*sliders, self.reset_button()]


class Forgetting(Picture):
    """How much weight distance leaves to each word of a sentence, if all match the last word
    equally well.

    Traits:
        half_life: 1 to 32, the number of words after which the weight has halved.
        text: 2 to 40 words.
        square_root: whether a second curve shows the law -m sqrt(d), with the same slope m.
    """

    why = Why("Forgetting at a constant rate is a half-life.", "01_slopes", "What a slope does")
    half_life = Count(4, 1, 32, help="half-life in words: The weight halves every so many words")
    text = Words(SENTENCE)
    square_root = Flag(False)

    def controls(self) -> list[Widget]:
        field = Text(
            description="text",
            continuous_update=False,
            tooltip=Words.info_text,
            layout=Layout(width="360px"),
        )
        slider, reset = super().controls()
        return [slider, self.link(field.add_class("s-text"), "text"), reset]

    def blank(self) -> go.Figure:
        figure = theme.blank(height=280, showlegend=False, bargap=0.25, margin={"b": 80, "t": 16})
        figure.add_bar(
            marker_color=BLUE, hovertemplate="%{y:.1%} of the last word's weight<extra></extra>"
        )
        figure.add_scatter(mode="lines", line={"color": ORANGE, "width": 2}, hoverinfo="skip")
        figure.update_layout(
            yaxis={"tickformat": ".0%", "range": [0, 1.12], "title_text": "weight"}
        )
        figure.update_layout(xaxis={"tickangle": -60, "showgrid": False, "ticks": ""})
        figure.add_shape(type="line", line=theme.DOTTED)
        figure.add_annotation(xanchor="right", xshift=-20, showarrow=False)
        figure.add_scatter(
            mode="lines", line={"color": GREEN, "width": 3, "dash": "dash"}, hoverinfo="skip"
        )
        figure.add_annotation(xanchor="left", yshift=28, showarrow=False, font_color=GREEN)
        return figure

    def draw(self) -> str:
        words, slope = self.text.split(), math.log(2) / self.half_life
        life = f"{self.half_life} word{'s' * (self.half_life > 1)}"
        back, half = np.arange(len(words))[::-1], len(words) - 1 - self.half_life
        fine = np.linspace(0, len(words) - 1, 200)
        with self.figure.batch_update():
            self.figure.data[0].update(x=np.arange(len(words)), y=np.exp(-slope * back))
            self.figure.data[1].update(x=fine, y=np.exp(-slope * (len(words) - 1 - fine)))
            axis = {
                "tickvals": np.arange(len(words)),
                "ticktext": [label(word, 16) for word in words],
            }
            self.figure.layout.xaxis.update(range=[-0.6, len(words) - 0.4], **axis)
            self.figure.layout.shapes[0].update(x0=half, x1=len(words) - 1, y0=0.5, y1=0.5)
            self.figure.layout.annotations[0].update(text=f"half, {life} back", x=half, y=0.5)
            roots = np.exp(-slope * np.sqrt(len(words) - 1 - fine))
            self.figure.data[2].update(x=fine, y=roots, visible=self.square_root)
            note = {
                "text": "the square root, with the same slope",
                "x": 0,
                "y": roots[0],
                "visible": self.square_root,
            }
            self.figure.layout.annotations[1].update(note)
        also = f", and with the square root {roots[0]:.0%}" * self.square_root
        kept = format_percent(math.exp(-slope * back[0])) + also
        rule = f"{life} back, a word weighs half as much as the last one"
        return (
            f"A half-life of {life} is a slope of {slope:.2g}: {rule}. The first word, "
            f"{back[0]} back, keeps {kept}."
        )


class AddConstant(Picture):
    """The weights of six tokens before and after a constant is added to one row or one column of
    the logits.

    Traits:
        where: "row" or "column".
        index: 0 to 5, which one.
        constant: -9 to 9.
    """

    why = Why(
        "Each row has its own softmax.", "02_biases", "Three ways to write the same attention"
    )
    where = Choice("row", ("row", "column"))
    index = Count(4, 0, 5, help="number: Which row or column, counted from 0")
    constant = Count(3, -9, 9, help="constant: What is added to each of its logits")

    def controls(self) -> list[Widget]:
        where = self.menu(
            "where", "add a constant to a", "s-where", "A row is one query, a column is one key"
        )
        return [where, *super().controls()]

    def blank(self) -> go.Figure:
        figure = theme.blank(height=330, margin_t=56)
        figure.set_subplots(
            1, 2, horizontal_spacing=0.12, subplot_titles=("logits (gray: masked)", "weights")
        )
        for column, scale, low, high, text in (
            (1, theme.DIVERGING, -9, 9, ".1f"),
            (2, theme.SEQUENTIAL, 0, 1, ".2f"),
        ):
            panel, bar = (
                {"row": 1, "col": column},
                theme.COLOR_BAR | {"x": 0.56 * column - 0.11, "len": 0.9},
            )
            shown = {
                "zmin": low,
                "zmax": high,
                "colorscale": scale,
                "hoverinfo": "skip",
                "colorbar": bar,
            }
            figure.add_heatmap(texttemplate=f"%{{z:{text}}}", **shown, **panel)
            square = {"x0": -0.5, "x1": 5.5, "y0": -0.5, "y1": 5.5, **panel}
            figure.add_shape(fillcolor=theme.MASKED, layer="below", line_width=0, **square)
            figure.add_shape(name="frame", line={"color": ORANGE, "width": 4}, **square)
        ticks = {"tickvals": np.arange(6), "ticktext": list("012345"), "showgrid": False}
        figure.update_annotations(font_size=12).update_xaxes(title_text="key", **ticks)
        return figure.update_yaxes(autorange="reversed", **ticks).update_yaxes(
            title_text="query", col=1
        )

    def draw(self) -> str:
        content, masked = (
            torch.randn(6, 6, generator=torch.Generator().manual_seed(1)),
            ~causal_mask(6),
        )
        before = (content + alibi_bias(torch.tensor([0.25]), 6)[0]).masked_fill(masked, -torch.inf)
        after, at = before.clone(), self.index
        (after if self.where == "row" else after.T)[at] += self.constant
        weights, change = after.softmax(-1), (after.softmax(-1) - before.softmax(-1)).abs()
        along, across = "xy" if self.where == "row" else "yx"
        frame = {
            f"{along}0": -0.5,
            f"{along}1": 5.5,
            f"{across}0": at - 0.5,
            f"{across}1": at + 0.5,
        }
        with self.figure.batch_update():
            self.figure.update_shapes(frame, {"name": "frame"})
            for heatmap, values in zip(self.figure.data, (after, weights), strict=True):
                heatmap.z = theme.with_gaps(values, masked)
        added = f"{self.constant:+d} on every logit of {self.where} {self.index}"
        if self.where == "row" or not self.constant:
            why = (
                "A constant in a row cancels in its softmax."
                if self.constant
                else "Nothing is added."
            )
            return f"{added}: no weight changes. {why}"
        rows = int((change.amax(-1) > 1e-6).sum())
        return f"{added}: weights change by up to {change.max():.2f}, in {rows} of 6 rows."


class TugOfWar(Picture):
    """Content against distance: the last of 256 tokens, with one good match among keys of equal
    content.

    Traits:
        head: 1 to 8, of eight.
        content: 0 to 12, by how much the logit of the match is higher.
        distance: 1 to 255, how many tokens back the match is.
    """

    why = Why(
        "Content and bias add up, so they compete.",
        "03_attention",
        "How much content does distance outweigh?",
    )
    head = Count(3, 1, 8, help="head: Head 1 has slope 1/2, head 8 slope 1/256")
    content = Count(4, 0, 12, help="content: By how much the logit of the match is higher")
    distance = Count(16, 1, LONGEST - 1, help="tokens back: How far back the match is")

    def blank(self) -> go.Figure:
        figure = theme.blank(height=300, showlegend=False, margin={"t": 30, "l": 84})
        figure.add_bar(
            y=[0, 1, 2], marker_color=[GREEN, ORANGE, BLUE], orientation="h", hoverinfo="skip"
        )
        back = "%{x} back: %{y:.0%}<extra></extra>"
        figure.add_scatter(
            xaxis="x2", yaxis="y2", mode="lines", line_color=BLUE, hovertemplate=back
        )
        figure.add_scatter(
            xaxis="x2", yaxis="y2", marker={"size": 13, "color": GREEN}, hoverinfo="skip"
        )
        figure.update_layout(
            xaxis={
                "domain": [0, 0.38],
                "range": [-16, 16],
                "title_text": "pull on the logit",
                "zeroline": True,
            },
            xaxis2={"domain": [0.52, 1], "type": "log", "title_text": "tokens back"},
            yaxis={"tickvals": [0, 1, 2], "ticks": "", "showgrid": False},
            yaxis2={
                "anchor": "x2",
                "range": [0, 1.03],
                "tickformat": ".0%",
                "title_text": "weight of the match",
            },
        )
        figure.layout.xaxis2.update(range=[0, math.log10(LONGEST)], tickvals=[1, 4, 16, 64, 256])
        figure.add_shape(type="line", xref="x2", yref="y2 domain", y0=0, y1=1, line=theme.DOTTED)
        return figure

    def draw(self) -> str:
        slope = float(alibi_slopes(8)[self.head - 1])
        cost, back = slope * self.distance, np.arange(LONGEST)
        others = np.exp(-slope * back)
        match = np.exp(self.content - slope * back)
        weights = match / (others.sum() - others + match)
        with self.figure.batch_update():
            pulls = {"sum": self.content - cost, "distance": -cost, "content": self.content}
            self.figure.data[0].x = np.clip(list(pulls.values()), -16, 16)
            self.figure.layout.yaxis.ticktext = [
                f"{name} {pull:+.1f}" for name, pull in pulls.items()
            ]
            self.figure.data[1].update(x=back[1:], y=weights[1:])
            self.figure.data[2].update(x=[self.distance], y=[weights[self.distance]])
            tie = self.content / slope
            self.figure.layout.shapes[0].update(x0=tie, x1=tie, visible=1 <= tie < LONGEST)
        winner = (
            "Content wins"
            if self.content > cost
            else "Distance wins"
            if self.content < cost
            else "A tie"
        )
        share = format_percent(weights[self.distance])
        result = f"the match gets {share} of the weight. They tie {tie:,.0f} tokens back."
        return (
            f"{winner}: a distance of {self.distance} costs {cost:.3g}, content gives "
            f"{self.content}: {result}"
        )


class PositionZoo(Picture):
    """What each position method makes of the distance, at equal content, within and beyond the 64
    tokens of training.

    Below the curve, "sinusoidal" shows its waves as a barcode, and "rotary" its rotations as the
    hands of clocks.

    Traits:
        method: "none", "alibi", "t5", "kerple-log", "sinusoidal" or "rotary".
        distance: 0 to 255, in tokens; for "sinusoidal" the position.
    """

    why = Why(
        "Only what training showed is known to work.",
        "04_a_zoo_of_positions",
        "One picture for each",
    )
    method = Choice("alibi", ("none", "alibi", "t5", "kerple-log", "sinusoidal", "rotary"))
    distance = Count(200, 0, LONGEST - 1, help="distance: In tokens; for the waves, the position")

    def controls(self) -> list[Widget]:
        tabs = self.tabs(
            "method", "position method", lambda method: f"What {method} makes of the distance"
        )
        return [tabs, *super().controls()]

    def blank(self) -> go.Figure:
        figure = theme.blank(height=320, showlegend=False, margin_t=36)
        figure.add_scatter(
            line={"color": BLUE, "width": 3}, hovertemplate="%{x} back: %{y:.2f}<extra></extra>"
        )
        figure.add_scatter(marker={"size": 13, "color": ORANGE}, hoverinfo="skip")
        waves = Sinusoidal(64).table(torch.arange(LONGEST)).T[::2].numpy()
        figure.add_heatmap(
            z=waves, yaxis="y2", colorscale=theme.DIVERGING, showscale=False, hoverinfo="skip"
        )
        turns = np.linspace(0, 2 * np.pi, 100)
        outlines, seen = (
            _turned(0.44, turns),
            _turned(0.4, np.minimum(turns, SPEEDS[:, None] * (TRAINED - 1))),
        )
        for color, width, points in (
            (GRAY, 1, outlines),
            (SEEN, 10, seen),
            (BLUE, 4, seen[:0]),
            (RED, 4, seen[:0]),
        ):
            line = {"color": color, "width": width, "simplify": False}
            figure.add_scatter(
                **_lines(points), xaxis="x2", yaxis="y3", mode="lines", line=line, hoverinfo="skip"
            )
        bare = {"showgrid": False, "showticklabels": False, "ticks": ""}
        figure.update_layout(
            xaxis={"range": [-1, LONGEST], "anchor": "free", "showgrid": False},
            xaxis2={"anchor": "y3", "range": [-0.6, 3.6], **bare},
            yaxis_range=[-17, 1.5],
            yaxis2={"title_text": "waves", "autorange": "reversed", "domain": [0, 0.4], **bare},
            yaxis3={
                "anchor": "x2",
                "range": [-0.65, 0.5],
                "scaleanchor": "x2",
                "domain": [0, 0.36],
                **bare,
            },
        )
        for axis in ("y", "y2"):
            rect = {"x0": TRAINED - 0.5, "x1": LONGEST, "y0": 0, "y1": 1, "yref": f"{axis} domain"}
            figure.add_shape(type="rect", line={"color": RED, "width": 1}, fillcolor=UNSEEN, **rect)
        figure.add_shape(
            type="line", y0=0, y1=1, yref="y2 domain", line={"color": ORANGE, "width": 3}
        )
        for text, at in (("seen in training", TRAINED / 2), ("never seen", 2.5 * TRAINED)):
            figure.add_annotation(text=text, x=at, y=1, yref="paper", yshift=18, showarrow=False)
        for x, turn in enumerate(2 * np.pi / SPEEDS):
            figure.add_annotation(
                text=f"turns in {turn:,.0f}", x=x, y=-0.58, xref="x2", yref="y3", showarrow=False
            )
        return figure

    def draw(self) -> str:
        waves, clocks, logits = (
            self.method == "sinusoidal",
            self.method == "rotary",
            logits_by_distance(self.method),
        )
        new, hands = (
            _is_new(SPEEDS, self.distance),
            _turned(np.array([0, 0.36]), SPEEDS[:, None] * self.distance),
        )
        with self.figure.batch_update():
            self.figure.layout.update(height=500 if waves or clocks else 320)
            legend = "likeness of two patterns, 0 if equal" if waves else "logit at equal content"
            self.figure.layout.yaxis.update(
                domain=[0.5 if waves else 0.56 if clocks else 0, 1], title_text=legend
            )
            title = "distance (below: position), tokens" if waves else "distance, tokens back"
            self.figure.layout.xaxis.update(position=0.56 if clocks else 0, title_text=title)
            self.figure.data[0].update(x=np.arange(LONGEST), y=logits)
            self.figure.data[1].update(x=[self.distance], y=logits[[self.distance]])
            self.figure.layout.shapes[2].update(x0=self.distance, x1=self.distance)
            for part in (
                self.figure.data[2],
                self.figure.layout.yaxis2,
                *self.figure.layout.shapes[1:],
            ):
                part.visible = waves
            for part in (*self.figure.data[3:], *self.figure.layout.annotations[2:]):
                part.visible = clocks
            self.figure.data[5].update(_lines(hands[~new]))
            self.figure.data[6].update(_lines(hands[new]))
        beyond = (
            f"{self.distance} is "
            f"{'a distance of training' if self.distance < TRAINED else 'a new distance'}"
        )
        if clocks:
            return (
                f"{beyond}: {new.sum()} of the four hands of a head are where they never were "
                "in training (red)."
            )
        if waves:
            count = _is_new(rotary_frequencies(64).numpy(), self.distance).sum()
            return (
                f"At position {self.distance}, {count} of 32 waves are where they never were "
                "in training."
            )
        return (
            f"{beyond}, with the logit {logits[self.distance] + 0.0:.1f}. {MESSAGES[self.method]}"
        )


def logits_by_distance(method: str) -> NDArray[np.float64]:
    """The logit at each distance from 0 to 255, at equal content, 0 at distance 0. What is learned
    is chosen here."""
    distance = np.arange(LONGEST)
    if (
        method == "t5"
    ):  # learned steps: here each has the height that ALiBi's line has where the step begins
        buckets = T5Buckets(1, TRAINED).bucket(torch.arange(LONGEST)).numpy()
        return -np.searchsorted(buckets, buckets) / 16
    if method in ("rotary", "sinusoidal"):  # all channels equal, |q||k|/sqrt(d) = 8
        angles = distance[:, None] * rotary_frequencies(8 if method == "rotary" else 64).numpy()
        return 8 * np.cos(angles).mean(-1) - 8
    return {"none": 0.0 * distance, "alibi": -distance / 16, "kerple-log": -np.log1p(distance)}[
        method
    ]


def _is_new(speeds: NDArray[np.float64], distance: int) -> NDArray[np.bool_]:
    """Which hands, turned so many steps, point where they don't within the distances of
    training."""
    return (speeds * distance) % (2 * np.pi) > speeds * (TRAINED - 1) + 1e-9


def _turned(radius: Any, turns: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Points on the four clocks, turned clockwise from noon: complex [clocks, points]."""
    return np.arange(4)[:, None] + radius * np.exp(1j * (np.pi / 2 - turns))


def _lines(points: NDArray[np.complex128]) -> dict[str, NDArray[np.float64]]:
    """x and y of one line per clock, with gaps between them."""
    drawn = np.pad(points, ((0, 0), (0, 1)), constant_values=np.nan).ravel()
    return {"x": drawn.real, "y": drawn.imag}
