"""SlopeExplorer: the slope of each head, and how fast its attention falls with distance."""

import plotly.graph_objects as go
import torch
from ipywidgets import Widget
from torch import Tensor

from alibi_viz.figures import slopes as slope_plot
from alibi_viz.slopes import SCHEMES, alibi_slopes, half_life
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.formatting import format_number, format_slope
from alibi_viz.widgets.core.traits import Choice, Count


class SlopeExplorer(App):
    """The slopes of `num_heads` heads, on a logarithmic axis, with their half-lives in tokens.

    Traits:
        num_heads: 1 to 64.
        scheme: "official", "geometric" or "halving"; see `alibi_slopes`.
        compare: another scheme, drawn as open diamonds, or None.

    >>> from alibi_viz.widgets import SlopeExplorer
    >>> app = SlopeExplorer(num_heads=2, compare=None)
    >>> app
    SlopeExplorer(num_heads=2, scheme='official', compare=None)
    >>> print(app.caption)  # doctest: +ELLIPSIS
    2 heads, official slopes. Steepest: head 1, slope 1/16; its weight halves every 11.1 tokens and ... beyond 1,024.
    """

    why = Why(
        "Each slope is the one before times a constant factor, if the number of heads is a power of two. On a "
        "logarithmic axis, such slopes lie on a straight line.",
        "01_slopes",
        "The rule",
    )
    num_heads = Count(8, 1, 64)
    scheme = Choice("official", SCHEMES)
    compare = Choice("geometric", (None, *SCHEMES))

    def blank(self) -> go.Figure:
        return slope_plot.blank()

    def controls(self) -> list[Widget]:
        return [
            self.slider("num_heads", "heads", "s-heads", "The number of attention heads"),
            self.menu("scheme", "scheme", "s-scheme", "The rule that gives each head its slope"),
            self.menu("compare", "compare with", "s-compare", "Another rule, as open diamonds", {None: "nothing"}),
            self.reset_button(),
        ]

    def draw(self) -> str:
        slopes = alibi_slopes(self.num_heads, self.scheme)
        other = None if self.compare is None else alibi_slopes(self.num_heads, self.compare)
        slope_plot.draw(self.figure, slopes, self.scheme, other, self.compare or "")
        caption = f"{_heads(self.num_heads)}, {self.scheme} slopes. {_decay(slopes)}"
        if other is None or self.compare == self.scheme:
            return caption
        return f"{caption} {_compare(self.scheme, slopes, self.compare, other)}"


def _heads(count: int) -> str:
    return f"{count} head{'s' * (count != 1)}"


def _decay(slopes: Tensor) -> str:
    """The steepest and the flattest slope, and what they mean in tokens."""
    heads = (("Steepest", int(slopes.argmax())), ("Flattest", int(slopes.argmin())))
    return " ".join(
        f"{name}: head {head + 1}, slope {format_slope(slopes[head])}; its weight halves every "
        f"{format_number(half_life(slopes)[head])} tokens and is below 2% beyond {format_number(4 / slopes[head])}."
        for name, head in heads[: len(slopes)]  # e^-4 = 1.8% at 4/m
    )


def _compare(scheme: str, slopes: Tensor, compare: str, other: Tensor) -> str:
    """How far two schemes differ, and how the official one continues beyond a power of two."""
    heads, power = len(slopes), 1 << (len(slopes).bit_length() - 1)
    if torch.equal(slopes, other):
        return f"For {_heads(heads)}, {scheme} and {compare} agree exactly."
    factor = (slopes.double() / other.double()).log().abs().max().exp()
    text = (
        f"{scheme.capitalize()} and {compare} slopes differ in {int((slopes != other).sum())} of {_heads(heads)}, "
        f"by up to a factor of {format_number(factor)}."
    )
    if "official" not in (scheme, compare) or heads == power:
        return text
    return (
        f"{text} {heads} is not a power of two: the official rule takes the slopes of {power} heads and adds every "
        f"other slope of {2 * power} heads until there are {heads}. So the slopes do not decrease from head to head."
    )
