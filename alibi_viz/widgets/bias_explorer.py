"""BiasExplorer: the bias of every head, query and key, and what the softmax makes of it."""

from collections.abc import Iterator
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
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.background import Debounce
from alibi_viz.widgets.core.formatting import format_number, format_percent, format_slope
from alibi_viz.widgets.core.traits import LINEAR, Choice, Count, Flag, HasHead, Head, Law, law_function, law_name

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

_HOVER_DELAY = 0.5  # seconds after the last change until the hover texts are added
_UNIFORM = 0.04  # a head that spans at most this share of the color scale looks like one color
_MINUS = "\N{MINUS SIGN}"
_FORMULAS = {
    "relative": f"{_MINUS}m (i {_MINUS} j)",
    "key": "m j",
    "end": f"m (j {_MINUS} last)",
    "symmetric": f"{_MINUS}m |i {_MINUS} j|",
    "split": f"{_MINUS}m |i {_MINUS} j|, half of the heads looking back, half ahead",
}


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
        bias, masked, heads = bias[shown], masked[shown], np.arange(1, self.num_heads + 1)[shown]
        names = None if slopes is None else [format_slope(slope) for slope in slopes[shown]]
        look = {"show": self.show, "scale": self.scale, "page_width": self.page_width}
        add_hover = bias_plot.draw(self.figure, bias, masked, heads=heads, slopes=names, **look)
        self._debounce(lambda: add_hover(self.figure))
        self._scale_menu.disabled = self.show == "weight"
        for menu in self._alibi_menus:
            menu.disabled = self.law != LINEAR
        # In every form, the biases of the first and the last query include the extremes of all queries.
        seen, *more = (self._weights if self.show == "weight" else self._extremes)(bias[:, [0, -1]], masked[:, [0, -1]])
        by_law = slopes is None and bool(np.isneginf(bias[:, -1]).any())
        return f"{self._form(names)} {seen}", " ".join([*more, *self._notes(masked=bool(masked.any()), by_law=by_law)])

    def _form(self, slopes: list[str] | None) -> str:
        """Which heads are shown, and the formula of their bias."""
        formula = f"{self.form} form, {_FORMULAS[self.form]}."
        if slopes is None:
            distance = f"i {_MINUS} j" if self.causal else f"|i {_MINUS} j|"
            formula = f"the bias is {law_name(self.law)}(d), where d = {distance}."
        heads = f"{self.num_heads} head{'s' * (self.num_heads > 1)},"
        if self.head is not None:
            heads = f"Head {self.head} of {self.num_heads}{f', slope {slopes[0]}' if slopes else ''}:"
        return f"{heads} {self.length} x {self.length}, {formula}"

    def _weights(self, bias: Floats, masked: Mask) -> list[str]:
        """How much weight the farthest key keeps in the steepest and the flattest head shown, and what color means."""
        color = "Color shows e^bias: the weight left to a key of equal content, relative to the most favored key."
        weights = bias_plot.weights_from_bias(bias, masked)
        left = np.where(masked[:, -1, 0], weights[:, 0, -1], weights[:, -1, 0])  # the last key, if the head looks ahead
        heads = np.flatnonzero((~masked).sum(-1).max(-1) > 1)  # heads that see another key than their own position
        if not len(heads):
            return [color]
        steep, flat = heads[left[heads].argmin()], heads[left[heads].argmax()]
        first = self.head or 1
        text = f"At distance {self.length - 1}, head {first + steep} leaves {format_percent(left[steep])}"
        if steep != flat:
            text += f", while head {first + flat} still leaves {format_percent(left[flat])}"
        return [f"{text}.", color]

    def _extremes(self, bias: Floats, masked: Mask) -> list[str]:
        """The smallest and the largest bias shown, and how many heads look uniform on a linear scale."""
        visible = np.where(masked, np.float32(np.nan), bias)
        low, high = np.nanmin(visible, (1, 2)), np.nanmax(visible, (1, 2))  # [heads]
        ends = [
            format_number(values[head]) + (f" (head {head + 1})" if values[head] and len(values) > 1 else "")
            for values, head in ((low, low.argmin()), (high, high.argmax()))
        ]
        text = f"The bias is {ends[0]}." if ends[0] == ends[1] else f"The bias ranges from {ends[0]} to {ends[1]}."
        size = np.maximum(-low, high)
        count = int((size <= _UNIFORM * size.max()).sum())
        if self.scale == "logarithmic" or len(size) == 1 or not count or not size.max():
            return [text]
        heads = "1 head looks" if count == 1 else f"{count} heads look"
        limit = f"head {int(size.argmin()) + 1} stays within {format_number(size.min())}"
        return [
            text,
            f"On a linear color scale {heads} uniform ({limit}). Switch to the logarithmic scale to see more.",
        ]

    def _notes(self, *, masked: bool, by_law: bool) -> Iterator[str]:
        """What is masked, what a form or a law means, and whose colors one head has."""
        form = self.form if self.law == LINEAR else "law"
        if masked:
            reasons = ["the keys after each query"] * (self.causal and self.length > 1)
            reasons += [f"the keys to which the law gives {_MINUS}infinity"] * by_law
            reasons += ["the side to which a head does not attend"] * (form == "split" and not self.causal)
            yield f"Gray is masked: {' and '.join(reasons)}."
        if form in ("key", "end"):
            yield "Each row differs from the relative form by a constant, so the softmax gives the same weights."
        if self.causal and form == "split":
            yield "Under a causal mask the heads that look ahead see only their own position."
        if not self.causal and form in ("symmetric", "law"):
            yield "Keys before and after a query are treated alike, as in an encoder."
        if not self.causal and form in ("relative", "key", "end"):
            ahead = "The keys ahead get a positive bias. " * (form == "relative")
            yield f"{ahead}Without a mask every query favors the last keys, whatever its own position."
        if self.head is not None and self.show == "bias":
            yield "The color scale is this head's own."

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
