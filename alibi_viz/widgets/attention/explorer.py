"""AttentionExplorer: one's own text; content + bias = logits -> weights, with the bias switched on and off."""

from typing import Any

import plotly.graph_objects as go
from ipywidgets import Dropdown, HBox, IntSlider, Layout, Textarea, Widget
from traitlets import HasTraits, TraitType, validate

from alibi_viz.attention import attention_trace
from alibi_viz.figures import attention as picture
from alibi_viz.lab.attention_sources import ByteModel, Source, Words
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.attention.caption import describe, slope_in_words
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.layout import labeled
from alibi_viz.widgets.core.traits import BadValue, Count, Flag, shown

__all__ = ["AttentionExplorer"]

LONGEST = 48  # tokens shown: more would be too small to read, and heavy to send
MOST_CHARACTERS = 10_000
TEXT = "The cat sat on the mat. The dog sat by the door and looked at the cat"
_SWITCH = ("bias on", "bias off")


class Line(TraitType[Any, Any]):
    """A string that is not blank and has at most `longest` characters.

    Half of a surrogate pair becomes U+FFFD, for it can be sent to no browser.
    """

    def __init__(self, default: str, longest: int, **options: Any) -> None:
        super().__init__(default, **options)
        self.longest = longest
        self.tag(state=True)

    def validate(self, obj: HasTraits, value: Any) -> str:
        if not isinstance(value, str):
            raise BadValue(f"{self.name} must be a string, got {shown(value)}")
        if not value.strip():
            raise BadValue(f"{self.name} must have at least one word, got {shown(value)}")
        if len(value) > self.longest:
            raise BadValue(f"{self.name} must have at most {self.longest:,} characters, got {len(value):,}")
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class AttentionExplorer(App):
    """How a head reads a text, step by step, for one query and all.

    Args:
        source: where queries and keys come from. By default `lab.attention_sources.Words`, which makes them up from the words; a
            `LanguageModel` with ALiBi is read by its bytes; any other `lab.attention_sources.Source` is taken as it is. Raises
            TypeError for anything else, and ValueError for a model without ALiBi.

    Traits:
        text: at most 10,000 characters; its first 48 tokens are shown.
        num_heads: 1 to 32; a model has its own.
        head: the head shown, counted from 1.
        query: the position whose row is framed, counted from 0; None for the last token. A click on a row chooses it.
        content: what q . k is: "same word" or "equal"; with a model "layer 1", "layer 2" and so on.
        bias: whether ALiBi's bias is added.
        causal: whether keys after the query are hidden. Without it the bias is symmetric, -m |i - j|.

    >>> from alibi_viz.widgets import AttentionExplorer
    >>> AttentionExplorer(text="to be or not to be", num_heads=2, bias=False)  # doctest: +ELLIPSIS
    AttentionExplorer(text='to be or not to be', num_heads=2, head=1, query=None, content=..., bias=False, causal=True)
    """

    text = Line(TEXT, MOST_CHARACTERS)
    num_heads = Count(8, 1, 32)
    head = Count(3, 1, 32)
    query = Count(None, 0, LONGEST - 1, allow_none=True)
    content = Line("", 100)
    bias = Flag(True)
    causal = Flag(True)

    def __init__(self, source: Source | LanguageModel | None = None, **state: Any) -> None:
        source = Words() if source is None else source
        self.source: Source = ByteModel(source) if isinstance(source, LanguageModel) else source
        if not hasattr(self.source, "read"):
            raise TypeError(
                f"source must be a LanguageModel or a lab.attention_sources.Source, got {shown(source)}; see text="
            )
        state.setdefault("content", self.source.contents[0])
        if self.source.num_heads is not None:
            state.setdefault("num_heads", self.source.num_heads)
        if "num_heads" in state:
            state.setdefault("head", 1)
        super().__init__(**state)
        for matrix in picture.MATRICES:
            self.figure.data[matrix].on_click(lambda _, points, __: self._pick("query", points))
        self.figure.data[picture.HEADS].on_click(lambda _, points, __: self._pick("head", points))

    @validate("content")
    def _known(self, proposal: Any) -> str:
        if proposal.value not in self.source.contents:
            raise BadValue(f"content must be one of {', '.join(self.source.contents)}, got {shown(proposal.value)}")
        return proposal.value

    @validate("head")
    def _in_model(self, proposal: Any) -> int:
        if proposal.value > self.num_heads:
            raise BadValue(f"head must be an integer from 1 to num_heads={self.num_heads}, got {proposal.value}")
        return proposal.value

    def blank(self) -> go.Figure:
        return picture.blank()

    def controls(self) -> list[Widget]:
        self._length = LONGEST
        self.observe(self._keep_in_range, names=["text", "num_heads"])  # before the app's own notice, which draws
        heads = self.slider("num_heads", "heads", "s-heads", "How many heads share the slopes")
        head = self.slider("head", "head", "s-head", "Which head the four matrices show")
        query = IntSlider(tooltip="The token whose row is framed", layout=Layout(width="230px"))
        self._head_slider, self._query_slider = head.children[1], query
        self.link(query.add_class("s-query"), "query", read=self._from_place, show=self._to_place)
        return [
            self._text_box(),
            self.checkbox("bias", "add the bias", "s-bias", "ALiBi's bias, or none"),
            head,
            labeled("query", query),
            *([heads] if self.source.num_heads is None else []),
            self._content_menu(),
            self.checkbox("causal", "causal mask", "s-causal", "Hide the keys after each query"),
        ]

    def draw(self) -> str:
        reading = self.source.read(self.text, self.content, self.num_heads, LONGEST)
        length = len(reading.tokens)
        if self.query is not None and self.query >= length:
            raise ValueError(f"query must be a position from 0 to {length - 1} in this text, got {self.query}")
        head, query = self.head - 1, length - 1 if self.query is None else self.query
        on, off = (
            attention_trace(reading.query, reading.key, slopes, causal=self.causal) for slopes in (reading.slopes, None)
        )
        trace, other, names = (on, off, _SWITCH) if self.bias else (off, on, _SWITCH[::-1])
        picture.draw(
            self.figure,
            reading.tokens,
            trace,
            other,
            head=head,
            query=query,
            names=names,
            bias_name=self._formula(float(reading.slopes[head])),
            page_width=self.page_width,
        )
        self._length, self._query_slider.max, self._head_slider.max = length, length - 1, self.num_heads
        self._query_slider.value = query
        return describe(reading, trace, other, head=head, query=query, biased=self.bias)

    def _formula(self, slope: float) -> str:
        """The bias of a head, as the title of its panel."""
        if not self.bias:
            return "bias, switched off"
        return f"bias, {'-m (i - j)' if self.causal else '-m |i - j|'}, m = {slope_in_words(slope)}"

    def fit(self, width: int) -> None:
        super().fit(width)
        self.refresh()  # a wider page has room for more labels

    def _keep_in_range(self, change: Any) -> None:
        """A new text starts at its last token; the head stays among the heads there are."""
        if change.name == "text":
            self.query = None
        elif self.head > self.num_heads:
            self.head = self.num_heads

    def _pick(self, name: str, points: Any) -> None:
        """A click on a row chooses it."""
        if points.ys:
            setattr(self, name, int(points.ys[0]))

    def _to_place(self, query: int | None) -> int:
        """Where the slider stands: None is its right end; farther than that it cannot go, `draw` will say why."""
        return self._length - 1 if query is None else min(query, self._length - 1)

    def _from_place(self, place: int) -> int | None:
        return None if place == self._length - 1 else place

    def _text_box(self) -> HBox:
        """A box for the text, read as one types. It is not put back on an error, unlike other controls: while one
        types, a text is now and then blank."""
        box = Textarea(self.text, tooltip="Your own text", layout=Layout(width="100%", height="58px"))

        def typed(change: Any) -> None:
            if change.new == self.text:
                return
            try:
                self.text = change.new
                self.say("")
            except BadValue as error:
                self.say(str(error))

        box.add_class("s-text").observe(typed, names="value")
        self.observe(lambda change: setattr(box, "value", change.new), names="text")
        return labeled("text", box, width="100%")

    def _content_menu(self) -> HBox:
        menu = Dropdown(options=self.source.contents, tooltip="What q · k is", layout=Layout(width="max-content"))
        self.link(menu.add_class("s-content"), "content")
        return labeled("content", menu)
