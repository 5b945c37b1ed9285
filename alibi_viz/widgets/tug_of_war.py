"""The app of lesson 2 on content against distance: `TugOfWar`."""

import math

import numpy as np
import plotly.graph_objects as go
from ipywidgets import Widget

from alibi_viz.figures import theme
from alibi_viz.slopes import alibi_slopes
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.formatting import format_percent
from alibi_viz.widgets.core.traits import Count

TOKENS = 256
LARGEST_PULL = 16  # that the bars show


class TugOfWar(App):
    """Content against distance: the last of 256 tokens, and one match among equal keys.

    Traits:
        head: 1 to 8, of eight.
        content: 0 to 12, by how much the logit of the match is higher.
        distance: 1 to 255, how many tokens back the match is.
    """

    why = Why(
        "Content and bias add up, so they compete.",
        "02_content_against_distance",
        "How much content does distance outweigh?",
    )
    head = Count(3, min=1, max=8)
    content = Count(4, min=0, max=12)
    distance = Count(16, min=1, max=TOKENS - 1)

    def controls(self) -> list[Widget]:
        return [
            self.slider("head", "head", "s-head", "Head 1 has slope 1/2, head 8 slope 1/256"),
            self.slider(
                "content", "content", "s-content", "By how much the logit of the match is higher"
            ),
            self.slider(
                "distance",
                "tokens back",
                "s-distance",
                "How far back the match is",
                play=True,  # how the match is forgotten
            ),
            self.reset_button(),
        ]

    def blank(self) -> go.Figure:
        figure = theme.blank(height=300, showlegend=False, margin={"t": 30, "l": 84})
        figure.update_layout(
            # Left: what pulls on the logit of the match.
            xaxis={
                "domain": [0, 0.38],
                "range": [-LARGEST_PULL, LARGEST_PULL],
                "title_text": "pull on the logit",
                "zeroline": True,
            },
            yaxis={"tickvals": [0, 1, 2], "ticks": "", "showgrid": False},
            # Right: the weight of the match at each distance.
            xaxis2={
                "domain": [0.52, 1],
                "type": "log",
                "range": [0, math.log10(TOKENS)],
                "tickvals": [1, 4, 16, 64, 256],
                "title_text": "tokens back",
            },
            yaxis2={
                "anchor": "x2",
                "range": [0, 1.03],
                "tickformat": ".0%",
                "title_text": "weight of the match",
            },
        )

        figure.add_bar(
            name="pulls",
            y=[0, 1, 2],
            marker_color=[theme.GREEN, theme.ORANGE, theme.BLUE],
            orientation="h",
            hoverinfo="skip",
        )
        figure.add_scatter(
            name="weight by distance",
            xaxis="x2",
            yaxis="y2",
            mode="lines",
            line_color=theme.BLUE,
            hovertemplate="%{x} back: %{y:.0%}<extra></extra>",
        )
        figure.add_scatter(
            name="match",
            xaxis="x2",
            yaxis="y2",
            marker={"size": 13, "color": theme.GREEN},
            hoverinfo="skip",
        )
        figure.add_shape(
            name="tie", type="line", xref="x2", yref="y2 domain", y0=0, y1=1, line=theme.DOTTED
        )
        return figure

    def draw(self) -> str:
        slope = float(alibi_slopes(8)[self.head - 1])
        cost = slope * self.distance
        tie = self.content / slope  # the distance at which content and bias cancel

        # For a match at each distance: its weight among the 255 other keys.
        distances = np.arange(TOKENS)
        others = np.exp(-slope * distances)
        match = np.exp(self.content - slope * distances)
        weights = match / (others.sum() - others + match)
        weight = weights[self.distance]

        pulls = {"sum": self.content - cost, "distance": -cost, "content": self.content}
        lengths = np.clip(list(pulls.values()), -LARGEST_PULL, LARGEST_PULL)

        figure = self.figure
        with figure.batch_update():
            figure.layout.yaxis.ticktext = [f"{name} {pull:+.1f}" for name, pull in pulls.items()]
            figure.update_traces({"x": lengths}, {"name": "pulls"})
            figure.update_traces(
                {"x": distances[1:], "y": weights[1:]}, {"name": "weight by distance"}
            )
            figure.update_traces({"x": [self.distance], "y": [weight]}, {"name": "match"})
            figure.update_shapes(
                {"x0": tie, "x1": tie, "visible": 1 <= tie < TOKENS}, {"name": "tie"}
            )

        if self.content > cost:
            winner = "Content wins"
        elif self.content < cost:
            winner = "Distance wins"
        else:
            winner = "A tie"
        return (
            f"{winner}: a distance of {self.distance} costs {cost:.3g}, content gives "
            f"{self.content}: the match gets {format_percent(weight)} of the weight. "
            f"They tie {tie:,.0f} tokens back."
        )
