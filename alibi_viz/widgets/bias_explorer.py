"""BiasExplorer: the bias of every head, query and key, and what the softmax makes of it."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from ipywidgets import Dropdown, Widget
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor
from traitlets import observe, validate

from alibi_viz.bias import FORMS, alibi_bias, bias_from_positions
from alibi_viz.figures import bias as bias_plot
from alibi_viz.slopes import SCHEMES, alibi_slopes
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.debounce import Debounce
from alibi_viz.widgets.core.formatting import format_number, format_percent, format_slope
from alibi_viz.widgets.core.traits import BadValue, Choice, Count, Flag

__all__ = ["BiasExplorer"]

Floats = NDArray[np.float32]

_FORMULAS = {
    "relative": "\N{MINUS SIGN}m (i \N{MINUS SIGN} j)",
    "key": "m j",
    "end": "m (j \N{MINUS SIGN} last)",
    "symmetric": "\N{MINUS SIGN}m |i \N{MINUS SIGN} j|",
    "split": "\N{MINUS SIGN}m |i \N{MINUS SIGN} j|, half of the heads looking back, half ahead",
}
_HOVER_DELAY = 0.5  # seconds after the last change until the hover texts are added
_UNIFORM = 0.04  # a head that spans at most this share of the color scale looks like one color
_ENDS = (0, -1)  # the first and the last query: in every form their biases include the extremes of all queries
_SAME_WEIGHTS = "Each row differs from the relative form by a constant, so the softmax gives the same weights."
_LAST_KEYS = "Without a mask every query favors the last keys, whatever its own position."
_NOTES_WITH_MASK = {
    "key": [_SAME_WEIGHTS],
    "end": [_SAME_WEIGHTS],
    "split": ["Under a causal mask the heads that look ahead see only their own position."],
}
_NOTES_WITHOUT_MASK = {
    "relative": f"The keys ahead get a positive bias. {_LAST_KEYS}",
    "key": f"{_SAME_WEIGHTS} {_LAST_KEYS}",
    "end": f"{_SAME_WEIGHTS} {_LAST_KEYS}",
    "symmetric": "Keys before and after a query are treated alike, as in an encoder.",
    "split": "Gray is masked: the side to which a head does not attend.",
}


class BiasExplorer(App):
    """The bias of each head as a tile of `length` queries x `length` keys, on one color scale for all heads.

    By default a tile shows what the softmax makes of the bias: e^bias, divided by its largest value among the keys that
    the query may see. This is the weight that distance leaves to a key whose content is as good as that of the most
    favored key: under a causal mask, the query's own position. Choose show="bias" for the bias itself.

    A click on a head, or the menu, enlarges it. Another click, or "all heads" in the menu, shows all heads again.

    Traits:
        num_heads: 1 to 32.
        length: 1 to 256 tokens.
        show: "weight" or "bias".
        form: "relative", "key", "end", "symmetric" or "split"; see `alibi_bias`.
        causal: whether keys after their query are masked.
        scheme: "official", "geometric" or "halving"; see `alibi_slopes`.
        scale: the color scale of the bias, "linear" or "logarithmic"; weights are always on a linear scale.
        head: the enlarged head, 1 to num_heads, or None. Becomes None when `num_heads` falls below it.

    >>> from alibi_viz.widgets import BiasExplorer
    >>> app = BiasExplorer(num_heads=2, length=4)
    >>> print(app.caption)  # doctest: +ELLIPSIS
    2 heads, 4 x 4, ... At distance 3, head 1 leaves 83%, while head 2 still leaves 99%. ... Click a head to enlarge it.
    >>> app.head = 3
    Traceback (most recent call last):
    alibi_viz.widgets.core.traits.BadValue: head must be None or an integer from 1 to num_heads=2, got 3
    """

    num_heads = Count(8, 1, 32)
    length = Count(64, 1, 256)
    show = Choice("weight", bias_plot.SHOWS)
    form = Choice("relative", FORMS)
    causal = Flag(True)
    scheme = Choice("official", SCHEMES)
    scale = Choice("linear", bias_plot.SCALES)
    head = Count(None, 1, 32, allow_none=True)

    def __init__(self, **state: Any) -> None:
        self._debounce = Debounce(_HOVER_DELAY)
        super().__init__(**state)
        self.add_class("alibi-titles")
        bias_plot.on_click(self.figure, self._on_click)

    def blank(self) -> go.Figure:
        return bias_plot.blank()

    def controls(self) -> list[Widget]:
        shows = {"weight": "weight left, e^bias", "bias": "bias"}
        self._scale_menu = self.menu("scale", "colors", "s-scale", "A logarithmic scale shows small and large biases")
        return [
            self.slider("num_heads", "heads", "s-heads", "The number of attention heads"),
            self.slider("length", "length", "s-length", "The number of tokens: queries and keys"),
            self.menu("show", "show", "s-show", "The weight that the bias leaves to each key, or the bias", shows),
            self.menu("form", "form", "s-form", "How the bias is computed; see the caption"),
            self.checkbox("causal", "causal mask", "s-causal", "Mask the keys after each query"),
            self.menu("scheme", "slopes", "s-scheme", "The rule that gives each head its slope"),
            self._scale_menu,
            self._head_menu(),
        ]

    def draw(self) -> str:
        slopes = alibi_slopes(self.num_heads, self.scheme)
        bias = _matrices(slopes, self.length, self.form)  # [heads, query, key]
        masked = np.isneginf(bias) if self.form == "split" else np.zeros(bias.shape[1:], dtype=bool)
        if self.causal:
            masked = masked | ~np.tri(self.length, dtype=bool)
        masked = np.broadcast_to(masked, bias.shape)
        heads = np.arange(self.num_heads) if self.head is None else np.array([self.head - 1])
        bias, masked = bias[heads[0] : heads[-1] + 1], masked[heads[0] : heads[-1] + 1]
        add_hover = bias_plot.draw(
            self.figure,
            bias,
            masked,
            show=self.show,
            heads=heads + 1,
            slopes=[format_slope(slopes[head]) for head in heads],
            scale=self.scale,
            page_width=self.page_width,
        )
        self._debounce(lambda: add_hover(self.figure))
        self._scale_menu.disabled = self.show == "weight"
        describe = self._describe_weights if self.show == "weight" else self._describe_extremes
        return " ".join([self._describe_form(slopes), describe(bias, masked), *self._notes(bool(masked.any()))])

    def fit(self, width: int) -> None:
        self.page_width = width
        self.refresh()

    def snapshot(self) -> go.Figure:
        self._debounce.flush()
        return super().snapshot()

    @validate("head")
    def _check_head(self, proposal: Any) -> int | None:
        if (proposal.value or 1) > self.num_heads:
            allowed = f"None or an integer from 1 to num_heads={self.num_heads}"
            raise BadValue(f"head must be {allowed}, got {proposal.value}")
        return proposal.value

    @observe("num_heads")
    def _reset_removed_head(self, change: Any) -> None:
        if (self.head or 1) > self.num_heads:
            self.head = None

    def _on_click(self, head: int) -> None:
        self.head = head if self.head is None else None

    def _head_menu(self) -> Dropdown:
        """A menu with "all heads" (value 0) and every head."""
        style, layout = {"description_width": "initial"}, {"width": "150px"}
        tip = "Enlarge one head; a click on it does the same"
        menu = Dropdown(description="head", tooltip=tip, style=style, layout=layout)
        updating = False  # a menu with new options selects the first one, which is not the user's choice

        def update(_: Any = None) -> None:
            nonlocal updating
            updating = True
            menu.options = [("all heads", 0), *((f"head {head}", head) for head in range(1, self.num_heads + 1))]
            menu.value = self.head or 0
            updating = False

        update()
        self.observe(update, names="num_heads")
        read = lambda value: self.head if updating else value or None  # noqa: E731
        self.link(menu.add_class("s-head"), "head", read=read, show=lambda head: head or 0)
        return menu

    def _describe_form(self, slopes: Tensor) -> str:
        form = f"{self.length} x {self.length}, {self.form} form, {_FORMULAS[self.form]}."
        if self.head is not None:
            return f"Head {self.head} of {self.num_heads}, slope {format_slope(slopes[self.head - 1])}: {form}"
        return f"{self.num_heads} {'head' if self.num_heads == 1 else 'heads'}, {form}"

    def _describe_weights(self, bias: Floats, masked: NDArray[np.bool_]) -> str:
        """How much weight the farthest visible key keeps in the steepest and in the flattest head shown."""
        one_sided = self.causal or self.form in ("symmetric", "split")
        favored = "the query's own position" if one_sided else "the last key"
        text = f"Color shows e^bias: the weight left to a key of equal content, relative to {favored}."
        hidden = masked[:, _ENDS]
        weights = np.where(hidden, 1, bias_plot.weights_from_bias(bias[:, _ENDS], hidden)).min((1, 2))  # [heads]
        heads = np.flatnonzero((~hidden).sum(-1).max(-1) > 1)  # heads that see another key than their own position
        if not len(heads):
            return text
        steep, flat = heads[weights[heads].argmin()], heads[weights[heads].argmax()]
        first = self.head or 1
        text += f" At distance {self.length - 1}, head {first + steep} leaves {format_percent(weights[steep])}"
        if steep == flat:
            return f"{text}."
        return f"{text}, while head {first + flat} still leaves {format_percent(weights[flat])}."

    def _describe_extremes(self, bias: Floats, masked: NDArray[np.bool_]) -> str:
        """The smallest and the largest bias shown, in which heads, and which heads look uniform on a linear scale."""
        visible = np.where(masked[:, _ENDS], np.float32(0), bias[:, _ENDS])
        low, high = visible.min((1, 2)), visible.max((1, 2))  # [heads]
        ends = [
            format_number(values[head]) + (f" (head {head + 1})" if values[head] and len(values) > 1 else "")
            for values, head in ((low, low.argmin()), (high, high.argmax()))
        ]
        text = f"The bias is {ends[0]}." if ends[0] == ends[1] else f"The bias ranges from {ends[0]} to {ends[1]}."
        size = np.maximum(-low, high)
        count = int((size <= _UNIFORM * size.max()).sum())
        if self.scale == "logarithmic" or len(size) == 1 or not count or not size.max():
            return text
        heads = "1 head looks" if count == 1 else f"{count} heads look"
        limit = f"head {int(size.argmin()) + 1} stays within {format_number(size.min())}"
        return f"{text} On a linear color scale {heads} uniform ({limit}). Switch to the logarithmic scale to see more."

    def _notes(self, any_masked: bool) -> list[str]:
        """What this form means with or without a mask, and how to enlarge a head."""
        notes = []
        if self.causal:
            notes += ["Gray is masked: the keys after each query."] * any_masked
            notes += _NOTES_WITH_MASK.get(self.form, [])
        elif any_masked or self.form != "split":
            notes.append(_NOTES_WITHOUT_MASK[self.form])
        if self.head is not None:
            color_scale = "" if self.show == "weight" else "The color scale is this head's own. "
            notes.append(f"{color_scale}Click the tile to see all heads.")
        elif self.num_heads > 1:
            notes.append("Click a head to enlarge it.")
        return notes


def _matrices(slopes: Tensor, length: int, form: str) -> Floats:
    """The values of `alibi_bias(slopes, length, form=form)`, float32 [heads, query, key], as views of a few rows.

    Where the bias depends on i - j alone, every row is the previous one shifted by one key, and a single row of
    2 * length - 1 values contains them all. Computing two million cells with torch's threads is slow on a busy machine.
    """
    if form in ("key", "end"):  # the same for every query
        return np.broadcast_to(alibi_bias(slopes, length, form=form).numpy(), (len(slopes), length, length))
    row = bias_from_positions(slopes, torch.tensor([length - 1]), torch.arange(2 * length - 1), form=form)
    return sliding_window_view(row[:, 0].numpy(), length, axis=1)[:, ::-1]
