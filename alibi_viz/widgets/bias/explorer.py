"""BiasExplorer: the bias of every head, query and key, and what the softmax makes of it."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from ipywidgets import Widget
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from alibi_viz.bias import FORMS, alibi_bias, bias_from_positions
from alibi_viz.figures import bias as bias_plot
from alibi_viz.figures.color_scale import SCALES
from alibi_viz.figures.matrices import on_tile_click
from alibi_viz.lab.attention_sources import law_curve
from alibi_viz.slopes import SCHEMES, alibi_slopes
from alibi_viz.widgets.bias.caption import describe
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.background import Debounce
from alibi_viz.widgets.core.formatting import format_slope
from alibi_viz.widgets.core.traits import LINEAR, Choice, Count, Flag, HasHead, Head, Law, law_function

Floats = NDArray[np.float32]

_HOVER_DELAY = 0.5  # seconds after the last change until the hover texts are added


class BiasExplorer(HasHead, App):
    """The bias of each head as a tile of `length` queries x `length` keys, on one color scale for all heads.

    By default a tile shows what the softmax makes of the bias: e^bias, divided by its largest value among the keys that
    the query may see. This is the weight that distance leaves to a key whose content is as good as that of the most
    favored key: under a causal mask, the query's own position. Choose show="bias" for the bias itself.

    A click on a head, or the menu, enlarges it. Another click, or "all heads" in the menu, shows all heads again.

    Traits:
        num_heads: 1 to 32.
        length: 1 to 256 tokens.
        show: "weight" or "bias".
        law: how the bias depends on the distance: "linear" for ALiBi, the name of another law of `alibi_viz.laws`, or
            your own function law(distance, head, num_heads). `form` and `scheme` belong to ALiBi alone.
        form: "relative", "key", "end", "symmetric" or "split"; see `alibi_bias`.
        causal: whether keys after their query are masked.
        scheme: "official", "geometric" or "halving"; see `alibi_slopes`.
        scale: the color scale of the bias, "linear" or "logarithmic"; weights are always on a linear scale.
        head: the enlarged head, 1 to num_heads, or None. Becomes None when `num_heads` falls below it.

    >>> from alibi_viz.widgets import BiasExplorer
    >>> app = BiasExplorer(num_heads=2, length=4)
    >>> print(app.caption)  # doctest: +ELLIPSIS
    2 heads, 4 x 4, ... At distance 3, head 1 leaves 83%, while head 2 still leaves 99%.
    >>> app.head = 3
    Traceback (most recent call last):
    alibi_viz.widgets.core.traits.BadValue: head must be None or an integer from 1 to num_heads=2, got 3
    """

    why = Why(
        "The bias depends only on the distance. With ALiBi, each step back multiplies the weight by the same "
        "factor, e^-slope: a steep head keeps a narrow band, a flat one a wide band.",
        "02_biases",
        "All heads at once",
    )
    num_heads = Count(8, 1, 32)
    length = Count(64, 1, 256)
    show = Choice("weight", bias_plot.SHOWS)
    law = Law()
    form = Choice("relative", FORMS)
    causal = Flag(True)
    scheme = Choice("official", SCHEMES)
    scale = Choice("linear", SCALES)
    head = Head(None, allow_none=True)

    def __init__(self, **state: Any) -> None:
        self._debounce = Debounce(_HOVER_DELAY)
        super().__init__(**state)
        self.works.append(self._debounce)
        self.add_class("alibi-titles")
        on_tile_click(self.figure, self._on_click)

    def blank(self) -> go.Figure:
        return bias_plot.blank()

    def controls(self) -> list[Widget]:
        shows = {"weight": "weight left, e^bias", "bias": "bias"}
        self._scale_menu = self.menu("scale", "colors", "s-scale", "A logarithmic scale shows small and large biases")
        self._alibi_menus = (
            self.menu("form", "form", "s-form", "How ALiBi's bias is computed; see the caption"),
            self.menu("scheme", "slopes", "s-scheme", "The rule that gives each head its slope"),
        )
        return [
            self.slider("num_heads", "heads", "s-heads", "The number of attention heads"),
            self.slider("length", "length", "s-length", "The number of tokens: queries and keys"),
            self.menu("show", "show", "s-show", "The weight that the bias leaves to each key, or the bias", shows),
            self.law_menu(),
            self.checkbox("causal", "causal mask", "s-causal", "Mask the keys after each query"),
            *self._alibi_menus,
            self._scale_menu,
            self.menu("head", "head", "s-head", "Or click a head to enlarge it", {None: "all"}, follows="num_heads"),
            self.reset_button(),
        ]

    def draw(self) -> tuple[str, str]:
        slopes = alibi_slopes(self.num_heads, self.scheme) if self.law == LINEAR else None
        if slopes is not None:
            bias = _alibi_matrices(slopes, self.length, self.form)  # [heads, query, key]
        else:
            curve = law_curve(law_function(self.law), self.num_heads, self.length)  # [heads, distance]
            bias = _shifted(torch.cat((curve.flip(1), curve[:, 1:]), dim=1))
        hidden = np.isneginf(bias) if slopes is None or self.form == "split" else np.zeros(bias.shape[1:], dtype=bool)
        masked = np.broadcast_to(hidden | ~np.tri(self.length, dtype=bool) if self.causal else hidden, bias.shape)
        shown = slice(None) if self.head is None else slice(self.head - 1, self.head)
        heads = np.arange(self.num_heads)[shown]
        add_hover = bias_plot.draw(
            self.figure,
            bias[shown],
            masked[shown],
            show=self.show,
            heads=heads + 1,
            slopes=None if slopes is None else [format_slope(slopes[head]) for head in heads],
            scale=self.scale,
            page_width=self.page_width,
        )
        self._debounce(lambda: add_hover(self.figure))
        self._scale_menu.disabled = self.show == "weight"
        for menu in self._alibi_menus:
            menu.disabled = self.law != LINEAR
        slope = None if slopes is None or self.head is None else slopes[self.head - 1]
        return describe(self, bias[shown], masked[shown], slope)

    def fit(self, width: int) -> None:
        self.page_width = width
        self.refresh()

    def snapshot(self) -> go.Figure:
        self._debounce.flush()
        return super().snapshot()

    def _on_click(self, head: int) -> None:
        self.head = head if self.head is None else None


def _alibi_matrices(slopes: Tensor, length: int, form: str) -> Floats:
    """The values of `alibi_bias(slopes, length, form=form)`, float32 [heads, query, key], as views of a few rows.

    Computing two million cells with torch's threads is slow on a busy machine.
    """
    if form in ("key", "end"):  # the same for every query
        return np.broadcast_to(alibi_bias(slopes, length, form=form).numpy(), (len(slopes), length, length))
    row = bias_from_positions(slopes, torch.tensor([length - 1]), torch.arange(2 * length - 1), form=form)
    return _shifted(row[:, 0])


def _shifted(row: Tensor) -> Floats:
    """[heads, query, key] from one row [heads, 2 * length - 1], if each row is the previous one shifted by one key."""
    return sliding_window_view(row.numpy(), (row.shape[1] + 1) // 2, axis=1)[:, ::-1]
