"""SlopeExplorer: the slope of each head, and how fast its attention falls with distance."""

from ipywidgets import Widget

from alibi_viz.figures import slope_plot as picture
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
    >>> app.caption
    '2 heads, official slopes: 1/16 (head 1, half-life 11.1 tokens) to 1/256 (head 2, half-life 177).'
    """

    why = Why(
        "Each slope is the one before times a constant factor, if the number of heads is a power "
        "of two. On a "
        "logarithmic axis, such slopes lie on a straight line.",
        "01_slopes",
        "The rule",
    )
    num_heads = Count(8, 1, 64)
    scheme = Choice("official", SCHEMES)
    compare = Choice("geometric", (None, *SCHEMES))
    blank = staticmethod(picture.blank)

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

    def draw(self) -> str:
        heads, slopes = self.num_heads, alibi_slopes(self.num_heads, self.scheme)
        other = None if self.compare is None else alibi_slopes(heads, self.compare)
        picture.draw(self.figure, slopes, self.scheme, other, self.compare or "")
        steep, flat = int(slopes.argmax()), int(slopes.argmin())
        near, far = (format_number(half_life(slopes)[head]) for head in (steep, flat))
        first = f"{format_slope(slopes[steep])} (head {steep + 1}, half-life {near} tokens)"
        last = f" to {format_slope(slopes[flat])} (head {flat + 1}, half-life {far})" * (heads > 1)
        caption = f"{heads} head{'s' * (heads > 1)}, {self.scheme} slopes: {first}{last}."
        if other is None:
            return caption
        count = int((slopes != other).sum())
        ratios = slopes.double() / other.double()
        factor = ratios.log().abs().max().exp()
        differ = f"differ in {count} of {heads}, by up to a factor of {format_number(factor)}"
        return (
            f"{caption} {self.scheme.capitalize()} and {self.compare} slopes "
            f"{differ if count else 'agree exactly'}."
        )
