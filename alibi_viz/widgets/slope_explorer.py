"""SlopeExplorer: how many heads, which scheme, and how fast each head forgets."""

import plotly.graph_objects as go
import torch
from ipywidgets import Widget
from torch import Tensor

from alibi_viz.figures import slopes as picture
from alibi_viz.slopes import SCHEMES, alibi_slopes, half_life, reach
from alibi_viz.widgets.core.app import App
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
    2 heads, official slopes. Steepest: head 1, slope 1/16; its weight halves every 11.1 tokens, ... blind beyond 1,024.
    """

    num_heads = Count(8, 1, 64)
    scheme = Choice("official", SCHEMES)
    compare = Choice("geometric", (None, *SCHEMES))

    def blank(self) -> go.Figure:
        return picture.blank()

    def controls(self) -> list[Widget]:
        return [
            self.slider("num_heads", "heads", "s-heads", "How many attention heads share the slopes"),
            self.menu("scheme", "scheme", "s-scheme", "The rule that gives each head its slope"),
            self.menu("compare", "compare with", "s-compare", "Another rule, as open diamonds", {None: "nothing"}),
        ]

    def draw(self) -> str:
        slopes = alibi_slopes(self.num_heads, self.scheme)
        other = None if self.compare is None else alibi_slopes(self.num_heads, self.compare)
        picture.draw(self.figure, slopes, self.scheme, other, self.compare or "")
        said = [_heads(self.num_heads, self.scheme, slopes)]
        if other is not None and self.compare != self.scheme:
            said.append(_difference(self.scheme, slopes, self.compare, other))
        return " ".join(said)


def _heads(count: int, scheme: str, slopes: Tensor) -> str:
    lives, reaches = half_life(slopes), reach(slopes)

    def forgets(head: int) -> str:
        return (
            f"halves every {format_number(lives[head])} tokens, practically blind beyond {format_number(reaches[head])}"
        )

    steep, flat = int(slopes.argmax()), int(slopes.argmin())
    if count == 1:
        return f"1 head, {scheme} slope {format_slope(slopes[0])}: its weight {forgets(0)}."
    return (
        f"{count} heads, {scheme} slopes. Steepest: head {steep + 1}, slope {format_slope(slopes[steep])}; its weight "
        f"{forgets(steep)}. Flattest: head {flat + 1}, slope {format_slope(slopes[flat])}; {forgets(flat)}."
    )


def _difference(scheme: str, slopes: Tensor, compare: str, other: Tensor) -> str:
    heads = len(slopes)
    if torch.equal(slopes, other):
        return f"At this head count, {scheme} and {compare} agree exactly."
    ratio = slopes.double() / other.double()
    differ = int((ratio != 1).sum())
    factor = float(torch.maximum(ratio, 1 / ratio).max())
    most = format_number(factor)
    said = f"Head by head, {scheme} and {compare} differ in {differ} of {heads}, by up to a factor of {most}."
    if "official" in (scheme, compare) and heads & (heads - 1):
        power = 1 << (heads.bit_length() - 1)
        said += (
            f" {heads} is no power of two: the official rule takes the slopes of {power} heads, then "
            f"{heads - power} of those half a step steeper, so slopes no longer fall from head to head."
        )
    return said
