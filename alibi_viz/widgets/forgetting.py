"""The app of lesson 1 on the half-life of a slope: `Forgetting`."""

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
from ipywidgets import Layout, Text, Widget
from traitlets import HasTraits

from alibi_viz.figures import theme
from alibi_viz.figures.token_labels import label
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.formatting import format_percent
from alibi_viz.widgets.core.traits import Count, Flag, State

SENTENCE = (
    "The bell is hidden under the bridge. Emma asks the old fox, and the fox asks her: "
    "where is the bell?"
)


class ShortText(State):
    """A text of 2 to 40 words."""

    info_text = "a text of 2 to 40 words"

    def validate(self, obj: HasTraits, value: Any) -> str:
        if not isinstance(value, str) or not 2 <= len(value.split()) <= 40:
            self.error(obj, value)
        return value


class Forgetting(App):
    """How much weight each word of a sentence keeps when only the distance counts.

    All words match the last word equally well.

    Traits:
        half_life: 1 to 32, the number of words after which the weight has halved.
        text: 2 to 40 words.
        square_root: whether a second curve shows the law -m sqrt(d), with the same slope m.
    """

    why = Why("Forgetting at a constant rate is a half-life.", "01_the_line", "What a slope does")
    half_life = Count(4, min=1, max=32)
    text = ShortText(SENTENCE)
    square_root = Flag(False)

    def controls(self) -> list[Widget]:
        half_life = self.slider(
            "half_life",
            "half-life in words",
            "s-half_life",
            "The weight halves every so many words",
        )
        text = Text(
            description="text",
            continuous_update=False,
            tooltip=ShortText.info_text,
            layout=Layout(width="360px"),
        ).add_class("s-text")
        return [half_life, self.link(text, "text"), self.reset_button()]

    def blank(self) -> go.Figure:
        figure = theme.blank(height=280, showlegend=False, bargap=0.25, margin={"b": 80, "t": 16})
        figure.update_layout(
            xaxis={"tickangle": -60, "showgrid": False, "ticks": ""},
            yaxis={"tickformat": ".0%", "range": [0, 1.12], "title_text": "weight"},
        )

        figure.add_bar(
            name="weights",
            marker_color=theme.BLUE,
            hovertemplate="%{y:.1%} of the last word's weight<extra></extra>",
        )
        figure.add_scatter(
            name="curve",
            mode="lines",
            line={"color": theme.ORANGE, "width": 2},
            hoverinfo="skip",
        )
        figure.add_scatter(
            name="square root",
            mode="lines",
            line={"color": theme.GREEN, "width": 3, "dash": "dash"},
            hoverinfo="skip",
        )

        figure.add_shape(name="half-life", type="line", line=theme.DOTTED)
        figure.add_annotation(name="half-life", xanchor="right", xshift=-20, showarrow=False)
        figure.add_annotation(
            name="square root", xanchor="left", yshift=28, showarrow=False, font_color=theme.GREEN
        )
        return figure

    def draw(self) -> str:
        words = self.text.split()
        last = len(words) - 1
        slope = math.log(2) / self.half_life
        unit = "word" if self.half_life == 1 else "words"
        half_life = f"{self.half_life} {unit}"

        position = np.arange(len(words))
        distance = position[::-1]
        fine_position = np.linspace(0, last, 200)
        square_root = np.exp(-slope * np.sqrt(last - fine_position))
        half_weight_at = last - self.half_life

        figure = self.figure
        with figure.batch_update():
            figure.layout.xaxis.update(
                range=[-0.6, len(words) - 0.4],
                tickvals=position,
                ticktext=[label(word, 16) for word in words],
            )
            figure.update_traces(
                {"x": position, "y": np.exp(-slope * distance)}, {"name": "weights"}
            )
            figure.update_traces(
                {"x": fine_position, "y": np.exp(-slope * (last - fine_position))},
                {"name": "curve"},
            )
            figure.update_traces(
                {"x": fine_position, "y": square_root, "visible": self.square_root},
                {"name": "square root"},
            )
            figure.update_shapes(
                {"x0": half_weight_at, "x1": last, "y0": 0.5, "y1": 0.5}, {"name": "half-life"}
            )
            figure.update_annotations(
                {"text": f"half, {half_life} back", "x": half_weight_at, "y": 0.5},
                {"name": "half-life"},
            )
            figure.update_annotations(
                {
                    "text": "the square root, with the same slope",
                    "x": 0,
                    "y": square_root[0],
                    "visible": self.square_root,
                },
                {"name": "square root"},
            )

        kept = format_percent(math.exp(-slope * last))
        if self.square_root:
            kept += f", and with the square root {square_root[0]:.0%}"
        return (
            f"A half-life of {half_life} is a slope of {slope:.2g}: {half_life} back, a word "
            f"weighs half as much as the last one. The first word, {last} back, keeps {kept}."
        )
