"""The app of lesson 2 on content against distance: `TugOfWar`."""

import math

import numpy as np
import plotly.graph_objects as go
from ipywidgets import Widget
from traitlets import Int

from alibi_viz.figures import panels, theme
from alibi_viz.figures.theme import named_trace
from alibi_viz.formatting import format_fixed, format_number, format_percent
from alibi_viz.slopes import alibi_slopes
from alibi_viz.widgets.core.app import App, Why

TOKENS = 256
# Pixels: of the figure, and with one plot below the other
HEIGHT = 290
STACKED_HEIGHT = 430
# Shares of the width
LEFT = (0.0, 0.4)
RIGHT = (0.53, 1.0)
# The scale of the pulls is fixed, so that bars can be compared. What is below it is cut off and
# marked.
LOWEST_PULL = -16
HIGHEST_PULL = 13
CUT = LOWEST_PULL + 0.8  # where a bar that is too long ends
# What pulls on the logit of the match, from top to bottom
BARS = ("content", "distance", "sum")

# Where the slider stops: eight steps from one power of two to the next, in whole tokens
DISTANCES = sorted({min(round(2 ** (step / 8)), TOKENS - 1) for step in range(65)})


class TugOfWar(App):
    """Content against distance: the last of 256 tokens, and one match among equal keys.

    The match can be dragged along its curve.

    Traits:
        head: 1 to 8, of eight.
        content: 0 to 12, by how much the logit of the match is higher.
        distance: 1 to 255, how many tokens back the match is.
    """

    why = Why(
        "Content and bias add up, so they compete.",
        "02_content_against_distance",
        "A tug of war",
    )
    head = Int(3, min=1, max=8)
    content = Int(4, min=0, max=12)
    distance = Int(16, min=1, max=TOKENS - 1)

    def controls(self) -> list[Widget]:
        self.below_figure = (self.handle("distance", ["match"], "Drag the match"),)
        return [
            self.slider(
                "head",
                "head",
                "s-head",
                "Head 1 has slope 1/2, head 8 slope 1/256",
                width="100px",
            ),
            self.slider(
                "content",
                "content",
                "s-content",
                "By how much the logit of the match is higher",
                width="100px",
            ),
            self.slider(
                "distance",
                "tokens back",
                "s-distance",
                "How far back the match is",
                play=True,  # how the match is forgotten
                stops=DISTANCES,  # as on the axis of the picture
            ),
            self.reset_button(),
        ]

    def blank(self) -> go.Figure:
        figure = theme.blank(
            height=HEIGHT, showlegend=False, margin={"t": 28, "l": 108, "r": 30, "b": 48}
        )
        figure.update_layout(
            # Left: what pulls on the logit of the match.
            xaxis={
                "range": [LOWEST_PULL, HIGHEST_PULL],
                "tickvals": [-15, -10, -5, 0, 5, 10],
                "title_text": "pull on the logit",
                "zeroline": True,
            },
            yaxis={
                "tickvals": [0, 1, 2],
                "range": [2.6, -0.6],  # from top to bottom
                "ticks": "",
                "showgrid": False,
            },
            # Right: the weight of the match at each distance.
            xaxis2={
                "anchor": "y2",
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
        self._add_pulls(figure)
        self._add_weights(figure)
        panels.put_beside(figure, LEFT, RIGHT, height=HEIGHT)
        return figure

    def arrange(self) -> None:
        if self.page_width < panels.NARROW:
            panels.stack(self.figure, height=STACKED_HEIGHT)
        else:
            panels.put_beside(self.figure, LEFT, RIGHT, height=HEIGHT)

    def _add_pulls(self, figure: go.Figure) -> None:
        """Bars of which each begins where the one above it ends, and the sum of both."""
        figure.add_bar(
            name="pulls",
            y=[0, 1, 2],
            marker_color=[theme.BLUE, theme.ORANGE, theme.GREEN],
            orientation="h",
            hoverinfo="skip",
        )
        # From the end of each bar down to the next
        figure.add_scatter(name="ends", mode="lines", line=theme.DOTTED, hoverinfo="skip")
        # A bar that is longer than the scale is broken and ends in an arrow.
        slash = {"symbol": "line-ne", "size": 22, "line": {"color": "#FFFFFF", "width": 3}}
        figure.add_scatter(name="breaks", mode="markers", marker=slash, hoverinfo="skip")
        arrow = {
            "symbol": "triangle-left",
            "size": 18,
            "color": [theme.ORANGE, theme.GREEN],
        }
        figure.add_scatter(
            name="arrows", mode="markers", marker=arrow, cliponaxis=False, hoverinfo="skip"
        )

    def _add_weights(self, figure: go.Figure) -> None:
        """The weight of the match at each distance, at its own, and where the two tie."""
        axes = {"xaxis": "x2", "yaxis": "y2"}
        figure.add_scatter(
            name="weight by distance",
            mode="lines",
            line_color=theme.BLUE,
            hovertemplate="%{x} back: %{y:.0%}<extra></extra>",
            **axes,
        )
        figure.add_scatter(
            name="match",
            marker={"size": 13, "color": theme.GREEN},
            cliponaxis=False,
            hoverinfo="skip",
            **axes,
        )
        figure.add_shape(
            name="tie", type="line", xref="x2", yref="y2 domain", y0=0, y1=1, line=theme.DOTTED
        )
        figure.add_annotation(
            name="tie",
            xref="x2",
            yref="y2 domain",
            y=1,
            yanchor="bottom",
            showarrow=False,
        )

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

        figure = self.figure
        with figure.batch_update():
            self._draw_pulls(cost)
            named_trace(figure, "weight by distance").update(x=distances[1:], y=weights[1:])
            named_trace(figure, "match").update(x=[self.distance], y=[weight])
            self._draw_tie(tie)

        if self.content > cost:
            winner = "Content wins"
        elif self.content < cost:
            winner = "Distance wins"
        else:
            winner = "A tie"
        return (
            f"{winner}: a distance of {self.distance} costs {format_number(cost)}, content gives "
            f"{self.content}: the match gets {format_percent(weight)} of the weight. "
            f"They tie {tie:,.0f} tokens back."
        )

    def _draw_pulls(self, cost: float) -> None:
        """Content, what distance takes from it, and what is left."""
        left = self.content - cost
        is_cut = left < LOWEST_PULL
        end = CUT if is_cut else left
        starts = [0.0, self.content, 0.0]
        ends = [self.content, end, end]

        labels = []
        for name, pull in zip(BARS, (self.content, -cost, left), strict=True):
            labels.append(f"{name} <b>{format_fixed(pull, 1, plus=True)}</b>")
        figure = self.figure
        figure.layout.yaxis.ticktext = labels
        named_trace(figure, "pulls").update(base=starts, x=np.subtract(ends, starts))
        named_trace(figure, "ends").update(
            x=[self.content, self.content, None, end, end], y=[0, 1, None, 1, 2]
        )
        named_trace(figure, "arrows").update(x=[CUT, CUT], y=[1, 2], visible=is_cut)
        # Two slashes in each bar
        first = CUT + 1.2
        second = CUT + 1.8
        named_trace(figure, "breaks").update(
            x=[first, second, first, second], y=[1, 1, 2, 2], visible=is_cut
        )

    def _draw_tie(self, tie: float) -> None:
        """A line at the distance at which content and bias cancel, unless it is out of sight."""
        is_visible = 1 <= tie < TOKENS
        self.figure.update_shapes({"x0": tie, "x1": tie, "visible": is_visible}, {"name": "tie"})
        # plotly places annotations on a logarithmic axis by the logarithm.
        place = math.log10(tie) if is_visible else 0
        self.figure.update_annotations(
            {"x": place, "text": f"tie, {tie:,.0f} back", "visible": is_visible}, {"name": "tie"}
        )
