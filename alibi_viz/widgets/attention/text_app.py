"""The base class of the apps about attention on your own text: a text box, and a model that may be slow to read it."""

from collections.abc import Callable
from typing import Any

from ipywidgets import Widget

from alibi_viz.lab.attention_sources import AttentionSource, Reading
from alibi_viz.lab.model_sources import ModelSource
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.attention.reader import NotReady, Reader, as_source
from alibi_viz.widgets.attention.text_box import NonBlank, TextBox
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.traits import Choice, Count

__all__ = ["MAX_TOKENS", "TextApp"]

MAX_TOKENS = 4096
PATIENCE = 0.3  # seconds that a control waits for a model before it continues in the background
TEXT = "The cat sat on the mat. The dog sat by the door and looked at the cat"


class TextApp(App):
    """Base class of apps that show the attention of a source on a text; `source` is that of `AttentionExplorer`.

    A subclass gets the queries and keys from `read()`, in `draw`. While a model works, controls stay usable: what they
    ask for appears when it is ready. In code, setting a trait waits for it.
    """

    text = NonBlank(TEXT)
    num_heads = Count(8, 1, 32)
    content = Choice("", "contents")
    typing_delay = 0.0  # seconds without typing before the text is read

    def __init__(self, source: AttentionSource | LanguageModel | str | None = None, **state: Any) -> None:
        self.source = as_source(source)
        self._patience: float | None = None
        self._pending: NotReady | None = None
        self.contents = self.source.contents
        state.setdefault("content", self.contents[0])
        if self.source.num_heads is not None:
            state.setdefault("num_heads", self.source.num_heads)
        super().__init__(**state)

    def controls(self) -> list[Widget]:
        """The text box, the number of heads if the source can have any, and the menu of contents."""
        delay = 0.3 if isinstance(self.source, ModelSource) else self.typing_delay
        self._text_box = TextBox(self.text, self._on_text, delay)
        self.observe(lambda change: self._text_box.show(change.new), names="text")
        self._reader = Reader(self.source, MAX_TOKENS, self._text_box.show_progress)
        self.works += [self._text_box.debounce, self._reader]
        heads = self.slider("num_heads", "heads", "s-heads", "The number of attention heads")
        content = self.menu("content", "content", "s-content", "Where the queries and keys come from; see the caption")
        return [self._text_box, *([heads] if self.source.num_heads is None else []), content]

    def read(self, text: str | None = None) -> Reading:
        """The tokens, queries and keys for the current state, or for another text in place of the app's.

        Raises NotReady if a control has asked for it and a model needs longer than `PATIENCE`.
        """
        try:
            return self._reader.read(self.text if text is None else text, self.content, self.num_heads, self._patience)
        except NotReady as pending:
            pending.state = {name: value for name, value in self._state().items() if value != self._drawn[name]}
            raise

    def note_length(self, reading: Reading) -> None:
        """Say below the text box if the text is too long."""
        length, total = len(reading.tokens), reading.total
        self._text_box.note(f"only the first {length:,} of {total:,} tokens are used" * (total > length))

    def refresh(self) -> None:
        """Read the text again, because the weights of a model may have changed, and draw."""
        self._reader.forget()
        super().refresh()

    def attempt(self, action: Callable[[], object]) -> bool:
        """As in `App`, but if a model needs long to read, do it when the model is ready."""

        def start() -> None:
            self._patience = PATIENCE
            try:
                action()
            except NotReady as pending:
                self._continue_later(pending)
            finally:
                self._patience = None

        with self._lock:
            return super().attempt(start)

    def _continue_later(self, pending: NotReady) -> None:
        """Show what a control has asked for when the model has read it, unless the user has given it up by then."""

        def on_done(_: object) -> None:  # on the thread of the model
            with self._lock:
                if self._pending is pending:
                    self._pending = None
                    if pending.job.stopped:
                        self._text_box.show(self.text)
                    else:
                        self.attempt(lambda: self.set_together(pending.state))

        self._pending = pending
        pending.job.add_done_callback(on_done)

    def _on_text(self, text: str) -> None:
        if text != self.text:
            self.attempt(lambda: setattr(self, "text", text))
        else:
            self._pending = None  # the user has changed a text and back before it was read
