"""LengthLab: train tiny models side by side on short windows, and watch what longer ones do to them."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import torch._dynamo  # noqa: F401 - the first optimizer would import it amid the first race, for most of a second
from ipywidgets import HTML, HBox, Layout, ToggleButtons, VBox, Widget

from alibi_viz.figures import race as picture
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.background import Background, on_one_thread
from alibi_viz.widgets.core.traits import BadValue, Choice, Count, Flag
from alibi_viz.widgets.race.claims import published_words
from alibi_viz.widgets.race.controls import RaceControls
from alibi_viz.widgets.race.report import NEEDLE, RaceReport
from alibi_viz.widgets.race.traits import METHODS, Guesses, Methods, Rate, Source, named_path, read_source, source_name
from alibi_viz.widgets.race.views import VIEWS, measurements, panel, unmeasured
from alibi_viz.widgets.race.words import LANES_STYLE, RaceWords

__all__ = ["LengthLab"]

RACED = ("methods", "length", "steps", "seed", "seeds", "learning_rate", "text")  # what Train goes by


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
        seeds: how many races, 1 to 5: seed, seed + 1, ..., one after the other.
        learning_rate: at most 1,000. Try 100 to see a training diverge.
        text: None for the built-in text, a string, or a `pathlib.Path`.
        guesses: {method: {2, 4 or 16: bits per byte expected at so many times L}}, held against the next race.
        view: the tab. "race"; "gap", what 4 L costs above L by step; "by position" in one long window; "same targets"
            with growing context; "needle", a race of its own, on finding one value in noise.
        published: draw the published seeds beside this machine's.

    >>> from alibi_viz.widgets import LengthLab
    >>> app = LengthLab(methods=["alibi", "none"], steps=10)
    >>> app.train().result()
    >>> list(app.results["alibi"]), len(app.losses["none"]), app.models["alibi"].config.position
    ([32, 64, 128, 256, 512], 10, 'alibi')
    """

    methods = Methods(("alibi", "sinusoidal", "rotary"))
    length = Count(32, 8, 128)
    steps = Count(300, 10, 2000)
    seed = Count(0, 0, 2**31 - 1)
    seeds = Count(1, 1, 5)
    learning_rate = Rate(8e-3, 1000)
    text = Source(None)
    guesses = Guesses()
    view = Choice("race", VIEWS)
    published = Flag(False)

    def __init__(self, **state: Any) -> None:
        self._reports: dict[bool, RaceReport] = {}  # the last race on text (False) and on needles (True)
        self._raced: dict[bool, dict[str, Any]] = {}  # what each of them went by
        self._active: RaceReport | None = None
        self._background: Background[Any] | None = None
        self._closed = False
        super().__init__(**state)
        self.observe(lambda _: self._measure(), names="view")

    # What a race has brought.

    @property
    def losses(self) -> dict[str, list[float]]:
        """Bits per byte of each training step of the seed raced last, a list a method; empty before the first race."""
        return self._report.board.losses if self._report else {}

    @property
    def results(self) -> dict[str, dict[int, float]]:
        """{method: {test length: bits per byte}}, the mean over the seeds; NaN where a method is not defined.

        In the tab "needle" {method: {distance: share found}}.
        """
        return {name: self._report.by_length(name) for name in self._report.methods} if self._report else {}

    @property
    def models(self) -> dict[str, LanguageModel]:
        """{method: model} of the last seed raced to its end or, if none was, of the first, as far as it went."""
        return self._report.last.models if self._report else {}

    @property
    def running(self) -> bool:
        """Whether a race is on; once it is not, the app shows how it ended."""
        with self._lock:
            return self._active is not None and self._active.state == "running"

    # What one can do.

    def train(self) -> Background[Any]:
        """Start a race afresh, on needles if that tab is open, and give back its future.

        Raises:
            RuntimeError: a race is running.
            BadValue: no method is chosen, or the text cannot be read or is too short.
            TrainingDiverged (from the future): the loss became NaN or infinite.
        """
        if self._background and not self.running:
            self._background.stop()  # it may still be measuring
            self._background.join()
        with self._lock:
            if self._active and self.running:
                board = self._active.board
                at = f"step {min(map(board.step, board.methods)):,} of {board.steps:,}"
                raise RuntimeError(f"a race is running, {at}: let it end, or stop it first; nothing was changed")
            report = self._planned()
            laps = self._laps(report)
            self._active = self._reports[report.task] = report
            self._raced[report.task] = self._settings()
            self.say("")
            self._controls.race_is_on(True)
            return self._run(laps, report.add, self._ended)

    def stop(self) -> None:
        """End the race after the lap that is being run, a fraction of a second; without a race nothing happens."""
        if self._background:
            self._background.stop()

    def keep(self, folder: str | Path) -> list[Path]:
        """Keep the open tab's models in `folder`, one folder a method, as `lab.load_run` and SlopeSurgery open them.

        Raises BadValue when nothing has been trained, a race is on, or something of that name is there already.
        """
        if self.running or not self.models:
            raise BadValue("there is no trained model to keep: train first, and let the race end or stop it")
        try:
            return self._report.keep(named_path(folder)) if self._report else []
        except (OSError, ValueError) as error:
            raise BadValue(str(error)) from error

    def close(self) -> None:
        """Take the app off the page, and end its race."""
        self._closed = True
        self.stop()
        super().close()

    def fit(self, width: int) -> None:
        super().fit(width)
        self.refresh()  # a narrow page has more rows of legend

    # What an app says.

    def blank(self) -> go.Figure:
        return picture.blank(METHODS)

    def controls(self) -> list[Widget]:
        self._controls, self._lanes = RaceControls(self), HTML().add_class("s-lanes")
        tabs = ToggleButtons(options=VIEWS, style={"button_width": "max-content"}).add_class("s-view")
        self.link(tabs, "view")
        beside = self.checkbox(
            "published", "published seeds", "s-published", "Draw seeds trained elsewhere beside these"
        )
        row = HBox([tabs, beside], layout=Layout(flex_flow="row wrap", align_items="center", overflow="visible"))
        rows = [self._controls, HTML(LANES_STYLE), self._lanes, row]
        return [VBox(rows, layout=Layout(width="100%", overflow="visible"))]

    def draw(self) -> str:
        report = self._report or self._planned()
        guesses = report.guesses if report.state == "running" else self.guesses  # locked while a race is on
        picture.draw(
            self.figure,
            METHODS,
            steps=report.steps,
            losses=report.board.losses,
            panel=panel(report, self.view, published=self.published, guesses=guesses),
            alone=self.view not in ("race", "needle"),
            unit="answer" if report.task else "byte",
        )
        self._lanes.value = RaceWords(self._active if self._active and self.running else report).lanes()
        return RaceWords(report).told(self.view, guesses) + self._aside(report)

    # How a race goes.

    @property
    def _report(self) -> RaceReport | None:
        """The race that the open tab is about."""
        return self._reports.get(self.view == "needle")

    def _planned(self) -> RaceReport:
        """The race that Train would start now."""
        settings = {name: getattr(self, name) for name in RACED if name != "text"}
        return RaceReport(source_name(self.text), task=self.view == "needle", guesses=self.guesses, **settings)

    def _settings(self) -> dict[str, Any]:
        """What Train would go by now; needles have no text."""
        return {name: getattr(self, name) for name in RACED if name != "text" or self.view != "needle"}

    def _laps(self, report: RaceReport) -> Iterable[Any]:
        if not self.methods:
            raise BadValue(f"methods must be at least one of {', '.join(METHODS)}, got none")
        try:
            return report.start(NEEDLE if report.task else read_source(self.text))
        except ValueError as error:
            raise BadValue(str(error)) from error

    def _run(
        self, items: Iterable[Any], take: Callable[[Any], None], end: Callable[[BaseException | None], None]
    ) -> Background[Any]:
        self._background = Background(on_one_thread(items), take, self.refresh, end)
        self.refresh()
        return self._background.start()

    def _ended(self, error: BaseException | None) -> None:
        """On the race's thread, when it is over for whatever reason."""
        assert self._active
        with self._lock:
            complete = len(self._active.complete) == self._active.seeds
            self._active.state = "failed" if error else "finished" if complete else "stopped"
            self._controls.race_is_on(False)
            if error:
                self.say(str(error) or type(error).__name__)
            self.refresh()
        self._measure()

    def _measure(self) -> None:
        """Ask the trained models what the open tab shows, if nobody has yet."""
        with self._lock:
            report, view = self._reports.get(False), self.view
            if self._closed or report is None or self.running or report.measuring or not unmeasured(report, view):
                return
            report.measuring = True
            self._run(measurements(report, view), lambda _: None, self._measured)

    def _measured(self, error: BaseException | None) -> None:
        assert self._background
        with self._lock:
            self._reports[False].measuring = False
            if error:
                self.say(str(error) or type(error).__name__)
            self.refresh()
        if not error and not self._background.stopped:
            self._measure()  # another tab may have been opened meanwhile

    def _aside(self, report: RaceReport) -> str:
        """What else one must know to read the picture."""
        said = f" {published_words(report, self.view)}" if self.published else ""
        if self.running:
            return f"{said} The race that is on belongs to another tab." if self._active is not report else said
        changed = self._raced.get(report.task) != self._settings()
        return f"{said} The controls have changed since: Train again." if changed and report.boards else said
