"""SlopeSurgery: change a trained model without training it again, and see what that does at every length."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from ipywidgets import Dropdown, FloatLogSlider, Layout, Text, Widget
from torch import nn

from alibi_viz import lab
from alibi_viz.figures import surgery as picture
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.rotary import ROTARY_RULES
from alibi_viz.panel import Curves
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.controls import FIT, column, labeled, row
from alibi_viz.widgets.core.traits import BadValue, Choice, Count, Number, raising_bad_value
from alibi_viz.widgets.race.traits import check_path, read_source
from alibi_viz.widgets.surgery.intervention import Intervention
from alibi_viz.widgets.surgery.subject import Evaluation, Pretrained, Subject, TrainedHere

__all__ = ["SlopeSurgery"]

YOURS = "yours"
MODELS = ("alibi", "rotary", "sinusoidal")  # that ship with the package and are tested within seconds
MAX_HEADS = 32  # heads whose bias can be dropped one by one
LENGTHS = ("seq_length", "max_seq_len", "max_position_embeddings")  # the training length in configs of transformers
WINDOWS = tuple(2**power for power in range(2, 12))


class SlopeSurgery(App):
    """Change a trained model: multiply its slopes, drop biases, impose a window, or replace rotary's rule.

        widgets.SlopeSurgery(lab.make_model("alibi"), length=64)           # your own model
        widgets.SlopeSurgery(bloom, tokenizer=tokenizer, length=2048, lengths=[512, 1024, 2048, 4096])

    Nothing is trained. A change makes a copy that shares every weight with the model, and evaluates it. A change that
    doesn't apply to the model, such as slopes to a rotary one, is left out, and the caption says so.

    Args:
        model: your own trained model, or a BLOOM, MPT or Falcon model of transformers; then `subject` is "yours".
        tokenizer: that of a model of transformers.
        length: the training length of that model, in its tokens; by default what its configuration says.
        lengths: of the windows to test that model on; L to 16 L by default.
        text: the text to test on, as `load_text` takes it; the built-in text by default. Models of this lab are tested
            on its validation part, those of transformers as in `lab.length_curve`.

    Traits:
        subject: "yours", or a model that comes with the package: "alibi", "rotary" or "sinusoidal".
        factor: multiplies the slopes, 1/16 to 16.
        dropped: "none", "all", or the number of the head, from 1, whose bias is dropped in every layer.
        window: how many keys a query sees, including itself; None for all.
        sinks: how many tokens at the start stay visible beside the window; not for rotary and sinusoidal.
        rule: "plain", "pi", "ntk" or "yarn", for rotary.

    >>> from alibi_viz.widgets import SlopeSurgery
    >>> app = SlopeSurgery(window=64)
    >>> app
    SlopeSurgery(subject='alibi', factor=1.0, dropped='none', window=64, sinks=0, rule='plain')
    >>> abs(app.after[1024] - app.before[1024]) < 0.05  # keys more than 64 back hardly matter
    True
    """

    why = Why(
        "The changed model has the same weights as the one before. So all differences between the lines come from "
        "the change.",
        "06_surgery",
        "Steeper or flatter slopes",
    )
    subject = Choice("alibi", (*MODELS, YOURS))
    factor = Number(1.0, 1 / 16, 16.0)
    dropped = Choice("none", ("none", "all", *map(str, range(1, MAX_HEADS + 1))))
    window = Count(None, 1, 4096, allow_none=True)
    sinks = Count(0, 0, 64)
    rule = Choice("plain", ROTARY_RULES)

    def __init__(
        self,
        model: LanguageModel | nn.Module | None = None,
        *,
        tokenizer: Any = None,
        length: int | None = None,
        lengths: Sequence[int] | None = None,
        text: str | Path | bytes | None = None,
        **state: Any,
    ) -> None:
        self._text = read_source(text)
        self._as_trained: dict[str, Evaluation] = {}
        self._models: dict[str, Subject] = {}
        if model is not None:
            with raising_bad_value():
                self._models[YOURS] = _your_model(
                    model, self._text, tokenizer=tokenizer, length=length, lengths=lengths, source=text
                )
            state.setdefault("subject", YOURS)
        elif any(option is not None for option in (tokenizer, length, lengths)):
            raise BadValue("tokenizer, length and lengths belong to a model of yours: pass the model too")
        super().__init__(**state)

    # Results.

    @property
    def before(self) -> dict[int, float]:
        """{length: bits per byte} of the model as it was trained."""
        return self._before.losses

    @property
    def after(self) -> dict[int, float]:
        """{length: bits per byte} of the changed model; equal to `before` without a change."""
        return self._after.losses

    def refresh(self) -> None:
        """Evaluate the model again, because its weights may have changed, and draw."""
        self._as_trained.clear()
        super().refresh()

    def open_run(self, folder: str | Path) -> None:
        """Open a model that `lab.save_run` saved. Raises BadValue, and changes nothing, if it can't be used."""
        with raising_bad_value():
            saved = lab.load_run(check_path(folder))
            task = saved.settings.get("task", "text")
            if task != "text":
                raise ValueError(f"{str(folder)!r} was trained on the task {task}; choose a model of text")
            length = _check_length(saved.settings.get("length", saved.model.config.max_length))
            previous = self._models, self._as_trained
            self._models = self._models | {YOURS: TrainedHere(saved.model, length, self._text)}
            self._as_trained = {name: result for name, result in self._as_trained.items() if name != YOURS}
            try:
                if self.subject == YOURS:
                    self._redraw()
                else:
                    self.subject = YOURS
            except (TypeError, ValueError):
                self._models, self._as_trained = previous
                raise

    # Methods that `App` requires.

    def blank(self) -> go.Figure:
        return picture.blank()

    def controls(self) -> list[Widget]:
        subject = self.menu("subject", "model", "s-subject", "Which trained model", {YOURS: "yours (below)"})
        self._dropped = self.menu("dropped", "drop the bias of", "s-dropped", "Heads whose bias is dropped")
        tip = "How rotary treats positions beyond its training length"
        self._rule = self.menu("rule", "rotary's rule", "s-rule", tip)
        tip = "What the slopes are multiplied by"
        options = {"value": 1, "base": 2, "min": -4, "max": 4, "step": 0.5, "readout": False, "tooltip": tip}
        self._factor = FloatLogSlider(**options, layout=Layout(width="150px"), continuous_update=False)
        self.link(self._factor.add_class("s-factor"), "factor")
        self._factor_field = self.field("factor", "s-factor-field", "60px", tip)
        tip = "How many keys a query sees, including its own"
        self._window = Dropdown(layout=FIT, options=_windows(None), tooltip=tip)
        self.link(self._window.add_class("s-window"), "window", lambda size: size or None, self._show_window)
        self._sinks = self.field("sinks", "s-sinks", "44px", "How many tokens at the start stay visible")
        hint, layout = "the folder of a saved run", Layout(width="280px")
        folder = Text(placeholder=hint, tooltip="Open a model of yours", continuous_update=False, layout=layout)
        folder.add_class("s-folder").observe(self._on_folder, names="value")
        first = row(subject, labeled("slopes times", self._factor, self._factor_field), self._dropped)
        window = labeled("window", self._window), labeled("sinks", self._sinks)
        return [column(first, row(*window, self._rule, labeled("open", folder), self.reset_button()))]

    def draw(self) -> str:
        subject = self._subject()
        intervention = Intervention(subject, self.factor, self.dropped, self.window, self.sinks, self.rule)
        if self.subject not in self._as_trained:
            self._as_trained[self.subject] = subject.evaluate()
        before = after = self._as_trained[self.subject]
        curves, changed_distance = {picture.BEFORE: Curves(before.losses)}, None
        if intervention.changes():
            after = subject.evaluate(intervention.apply())
            curves[picture.AFTER], changed_distance = Curves(after.losses), after.distance
        self._before, self._after = before, after
        self._factor.disabled = self._factor_field.disabled = self._dropped.disabled = not subject.has_bias
        self._rule.disabled = not subject.is_rotary
        self._sinks.disabled = not subject.has_sinks
        panel = subject.panel(curves, sorted(before.losses))
        picture.draw(self.figure, panel, before.distance, changed_distance)
        return intervention.caption(before, after)

    def _subject(self) -> Subject:
        if self.subject not in self._models:
            if self.subject == YOURS:
                raise BadValue("there is no model of yours yet: enter the folder of a saved run, or pass a model")
            saved = lab.published_model(self.subject)
            self._models[self.subject] = TrainedHere(saved.model, saved.settings["length"], self._text)
        return self._models[self.subject]

    def _on_folder(self, change: Any) -> None:
        if folder := change.new.strip():
            self.attempt(lambda: self.open_run(folder))

    def _show_window(self, window: int | None) -> int:
        """The value of the menu for a window, which becomes one of its options."""
        if (window or 0) not in dict(self._window.options).values():
            self._window.options = _windows(window)
        return window or 0


def _your_model(model: nn.Module, text: lab.Text, *, tokenizer: Any, length: Any, lengths: Any, source: Any) -> Subject:
    """The model that was passed to the app. Raises TypeError or ValueError if it can't be used."""
    if isinstance(model, LanguageModel):
        return TrainedHere(model, _check_length(model.config.max_length if length is None else length), text, lengths)
    if tokenizer is None:
        raise ValueError(f"a model of transformers needs its tokenizer: pass tokenizer, got {type(model).__name__}")
    config: Any = getattr(model, "config", None)
    known = (getattr(config, name) for name in LENGTHS if isinstance(getattr(config, name, None), int))
    length = _check_length(next(known, None) if length is None else length)
    return Pretrained(model, tokenizer, length, source, lengths)


def _check_length(length: Any) -> int:
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise BadValue(f"length must be an integer of at least 1, the training length of the model, got {length!r}")
    return length


def _windows(current: int | None) -> list[tuple[str, int]]:
    """The options of the menu. 0 stands for no window, because a menu takes None for "nothing selected"."""
    return [("none", 0), *((f"{size:,}", size) for size in sorted({*WINDOWS, current or WINDOWS[0]}))]
