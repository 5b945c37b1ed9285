"""BiasExplorer: what ALiBi adds to the logit of every head, query and key."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from ipywidgets import Dropdown, Layout, Widget
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor
from traitlets import observe, validate

from alibi_viz.bias import FORMS, alibi_bias, bias_from_positions
from alibi_viz.figures import bias as picture
from alibi_viz.slopes import SCHEMES, alibi_slopes
from alibi_viz.widgets.core import formatting as words
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.debounce import Later
from alibi_viz.widgets.core.traits import BadValue, Choice, Count, Flag

__all__ = ["BiasExplorer"]

Floats = NDArray[np.float32]

_FORMULAS = {
    form: formula.replace("-", "\N{MINUS SIGN}")
    for form, formula in {
        "relative": "-m (i - j)",
        "key": "m j",
        "end": "m (j - last)",
        "symmetric": "-m |i - j|",
        "split": "-m |i - j|, half of the heads looking back, half ahead",
    }.items()
}
_STILL = 0.5  # seconds without a change before the pointer is answered: less than a hand needs from slider to picture
_FLAT = 0.04  # of the colour scale: a head that spans less of it looks like one colour


class BiasExplorer(App):
    """The bias of `num_heads` heads for `length` queries and keys, one tile a head, all on one colour scale.

    A click on a head, or the menu, enlarges it; another click, or "all heads", goes back.

    Traits:
        num_heads: 1 to 32.
        length: 1 to 256 tokens.
        form: "relative", "key", "end", "symmetric" or "split"; see `alibi_bias`.
        causal: whether keys after their query are masked.
        scheme: "official", "geometric" or "halving"; see `alibi_slopes`.
        scale: of the colours, "linear" or "logarithmic".
        head: the enlarged one, 1 to num_heads, or None. It goes back to None when `num_heads` falls below it.

    >>> from alibi_viz.widgets import BiasExplorer
    >>> app = BiasExplorer(num_heads=2, length=4)
    >>> app
    BiasExplorer(num_heads=2, length=4, form='relative', causal=True, scheme='official', scale='linear', head=None)
    >>> app.head = 3
    Traceback (most recent call last):
    alibi_viz.widgets.core.traits.BadValue: head must be None or a whole number from 1 to num_heads=2, got 3
    """

    num_heads = Count(8, 1, 32)
    length = Count(64, 1, 256)
    form = Choice("relative", FORMS)
    causal = Flag(True)
    scheme = Choice("official", SCHEMES)
    scale = Choice("linear", picture.SCALES)
    head = Count(None, 1, 32, allow_none=True)

    def __init__(self, **state: Any) -> None:
        self._later = Later(_STILL)
        super().__init__(**state)
        self.add_class("alibi-titles")
        picture.on_click(self.figure, self._clicked)

    def blank(self) -> go.Figure:
        return picture.blank()

    def controls(self) -> list[Widget]:
        return [
            self.slider("num_heads", "heads", "s-heads", "How many attention heads share the slopes"),
            self.slider("length", "length", "s-length", "How many tokens, as queries and as keys"),
            self.menu("form", "form", "s-form", "How the bias is written; see the caption"),
            self.checkbox("causal", "causal mask", "s-causal", "Hide the keys after each query"),
            self.menu("scheme", "slopes", "s-scheme", "The rule that gives each head its slope"),
            self.menu("scale", "colours", "s-scale", "Logarithmic colours show steep and flat heads at once"),
            self._head_menu(),
        ]

    def draw(self) -> str:
        slopes = alibi_slopes(self.num_heads, self.scheme)
        bias = _matrices(slopes, self.length, self.form)  # [heads, query, key]
        masked = ~np.tri(self.length, dtype=bool) if self.causal else np.zeros((self.length, self.length), dtype=bool)
        if self.form == "split":  # the side that a head does not look at
            masked = masked | np.isinf(bias)
        shown = slice(None) if self.head is None else slice(self.head - 1, self.head)
        seen = bias[shown], masked[shown] if masked.ndim == 3 else masked
        heads, page = np.arange(1, self.num_heads + 1)[shown], self.page_width
        names = [words.slope(slope) for slope in slopes[shown]]
        picture.draw(self.figure, *seen, heads=heads, slopes=names, scale=self.scale, page_width=page, pointer=False)
        self._later(lambda: picture.answer_pointer(self.figure, *seen, heads, page))
        visible = np.where(masked, np.float32(0), bias)
        low, high = visible.min((1, 2)), visible.max((1, 2))  # [heads]
        grey = bool(masked.any())
        said = [
            self._what(slopes),
            _extremes(low, high, self.head),
            *self._notes(grey),
            *self._colours(np.maximum(-low, high)),
        ]
        return " ".join(said)

    def fit(self, width: int) -> None:
        self.page_width = width
        self.refresh()

    def snapshot(self) -> go.Figure:
        self._later.now()
        return super().snapshot()

    @validate("head")
    def _head_exists(self, proposal: Any) -> int | None:
        if proposal.value is not None and proposal.value > self.num_heads:
            allowed = f"None or a whole number from 1 to num_heads={self.num_heads}"
            raise BadValue(f"head must be {allowed}, got {proposal.value}")
        return proposal.value

    @observe("num_heads")
    def _head_is_gone(self, change: Any) -> None:
        if self.head is not None and self.head > self.num_heads:
            self.head = None

    def _clicked(self, head: int) -> None:
        self.head = head if self.head is None else None

    def _head_menu(self) -> Dropdown:
        """All heads, at 0, or one of them; the list grows and shrinks with their number."""
        menu = Dropdown(
            description="show",
            tooltip="Look at one head closely; a click on it does the same",
            style={"description_width": "initial"},
            layout=Layout(width="150px"),
        )
        renewing = False  # a menu with a new list jumps to its first entry, which nobody has chosen

        def offer(_: Any = None) -> None:
            nonlocal renewing
            renewing = True
            menu.options = [("all heads", 0), *((f"head {head}", head) for head in range(1, self.num_heads + 1))]
            menu.value = self.head or 0
            renewing = False

        def chosen(at: int) -> int | None:
            return self.head if renewing else at or None

        offer()
        self.observe(offer, names="num_heads")
        self.link(menu.add_class("s-head"), "head", read=chosen, show=lambda head: head or 0)
        return menu

    def _what(self, slopes: Tensor) -> str:
        form = f"{self.form} form, {_FORMULAS[self.form]}"
        size = f"{self.length} x {self.length}"
        if self.head is not None:
            return f"Head {self.head} of {self.num_heads}, slope {words.slope(slopes[self.head - 1])}: {size}, {form}."
        return f"{self.num_heads} {'head' if self.num_heads == 1 else 'heads'}, {size}, {form}."

    def _notes(self, grey: bool) -> list[str]:
        """What this form means with or without the mask; `grey` says whether any cell is masked."""
        same = "Each row differs from the relative form by a constant, which the softmax does not see."
        if self.causal:
            notes = ["Grey is masked: the keys after each query."] if grey else []
            if self.form in ("key", "end"):
                notes.append(same)
            if self.form == "split":
                notes.append("Under a causal mask the heads that look ahead see only their own token.")
            return notes
        last = "Without a mask every query favours the last keys, wherever it stands itself."
        return {
            "relative": ["Without a mask the keys ahead get a positive bias: the future is rewarded.", last],
            "key": [same, last],
            "end": [same, last],
            "symmetric": ["Keys before and after a query are treated alike, as an encoder needs it."],
            "split": ["Grey is masked: the side that a head does not look at."] if grey else [],
        }[self.form]

    def _colours(self, spans: Floats) -> list[str]:
        """How far the colours can be trusted, and how to see more; `spans` is the largest |bias| in view, [heads]."""
        if self.num_heads == 1:
            return []
        if self.head is not None:
            return ["The colour scale is this head's own. Click it to see all heads."]
        flat = int((spans <= _FLAT * spans.max()).sum())
        hint = "Click a head to enlarge it."
        if self.scale == "logarithmic" or not flat or not spans.max():
            return [hint]
        reaches = f"head {int(spans.argmin()) + 1} never goes beyond {words.bias(spans.min())} in size"
        return [f"{flat} look almost flat on one linear scale ({reaches}); logarithmic colours show them.", hint]


def _matrices(slopes: Tensor, length: int, form: str) -> Floats:
    """The numbers of `alibi_bias(slopes, length, form=form)`, float32 [heads, query, key], as views of a few rows.

    Where the bias depends on i - j alone, every row is the same one, a position further on: one row of 2 length - 1
    holds them all. torch would fill two million cells with all its threads, and wait for them on a busy machine.
    """
    if form in ("key", "end"):  # it does not depend on the query at all
        return np.broadcast_to(alibi_bias(slopes, length, form=form).numpy(), (len(slopes), length, length))
    row = bias_from_positions(slopes, torch.tensor([length - 1]), torch.arange(2 * length - 1), form=form)
    return sliding_window_view(row[:, 0].numpy(), length, axis=1)[:, ::-1]


def _extremes(low: Floats, high: Floats, head: int | None) -> str:
    """The smallest and the largest bias in view, and where; both are given as [heads]."""
    heads = range(len(low)) if head is None else [head - 1]
    lowest, highest = min(heads, key=low.__getitem__), max(heads, key=high.__getitem__)
    where = (f" (head {lowest + 1})", f" (head {highest + 1})") if head is None and len(low) > 1 else ("", "")
    ends = [
        words.bias(value) + (place if value else "")
        for value, place in ((low[lowest], where[0]), (high[highest], where[1]))
    ]
    return f"The bias goes from {ends[0]} to {ends[1]}." if ends[0] != ends[1] else f"The bias is {ends[0]}."
