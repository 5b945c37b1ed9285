"""BiasExplorer: the bias of every head, query and key, and what the softmax makes of it."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from ipywidgets import Widget
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from alibi_viz.bias import FORMS, alibi_bias, bias_from_positions
from alibi_viz.figures import bias_plot as picture
from alibi_viz.figures.matrices import on_tile_click
from alibi_viz.models.positions.custom import law_class
from alibi_viz.slopes import alibi_slopes
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.background import Debounce
from alibi_viz.widgets.core.controls import column, fold, row
from alibi_viz.widgets.core.formatting import format_number, format_percent, format_slope
from alibi_viz.widgets.core.traits import (
    LINEAR,
    MAX_HEADS,
    Choice,
    Count,
    Flag,
    HasHead,
    Head,
    Law,
    named_law,
)

_SHOWS = {"weight": "weight left at equal content", "bias": "bias"}
_FORMULAS = {
    "relative": "\N{MINUS SIGN}m (i \N{MINUS SIGN} j)",
    "key": "m j",
    "end": "m (j \N{MINUS SIGN} last)",
    "symmetric": "\N{MINUS SIGN}m |i \N{MINUS SIGN} j|",
    "split": (
        "\N{MINUS SIGN}m |i \N{MINUS SIGN} j|, half of the heads (rounded up) looking back, "
        "others ahead"
    ),
}


class BiasExplorer(HasHead, App):
    """The bias of each head as a tile of `length` queries x `length` keys, on one color scale for
    all heads.

    By default a tile shows what the softmax makes of the bias: e^bias, divided by its largest value
    among the keys that the query may see. This is the weight that distance leaves to a key whose
    content is as good as that of the most favored key: under a causal mask, the query's own
    position. Choose show="bias" for the bias itself.

    A click on a head enlarges it, and another click shows all heads again.

    Traits:
        num_heads: 1 to 32, with official slopes.
        length: 1 to 256 tokens.
        show: "weight" or "bias".
        law: how the bias depends on the distance: "linear" for ALiBi, the name of another law of
            `alibi_viz.laws`, or your own function law(distance, head, num_heads).
        form: of ALiBi's bias, "relative", "key", "end", "symmetric" or "split"; see `alibi_bias`.
            Other laws have none.
        causal: whether keys after their query are masked.
        head: the enlarged head, 1 to num_heads, or None. Becomes None when `num_heads` falls below
            it.

    >>> from alibi_viz.widgets import BiasExplorer
    >>> app = BiasExplorer(num_heads=2, length=4)
    >>> print(app.caption)  # doctest: +ELLIPSIS
    2 heads, 4 x 4, ... At distance 3, head 1 leaves 83%, while head 2 still leaves 99%.
    >>> app.head = 3
    Traceback (most recent call last):
    alibi_viz.widgets.core.traits.BadValue: head must be None or an integer from 1 to num_heads=2, got 3
    """

    why = Why(
        "Up to a constant in each row, the bias depends only on the distance. With ALiBi, each "
        "step back multiplies "
        "the weight by the same factor, e^-slope: a steep head keeps a narrow band, a flat one a "
        "wide band.",
        "02_biases",
        "All heads at once",
    )
    redraw_to_fit = True  # the size of the tiles depends on the width
    num_heads = Count(8, min=1, max=MAX_HEADS)
    length = Count(64, min=1, max=256)
    show = Choice(tuple(_SHOWS), "weight")
    law = Law()
    form = Choice(FORMS, "relative")
    causal = Flag(True)
    head = Head(None, allow_none=True)
    blank = staticmethod(picture.blank)

    def __init__(self, **state: Any) -> None:
        self._debounce = Debounce(
            0.5
        )  # seconds after the last change until the hover texts are added
        super().__init__(**state)
        self.works.append(self._debounce)
        on_tile_click(
            self.figure, lambda head: self.set_trait("head", head if self.head is None else None)
        )

    def controls(self) -> list[Widget]:
        self._form_menu = self.menu(
            "form", "form", "s-form", "How ALiBi's bias is computed; see the caption"
        )
        head = self.menu(
            "head",
            "head",
            "s-head",
            "Or click a head to enlarge it",
            {None: "all"},
            follows="num_heads",
        )
        law = self.menu(
            "law", "law", "s-law", "How the bias depends on the distance; linear is ALiBi"
        )
        menus = row(law, self._form_menu, head)
        more, folded = fold(
            "More", "The law of distance, the form of the bias, and a single head", menus
        )
        first = row(
            self.slider("num_heads", "heads", "s-heads", "The number of attention heads"),
            self.slider("length", "length", "s-length", "The number of tokens: queries and keys"),
            self.menu(
                "show",
                "show",
                "s-show",
                "The weight that the bias leaves to each key, or the bias",
                _SHOWS,
            ),
            self.checkbox("causal", "causal mask", "s-causal", "Mask the keys after each query"),
            more,
            self.reset_button(),
        )
        return [column(first, folded)]

    def draw(self) -> str:
        numbers, is_alibi = range(1, self.num_heads + 1), self.law == LINEAR
        heads = numbers if self.head is None else numbers[self.head - 1 : self.head]
        bias = self._bias()[heads.start - 1 : heads.stop - 1]
        # In every form and law, the biases of the first and the last query include those of all
        # queries.
        masked = (
            np.isneginf(bias)
            if np.isneginf(bias[:, [0, -1]]).any()
            else np.zeros(bias.shape[1:], dtype=bool)
        )
        masked = np.broadcast_to(
            masked | ~np.tri(self.length, dtype=bool) if self.causal else masked, bias.shape
        )
        slopes = [
            format_slope(alibi_slopes(self.num_heads)[head - 1]) for head in heads if is_alibi
        ]
        options = {
            "show": self.show,
            "heads": heads,
            "slopes": slopes,
            "page_width": self.page_width,
        }
        add_hover = picture.draw(self.figure, bias, masked, **options)
        self._debounce(lambda: add_hover(self.figure))
        self._form_menu.disabled = not is_alibi
        subject = f"{self.num_heads} head{'s' * (self.num_heads > 1)},"
        if self.head is not None:
            subject = (
                f"Head {self.head} of "
                f"{self.num_heads}{''.join(f', slope {slope}' for slope in slopes)}:"
            )
        distance = "i \N{MINUS SIGN} j" if self.causal else "|i \N{MINUS SIGN} j|"
        rule = f"the bias is {named_law(self.law)[0]}(d), where d = {distance}"
        rule = f"{self.form} form, {_FORMULAS[self.form]}" if is_alibi else rule
        seen = _seen(self.show, bias[:, [0, -1]], masked[:, [0, -1]], heads)
        return f"{subject} {self.length} x {self.length}, {rule}. {seen}"

    def _bias(self) -> NDArray[np.float32]:
        """The bias of every head, float32 [heads, query, key], as a view of a few rows.

        Computing two million cells with torch's threads is slow on a busy machine.
        """
        slopes, length = alibi_slopes(self.num_heads), self.length
        if self.law != LINEAR:
            law = law_class(*named_law(self.law))(self.num_heads)
            curve = law.curve(torch.arange(length)) + 0.0  # [heads, distance]; -0.0 becomes 0.0
            row = torch.cat((curve.flip(1), curve[:, 1:]), dim=1)
        elif self.form in ("key", "end"):  # the same for every query
            return alibi_bias(slopes, length, form=self.form).expand(-1, length, -1).numpy()
        else:
            last, keys = torch.tensor([length - 1]), torch.arange(2 * length - 1)
            row = bias_from_positions(slopes, last, keys, form=self.form)[:, 0]
        return sliding_window_view(row.numpy(), length, axis=1)[
            :, ::-1
        ]  # each row is the one before, shifted by a key

    def snapshot(self) -> go.Figure:
        self._debounce.flush()
        return super().snapshot()


def _seen(show: str, bias: NDArray[np.float32], masked: NDArray[np.bool_], heads: range) -> str:
    """The range of the bias, or how much weight the farthest key keeps in the steepest and the
    flattest head."""
    if show != "weight":
        low, high = format_number(bias[~masked].min()), format_number(bias[~masked].max())
        return f"The bias ranges from {low} to {high}."
    weights = picture.weights_from_bias(
        bias.astype(np.float64), masked
    )  # float32 has nothing below e^-104
    back, ahead = weights[:, -1, 0], weights[:, 0, -1]
    left = np.where(masked[:, -1, 0], ahead, back)  # the last key, if the head looks ahead
    steep, flat = left.argmin(), left.argmax()
    text = (
        f"At distance {bias.shape[-1] - 1}, head {heads[steep]} leaves "
        f"{format_percent(left[steep])}"
    )
    text += f", while head {heads[flat]} still leaves {format_percent(left[flat])}" * bool(
        steep != flat
    )
    return f"{text}{'; keys ahead are favored' * bool((ahead > left).any())}."
