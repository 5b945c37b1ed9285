"""LengthLab: train tiny models side by side on short windows, and watch what longer ones do to them."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import torch._dynamo  # noqa: F401 - the first optimizer would import it amid the first race, for most of a second
from ipywidgets import HTML, Layout, VBox, Widget

from alibi_viz.figures import race as picture
from alibi_viz.lab import Lap, Scoreboard, race, test_lengths
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.background import Background, on_one_thread
from alibi_viz.widgets.base import App
from alibi_viz.widgets.race_controls import RaceControls
from alibi_viz.widgets.race_traits import METHODS, Methods, Rate, Source, read_source
from alibi_viz.widgets.race_words import LANES_STYLE, RaceReport
from alibi_viz.widgets.traits import BadValue, Count

__all__ = ["LengthLab"]

STEPS_BETWEEN_TESTS = 30
TARGETS = 2048  # bytes predicted in a test: with more, tests would take more time than training


class LengthLab(App):
    """A race: one tiny model a position method, trained on windows of `length` bytes, tested on longer ones.

    The race runs on a thread of its own; the kernel stays free. `train` gives a future: `await app.train()` in a
    notebook, `app.train().result()` in a script, or neither. `stop` ends it; what it has brought stays. Changes of
    the state during a race hold for the next one.

    Traits:
        methods: names out of alibi, sinusoidal, rotary, learned, none.
        length: bytes in a training window, L, 8 to 128; tests go up to 16 L.
        steps: 10 to 2,000.
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
    steps = Count(300, 10, 2000)
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
        """Whether a race is on; once it is not, the app shows how it ended."""
        with self._lock:
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
            self._background = Background(on_one_thread(laps), self._race.board.add, self.refresh, self._ended)
            self.say("")
            self._controls.race_is_on(True)
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
        self._controls, self._lanes = RaceControls(self), HTML().add_class("s-lanes")
        return [VBox([self._controls, HTML(LANES_STYLE), self._lanes], layout=Layout(width="100%"))]

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

    def fit(self, width: int) -> None:
        with self._lock:
            super().fit(width)

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
                targets=TARGETS,
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
            self._controls.race_is_on(False)
            if error:
                self.say(str(error) or type(error).__name__)
            self.refresh()
