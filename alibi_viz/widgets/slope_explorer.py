"""SlopeExplorer: the slope of each head, and how fast its attention falls with distance."""

from ipywidgets import Widget
from torch import Tensor
from traitlets import Enum, Int

from alibi_viz.figures.slope_plot import slope_picture
from alibi_viz.formatting import format_number, format_slope
from alibi_viz.slopes import SCHEMES, alibi_slopes, half_life
from alibi_viz.widgets.core.app import App, Drawn, Why


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
    >>> print(app.caption)
    2 heads, official slopes: 1/16 (head 1, half-life 11.1 tokens) to 1/256 (head 2, half-life 177).
    """

    why = Why(
        "Each slope is the one before times a constant factor, if the number of heads is a power "
        "of two. On a logarithmic axis, such slopes lie on a straight line.",
        "01_the_line",
        "A slope for each head",
    )
    num_heads = Int(8, min=1, max=64)
    scheme = Enum(SCHEMES, "official")
    compare = Enum(SCHEMES, "geometric", allow_none=True)

    def controls(self) -> list[Widget]:
        return [
            self.slider("num_heads", "heads", "s-heads", "The number of attention heads"),
            self.menu("scheme", "scheme", "s-scheme", "The rule that gives each head its slope"),
            self.menu(
                "compare",
                "compare with",
                "s-compare",
                "Another rule, as open diamonds",
                {None: "nothing"},
            ),
            self.reset_button(),
        ]

    def draw(self) -> Drawn:
        slopes = alibi_slopes(self.num_heads, self.scheme)
        other = alibi_slopes(self.num_heads, self.compare) if self.compare else None
        picture = slope_picture(slopes, self.scheme, other, self.compare)
        return Drawn(picture, self._describe(slopes, other))

    def _describe(self, slopes: Tensor, other: Tensor | None) -> str:
        """The steepest and the flattest slope, and how those of the other scheme differ."""
        heads = len(slopes)
        steepest = int(slopes.argmax())
        flattest = int(slopes.argmin())
        half_lives = half_life(slopes)

        near = format_number(half_lives[steepest])
        ends = f"{format_slope(slopes[steepest])} (head {steepest + 1}, half-life {near} tokens)"
        if heads > 1:
            far = format_number(half_lives[flattest])
            ends += f" to {format_slope(slopes[flattest])} (head {flattest + 1}, half-life {far})"
        noun = "head" if heads == 1 else "heads"
        caption = f"{heads} {noun}, {self.scheme} slopes: {ends}."
        if other is None:
            return caption

        count = int((slopes != other).sum())
        differ = "agree exactly"
        if count:
            ratios = slopes.double() / other.double()
            factor = format_number(ratios.log().abs().max().exp())
            differ = f"differ in {count} of {heads}, by up to a factor of {factor}"
        return f"{caption} {self.scheme.capitalize()} and {self.compare} slopes {differ}."
