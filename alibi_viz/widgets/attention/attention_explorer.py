"""AttentionExplorer: attention on your own text, step by step, with ALiBi or without it."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from ipywidgets import Layout, Text, Widget
from torch import Tensor

from alibi_viz.attention import AttentionTrace, attention_trace
from alibi_viz.figures import attention_plot
from alibi_viz.figures.matrices import named_trace, on_tile_click
from alibi_viz.figures.token_labels import quoted
from alibi_viz.measure.attention_sources import AttentionSource, Reading, shuffle_words
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.attention.text_app import TextApp
from alibi_viz.widgets.core.app import Why
from alibi_viz.widgets.core.controls import button, column, fold, labeled, row, show
from alibi_viz.widgets.core.formatting import format_percent, format_slope
from alibi_viz.widgets.core.traits import MAX_HEADS, Count, Flag, HasHead

MAX_TOKENS = (
    72  # a cell of more tokens would be smaller than three pixels, and the hover texts slow to send
)
NEAR = 3  # tokens at most this far away count as the nearest


class AttentionExplorer(HasHead, TextApp):
    """How a head reads a text: content + bias = logits -> weights for all queries, and one query in
    detail.

    Below are the weights of all heads, with the same query framed. A click on a head there selects
    it; a click on a row of a large matrix selects the query in all of them.

    Args:
        source: where queries and keys come from. The default, `lab.attention_sources.Words`, makes
            them up from the words. A `LanguageModel` with ALiBi reads the bytes of the text. A
            string is the name or the folder of a BLOOM, MPT or Falcon model, see
            `lab.PretrainedModel.from_pretrained`; for a model and a tokenizer that are loaded
            already, give `lab.PretrainedModel(model, tokenizer)`. Any other
            `lab.attention_sources.AttentionSource` is used as it is. Raises TypeError for anything
            else, and ValueError for a model that cannot be loaded or has no ALiBi.

    A model runs once for each text. `refresh()` runs it again, because its weights may have
    changed.

    Traits:
        text: at most 50,000 characters, of which the first 72 tokens are read. A new text is not
            shuffled.
        num_heads: 1 to 32; fixed for a model.
        head: the head in the large matrices, counted from 1.
        query: the position whose row is framed, counted from 0; None for the last token. A click on
            a row selects it.
        content: where q . k comes from: "same word" or "equal"; with a model "layer 1", "layer 2"
            and so on.
        bias: whether the bias is added.
        causal: whether keys after the query are masked. Without a mask the bias is symmetric, -m |i
            - j|.
        order: None for the words as they are in the text, or the seed with which all words before
            the last one are shuffled. The caption then says by how much weights have changed, apart
            from moving with their words.

    >>> from alibi_viz.widgets import AttentionExplorer
    >>> AttentionExplorer(text="to be or not to be", num_heads=2, bias=False)  # doctest: +ELLIPSIS
    AttentionExplorer(text='to be or not to be', num_heads=2, content=..., head=1, query=None, ..., order=None)
    """

    why = Why(
        "Content and bias are added before the softmax. So they compete, and a key further back "
        "needs more content "
        "for the same weight.",
        "03_attention",
        "See the sum",
    )
    head = Count(3, min=1, max=MAX_HEADS)
    query = Count(None, min=0, max=MAX_TOKENS - 1, allow_none=True)
    bias = Flag(True)
    causal = Flag(True)
    order = Count(None, min=0, max=2**31 - 1, allow_none=True)
    longest = MAX_TOKENS
    min_width = 620
    redraw_to_fit = True  # the number of labels and the grid of heads depend on the width
    blank = staticmethod(attention_plot.blank)

    def __init__(
        self, source: AttentionSource | LanguageModel | str | None = None, **state: Any
    ) -> None:
        if "num_heads" in state or source is not None:
            state.setdefault("head", 1)  # the default, 3, may not exist
        super().__init__(source, **state)
        for step in attention_plot.STEPS:
            named_trace(self.figure, step).on_click(self._select)
        on_tile_click(self.figure, lambda head: self.set_trait("head", head))

    def controls(self) -> list[Widget]:
        self.observe(
            lambda _: self.set_together({"query": None, "order": None}), names="text"
        )  # before App draws
        text_box, *menus = super().controls()
        head = self.slider("head", "head", "s-head", "The head that the matrices show")
        self._head_slider = head.children[1]
        tip = "Shuffle all words before the last one, in another way each time"
        shuffle = button(
            "Shuffle", "random", "s-shuffle", tip, lambda: self._set_order((self.order or 0) + 1)
        )
        tip = "Put the words back in the order of the text"
        self._restore = button(
            "Original order", "sort-amount-asc", "s-original", tip, lambda: self._set_order(None)
        )
        tip = "The position of the token whose row is framed, counted from 0; none for the last one"
        query = Text(
            placeholder="last", continuous_update=False, tooltip=tip, layout=Layout(width="60px")
        )
        read = lambda text: int(text) if text.strip().isdecimal() else text.strip() or None  # noqa: E731  # or rejected
        self.link(
            query.add_class("s-query"), "query", read, lambda at: "" if at is None else str(at)
        )
        bias = self.checkbox("bias", "add the bias", "s-bias", "Add the bias to the logits")
        causal = self.checkbox(
            "causal", "causal mask", "s-causal", "Mask the keys after each query"
        )
        tip = "The content, the number of heads, the mask and the query"
        more, folded = fold("More", tip, row(*menus, causal, labeled("query", query)))
        buttons = shuffle, self._restore, more, self.reset_button(self.show_text)
        return [column(text_box, row(bias, head, *buttons), folded)]

    def draw(self) -> tuple[str, str]:
        original = self.read(self.text)
        reading = (
            original if self.order is None else self.read(shuffle_words(self.text, self.order))
        )
        length, head = len(reading.tokens), self.head - 1
        if self.query is not None and self.query >= length:
            raise ValueError(
                f"query must be a position from 0 to {length - 1} in this text, got {self.query}"
            )
        query = length - 1 if self.query is None else self.query
        trace, other = (
            self._trace(reading, with_bias=biased) for biased in (self.bias, not self.bias)
        )
        slope = format_slope(reading.slopes[head])
        distance = "(i - j)" if self.causal else "|i - j|"
        bias = f"bias, m = {slope}<br>-m {distance}" if self.bias else "bias, switched off"
        names = ("bias on", "bias off")[:: 1 if self.bias else -1]
        place: dict[str, Any] = {"head": head, "query": query, "names": names}
        place |= {"bias_name": bias.replace("-", "\N{MINUS SIGN}"), "page_width": self.page_width}
        attention_plot.draw(self.figure, reading.tokens, trace, other, **place)
        self.note_length(reading)
        self._head_slider.max = self.num_heads
        show(self.order is not None, self._restore)

        sentences = [
            f"Head {self.head} of {self.num_heads}, slope {slope}, bias "
            f"{'on' if self.bias else 'off'}."
        ]
        if self.order is not None:
            pairs = (
                (reading.tokens, trace),
                (original.tokens, self._trace(original, with_bias=self.bias)),
            )
            after, before = (
                pd.Series(each.weights[0, head, -1].numpy()).groupby(words).sum()
                for words, each in pairs
            )
            change = after.sub(before, fill_value=0).abs().max()
            order = (
                "With the words before the last one shuffled, the weights that the last query "
                "gives to each token"
            )
            other_words = (
                "The text is longer than what is read, so shuffling changes which words "
                "are read as well."
            )
            sentences.append(
                f"{order} change by up to {change:.3f}."
                if original.total == length
                else other_words
            )
        weights = torch.stack([each.weights[0, head, query] for each in (trace, other)])
        visible = trace.logits[0, head, query].isfinite()
        switched = "without the bias" if self.bias else "with the bias"
        sentences += _describe_query(reading.tokens, query, visible, weights, switched)
        return " ".join(sentences[:2]), " ".join([*sentences[2:], reading.note]).strip()

    def _trace(self, reading: Reading, *, with_bias: bool) -> AttentionTrace:
        return attention_trace(
            reading.query, reading.key, reading.slopes if with_bias else None, causal=self.causal
        )

    def _set_order(self, order: int | None) -> None:
        self.attempt(lambda: setattr(self, "order", order))

    def _select(self, _: object, points: Any, __: object) -> None:
        """A click on a row selects its query."""
        if points.ys:
            self.query = int(points.ys[0])


def _describe_query(
    tokens: Sequence[str], query: int, visible: Tensor, shares: Tensor, switched: str
) -> list[str]:
    """Which tokens a query attends to: those near it, and the farthest equal one.

    `visible` is bool [key]. `shares`, [2, key], are its weights as shown, and with the bias
    switched.
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
    equal = [
        key
        for key, token in enumerate(tokens)
        if visible[key] and key != query and token == tokens[query]
    ]
    if equal:
        far = max(equal, key=lambda key: abs(key - query))
        here, there = (format_percent(share[far]) for share in shares)
        farthest = f"The farthest other {quoted(tokens[far])}, {abs(far - query):,} away"
        sentences.append(f"{farthest}, gets {here}; {switched} {there}.")
    return sentences
