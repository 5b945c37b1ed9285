"""SlopeSurgery: change a trained model without training it again, and see what that does at every length."""

from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from ipywidgets import Dropdown, FloatLogSlider, Layout, Text, Widget

from alibi_viz import lab
from alibi_viz.figures import surgery as picture
from alibi_viz.lab import PUBLISHED_MODELS
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.layout import column, labeled, row
from alibi_viz.widgets.core.traits import BadValue, Choice, Count, Number
from alibi_viz.widgets.race.traits import named_path, read_source
from alibi_viz.widgets.surgery.operation import Measured, Operation, measure

__all__ = ["SlopeSurgery"]

YOURS = "yours"
MOST_HEADS = 16  # whose bias can be dropped one by one
WINDOWS = tuple(2**power for power in range(2, 12))


class SlopeSurgery(App):
    """A trained model under the knife: slopes multiplied, biases dropped, a window imposed, rotary's rule changed.

    Nothing is trained: each change is a copy that shares every weight with the model, tested anew. What does not apply
    to a model, as slopes to a rotary one, is left out, and the caption says so.

    Args:
        model: one of your own, already trained; then `subject` is "yours".
        length: the training length of that model; its `max_length` by default.
        text: what it is tested on, as `load_text` takes it; the built-in text by default.

    Traits:
        subject: "alibi", "rotary" or "sinusoidal", which ship with the package, or "yours".
        factor: what the slopes are multiplied by, 1/16 to 16.
        dropped: "none", "all", or the number of the head, from 1, whose bias is dropped, in every layer.
        window: how many keys a query sees, itself included; None for all.
        rule: "plain", "pi" or "ntk", for rotary.

    >>> from alibi_viz.widgets import SlopeSurgery
    >>> app = SlopeSurgery(window=64)
    >>> app
    SlopeSurgery(subject='alibi', factor=1.0, dropped='none', window=64, rule='plain')
    >>> abs(app.after[1024] - app.before[1024]) < 0.05  # what it sees beyond 64 keys hardly matters
    True
    """

    subject = Choice("alibi", (*PUBLISHED_MODELS, YOURS))
    factor = Number(1.0, 1 / 16, 16.0)
    dropped = Choice("none", ("none", "all", *map(str, range(1, MOST_HEADS + 1))))
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
        self._measured: dict[str, Measured] = {}  # the models as they were trained
        self._models: dict[str, tuple[LanguageModel, int]] = {}
        if model is not None:
            self._models[YOURS] = model, _checked(model.config.max_length if length is None else length)
            state.setdefault("subject", YOURS)
        super().__init__(**state)

    # What the change has brought.

    @property
    def before(self) -> dict[int, float]:
        """Bits per byte at each test length, as the model was trained."""
        return self._before.losses

    @property
    def after(self) -> dict[int, float]:
        """The same after the change; equal where there was none."""
        return self._after.losses

    def open_run(self, folder: str | Path) -> None:
        """Take a model that `lab.save_run` has kept. Raises BadValue, and changes nothing, when it cannot be used."""
        try:
            kept = lab.load_run(named_path(folder))
            task = kept.settings.get("task", "text")
            if task != "text":
                raise BadValue(
                    f"{str(folder)!r} was trained on the task {task}; only models of text can be tested here"
                )
            length = _checked(kept.settings.get("length", kept.model.config.max_length))
        except (OSError, ValueError) as error:
            raise BadValue(str(error)) from error
        former = self._models.get(YOURS)
        self._models[YOURS] = kept.model, length
        self._measured.pop(YOURS, None)
        try:
            if self.subject == YOURS:
                self.refresh()
            else:
                self.subject = YOURS
        except (TypeError, ValueError) as error:
            self._models.pop(YOURS) if former is None else self._models.update({YOURS: former})
            raise BadValue(str(error)) from error

    # What an app says.

    def blank(self) -> go.Figure:
        return picture.blank()

    def controls(self) -> list[Widget]:
        subject = self.menu("subject", "model", "s-subject", "Which trained model", {YOURS: "yours (below)"})
        self._dropped = self.menu("dropped", "drop the bias of", "s-dropped", "Heads whose bias is left out")
        self._rule = self.menu("rule", "rotary's rule", "s-rule", "How rotary counts beyond its training length")
        self._factor = FloatLogSlider(
            value=1,
            base=2,
            min=-4,
            max=4,
            step=0.5,
            readout=False,
            layout=Layout(width="150px"),
            continuous_update=False,
        )
        self._factor_field = Text(continuous_update=False, layout=Layout(width="60px"))
        self.link(self._factor.add_class("s-factor"), "factor")
        self.link(self._factor_field.add_class("s-factor-field"), "factor", _number, lambda value: f"{value:g}")
        window = Dropdown(layout=Layout(width="max-content"), options=_windows(None))
        self.link(window.add_class("s-window"), "window", lambda value: value or None, self._shown_window(window))
        folder = Text(
            placeholder="the folder of a run that was kept", continuous_update=False, layout=Layout(width="280px")
        )
        folder.add_class("s-folder").observe(self._typed, names="value")
        first = [
            subject,
            labeled("slopes times", self._factor, self._factor_field),
            self._dropped,
        ]
        second = [
            labeled("window", window),
            self._rule,
            labeled("open", folder),
        ]
        return [column(row(*first), row(*second))]

    def draw(self) -> str:
        model, length = self._model()
        operation = Operation(model, length, self.factor, self.dropped, self.window, self.rule)
        if self.subject not in self._measured:
            self._measured[self.subject] = measure(model, self._text, length)
        before = self._measured[self.subject]
        after = measure(operation.changed(), self._text, length) if operation.does_something else before
        self._before, self._after = before, after
        self._allow(operation)
        picture.draw(
            self.figure,
            length=length,
            distance=before.distance,
            before=before.losses,
            changed_distance=after.distance if operation.does_something else None,
            after=after.losses if operation.does_something else None,
        )
        return operation.caption(before, after, self._text.name)

    # How it hangs together.

    def _model(self) -> tuple[LanguageModel, int]:
        if self.subject not in self._models:
            if self.subject == YOURS:
                raise BadValue("there is no model of yours yet: name the folder of a kept run, or give a model in code")
            kept = lab.published_model(self.subject)
            self._models[self.subject] = kept.model, kept.settings["length"]
        return self._models[self.subject]

    def _allow(self, operation: Operation) -> None:
        """Only what applies to the model can be set."""
        self._factor.disabled = self._factor_field.disabled = self._dropped.disabled = not operation.has_bias
        self._rule.disabled = not operation.is_rotary

    def _typed(self, change: Any) -> None:
        if change.new.strip():
            try:
                self.open_run(change.new.strip())
                self.say("")
            except ValueError as error:
                self.say(str(error))

    def _shown_window(self, menu: Dropdown) -> Any:
        def show(window: int | None) -> int:
            if (window or 0) not in dict(menu.options).values():
                menu.options = _windows(window)
            return window or 0

        return show


def _checked(length: Any) -> int:
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise BadValue(f"length must be an integer from 1 up, the training length of the model, got {length!r}")
    return length


def _windows(own: int | None) -> list[tuple[str, int]]:
    """What the menu offers; 0 stands for none, because a menu takes None for "nothing chosen"."""
    sizes = sorted({*WINDOWS, *([own] if own else [])})
    return [("none", 0), *((f"{size:,}", size) for size in sizes)]


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text  # for the trait to refuse by name
