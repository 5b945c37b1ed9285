"""The base class of the apps about attention on your own text: a text box, and a model that may be slow to read it."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

from ipywidgets import Label, Layout, Textarea, VBox, Widget
from traitlets import HasTraits

from alibi_viz.lab.attention_sources import AttentionSource, Reading, Words, check_reading
from alibi_viz.lab.model_sources import ByteModel, ModelRun, ModelSource, PretrainedModel
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
    the model, layer by layer. The app is drawn again when the model has read what the traits ask for.
    """

    text = NonBlank(TEXT)
    num_heads = Count(8, 1, 32)
    content = Choice("", "contents")
    reads: tuple[str, ...] = ("text", "num_heads", "content")  # the traits that decide what is read
    typing_delay = 0.0  # seconds without typing before the text is read

    def __init__(self, source: AttentionSource | LanguageModel | str | None = None, **state: Any) -> None:
        self.source = as_source(source)
        self.contents = self.source.contents
        self._readings: dict[tuple[str, str, int], Reading] = {}  # two each: a shuffled text is compared with the
        self._runs: dict[str, ModelRun] = {}  # original one
        self._shown: list[Reading] = []
        self._shown_state: dict[str, Any] = {}
        self._in_control = False
        self._job: Background[int] = Background((), lambda _: None, lambda: None, lambda _: None)
        state.setdefault("content", self.contents[0])
        if self.source.num_heads is not None:
            state.setdefault("num_heads", self.source.num_heads)
        super().__init__(**state)

    def controls(self) -> list[Widget]:
        """The text box, the number of heads if the source can have any, and the menu of contents."""
        box = Textarea(self.text, tooltip="Your own text", layout=Layout(width="100%", height="58px"))
        self._notes = {css: Label(layout=Layout(display="none")).add_class(css) for css in ("s-note", "s-progress")}
        delay = 0.3 if isinstance(self.source, ModelSource) else self.typing_delay
        debounce = Debounce(delay)
        self.works += [debounce, self._job]

        def read() -> None:  # unlike other controls, the box keeps a text that is rejected: one may be typing
            if box.value != self.text:
                self.attempt(lambda: self.set_trait("text", box.value))

        box.add_class("s-text").observe(lambda _: debounce(read) if delay else read(), names="value")
        self.observe(lambda change: box.set_trait("value", change.new), names="text")
        labeled_box = labeled("text", box, width="100%")
        heads = self.slider("num_heads", "heads", "s-heads", "The number of attention heads")
        content = self.menu("content", "content", "s-content", "Where the queries and keys come from; see the caption")
        text = VBox([labeled_box, *self._notes.values()], layout=Layout(width="100%"))
        return [text, *([heads] if self.source.num_heads is None else []), content]

    def read(self, *texts: str) -> list[Reading]:
        """The tokens, queries and keys of each text, with the app's content and number of heads.

        While a model works for a control, this returns what was read before.
        """
        self._job.stop()  # what works for an earlier request
        self._show("s-progress", "")
        keys = [(text, self.content, self.num_heads) for text in texts]
        if isinstance(self.source, ModelSource):
            check_reading(self.source, self.content, self.num_heads)
            layer = self.contents.index(self.content)
            unread = [text for text, *key in keys if (text, *key) not in self._readings]
            runs = [_latest(self._runs, text, partial(self.source.start, text, MAX_TOKENS)) for text in unread]
            if runs and not self._run(runs, layer):
                return self._shown
            run = self._runs.get(texts[-1])
            if _running_loop() and run and run.done < run.num_layers:  # its other layers may be asked for next
                self._start([run], run.num_layers - 1, "")
        self._shown = [_latest(self._readings, key, partial(self._read, *key)) for key in keys]
        self._shown_state = {name: getattr(self, name) for name in self.reads}
        return self._shown

    def note_length(self, reading: Reading) -> None:
        """Say below the text box if the text is too long."""
        length, total = len(reading.tokens), reading.total
        self._show("s-note", f"only the first {length:,} of {total:,} tokens are used" * (total > length))

    def refresh(self) -> None:
        """Read the text again, because the weights of a model may have changed, and draw."""
        self._readings.clear()
        self._runs.clear()
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
            return self._runs[text].read(self.contents.index(content))
        return self.source.read(text, content, num_heads, MAX_TOKENS)

    def _run(self, runs: list[ModelRun], layer: int) -> bool:
        """Run a model up to a layer. Returns False if a control has waited `PATIENCE`: then the app is drawn later."""
        loop = _running_loop() if self._in_control and self._shown else None
        tokens = f"The model reads {len(runs[-1].tokens):,} tokens"
        try:
            job = self._start(runs, layer, tokens)
            job.result(PATIENCE if loop else None)
        except TimeoutError:
            if loop is None:
                raise
            self._show("s-progress", f"{tokens} …")
            job.add_done_callback(lambda _: loop.call_soon_threadsafe(self._finish, job))
            return False
        except BaseException as error:
            self._runs.clear()  # a run that has failed can't continue
            if isinstance(error, ValueError) or not isinstance(error, Exception):  # such as an interrupt
                raise
            raise BadValue(f"the model failed on this text: {type(error).__name__}: {error}") from error
        return True

    def _start(self, runs: list[ModelRun], layer: int, progress: str) -> Background[int]:
        """Run a model up to a layer on a thread, and show the progress if there are words for it."""

        def show() -> None:
            done = min(run.done for run in runs)
            self._show("s-progress", f"{progress}: layer {done} of {layer + 1} is done …" if progress else "")

        steps = chain.from_iterable(run.steps(layer) for run in runs)
        job = Background(steps, lambda _: None, show, lambda _: None)
        self.works = [work for work in self.works if work is not self._job] + [job]
        self._job = job.start()
        return job

    def _finish(self, job: Background[int]) -> None:
        """Draw what a control has asked for, unless there was another request; if the model failed, what was shown."""
        if job is self._job and not job.stopped and not self.attempt(self._redraw):
            self.set_together(self._shown_state)

    def _show(self, css: str, text: str) -> None:
        """Show a note below the text box; an empty one hides it."""
        self._notes[css].value, self._notes[css].layout.display = text, None if text else "none"


def _latest(kept: dict[Any, Any], key: object, make: Callable[[], Any]) -> Any:
    """The value of a key, made if there is none yet. Only this one and the one before it are kept."""
    value = kept.pop(key) if key in kept else make()
    for old in list(kept)[:-1]:
        del kept[old]
    kept[key] = value
    return value


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def as_source(source: AttentionSource | LanguageModel | str | None) -> AttentionSource:
    """The source that the argument `source` of an app stands for."""
    if source is None:
        return Words()
    if isinstance(source, LanguageModel):
        return ByteModel(source)
    expected = "a LanguageModel, the name of a pretrained model or a lab.attention_sources.AttentionSource"
    if isinstance(source, str):
        if " " in source and not os.path.isdir(source):  # pathlib raises for a long text
            raise TypeError(f"source must be {expected}, got {short_repr(source)}; pass a text as text=")
        return PretrainedModel.from_pretrained(source)
    if not hasattr(source, "read"):
        hint = "; for a model of transformers, give lab.PretrainedModel(model, tokenizer)"
        raise TypeError(f"source must be {expected}, got {short_repr(source)}{hint * hasattr(source, 'config')}")
    return source
