"""AttentionExplorer: attention on your own text, step by step, with ALiBi or without it."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import torch
from ipywidgets import Layout, Text, Widget
from torch import Tensor
from traitlets import Bool, Int

from alibi_viz.attention import AttentionTrace, attention_trace
from alibi_viz.figures import attention_plot
from alibi_viz.figures.heatmap_grid import on_tile_click
from alibi_viz.figures.theme import named_trace
from alibi_viz.figures.token_labels import quoted_token
from alibi_viz.formatting import format_percent, format_slope, true_minus
from alibi_viz.measure.attention_sources import AttentionSource, Reading, shuffle_words
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.attention.sum_line import SumLine, sums_in_words
from alibi_viz.widgets.attention.text_app import MAX_TOKENS, TextApp
from alibi_viz.widgets.core.app import Why
from alibi_viz.widgets.core.controls import button, column, fold, labeled, row, show
from alibi_viz.widgets.core.traits import MAX_DRAWN_HEADS, HasHead

NEAR = 3  # tokens at most this far away count as the nearest


class AttentionExplorer(HasHead, TextApp):
    """How heads read a text: the weights of all heads, and those of one query in detail. On demand,
    content + bias = logits -> weights for all queries of a head.

    A click on a head selects it; a click on a bar, or on a row of a large matrix, selects the
    query. The line below the figure is the sum behind the cell under the pointer.

    Args:
        source: where queries and keys come from. The default,
            `alibi_viz.measure.attention_sources.Words`, makes them up from the words. A
            `LanguageModel` with ALiBi reads the bytes of the text. A string is the name or the
            folder of a BLOOM, MPT or Falcon model, see `lab.PretrainedModel.from_pretrained`; for a
            model and a tokenizer that are loaded already, give `lab.PretrainedModel(model,
            tokenizer)`. A subclass of `alibi_viz.measure.attention_sources.AttentionSource` is used
            as it is. Raises TypeError for anything else, and ValueError for a model that cannot be
            loaded or has no ALiBi.

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
            and so on; by default the first of these.
        bias: whether the bias is added.
        causal: whether keys after the query are masked. Without a mask the bias is symmetric,
            -m |i - j|.
        order: None for the words as they are in the text, or the seed with which all words before
            the last one are shuffled. The caption then says by how much weights have changed, apart
            from moving with their words.
        matrices: whether the four steps are shown as matrices.

    >>> from alibi_viz.widgets import AttentionExplorer
    >>> AttentionExplorer(text="to be or not to be", num_heads=2, bias=False)  # doctest: +ELLIPSIS
    AttentionExplorer(text='to be or not to be', num_heads=2, ..., query=None, ..., matrices=False)
    """

    why = Why(
        "Content and bias are added before the softmax. So they compete, and a key further back "
        "needs more content for the same weight.",
        "02_content_against_distance",
        "The tug of war in real text",
    )
    head = Int(3, min=1, max=MAX_DRAWN_HEADS).tag(choices="heads")
    query = Int(None, min=0, max=MAX_TOKENS - 1, allow_none=True)
    bias = Bool(True)
    causal = Bool(True)
    order = Int(None, min=0, max=2**31 - 1, allow_none=True)
    matrices = Bool(False)
    min_width = 440
    redraw_to_fit = True  # the number of labels and the grid of heads depend on the width
    blank = staticmethod(attention_plot.blank)

    def __init__(
        self, source: AttentionSource | LanguageModel | str | None = None, **state: Any
    ) -> None:
        if "num_heads" in state or source is not None:
            state.setdefault("head", 1)  # the default, 3, may not exist
        super().__init__(source, **state)
        for step in attention_plot.STEPS:
            named_trace(self.figure, step).on_click(self._select_query_of_row)
        columns = named_trace(self.figure, attention_plot.COLUMNS)
        columns.on_click(self._select_query_of_bar)
        on_tile_click(self.figure, self._select_head)

    def controls(self) -> list[Widget]:
        # Before `App` draws, because the new text may have no such query.
        self.observe(self._on_new_text, names="text")
        text_box, *menus = super().controls()
        self._sum_line = SumLine()
        self.below_figure = (self._sum_line,)

        head = self.slider(
            "head", "head", "s-head", "The head whose weights are shown in detail", width="110px"
        )
        self._head_slider = head.slider
        matrices = self.checkbox(
            "matrices",
            "show the sum",
            "s-matrices",
            "Show content + bias = logits, and the weights of all queries, as matrices",
        )
        bias = self.checkbox("bias", "add the bias", "s-bias", "Add the bias to the logits")
        shuffle = button(
            "Shuffle",
            "random",
            "s-shuffle",
            "Shuffle all words before the last one, in another way each time",
            self._shuffle,
        )
        self._restore = button(
            "Original order",
            "sort-amount-asc",
            "s-original",
            "Put the words back in the order of the text",
            self._restore_order,
        )

        causal = self.checkbox(
            "causal", "causal mask", "s-causal", "Mask the keys after each query"
        )
        query = Text(
            placeholder="last",
            continuous_update=False,
            tooltip=(
                "The position of the token whose row is framed, counted from 0; none for the last "
                "one"
            ),
            layout=Layout(width="60px"),
        )
        query.add_class("s-query")
        self.link(query, "query", _read_query, _show_query)
        more, folded = fold(
            "More",
            "The content, the number of heads, the mask and the query",
            row(*menus, causal, labeled("query", query)),
        )

        reset = self.reset_button(self.show_text)
        return [
            column(text_box, row(head, bias, matrices, shuffle, self._restore, more, reset), folded)
        ]

    def draw(self) -> tuple[str, str]:
        original = self.read(self.text)
        reading = original
        if self.order is not None:
            reading = self.read(shuffle_words(self.text, self.order))
        query = self._selected_query(len(reading.tokens))
        trace = self._trace(reading, with_bias=self.bias)
        switched = self._trace(reading, with_bias=not self.bias)
        slope = format_slope(reading.slopes[self.head - 1])
        describe = sums_in_words(reading.tokens, trace, with_bias=self.bias)

        attention_plot.draw(
            self.figure,
            reading.tokens,
            trace,
            switched,
            describe=describe,
            head=self.head - 1,
            query=query,
            names=("bias on", "bias off") if self.bias else ("bias off", "bias on"),
            bias_name=self._bias_name(slope),
            matrices=self.matrices,
            page_width=self.page_width,
        )
        self._show_example(query, trace, describe)
        self.note_length(reading)
        self._head_slider.max = self.num_heads
        show(self.order is not None, self._restore)

        on_or_off = "on" if self.bias else "off"
        head_sentence = f"Head {self.head} of {self.num_heads}, slope {slope}, bias {on_or_off}."
        query_sentence, *further_sentences = _describe_query(
            reading.tokens,
            query,
            visible=trace.logits[0, self.head - 1, query].isfinite(),
            weights=trace.weights[0, self.head - 1, query],
            weights_switched=switched.weights[0, self.head - 1, query],
            switched="without the bias" if self.bias else "with the bias",
        )

        if self.order is None:
            caption = [head_sentence, query_sentence]
            details = [*further_sentences, reading.note]
        else:
            # What the shuffle has changed takes the place of the query.
            caption = [head_sentence, self._effect_of_order(original, reading, trace)]
            details = [query_sentence, *further_sentences, reading.note]
        return " ".join(caption), " ".join(details).strip()

    def _show_example(
        self, query: int, trace: AttentionTrace, describe: Callable[[int, int, int], str]
    ) -> None:
        """The line below the figure: the sum behind the largest weight besides the query's own."""
        weights = trace.weights[0, self.head - 1, query].clone()
        if weights.count_nonzero() > 1:
            weights[query] = 0
        line = describe(self.head - 1, query, int(weights.argmax()))
        self._sum_line.query = query
        self._sum_line.rest = f"{line}. Point at another cell or bar to read its sum."

    def _selected_query(self, length: int) -> int:
        """The position of the query in a text of so many tokens."""
        if self.query is None:
            return length - 1
        if self.query >= length:
            raise ValueError(
                f"query must be a position from 0 to {length - 1} in this text, got {self.query}"
            )
        return self.query

    def _trace(self, reading: Reading, *, with_bias: bool) -> AttentionTrace:
        slopes = reading.slopes if with_bias else None
        return attention_trace(reading.query, reading.key, slopes, causal=self.causal)

    def _bias_name(self, slope: str) -> str:
        """The title of the matrix of the bias."""
        if not self.bias:
            return "bias, switched off"
        distance = "(i - j)" if self.causal else "|i - j|"
        return true_minus(f"bias, -{slope} {distance}")

    def _effect_of_order(
        self, original: Reading, shuffled: Reading, shuffled_trace: AttentionTrace
    ) -> str:
        """How much the weights of the last query depend on the order of the words."""
        if len(shuffled.tokens) != original.total:
            return (
                "The text is longer than what is read, so shuffling changes which words are read "
                "as well."
            )
        original_trace = self._trace(original, with_bias=self.bias)
        before = _weights_by_token(original.tokens, original_trace, self.head - 1)
        after = _weights_by_token(shuffled.tokens, shuffled_trace, self.head - 1)
        change = after.sub(before, fill_value=0).abs().max()
        return (
            "With the words before the last one shuffled, the weights that the last query gives "
            f"to each token change by up to {change:.3f}."
        )

    def _on_new_text(self, _: object) -> None:
        self.set_together({"query": None, "order": None})

    def _shuffle(self) -> None:
        previous = 0 if self.order is None else self.order
        self._set_order(previous + 1)

    def _restore_order(self) -> None:
        self._set_order(None)

    def _set_order(self, order: int | None) -> None:
        self.attempt(lambda: self.set_trait("order", order))

    def _select_head(self, head: int) -> None:
        self.head = head

    def _select_query_of_row(self, _: object, points: Any, __: object) -> None:
        """A click on a row of a matrix selects its query."""
        if points.ys:
            self.query = int(points.ys[0])

    def _select_query_of_bar(self, _: object, points: Any, __: object) -> None:
        """A click on a bar selects its token as the query."""
        if points.xs:
            self.query = int(points.xs[0])


