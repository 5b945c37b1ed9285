"""LengthLab: train tiny models side by side on short windows, and watch what longer ones do to them."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from ipywidgets import HTML, Button, Checkbox, HBox, IntText, Label, Layout, Text, VBox, Widget
from traitlets import TraitError

from alibi_viz.figures import race as picture
from alibi_viz.lab import Lap, Scoreboard, race, test_lengths
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.background import Background
from alibi_viz.widgets.base import App
from alibi_viz.widgets.race_traits import METHODS, Methods, Rate, Source, read_source
from alibi_viz.widgets.race_words import LANES_STYLE, RaceReport
from alibi_viz.widgets.text_picker import TextPicker
from alibi_viz.widgets.traits import BadValue, Count

__all__ = ["LengthLab"]

STEPS_BETWEEN_TESTS = 30
_ROW = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 20px", "overflow": "visible"}


class LengthLab(App):
    """A race: one tiny model a position method, trained on windows of `length` bytes, tested on longer ones.

    The race runs on a thread of its own; the kernel stays free. `train` gives a future: `await app.train()` in a
    notebook, `app.train().result()` in a script, or neither. `stop` ends it; what it has brought stays. Changes of
    the state during a race hold for the next one.

    Traits:
        methods: names out of alibi, sinusoidal, rotary, learned, none.
        length: bytes in a training window, L, 8 to 128; tests go up to 16 L.
        steps: 10 to 5,000.
        seed: of the starting weights and the batches.
        learning_rate: at most 1,000. Try 100 to see a training diverge.
        text: None for the built-in text, a string, or a `pathlib.Path`.

    >>> from alibi_viz.widgets import LengthLab
    >>> app = LengthLab(methods=["alibi", "none"], steps=10)
    >>> app
    LengthLab(methods=('alibi', 'none'), length=32, steps=10, seed=0, learning_rate=0.008, text=None)
    >>> app.train().result()
    >>> print(app.caption[:69])
    Trained 10 steps on windows of 32 bytes of Python language reference,
    >>> list(app.results["alibi"]), len(app.losses["none"]), app.models["alibi"].config.position
    ([32, 64, 128, 256, 512], 10, 'alibi')
    """

    methods = Methods(("alibi", "sinusoidal", "rotary"))
    length = Count(32, 8, 128)
    steps = Count(300, 10, 5000)
    seed = Count(0, 0, 2**31 - 1)
    learning_rate = Rate(8e-3, 1000)
    text = Source(None)

    def __init__(self, **state: Any) -> None:
        self._lock = threading.RLock()  # the race's thread and the kernel's both draw
        self._race: RaceReport | None = None
        self._background: Background[Lap] | None = None
        super().__init__(**state)

    # What a race has brought.

    @property
    def losses(self) -> dict[str, list[float]]:
        """Bits per byte of each training step, a list a method; empty before the first race."""
        return self._race.board.losses if self._race else {}

    @property
    def results(self) -> dict[str, dict[int, float]]:
        """{method: {test length: bits per byte}} after the last test; NaN where a method is not defined."""
        return {method: self._race.board.by_length(method) for method in self._race.board.methods} if self._race else {}

    @property
    def models(self) -> dict[str, LanguageModel]:
        """{method: model}, trained as far as the race went."""
        return self._race.board.models if self._race else {}

    @property
    def running(self) -> bool:
        """Whether a race is on."""
        return self._race is not None and self._race.state == "running"

    # What one can do.

    def train(self) -> Background[Lap]:
        """Start a race afresh, and give back its future.

        Raises:
            RuntimeError: a race is running.
            BadValue: no method is chosen, or the text cannot be read or is too short.
            TrainingDiverged (from the future): the loss became NaN or infinite.
        """
        with self._lock:
            if self._race and self.running:
                done = min(map(self._race.board.step, self._race.board.methods))
                raise RuntimeError(
                    f"a race is running, step {done:,} of {self._race.board.steps:,}: let it end, or stop it first; "
                    "nothing was changed"
                )
            laps, self._race = self._start()
            self._background = Background(laps, self._race.board.add, self.refresh, self._ended)
            self.say("")
            self._set_running(True)
            self.refresh()
            return self._background.start()

    def stop(self) -> None:
        """End the race after the lap that is being run, a fraction of a second; without a race nothing happens."""
        if self._background:
            self._background.stop()

    def close(self) -> None:
        """Take the app off the page, and end its race."""
        self.stop()
        super().close()

    # What an app says.

    def blank(self) -> go.Figure:
        return picture.blank(METHODS)

    def controls(self) -> list[Widget]:
        self._train = Button(description="Train", icon="play", button_style="primary", tooltip="Start the race afresh")
        self._stop = Button(description="Stop", icon="stop", disabled=True, tooltip="End the race; the curves stay")
        self._train.add_class("s-train").on_click(self._pressed)
        self._stop.add_class("s-stop").on_click(lambda _: self.stop())
        self._picker = TextPicker(self._picked).add_class("s-picker")
        self.observe(lambda change: self._picker.show(change.new), names="text")
        self._picker.show(self.text)
        self._lanes = HTML().add_class("s-lanes")
        numbers = [
            self.slider("length", "training length L", "s-length", "Bytes in a training window"),
            self.slider("steps", "steps", "s-steps", "How often each model learns from a batch of 32 windows"),
            self._field(IntText(), "seed", "s-seed", "Sets the starting weights and the batches"),
            self._field(Text(continuous_update=False), "learning_rate", "s-rate", "100 makes the training diverge"),
        ]
        boxes = HBox([self._box(method) for method in METHODS], layout=Layout(**_ROW))
        self._settings = [boxes, HBox(numbers, layout=Layout(**_ROW)), self._picker]
        buttons = HBox([self._train, self._stop])
        lanes = VBox([HTML(LANES_STYLE), self._lanes])
        return [VBox([*self._settings, buttons, lanes], layout=Layout(width="100%", grid_gap="4px"))]

    def draw(self) -> str:
        race = self._race or self._planned()
        board = race.board
        picture.draw(
            self.figure,
            METHODS,
            length=race.length,
            steps=board.steps,
            losses=board.losses,
            by_length={method: board.by_length(method) for method in board.methods},
            lengths=board.lengths,
        )
        self._lanes.value = race.lanes()
        return race.caption() + (" The controls have changed since: Train again." if self._changed_since() else "")

    def refresh(self) -> None:
        with self._lock:
            super().refresh()

    # How a race goes.

    def _start(self) -> tuple[Iterator[Lap], RaceReport]:
        if not self.methods:
            raise BadValue(f"methods must be at least one of {', '.join(METHODS)}, got none")
        text = read_source(self.text)
        planned = self._planned()
        planned.text, planned.state = text.name, "running"
        try:
            laps = race(
                self.methods,
                text,
                length=self.length,
                steps=self.steps,
                seed=self.seed,
                lengths=planned.board.lengths,
                checkpoints=max(10, self.steps // STEPS_BETWEEN_TESTS),
                learning_rate=self.learning_rate,
            )
        except ValueError as error:
            raise BadValue(str(error)) from error
        self._raced = self._state()
        return laps, planned

    def _planned(self) -> RaceReport:
        """The race that Train would start now."""
        name = "Python language reference" if self.text is None else "your text"
        name = self.text.name if isinstance(self.text, Path) else name
        return RaceReport(
            name, self.seed, Scoreboard(self.methods, steps=self.steps, lengths=test_lengths(self.length))
        )

    def _changed_since(self) -> bool:
        return self._race is not None and self._race.state != "running" and self._raced != self._state()

    def _ended(self, error: BaseException | None) -> None:
        """On the race's thread, when it is over for whatever reason."""
        assert self._race and self._background
        board = self._race.board
        complete = board.tested() == board.steps
        with self._lock:
            self._race.state = "failed" if error else "finished" if complete else "stopped"
            self._set_running(False)
            if error:
                self.say(str(error) or type(error).__name__)
            self.refresh()

    def _set_running(self, running: bool) -> None:
        """While a race is on, nothing can be set, so that the controls say what is being raced."""
        for control in self._settings:
            _disable(control, running)
        self._train.disabled, self._stop.disabled = running, not running

    # What the controls do.

    def _box(self, method: str) -> Checkbox:
        box = Checkbox(description=method, indent=False, layout=Layout(width="max-content")).add_class(f"s-{method}")
        self.link(box, "methods", partial(self._with, method), lambda methods: method in methods)
        return box

    def _with(self, method: str, taken: bool) -> set[str]:
        return {*self.methods, method} if taken else {*self.methods} - {method}

    def _field(self, widget: Widget, name: str, css: str, tip: str) -> HBox:
        widget.layout.width, widget.tooltip = "72px", tip
        if isinstance(widget, Text):
            self.link(widget.add_class(css), name, _number, lambda value: f"{value:g}")
        else:
            self.link(widget.add_class(css), name)
        return HBox([Label(name.replace("_", " ")), widget], layout=Layout(align_items="center", overflow="visible"))

    def _picked(self) -> None:
        try:
            self.text = self._picker.choice()
            self.say("")
        except (TraitError, ValueError) as error:
            self.say(str(error))  # and what was typed stays, to be mended

    def _pressed(self, _: Button) -> None:
        try:
            self.text = self._picker.choice()  # what is typed counts, even where it was refused before
            self.train()
        except (RuntimeError, TraitError, ValueError) as error:
            self.say(str(error))


def _disable(widget: Widget, disabled: bool) -> None:
    for child in getattr(widget, "children", ()):
        _disable(child, disabled)
    if widget.has_trait("disabled"):
        widget.disabled = disabled


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
