"""The base class of the apps about attention on your own text: a text box, and a source that reads
the text."""

import html
from functools import lru_cache
from typing import Any

from ipywidgets import Label, Layout, Textarea, VBox, Widget
from traitlets import Int, Unicode, validate

from alibi_viz.measure.attention_sources import (
    AttentionSource,
    LayerInputs,
    Reading,
    as_source,
)
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.background import Debounce
from alibi_viz.widgets.core.controls import labeled, show
from alibi_viz.widgets.core.traits import MAX_DRAWN_HEADS, BadValue, short_repr

MAX_CHARACTERS = 50_000
# With more tokens, a cell would be smaller than three pixels, and the hover texts slow to send.
MAX_TOKENS = 72
TEXT = "The cat sat on the mat. The dog sat by the door and looked at the cat"


class TextApp(App):
    """Base class of apps that show the attention of a source on a text; `source` is that of
    `AttentionExplorer`.

    A subclass gets the queries and keys from `read`, in `draw`.
    """

    text = Unicode(TEXT)
    num_heads = Int(8, min=1, max=MAX_DRAWN_HEADS)
    content = Unicode("").tag(choices="contents")
    show_text: Any  # puts the text into its box, which may hold one that was rejected

    def __init__(
        self, source: AttentionSource | LanguageModel | str | None = None, **state: Any
    ) -> None:
        self.source = as_source(source)
        self.contents = self.source.contents
        # Of two texts, because a shuffled one is compared with the original.
        self._layer_inputs = lru_cache(2)(self._run_model)
        self._reading = lru_cache(2)(self._read)

        state.setdefault("content", self.contents[0])
        heads_of_source = self.source.num_heads
        if heads_of_source is not None:
            if heads_of_source > MAX_DRAWN_HEADS:
                raise ValueError(
                    f"source must have at most {MAX_DRAWN_HEADS} heads to be drawn, got "
                    f"{heads_of_source}"
                )
            state.setdefault("num_heads", heads_of_source)
        super().__init__(**state)

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
        """The text box, the menu of contents, and the number of heads if the source can have
        any."""
        controls = [
            self._text_box(),
            self.menu(
                "content",
                "content",
                "s-content",
                "Where the queries and keys come from; see the caption",
            ),
        ]
        if self.source.num_heads is None:
            controls.append(
                self.slider("num_heads", "heads", "s-heads", "The number of attention heads")
            )
        return controls

    def _text_box(self) -> Widget:
        """The box for the text, with a note below it.

        Unlike other controls, it keeps a text that is rejected, because the user may be typing.
        """
        one_line = "34px"  # because the app has to fit a laptop
        box = Textarea(
            self.text, tooltip="Your own text", layout=Layout(width="100%", height=one_line)
        )
        box.add_class("s-text")
        debounce = Debounce(0.3)
        rejected = False  # whether the box holds a text that the app doesn't have

        def read() -> None:
            nonlocal rejected
            if box.value != self.text:
                self.attempt(lambda: self.set_trait("text", box.value))
            elif rejected:
                self.say("")
            rejected = box.value != self.text

        def on_typing(_: Any) -> None:
            if self.source.is_slow:
                debounce(read)
            else:
                read()

        def show_text() -> None:
            box.value = self.text

        self.show_text = show_text
        self.works = [debounce]
        box.observe(on_typing, names="value")
        self.observe(lambda _: self.show_text(), names="text")

        self._note = Label().add_class("s-note")
        return VBox([labeled("text", box, width="100%"), self._note], layout=Layout(width="100%"))

    def read(self, text: str) -> Reading:
        """The tokens, queries and keys of a text, with the app's content and number of heads."""
        return self._reading(text, self.content, self.num_heads)

    def note_length(self, reading: Reading) -> None:
        """Say below the text box if the text is too long."""
        length = len(reading.tokens)
        self._note.value = f"only the first {length:,} of {reading.total:,} tokens are used"
        show(reading.total > length, self._note)

    def refresh(self) -> None:
        """Read the text again, because the weights of a model may have changed, and draw."""
        self._reading.cache_clear()
        self._layer_inputs.cache_clear()
        super().refresh()

    def _read(self, text: str, content: str, num_heads: int) -> Reading:
        if self.source.is_slow:
            self._caption.value = "Reading the text …"
        try:
            return self.source.reading(self._layer_inputs(text), content, num_heads)
        except RuntimeError as error:  # such as too little memory
            raise BadValue(f"the model failed on this text: {error}") from error

    def _run_model(self, text: str) -> LayerInputs:
        """What each layer of a model receives; the model runs once for all of them."""
        return self.source.run(text, MAX_TOKENS)

    def _redraw(self) -> None:
        try:
            super()._redraw()
        finally:
            # No longer "Reading the text", whatever has happened.
            self._caption.value = html.escape(self.caption)
