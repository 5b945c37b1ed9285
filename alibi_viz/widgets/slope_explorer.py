"""SlopeExplorer: the slope of each head, and how fast its attention falls with distance."""

import plotly.graph_objects as go
import torch
from ipywidgets import Widget
from torch import Tensor

from alibi_viz.figures import slopes as slope_plot
from alibi_viz.slopes import SCHEMES, alibi_slopes, half_life, reach
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.formatting import format_number, format_slope
from alibi_viz.widgets.core.traits import Choice, Count

__all__ = ["SlopeExplorer"]


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
        caption = _describe(self.scheme, slopes)
        if other is not None and self.compare != self.scheme:
            caption += " " + _compare(self.scheme, slopes, self.compare, other)
        return caption


def _describe(scheme: str, slopes: Tensor) -> str:
    """The steepest and the flattest slope, and what they mean in tokens."""
    decay = [
        f"halves every {format_number(life)} tokens and is below 2% beyond {format_number(end)}"
        for life, end in zip(half_life(slopes), reach(slopes), strict=True)  # e^-4 = 1.8% at the reach
    ]
    steep, flat = int(slopes.argmax()), int(slopes.argmin())
    if len(slopes) == 1:
        return f"1 head, {scheme} slope {format_slope(slopes[0])}: its weight {decay[0]}."
    return (
        f"{len(slopes)} heads, {scheme} slopes. "
        f"Steepest: head {steep + 1}, slope {format_slope(slopes[steep])}; its weight {decay[steep]}. "
        f"Flattest: head {flat + 1}, slope {format_slope(slopes[flat])}; its weight {decay[flat]}."
    )


def _compare(scheme: str, slopes: Tensor, compare: str, other: Tensor) -> str:
    """How far two schemes differ, and why the official one is special."""
    heads = len(slopes)
    counted = f"{heads} {'head' if heads == 1 else 'heads'}"
    if torch.equal(slopes, other):
        return f"For {counted}, {scheme} and {compare} agree exactly."
    ratio = slopes.double() / other.double()
    count = int((ratio != 1).sum())
    factor = format_number(torch.maximum(ratio, 1 / ratio).max())
    text = f"{scheme.capitalize()} and {compare} slopes differ in {count} of {counted}, by up to a factor of {factor}."
    if "official" not in (scheme, compare) or not heads & (heads - 1):
        return text
    power = 1 << (heads.bit_length() - 1)
    return (
        f"{text} {heads} is not a power of two: the official rule takes the slopes of {power} heads and adds every "
        f"other slope of {2 * power} heads until there are {heads}. So the slopes do not decrease from head to head."
    )
