"""AttentionExplorer: how the heads of a trained model read your own text, step by step."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import pandas as pd
import torch
from ipywidgets import Label, Layout, Text, Textarea, Widget
from torch import Tensor
from traitlets import Bool, Int, Unicode, validate

from alibi_viz import study
from alibi_viz.attention import AttentionTrace, attention_trace
from alibi_viz.figures.attention_plot import (
    COLUMNS,
    STEPS,
    Describe,
    attention_picture,
    share_moved,
    sums_in_words,
)
from alibi_viz.figures.heatmap_grid import TILES
from alibi_viz.figures.token_labels import quoted_token
from alibi_viz.formatting import format_percent, format_slope, true_minus
from alibi_viz.measure.attention_sources import (
    AttentionSource,
    LayerInputs,
    Reading,
    Words,
    as_source,
    shuffle_words,
)
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.attention.sum_line import SumLine
from alibi_viz.widgets.core.app import App, Drawn, Why
from alibi_viz.widgets.core.background import Debounce
from alibi_viz.widgets.core.controls import button, column, fold, labeled, row, show
from alibi_viz.widgets.core.traits import MAX_DRAWN_HEADS, BadValue, short_repr

MAX_CHARACTERS = 50_000
# With more tokens, a cell would be smaller than three pixels, and the hover texts slow to send.
MAX_TOKENS = 72
TEXT = "The cat sat on the mat. The dog sat by the door and looked at the cat"
MODEL = "alibi-large"  # the published model that reads the text by default
NEAR = 3  # tokens at most this far away are near


class AttentionExplorer(App):
    """How heads read a text: the weights of all heads, and those of one query in detail. On demand,
    content + bias = logits -> weights for all queries of a head.

    The diamonds are the weights at equal content, and above each head stands the share of its
    weight that content moves. A click on a head selects it; a click on a bar, or on a row of a
    large matrix, selects the query. The line below the figure is the sum behind the cell under the
    pointer.

    Args:
        source: the model whose queries and keys are shown, by default the published model
            "alibi-large". A `LanguageModel` with ALiBi reads the bytes of the text. A string is the
            name or the folder of a BLOOM, MPT or Falcon model, see
            `lab.PretrainedModel.from_pretrained`; for a model and a tokenizer that are loaded
            already, give `lab.PretrainedModel(model, tokenizer)`. A subclass of
            `alibi_viz.measure.attention_sources.AttentionSource` is used as it is. Raises TypeError
            for anything else, and ValueError for a model that cannot be loaded or has no ALiBi.

    A model runs once for each text. `refresh()` runs it again, because its weights may have
    changed.

    Traits:
        text: at most 50,000 characters, of which the first 72 tokens are read. A new text is not
            shuffled.
        head: the head in the large matrices, counted from 1.
        query: the position whose row is framed, counted from 0; None for the last token. A click on
            a row selects it.
        content: where q . k comes from: "layer 1", "layer 2" and so on of the model, by default the
            first of these; or "random vectors", a random vector for each distinct word, which
            nobody has trained.
        bias: whether the bias is added.
        causal: whether keys after the query are masked. Without a mask the bias is symmetric,
            -m |i - j|.
        order: None for the words as they are in the text, or the seed with which all words before
            the last one are shuffled. The caption then says by how much weights have changed, apart
            from moving with their words.
        matrices: whether the four steps are shown as matrices.

    >>> from alibi_viz.widgets import AttentionExplorer
    >>> AttentionExplorer(text="to be or not to be", head=8)  # doctest: +ELLIPSIS
    AttentionExplorer(text='to be or not to be', content='layer 1', head=8, ..., matrices=False)
    """

    why = Why(
        "Content and bias are added before the softmax. So they compete, and a key further back "
        "needs more content for the same weight.",
        "02_content_against_distance",
        "The tug of war in real text",
    )
    text = Unicode(TEXT)
    content = Unicode("").tag(choices="contents")
    head = Int(1, min=1, max=MAX_DRAWN_HEADS).tag(choices="heads")
    query = Int(None, min=0, max=MAX_TOKENS - 1, allow_none=True)
    bias = Bool(True)
    causal = Bool(True)
    order = Int(None, min=0, max=2**31 - 1, allow_none=True)
    matrices = Bool(False)
    min_width = 440

    def __init__(
        self, source: AttentionSource | LanguageModel | str | None = None, **state: Any
    ) -> None:
        model = as_source(study.published_model(MODEL).model if source is None else source)
        num_heads = model.num_heads
        if num_heads > MAX_DRAWN_HEADS:
            raise ValueError(
                f"source must have at most {MAX_DRAWN_HEADS} heads to be drawn, got {num_heads}"
            )
        self.heads = range(1, num_heads + 1)
        # Which source offers a content. Made-up vectors have as many heads, for comparison.
        words = Words(num_heads)
        self._sources: dict[str, AttentionSource] = dict.fromkeys(model.contents, model)
        for content in words.contents:
            self._sources.setdefault(content, words)
        self.contents = tuple(self._sources)
        # Of two texts, because a shuffled one is compared with the original.
        self._layer_inputs = lru_cache(2)(self._run_source)
        self._reading = lru_cache(2)(self._read)
        self._traces = lru_cache(4)(self._trace)

        state.setdefault("content", self.contents[0])
        super().__init__(**state)

    @property
    def source(self) -> AttentionSource:
        """Where the content comes from now."""
        return self._sources[self.content]

    @validate("text")
    def _check_text(self, proposal: Any) -> str:
        text: str = proposal.value
        if not text.strip():
            raise BadValue(f"text must have at least one word, got {short_repr(text)}")
        if len(text) > MAX_CHARACTERS:
            raise BadValue(
                f"text must have at most {MAX_CHARACTERS:,} characters, got {len(text):,}"
            )
        # Unpaired surrogates, which cannot be sent to a browser, become U+FFFD.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def controls(self) -> list[Widget]:
        # Before `App` draws, because the new text may have no such query.
        self.observe(self._on_new_text, names="text")
        self._sum_line = SumLine()
        self.below_figure = (self._sum_line,)

        head = self.slider(
            "head", "head", "s-head", "The head whose weights are shown in detail", width="110px"
        )
        head.slider.max = len(self.heads)
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
            lambda: self._set_order((self.order or 0) + 1),
        )
        self._restore = button(
            "Original order",
            "sort-amount-asc",
            "s-original",
            "Put the words back in the order of the text",
            lambda: self._set_order(None),
        )

        content = self.menu(
            "content",
            "content",
            "s-content",
            "Where the queries and keys come from; see the caption",
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
        self.link(query, "query", _read_query, lambda query: "" if query is None else str(query))
        more, folded = fold("More", "The mask and the query", row(causal, labeled("query", query)))

        text_box = self._text_box()
        reset = self.reset_button(self._show_text)
        settings = row(head, bias, matrices, shuffle, self._restore, more, reset)
        return [column(row(text_box, content), self._note, settings, folded)]

    def _text_box(self) -> Widget:
        """The box for the text, and the note that stands below it.

        Unlike other controls, it keeps a text that is rejected, because the user may be typing.
        """
        one_line = "34px"  # because the app has to fit a laptop
        box = Textarea(
            self.text, tooltip="Your own text", layout=Layout(width="100%", height=one_line)
        )
        box.add_class("s-text")
        debounce = Debounce(0.3)
        self.works = [debounce]

        def read() -> None:
            self.attempt(lambda: self.set_trait("text", box.value))

        def on_typing(_: Any) -> None:
            if box.value == self.text:
                debounce.stop()
                self.say("")  # of a text that was rejected
            elif self.source.is_slow:
                debounce(read)
            else:
                read()

        box.observe(on_typing, names="value")
        self._box = box
        self.observe(self._show_text, names="text")
        self._note = Label().add_class("s-note")
        return labeled("text", box, flex="1 1 300px")

    def _show_text(self, _: object = None) -> None:
        self._box.value = self.text

    def draw(self) -> Drawn:
        original = self._reading(self.text, self.content)
        reading = original
        if self.order is not None:
            reading = self._reading(shuffle_words(self.text, self.order), self.content)
        tokens = reading.tokens
        query = len(tokens) - 1 if self.query is None else self.query
        if query >= len(tokens):
            raise ValueError(
                f"query must be a position from 0 to {len(tokens) - 1} in this text, got {query}"
            )
        trace, at_equal_content, describe = self._traces(reading, self.bias, self.causal)
        slope = format_slope(reading.slopes[self.head - 1])
        names = ("as it is", "bias alone" if self.bias else "equal content")

        picture = attention_picture(
            tokens,
            trace,
            at_equal_content,
            describe,
            head=self.head - 1,
            query=query,
            names=names,
            bias_name=self._bias_name(slope),
            matrices=self.matrices,
            page_width=self.page_width,
        )
        self._show_example(query, trace, describe)
        read = f"only the first {len(tokens):,} of {reading.total:,} {self.source.unit} are used"
        self._note.value = read
        show(reading.total > len(tokens), self._note)
        show(self.order is not None, self._restore)

        head_sentence = self._describe_head(slope, trace, at_equal_content)
        query_sentence, *further_sentences = _describe_query(
            tokens,
            query,
            visible=trace.logits[0, self.head - 1, query].isfinite(),
            weights=trace.weights[0, self.head - 1, query],
            at_equal_content=at_equal_content.weights[0, self.head - 1, query],
            unit=self.source.unit,
        )
        details = [*further_sentences, reading.note]
        if self.order is None:
            return Drawn(picture, f"{head_sentence} {query_sentence}", " ".join(details))
        # What the shuffle has changed takes the place of the query.
        effect = self._effect_of_order(original, reading, trace)
        return Drawn(picture, f"{head_sentence} {effect}", " ".join([query_sentence, *details]))

    def clicked(self, trace: str, point: Mapping[str, Any]) -> None:
        """Select the head of a small matrix, or the query of a row or a bar."""
        if trace == TILES:
            self.head = point["z"]
        elif trace in STEPS:
            self.query = point["y"]
        elif trace == COLUMNS:
            self.query = point["x"]

    def refresh(self) -> None:
        """Read the text again, because the weights of a model may have changed, and draw."""
        self._reading.cache_clear()  # and with it the traces, which are of a reading
        self._layer_inputs.cache_clear()
        super().refresh()

    def _read(self, text: str, content: str) -> Reading:
        """The tokens, queries and keys of a text."""
        source = self._sources[content]
        waiting = self.busy("Reading the text …") if source.is_slow else nullcontext()
        try:
            with waiting:
                return source.reading(self._layer_inputs(text, source), content)
        except RuntimeError as error:  # such as too little memory
            raise BadValue(f"the model failed on this text: {error}") from error

    def _run_source(self, text: str, source: AttentionSource) -> LayerInputs:
        """What each layer of a model receives; the model runs once for all of them."""
        return source.run(text, MAX_TOKENS)

    def _show_example(self, query: int, trace: AttentionTrace, describe: Describe) -> None:
        """The line below the figure: the sum behind the largest weight besides the query's own."""
        weights = trace.weights[0, self.head - 1, query].clone()
        if weights.count_nonzero() > 1:
            weights[query] = 0
        line = describe(self.head - 1, query, int(weights.argmax()))
        self._sum_line.query = query
        self._sum_line.rest = f"{line}. Point at another cell or bar to read its sum."

    def _trace(
        self, reading: Reading, has_bias: bool, is_causal: bool
    ) -> tuple[AttentionTrace, AttentionTrace, Describe]:
        """Attention of all heads as it is, the same at equal content, and the first in words."""
        slopes = reading.slopes if has_bias else None
        trace = attention_trace(reading.query, reading.key, slopes, causal=is_causal)
        no_query = torch.zeros_like(reading.query)
        at_equal_content = attention_trace(no_query, reading.key, slopes, causal=is_causal)
        return trace, at_equal_content, sums_in_words(reading.tokens, trace)

    def _describe_head(self, slope: str, trace: AttentionTrace, equal: AttentionTrace) -> str:
        """The selected head, and how much of its weight its content moves."""
        bias = f"slope {slope}" if self.bias else "no bias"
        moved = share_moved(trace.weights[0].numpy(), equal.weights[0].numpy())[self.head - 1]
        return f"Head {self.head}, {bias}: content moves {moved:.0%} of its weight."

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
        original_trace, _, _ = self._traces(original, self.bias, self.causal)
        before = _weights_by_token(original.tokens, original_trace, self.head - 1)
        after = _weights_by_token(shuffled.tokens, shuffled_trace, self.head - 1)
        change = after.sub(before, fill_value=0).abs().max()
        return (
            "With the words before the last one shuffled, the weights that the last query gives "
            f"to each token change by up to {change:.3f}."
        )

    def _on_new_text(self, _: object) -> None:
        self.set_together({"query": None, "order": None})

    def _set_order(self, order: int | None) -> None:
        self.attempt(lambda: self.set_trait("order", order))


