"""The app of lesson 2 on content against distance: `TugOfWar`."""

from ipywidgets import Widget
from traitlets import Int

from alibi_viz.figures.tug_plot import TOKENS, match_weights, tug_picture
from alibi_viz.formatting import format_fixed, format_percent, format_slope
from alibi_viz.slopes import alibi_slopes
from alibi_viz.widgets.core.app import App, Drawn, Why

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
        self.handle("distance", ["match"], "Drag the match")
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
                "letters back",
                "s-distance",
                "How far back the match is",
                play=True,  # how the match is forgotten
                stops=DISTANCES,  # as on the axis of the picture
            ),
            self.reset_button(),
        ]

    def draw(self) -> Drawn:
        slope = float(alibi_slopes(8)[self.head - 1])
        picture = tug_picture(slope, self.content, self.distance, page_width=self.page_width)

        cost = slope * self.distance
        # A fraction below 1, and from 1 on as many digits as beside its bar
        cost_in_words = format_slope(cost) if cost < 1 else format_fixed(cost, 1).removesuffix(".0")
        if self.content > cost:
            winner = "Content wins"
        elif self.content < cost:
            winner = "Distance wins"
        else:
            winner = "A tie"
        weight = match_weights(slope, self.content)[self.distance]
        caption = (
            f"{winner}: a distance of {self.distance} costs {cost_in_words}, content gives "
            f"{self.content}: the match gets {format_percent(weight)} of the weight."
        )
        if self.content:
            caption += f" They tie {self.content / slope:,.0f} letters back."
        return Drawn(picture, caption)
