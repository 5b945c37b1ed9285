"""SlopeSurgery: change a trained model without training it again, and see what that does at every length."""

from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from ipywidgets import Dropdown, FloatLogSlider, Layout, Text, Widget

from alibi_viz import lab
from alibi_viz.figures import surgery as picture
from alibi_viz.lab import PUBLISHED_MODELS
from alibi_viz.lab.questions import main_question
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Curves
from alibi_viz.widgets.core.app import FIT, App
from alibi_viz.widgets.core.layout import column, labeled, row
from alibi_viz.widgets.core.traits import BadValue, Choice, Count, Number, raising_bad_value
from alibi_viz.widgets.race.traits import check_path, read_source
from alibi_viz.widgets.surgery.intervention import Evaluation, Intervention, evaluate

__all__ = ["SlopeSurgery"]

YOURS = "yours"
MAX_HEADS = 16  # heads whose bias can be dropped one by one
WINDOWS = tuple(2**power for power in range(2, 12))


class SlopeSurgery(App):
    """Change a trained model: multiply its slopes, drop biases, impose a window, or replace rotary's rule.

    Nothing is trained. A change makes a copy that shares every weight with the model, and evaluates it. A change that
    doesn't apply to the model, such as slopes to a rotary one, is left out, and the caption says so.

    Args:
        model: your own trained model; then `subject` is "yours".
        length: the training length of that model; its `max_length` by default.
        text: the text to test on, as `load_text` takes it; the built-in text by default.

    Traits:
        subject: the model, "alibi", "rotary" or "sinusoidal" (they come with the package) or "yours".
        factor: multiplies the slopes, 1/16 to 16.
        dropped: "none", "all", or the number of the head, from 1, whose bias is dropped in every layer.
        window: how many keys a query sees, including itself; None for all.
        rule: "plain", "pi" or "ntk", for rotary.

    >>> from alibi_viz.widgets import SlopeSurgery
    >>> app = SlopeSurgery(window=64)
    >>> app
    SlopeSurgery(subject='alibi', factor=1.0, dropped='none', window=64, rule='plain')
    >>> abs(app.after[1024] - app.before[1024]) < 0.05  # keys more than 64 back hardly matter
    True
    """

    subject = Choice("alibi", (*PUBLISHED_MODELS, YOURS))
    factor = Number(1.0, 1 / 16, 16.0)
    dropped = Choice("none", ("none", "all", *map(str, range(1, MAX_HEADS + 1))))
    window = Count(None, 1, 4096, allow_none=True)
    rule = Choice("plain", ("plain", "pi", "ntk"))

    def __init__(
        self,
        model: LanguageModel | None = None,
        *,
        length: int | None = None,
        text: str | Path | bytes | None = None,
        **state: Any,
    ) -> None:
        self._text = read_source(text)
        self._as_trained: dict[str, Evaluation] = {}
        self._models: dict[str, tuple[LanguageModel, int]] = {}
        if model is not None:
            self._models[YOURS] = model, _check_length(model.config.max_length if length is None else length)
            state.setdefault("subject", YOURS)
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

    def open_run(self, folder: str | Path) -> None:
        """Open a model that `lab.save_run` saved. Raises BadValue, and changes nothing, if it can't be used."""
        with raising_bad_value():
            saved = lab.load_run(check_path(folder))
            task = saved.settings.get("task", "text")
            if task != "text":
                raise ValueError(f"{str(folder)!r} was trained on the task {task}; choose a model of text")
            length = _check_length(saved.settings.get("length", saved.model.config.max_length))
            previous = self._models, self._as_trained
            self._models = self._models | {YOURS: (saved.model, length)}
            self._as_trained = {name: result for name, result in self._as_trained.items() if name != YOURS}
            try:
                if self.subject == YOURS:
                    self.refresh()
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
        options = {"value": 1, "base": 2, "min": -4, "max": 4, "step": 0.5, "readout": False}
        self._factor = FloatLogSlider(**options, layout=Layout(width="150px"), continuous_update=False)
        self.link(self._factor.add_class("s-factor"), "factor")
        self._factor_field = self.field("factor", "s-factor-field", "60px", "What the slopes are multiplied by")
        self._window = Dropdown(layout=FIT, options=_windows(None)).add_class("s-window")
        self.link(self._window, "window", lambda size: size or None, self._show_window)
        folder = Text(placeholder="the folder of a saved run", continuous_update=False, layout=Layout(width="280px"))
        folder.add_class("s-folder").observe(self._on_folder, names="value")
        first = row(subject, labeled("slopes times", self._factor, self._factor_field), self._dropped)
        return [column(first, row(labeled("window", self._window), self._rule, labeled("open", folder)))]

    def draw(self) -> str:
        model, length = self._model()
        intervention = Intervention(model, length, self.factor, self.dropped, self.window, self.rule)
        if self.subject not in self._as_trained:
            self._as_trained[self.subject] = evaluate(model, self._text, length)
        before = after = self._as_trained[self.subject]
        curves, changed_distance = {picture.BEFORE: Curves(before.losses)}, None
        if intervention.changes():
            after = evaluate(intervention.apply(), self._text, length)
            curves[picture.AFTER], changed_distance = Curves(after.losses), after.distance
        self._before, self._after = before, after
        self._factor.disabled = self._factor_field.disabled = self._dropped.disabled = not intervention.has_bias
        self._rule.disabled = not intervention.is_rotary
        panel = main_question("text").layout(curves, length, sorted(before.losses), {})
        picture.draw(self.figure, panel, before.distance, changed_distance)
        return intervention.caption(before, after, self._text.name)

    def _model(self) -> tuple[LanguageModel, int]:
        if self.subject not in self._models:
            if self.subject == YOURS:
                raise BadValue("there is no model of yours yet: enter the folder of a saved run, or pass a model")
            saved = lab.published_model(self.subject)
            self._models[self.subject] = saved.model, saved.settings["length"]
        return self._models[self.subject]

    def _on_folder(self, change: Any) -> None:
        if folder := change.new.strip():
            self.attempt(lambda: self.open_run(folder))

    def _show_window(self, window: int | None) -> int:
        """The value of the menu for a window, which becomes one of its options."""
        if (window or 0) not in dict(self._window.options).values():
            self._window.options = _windows(window)
        return window or 0


def _check_length(length: Any) -> int:
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise BadValue(f"length must be an integer of at least 1, the training length of the model, got {length!r}")
    return length


def _windows(current: int | None) -> list[tuple[str, int]]:
    """The options of the menu. 0 stands for no window, because a menu takes None for "nothing selected"."""
    return [("none", 0), *((f"{size:,}", size) for size in sorted({*WINDOWS, current or WINDOWS[0]}))]