def _read_query(text: str) -> int | str | None:
    """The query in a text field; what is no position is left to the trait to reject."""
    text = text.strip()
    if text.isdecimal():
        return int(text)
    return text or None


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
    at_equal_content: Tensor,
    unit: str,
) -> list[str]:
    """What a query gives to the tokens near it, and to the farthest equal one.

    `visible`, bool [key], are the keys that are not masked. `weights`, [key], are those of the
    query as shown, and `at_equal_content` those that it would have then. `unit` names the tokens.
    """
    distance = (torch.arange(len(tokens)) - query).abs()
    near = visible & (distance <= NEAR)
    where = f"within {NEAR} {unit}"
    if bool((near == visible).all()):  # nothing else is visible
        near = distance == 0
        where = "for itself"
    here = format_percent(weights[near].sum())
    there = format_percent(at_equal_content[near].sum())
    name = f"Query {query:,} {quoted_token(tokens[query])}"
    sentences = [f"{name}: {here} {where}, {there} at equal content."]

    farthest = _farthest_equal(tokens, query, visible)
    if farthest is not None:
        here = format_percent(weights[farthest])
        there = format_percent(at_equal_content[farthest])
        steps = abs(farthest - query)
        sentences.append(
            f"The farthest other {quoted_token(tokens[farthest])}, {steps:,} away, gets {here}, "
            f"{there} at equal content."
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
