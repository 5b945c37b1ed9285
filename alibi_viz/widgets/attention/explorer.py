"""AttentionExplorer: attention on your own text, step by step, with ALiBi, without it, or with another bias."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
import torch
from ipywidgets import Layout, Text, Widget
from torch import Tensor

from alibi_viz.figures import attention as attention_plot
from alibi_viz.figures.matrices import named_trace, on_tile_click
from alibi_viz.figures.tokens import label, quoted
from alibi_viz.lab.attention_sources import (
    AttentionSource,
    Reading,
    law_curve,
    shuffle_words,
    trace_queries,
    weight_by_word,
)
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.attention.text_app import MAX_TOKENS, TextApp
from alibi_viz.widgets.core.app import Why
from alibi_viz.widgets.core.controls import button, column, labeled, row, unfold_button
from alibi_viz.widgets.core.formatting import format_percent, format_slope
from alibi_viz.widgets.core.traits import LINEAR, Count, Flag, HasHead, Law, law_function, law_name

MAX_ROWS = 48  # tokens in the matrices: more would be too small to read, and slow to send
NEAR = 3  # tokens at most this far away count as the nearest
_SWITCHED = {"bias on": "with the bias", "bias off": "without the bias"}  # in the caption


class AttentionExplorer(HasHead, TextApp):
    """How a head reads a text: content + bias = logits -> weights for all queries, and one query in detail.

    Below are the weights of all heads, with the same query framed. A click on a head there selects it; a click on a row
    of a large matrix selects the query in all of them.

    Args:
        source: where queries and keys come from. The default, `lab.attention_sources.Words`, makes them up from the
            words. A `LanguageModel` with ALiBi reads the bytes of the text. A string is the name or the folder of a
            BLOOM, MPT or Falcon model, see `lab.PretrainedModel.from_pretrained`; for a model and a tokenizer that are
            loaded already, give `lab.PretrainedModel(model, tokenizer)`. Any other
            `lab.attention_sources.AttentionSource` is used as it is. Raises TypeError for anything else, and ValueError
            for a model that cannot be loaded or has no ALiBi.

    Each layer of a text is computed once. While a model works, controls stay usable: what they ask for appears when it
    is ready. In code, setting a trait waits for it. `refresh()` reads again, for a model whose weights have changed.

    Traits:
        text: at most 50,000 characters, of which the first 4,096 tokens are read. The matrices show at most 48 tokens:
            those around the query. The bars show all keys of the query. A new text is not shuffled.
        num_heads: 1 to 32; fixed for a model.
        head: the head in the large matrices, counted from 1.
        query: the position whose row is framed, counted from 0; None for the last token. A click on a row selects it.
        content: where q . k comes from: "same word", "equal" or "random"; with a model "layer 1", "layer 2" and so on.
        law: how the bias depends on the distance: "linear" for ALiBi, the name of another law of `alibi_viz.laws`, or
            your own function law(distance, head, num_heads). ALiBi is then shown for comparison.
        bias: whether the bias is added.
        causal: whether keys after the query are masked. Without a mask the bias is symmetric, -m |i - j|.
        order: None for the words as they are in the text, or the seed with which all words before the last one are
            shuffled. The caption then says by how much weights have changed, apart from moving with their words.

    >>> from alibi_viz.widgets import AttentionExplorer
    >>> AttentionExplorer(text="to be or not to be", num_heads=2, bias=False)  # doctest: +ELLIPSIS
    AttentionExplorer(text='to be or not to be', num_heads=2, content=..., head=1, query=None, ..., order=None)
    """

    why = Why(
        "Content and bias are added before the softmax. So they compete, and a key further back needs more content "
        "for the same weight.",
        "03_attention",
        "See the sum",
    )
    head = Count(3, 1, 32)
    query = Count(None, 0, MAX_TOKENS - 1, allow_none=True)
    law = Law()
    bias = Flag(True)
    causal = Flag(True)
    order = Count(None, 0, 2**31 - 1, allow_none=True)
    reads = (*TextApp.reads, "order")
    redraw_to_fit = True  # the number of labels and the grid of heads depend on the width

    def __init__(self, source: AttentionSource | LanguageModel | str | None = None, **state: Any) -> None:
        if "num_heads" in state or source is not None:
            state.setdefault("head", 1)  # the default, 3, may not exist
        super().__init__(source, **state)
        for step in attention_plot.STEPS:
            named_trace(self.figure, step).on_click(self._select)
        on_tile_click(self.figure, lambda head: self.set_trait("head", head))
        self.add_class("alibi-titles")

    def blank(self) -> go.Figure:
        return attention_plot.blank()

    def controls(self) -> list[Widget]:
        # called before App's own observer, which draws
        self.observe(lambda _: self.set_together({"query": None, "order": None}), names="text")
        text_box, *menus = super().controls()
        head = self.slider("head", "head", "s-head", "The head that the matrices show")
        self._head_slider = head.children[1]
        tip = "Shuffle all words before the last one, in another way each time"
        shuffle = button("Shuffle", "random", "s-shuffle", tip, lambda: self._set_order((self.order or 0) + 1))
        tip = "Put the words back in the order of the text"
        self._restore = button("Original order", "sort-amount-asc", "s-original", tip, lambda: self._set_order(None))
        tip = "The position of the token whose row is framed, counted from 0; none for the last one"
        query = Text(placeholder="last", continuous_update=False, tooltip=tip, layout=Layout(width="60px"))
        read = lambda text: int(text) if text.isdecimal() else text.strip() or None  # noqa: E731  # the trait rejects it
        self.link(query.add_class("s-query"), "query", read, lambda at: "" if at is None else str(at))
        folded = row(*menus, self.law_menu(), labeled("query", query))
        folded.layout.display = "none"
        bias = self.checkbox("bias", "add the bias", "s-bias", "Add the bias to the logits")
        causal = self.checkbox("causal", "causal mask", "s-causal", "Mask the keys after each query")
        more = unfold_button(
            "More",
            "The content, the number of heads, the law of the bias and the query",
            lambda pressed: setattr(folded.layout, "display", None if pressed else "none"),
        )
        buttons = shuffle, self._restore, more, self.reset_button()
        return [column(text_box, row(bias, causal, head, *buttons), folded)]

    def draw(self) -> tuple[str, str]:
        orders = [] if self.order is None else [shuffle_words(self.text, self.order)]
        original, *shuffled = self.read(self.text, *orders)
        reading = shuffled[0] if shuffled else original
        length, head = len(reading.tokens), self.head - 1
        if self.query is not None and self.query >= length:
            raise ValueError(f"query must be a position from 0 to {length - 1} in this text, got {self.query}")
        query = length - 1 if self.query is None else self.query
        start = max(0, min(query - MAX_ROWS // 2, length - MAX_ROWS))
        rows = range(start, min(start + MAX_ROWS, length))
        (name, curve), (other_name, other_curve) = self._curves(reading)
        read = reading.query, reading.key
        trace = trace_queries(*read, curve, rows, causal=self.causal)
        other = trace_queries(*read, other_curve, [query], causal=self.causal)
        place: dict[str, Any] = {"head": head, "query": query, "start": start, "page_width": self.page_width}
        place |= {"names": (name, other_name), "bias_name": self._formula(reading.slopes[head])}
        attention_plot.draw(self.figure, reading.tokens, trace, other, **place)
        self.note_length(reading)
        self._head_slider.max = self.num_heads
        self._restore.layout.display = "none" if self.order is None else None

        law = f"slope {format_slope(reading.slopes[head])}" if self.law == LINEAR else f"law {law_name(self.law)}"
        sentences = [f"Head {self.head} of {self.num_heads}, {law}, bias {'on' if self.bias else 'off'}."]
        if shuffled:
            after, before = (weight_by_word(each, curve, head, causal=self.causal) for each in (reading, original))
            change = after.sub(before, fill_value=0).abs().max()
            order = "With the words before the last one shuffled, the weights that the last query gives to each word"
            sentences.append(f"{order} change by up to {change:.3f}.")
        weights = torch.stack([trace.weights[0, head, query - start], other.weights[0, head, 0]])
        visible = trace.logits[0, head, query - start].isfinite()
        switched = _SWITCHED.get(other_name, f"with {other_name}")
        sentences += _describe_query(reading.tokens, query, visible, weights, switched)
        if len(rows) < length:
            part = f"tokens {rows.start:,} to {rows.stop - 1:,} of {length:,}, around the query"
            sentences.append(
                f"The matrices show {part}; the bars show all keys, {attention_plot.bin_size(length)} each."
            )
        return " ".join(sentences[:2]), " ".join([*sentences[2:], reading.note]).strip()

    def _curves(self, reading: Reading) -> list[tuple[str, Tensor | None]]:
        """The bias shown and the one it is compared with, each with its name; None for no bias."""
        length = len(reading.tokens)
        alibi = -reading.slopes[:, None] * torch.arange(length)  # [heads, distance]
        if self.law == LINEAR:
            biases = [("bias on", alibi), ("bias off", None)]
            return biases if self.bias else biases[::-1]
        law = label(law_name(self.law), 16), law_curve(law_function(self.law), self.num_heads, length)
        return [law, ("ALiBi", alibi)] if self.bias else [("bias off", None), law]

    def _formula(self, slope: Tensor) -> str:
        """The title of the bias panel."""
        distance = "(i - j)" if self.causal else "|i - j|"
        if not self.bias:
            formula = "bias, switched off"
        elif self.law == LINEAR:
            formula = f"bias, m = {format_slope(slope)}<br>-m {distance}"
        else:
            formula = f"bias<br>{label(law_name(self.law), 14)}({distance.strip('()')})"
        return formula.replace("-", "\N{MINUS SIGN}")

    def _set_order(self, order: int | None) -> None:
        self.attempt(lambda: setattr(self, "order", order))

    def _select(self, _: object, points: Any, __: object) -> None:
        """A click on a row selects its query."""
        if points.ys:
            self.query = int(points.ys[0])


def _describe_query(tokens: Sequence[str], query: int, visible: Tensor, shares: Tensor, switched: str) -> list[str]:
    """Which tokens a query attends to: those near it, and the farthest equal one.

    `visible` is bool [key]. `shares`, [2, key], are its weights as shown, and in the comparison named by `switched`.
    """
    distance = (torch.arange(len(tokens)) - query).abs()
    near = visible & (distance <= NEAR)
    if bool((near == visible).all()):  # then the query itself
        near = distance == 0
    neighbors = int(near.sum()) - 1
    receivers = f"itself and the {neighbors} nearest tokens" if neighbors else "itself"
    here, there = (format_percent(share[near].sum()) for share in shares)
    name = f"Query {query:,} {quoted(tokens[query])}"
    sentences = [f"{name} gives {here} of its weight to {receivers}; {switched} {there}."]
    equal = [key for key, token in enumerate(tokens) if visible[key] and key != query and token == tokens[query]]
    if equal:
        far = max(equal, key=lambda key: abs(key - query))
        here, there = (format_percent(share[far]) for share in shares)
        farthest = f"The farthest other {quoted(tokens[far])}, {abs(far - query):,} away"
        sentences.append(f"{farthest}, gets {here}; {switched} {there}.")
    return sentences
