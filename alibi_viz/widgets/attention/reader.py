"""Reads texts for `AttentionExplorer`, and lets a model work in the background while the app stays usable."""

import os
from collections.abc import Callable
from typing import Any

from alibi_viz.lab.attention_sources import AttentionSource, Reading, Words, check_reading
from alibi_viz.lab.model_sources import ByteModel, ModelRun, ModelSource, PretrainedModel
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.core.background import Background
from alibi_viz.widgets.core.traits import BadValue, short_repr

__all__ = ["NotReady", "Reader", "as_source"]


class NotReady(BadValue):
    """A layer that a model has not reached yet. Once it has, `job` is done and the traits in `state` can be set."""

    def __init__(self, content: str, job: Background[int]) -> None:
        super().__init__(f"the model has not reached {content} yet")
        self.job = job
        self.state: dict[str, Any] = {}


class Reader:
    """Reads texts with a source, at most `longest` tokens of each.

    The latest two readings are kept, and what a model has computed for the latest two texts: two, because a shuffled
    text is compared with the original one.

    After the layer that is asked for, the model's other layers are computed in the background, so that they can be
    shown at once. `show_progress` is called with a sentence on a thread, and with "" at the end.
    """

    def __init__(self, source: AttentionSource, longest: int, show_progress: Callable[[str], None]) -> None:
        self.source, self.longest, self._show_progress = source, longest, show_progress
        self._job: Background[int] | None = None
        self.forget()

    def forget(self) -> None:
        """Read again next time, because the source may have changed."""
        self.stop()
        self._readings: dict[tuple[str, str, int], Reading] = {}
        self._runs: dict[str, ModelRun] = {}

    def stop(self) -> None:
        """Stop the work in the background after the current layer."""
        if self._job is not None:
            self._job.stop()

    def read(self, text: str, content: str, num_heads: int, patience: float | None = None) -> Reading:
        """Read a text, or return what was read before.

        Raises:
            NotReady: a model needs longer than `patience` seconds; by default it is waited for.
            ValueError: the source refuses the text, the content or the number of heads.
            BadValue: the model fails.
        """
        asked = (text, content, num_heads)
        if asked in self._readings:
            reading = self._readings[asked]
        elif isinstance(self.source, ModelSource):
            check_reading(self.source, content, num_heads)
            reading = self._read_layer(self.source, text, content, patience)
        else:
            reading = self.source.read(*asked, self.longest)
        _keep(self._readings, asked, reading)
        return reading

    def _read_layer(self, source: ModelSource, text: str, content: str, patience: float | None) -> Reading:
        _keep(self._runs, text, self._runs.get(text) or source.start(text, self.longest))
        run, layer = self._runs[text], source.contents.index(content)
        self.stop()  # the work in the background, so that it doesn't delay this layer
        try:
            if run.done <= layer and patience is not None:
                job = self._work(run, layer, self._show_progress)
                try:
                    job.result(patience)
                except TimeoutError:
                    self._show_progress(f"The model reads {len(run.tokens):,} tokens …" * (not job.done()))
                    raise NotReady(content, job) from None
            reading = run.read(layer)
        except NotReady:
            raise
        except BaseException as error:
            del self._runs[text]
            if isinstance(error, ValueError) or not isinstance(error, Exception):  # such as an interrupt
                raise
            raise BadValue(f"the model failed on this text: {type(error).__name__}: {error}") from error
        if run.done < run.num_layers:
            self._work(run, run.num_layers - 1, lambda _: None)
        return reading

    def _work(self, run: ModelRun, layer: int, show: Callable[[str], None]) -> Background[int]:
        """Run the model up to a layer in the background."""

        def progress() -> None:
            show(f"The model reads {len(run.tokens):,} tokens: layer {run.done} of {layer + 1} is done …")

        self._job = Background(run.steps(layer), lambda _: None, progress, lambda _: show("")).start()
        return self._job


def _keep(kept: dict[Any, Any], key: object, value: object) -> None:
    """Put a value last, and forget all but the one before it."""
    kept.pop(key, None)
    for old in list(kept)[:-1]:
        del kept[old]
    kept[key] = value


def as_source(source: AttentionSource | LanguageModel | str | None) -> AttentionSource:
    """The source that the argument `source` of the app stands for."""
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
