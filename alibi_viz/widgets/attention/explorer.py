"""AttentionExplorer: attention on your own text, step by step, with ALiBi, without it, or with another bias."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
import torch
from ipywidgets import IntSlider, Layout, Widget
from torch import Tensor

from alibi_viz.figures import attention as attention_plot
from alibi_viz.figures.matrices import named_trace, on_tile_click
from alibi_viz.figures.tokens import label, quoted
from alibi_viz.lab.attention_sources import (
    AttentionSource,
    Reading,
    ShuffleChanges,
    compare_orders,
    law_curve,
    shuffle_words,
    trace_queries,
)
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.attention.text_app import MAX_TOKENS, TextApp
from alibi_viz.widgets.core.app import Why
from alibi_viz.widgets.core.controls import button, labeled
from alibi_viz.widgets.core.formatting import format_percent, format_slope
from alibi_viz.widgets.core.traits import LINEAR, Count, Flag, HasHead, Law, law_function, law_name

MAX_ROWS = 48  # tokens in the matrices: more would be too small to read, and slow to send
NEAR = 3  # tokens at most this far away count as the nearest
_SAME = 5e-4  # a change below is rounding, and prints as 0.000
_SWITCHED = {"bias on": "with the bias", "bias off": "without the bias"}  # in the caption


class AttentionExplorer(HasHead, TextApp):
    """How a head reads a text: content + bias = logits -> weights for all queries, and one query in detail.

    Below are the weights of all heads, with the same query framed. A click on a head there selects it; a click on a row
    of a large matrix selects the query in all of them. Up to 32 heads wrap onto several rows.

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
            those around the query. The right column always shows all keys of the query. A new text is not shuffled.
        num_heads: 1 to 32; fixed for a model.
        head: the head in the large matrices, counted from 1.
        query: the position whose row is framed, counted from 0; None for the last token. A click on a row selects it.
        content: where q . k comes from: "same word", "equal" or "random"; with a model "layer 1", "layer 2" and so on.
        law: how the bias depends on the distance: "linear" for ALiBi, the name of another law of `alibi_viz.laws`, or
            your own function law(distance, head, num_heads). ALiBi is then shown for comparison.
        bias: whether the bias is added.
        causal: whether keys after the query are masked. Without a mask the bias is symmetric, -m |i - j|.
        order: None for the words as they are in the text, or the seed with which all words before the last one are
            shuffled. The caption then says how much weights have changed, apart from moving with their words.

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
    redraw_to_fit = True  # the height and the number of labels depend on the width

    def __init__(self, source: AttentionSource | LanguageModel | str | None = None, **state: Any) -> None:
        if "num_heads" in state or source is not None:
            state.setdefault("head", 1)  # the default, 3, may not exist
        super().__init__(source, **state)
        for panel in (*attention_plot.STEPS, "heads"):
            name = "head" if panel == "heads" else "query"
            named_trace(self.figure, panel).on_click(lambda _, points, __, name=name: self._select(name, points))
        on_tile_click(self.figure, lambda head: self.set_trait("head", head))
        self.add_class("alibi-titles")

    def blank(self) -> go.Figure:
        return attention_plot.blank()

    def controls(self) -> list[Widget]:
        self._length = MAX_TOKENS
        # called before App's own observer, which draws
        self.observe(lambda _: self.set_together({"query": None, "order": None}), names="text")
        text_box, *menus = super().controls()
        head = self.slider("head", "head", "s-head", "The head that the matrices show")
        query = IntSlider(tooltip="The token whose row is framed", layout=Layout(width="230px"))
        self._head_slider, self._query_slider = head.children[1], query
        self.link(query.add_class("s-query"), "query", read=self._from_slider, show=self._to_slider)
        tip = "Shuffle all words before the last one, in another way each time"
        shuffle = button("Shuffle", "random", "s-shuffle", tip, lambda: self._set_order((self.order or 0) + 1))
        tip = "Put the words back in the order of the text"
        self._restore = button("Original order", "sort-amount-asc", "s-original", tip, lambda: self._set_order(None))
        return [
            text_box,
            self.checkbox("bias", "add the bias", "s-bias", "Add the bias to the logits"),
            self.law_menu(),
            head,
            labeled("query", query),
            *menus,
            self.checkbox("causal", "causal mask", "s-causal", "Mask the keys after each query"),
            shuffle,
            self._restore,
            self.reset_button(),
        ]

    def draw(self) -> tuple[str, str]:
        original, *shuffled = self.read(
            self.text, *([] if self.order is None else [shuffle_words(self.text, self.order)])
        )
        reading = shuffled[0] if shuffled else original
        length, head = len(reading.tokens), self.head - 1
        if self.query is not None and self.query >= length:
            raise ValueError(f"query must be a position from 0 to {length - 1} in this text, got {self.query}")
        query = length - 1 if self.query is None else self.query
        start = max(0, min(query - MAX_ROWS // 2, length - MAX_ROWS))
        rows = range(start, min(start + MAX_ROWS, length))
        (name, curve), (other_name, other_curve) = self._curves(reading)
        trace, other = (
            trace_queries(reading.query, reading.key, bias, queries, causal=self.causal)
            for bias, queries in ((curve, rows), (other_curve, [query]))
        )
        attention_plot.draw(
            self.figure,
            reading.tokens,
            trace,
            other,
            head=head,
            query=query,
            start=start,
            names=(name, other_name),
            bias_name=self._formula(float(reading.slopes[head])),
            page_width=self.page_width,
        )
        self.note_length(reading)
        self._length = length
        self._query_slider.max, self._head_slider.max = length - 1, self.num_heads
        self._query_slider.value = query
        self._restore.disabled = self.order is None

        law = f"slope {format_slope(reading.slopes[head])}" if self.law == LINEAR else f"law {law_name(self.law)}"
        sentences = [f"Head {self.head} of {self.num_heads}, {law}, bias {'on' if self.bias else 'off'}."]
        if shuffled:
            changes = compare_orders(reading, original, curve, head, rows, causal=self.causal)
            sentences += _describe_shuffle(changes, causal=self.causal, same=reading is original)
        weights = torch.stack([trace.weights[0, head, query - start], other.weights[0, head, 0]])
        visible = trace.logits[0, head, query - start].isfinite()
        switched = _SWITCHED.get(other_name, f"with {other_name}")
        sentences += _describe_query(reading.tokens, query, visible, weights, switched)
        if len(rows) < length:
            size = attention_plot.bin_size(length)
            part = f"tokens {rows.start:,} to {rows.stop - 1:,} of {length:,}, around the query"
            bars = f", {size} in each bar" * (size > 1)
            sentences += [f"The matrices show {part}; the right column shows all keys{bars}."]
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

    def _formula(self, slope: float) -> str:
        """The title of the bias panel."""
        if not self.bias:
            return "bias, switched off"
        distance = "i - j" if self.causal else "|i - j|"
        if self.law != LINEAR:
            formula = f"bias<br>{label(law_name(self.law), 14)}({distance})"
        else:
            formula = f"bias, m = {format_slope(slope)}<br>-m {f'({distance})' if self.causal else distance}"
        return formula.replace("-", "\N{MINUS SIGN}")

    def _set_order(self, order: int | None) -> None:
        self.attempt(lambda: setattr(self, "order", order))

    def _select(self, name: str, points: Any) -> None:
        """A click on a row selects it."""
        if points.ys:
            setattr(self, name, int(points.ys[0]))

    def _to_slider(self, query: int | None) -> int:
        """The slider's position: its right end for None, and for a query beyond the text, which `draw` rejects."""
        return self._length - 1 if query is None else min(query, self._length - 1)

    def _from_slider(self, position: int) -> int | None:
        return None if position == self._length - 1 else position


def _describe_query(tokens: Sequence[str], query: int, visible: Tensor, shares: Tensor, switched: str) -> list[str]:
    """Which tokens a query attends to: those near it, and the farthest equal one.

    `visible` is bool [key]. `shares`, [2, key], are its weights as shown, and in the comparison named by `switched`.
    """
    name = f"Query {query:,} {quoted(tokens[query])}"
    if int(visible.sum()) == 1:
        return [f"{name} sees only itself and gives itself all its weight."]
    distance = (torch.arange(len(tokens)) - query).abs()
    near = visible & (distance <= NEAR)
    if bool((near == visible).all()):  # then the query itself
        near = distance == 0
    neighbors = int(near.sum()) - 1
    receivers = f"itself and the {neighbors} nearest tokens" if neighbors else "itself"
    here, there = (format_percent(share[near].sum()) for share in shares)
    sentences = [f"{name} gives {here} of its weight to {receivers}; {switched} {there}."]
    equal = [key for key, token in enumerate(tokens) if visible[key] and key != query and token == tokens[query]]
    if equal:
        far = max(equal, key=lambda key: abs(key - query))
        here, there = (format_percent(share[far]) for share in shares)
        farthest = f"The farthest other {quoted(tokens[far])}, {abs(far - query):,} away"
        sentences.append(f"{farthest}, gets {here}; {switched} {there}.")
    return sentences


def _describe_shuffle(changes: ShuffleChanges | None, *, causal: bool, same: bool) -> list[str]:
    """Whether the weights have only moved with the shuffled words, and by how much they have changed if not."""
    start = "With the words before the last one shuffled,"
    if same:
        return ["There is nothing to shuffle: the text has no two different words before the last one."]
    if changes is None:
        return [f"{start} the tokens are others, so the weights cannot be compared with those of the original order."]
    content, weight, any_weight = changes
    if max(content, weight) > _SAME:
        cause = "its content is the same, but the bias depends on the distance"
        if content > _SAME:
            cause = f"in this layer, queries and keys depend on the order, and content changes by up to {content:.2f}"
        moved = "and followed to their new places, weights of the last query change by up to"
        return [f"{start} {moved} {weight:.2f}; {cause}."]
    if any_weight <= _SAME:
        same_weight = "every query shown gives each token the same weight as in the original order, only at another"
        return [f"{start} {same_weight} place: the largest difference is {any_weight:.3f}."]
    same_weight = "the last query gives each token the same weight as in the original order, only at another place"
    cause = ", because the mask now hides other words from them" * causal
    return [
        f"{start} {same_weight}: the largest difference is {weight:.3f}.",
        f"Those of other queries change by up to {any_weight:.2f}{cause}.",
    ]
