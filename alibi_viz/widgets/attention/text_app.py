"""The base class of the apps about attention on your own text: a text box, and a model that may be slow to read it."""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ipywidgets import Label, Layout, Textarea, VBox, Widget
from traitlets import HasTraits

from alibi_viz.lab.attention_sources import AttentionSource, ModelRun, ModelSource, Reading, as_source, check_reading
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.background import Background, Debounce
from alibi_viz.widgets.core.controls import labeled
from alibi_viz.widgets.core.traits import BadValue, Choice, Count, State, short_repr

MAX_TOKENS = 4096
MAX_CHARACTERS = 50_000
PATIENCE = 0.3  # seconds that a control waits for a model before it continues in the background
TEXT = "The cat sat on the mat. The dog sat by the door and looked at the cat"


class NonBlank(State):
    """A string that is not blank and has at most `MAX_CHARACTERS`.

    Unpaired surrogates are replaced with U+FFFD, because they cannot be sent to a browser.
    """

    def validate(self, obj: HasTraits, value: Any) -> str:
        if not isinstance(value, str):
            self.error(obj, value, info="a string")
        if not value.strip():
            raise BadValue(f"{self.name} must have at least one word, got {short_repr(value)}")
        if len(value) > MAX_CHARACTERS:
            raise BadValue(f"{self.name} must have at most {MAX_CHARACTERS:,} characters, got {len(value):,}")
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class TextApp(App):
    """Base class of apps that show the attention of a source on a text; `source` is that of `AttentionExplorer`.

    A subclass gets the queries and keys from `read()`, in `draw`. In code, setting a trait waits for the model. A
    control waits at most `PATIENCE`: then the figure keeps what it shows and other controls answer, while a thread runs
    the model. The app is drawn again when the model has read what the traits ask for.
    """

    text = NonBlank(TEXT)
    num_heads = Count(8, 1, 32)
    content = Choice("", "contents")
    is_slow = False  # whether to wait until the user pauses, before a typed text is read
    reads: tuple[str, ...] = ("text", "num_heads", "content")  # the traits that decide what is read

    def __init__(self, source: AttentionSource | LanguageModel | str | None = None, **state: Any) -> None:
        self.source: Any = as_source(source)
        self.contents = self.source.contents
        self._run = lru_cache(2)(lambda text: self.source.start(text, MAX_TOKENS))
        self._reading = lru_cache(2)(self._read)  # two, because a shuffled text is compared with the original one
        self._shown: list[Reading] = []
        self._shown_state: dict[str, Any] = {}
        self._in_control = False
        self._job: Background | None = None
        self.is_slow = self.is_slow or isinstance(self.source, ModelSource)
        state.setdefault("content", self.contents[0])
        if self.source.num_heads is not None:
            state.setdefault("num_heads", self.source.num_heads)
        super().__init__(**state)

    def controls(self) -> list[Widget]:
        """The text box, the menu of contents, and the number of heads if the source can have any."""
        box = Textarea(self.text, tooltip="Your own text", layout=Layout(width="100%", height="58px"))
        self._notes = {css: Label(layout=Layout(display="none")).add_class(css) for css in ("s-note", "s-progress")}
        debounce = self._debounce = Debounce(0.3)

        def read() -> None:  # unlike other controls, the box keeps a text that is rejected: one may be typing
            if box.value != self.text:
                self.attempt(lambda: self.set_trait("text", box.value))

        box.add_class("s-text").observe(lambda _: debounce(read) if self.is_slow else read(), names="value")
        self.observe(lambda change: box.set_trait("value", change.new), names="text")
        self.works = [debounce]
        text = VBox([labeled("text", box, width="100%"), *self._notes.values()], layout=Layout(width="100%"))
        content = self.menu("content", "content", "s-content", "Where the queries and keys come from; see the caption")
        heads = [self.slider("num_heads", "heads", "s-heads", "The number of attention heads")]
        return [text, content, *(heads if self.source.num_heads is None else [])]

    def read(self, *texts: str) -> list[Reading]:
        """The tokens, queries and keys of each text, with the app's content and number of heads.

        While a model works for a control, this returns what was read before.
        """
        if self._job:
            self._job.stop()  # it works for an earlier request
        self._show("s-progress", "")
        if isinstance(self.source, ModelSource):
            check_reading(self.source, self.content, self.num_heads)
            runs, layer = [self._run(text) for text in texts], self.contents.index(self.content)
            if any(run.done <= layer for run in runs) and not self._advance(runs, layer):
                return self._shown
            if _running_loop():
                self._work(runs[-1:], len(self.contents) - 1)  # its other layers may be asked for next
        self._shown = [self._reading(text, self.content, self.num_heads) for text in texts]
        self._shown_state = {name: getattr(self, name) for name in self.reads}
        return self._shown

    def note_length(self, reading: Reading) -> None:
        """Say below the text box if the text is too long."""
        length, total = len(reading.tokens), reading.total
        self._show("s-note", f"only the first {length:,} of {total:,} tokens are used" * (total > length))

    def refresh(self) -> None:
        """Read the text again, because the weights of a model may have changed, and draw."""
        self._reading.cache_clear()
        self._run.cache_clear()
        super().refresh()

    def fit(self, width: int) -> None:
        self.attempt(lambda: super(TextApp, self).fit(width))  # doesn't wait for the model either

    def attempt(self, action: Callable[[], object]) -> bool:
        self._in_control = True
        try:
            return super().attempt(action)
        finally:
            self._in_control = False

    def _read(self, text: str, content: str, num_heads: int) -> Reading:
        if isinstance(self.source, ModelSource):
            return self._run(text).read(self.contents.index(content))
        reading: Reading = self.source.read(text, content, num_heads, MAX_TOKENS)
        return reading

    def _advance(self, runs: list[ModelRun], layer: int) -> bool:
        """Run a model up to a layer. Returns False if a control has waited `PATIENCE`: then the app is drawn later."""
        loop = _running_loop() if self._in_control and self._shown else None
        job = self._work(runs, layer)
        try:
            job.result(PATIENCE if loop else None)
        except Exception as error:
            if loop and not job.done():  # its patience has ended
                self._show("s-progress", f"The model reads {len(runs[-1].tokens):,} tokens …")
                job.add_done_callback(lambda _: loop.call_soon_threadsafe(self._finish, job))
                return False
            if isinstance(error, ValueError):
                raise
            raise BadValue(f"the model failed on this text: {type(error).__name__}: {error}") from error
        return True

    def _work(self, runs: list[ModelRun], layer: int) -> Background:
        """Run a model up to a layer on a thread."""
        steps = (done for run in runs for done in run.steps(layer))
        self._job = Background(steps).start()
        self.works = [self._debounce, self._job]
        return self._job

    def _finish(self, job: Background) -> None:
        """Draw what a control has asked for, unless there was another request; if the model failed, what was shown."""
        if job is self._job and not job.stopped and not self.attempt(self._redraw):
            self.set_together(self._shown_state)

    def _show(self, css: str, text: str) -> None:
        """Show a note below the text box; an empty one hides it."""
        self._notes[css].value, self._notes[css].layout.display = text, None if text else "none"


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