def _read_query(text: str) -> int | str | None:
    """The query in a text field; what is no position is left to the trait to reject."""
    text = text.strip()
    if text.isdecimal():
        return int(text)
    return text or None


def _show_query(query: int | None) -> str:
    return "" if query is None else str(query)


def _weights_by_token(tokens: Sequence[str], trace: AttentionTrace, head: int) -> pd.Series:
    """The weight that the last query gives to each token, of equal tokens together."""
    weights = pd.Series(trace.weights[0, head, -1].numpy())
    return weights.groupby(tokens).sum()


def _describe_query(
    tokens: Sequence[str],
    query: int,
    *,
    visible: Tensor,
    weights: Tensor,
    weights_switched: Tensor,
    switched: str,
) -> list[str]:
    """Which tokens a query attends to: those near it, and the farthest equal one.

    `visible`, bool [key], are the keys that are not masked. `weights`, [key], are those of the
    query as shown, and `weights_switched` those with the bias switched, which `switched` names.
    """
    distance = (torch.arange(len(tokens)) - query).abs()
    near = visible & (distance <= NEAR)
    if bool((near == visible).all()):  # nothing else is visible: the query itself, then
        near = distance == 0
    neighbors = int(near.sum()) - 1
    receivers = "itself"
    if neighbors:
        receivers = f"itself and the {neighbors} nearest tokens"

    here = format_percent(weights[near].sum())
    there = format_percent(weights_switched[near].sum())
    name = f"Query {query:,} {quoted_token(tokens[query])}"
    sentences = [f"{name} gives {here} of its weight to {receivers}; {switched} {there}."]

    farthest = _farthest_equal(tokens, query, visible)
    if farthest is not None:
        here = format_percent(weights[farthest])
        there = format_percent(weights_switched[farthest])
        steps = abs(farthest - query)
        sentences.append(
            f"The farthest other {quoted_token(tokens[farthest])}, {steps:,} away, gets {here}; "
            f"{switched} {there}."
        )
    return sentences


def _farthest_equal(tokens: Sequence[str], query: int, visible: Tensor) -> int | None:
    """The farthest visible key with the query's token, besides the query itself; None without any.

    Of two that are equally far, the one before the query.
    """
    equal = []
    for key, token in enumerate(tokens):
        if visible[key] and key != query and token == tokens[query]:
            equal.append(key)
    return max(equal, key=lambda key: abs(key - query), default=None)
