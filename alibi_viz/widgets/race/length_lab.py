"""LengthLab: train small models on short sequences, and test them on longer ones."""

import importlib
import threading
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import traitlets
from ipywidgets import HTML, Layout, ToggleButtons, VBox, Widget
from traitlets import Dict, Enum, Int, Tuple, validate

from alibi_viz import lab
from alibi_viz.figures.curve_plot import MAX_METHODS, curve_picture
from alibi_viz.formatting import in_prose
from alibi_viz.measure.sentences import join
from alibi_viz.measure.table import Axes, results_table
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.methods import summary
from alibi_viz.train.training import BATCH_SIZE, LENGTH, STEPS
from alibi_viz.widgets.core.app import App, Drawn, Why
from alibi_viz.widgets.core.background import Background
from alibi_viz.widgets.core.controls import below, button, column, fold, labeled, row, show
from alibi_viz.widgets.core.own_methods import known_methods, remember_method
from alibi_viz.widgets.core.traits import BadValue, raising_bad_value, short_repr
from alibi_viz.widgets.race import captions
from alibi_viz.widgets.race.moments import Moments
from alibi_viz.widgets.race.state import (
    HERO,
    IN_LETTERS,
    RaceState,
    Written,
    continues_opening,
)

STYLE = Path(__file__).with_name("race.css").read_text(encoding="utf-8")
NUMBERS = (
    ("length", "training length L", "Bytes in a training sequence, 8 to 128"),
    ("steps", "steps", f"Training steps, each on a batch of {BATCH_SIZE} sequences"),
    ("seed", "seed", "Sets the starting weights and the batches"),
)
GUESS = """<div style="line-height: 1.4">
What does each loss do on texts up to 16 times as long?
It <b>holds</b> if it rises by at most 0.1 bits, and <b>fails</b> if it rises by 0.5 or more.
</div>"""
EMMA_GUESS = f"Will ALiBi's tale name {HERO} again?"
# Saved cells may have these.
EARLIER_SETTINGS = {"simple", "seeds", "question"}
HEIGHT = 190  # pixels
# In bits per letter. The axis is the same in all states of a race: a letter has 8 bits, and a model
# that hasn't learned anything needs a little more.
LOSSES = (0.0, 8.5)
# The icons of a button with the right answer, and of one with a wrong guess
CHECK = "check"
CROSS = "times"


@cache
def load_compiler() -> threading.Thread:
    """Import, once and on a thread of its own, what the first optimizer imports.

    It takes a second or more: not during the first race, and not before the app is on the page.
    """
    thread = threading.Thread(target=importlib.import_module, args=("torch._dynamo",))
    thread.start()
    return thread


class LengthLab(App):
    """A race of position methods: one small model each, tested on longer and longer sequences.

    The models are trained on sequences of `length` bytes. Before that and at every test, each
    continues the text. `train` starts the race on a thread, so the kernel stays free, and returns a
    future: `await app.train()` in a notebook, `app.train().result()` in a script. Changes of the
    state during a race apply to the next one. After a race, a slider goes back to each of its
    tests.

    Traits:
        methods: at most seven position methods: names, or your own functions law(distance, head,
            num_heads) and subclasses of `Position`, which are offered under their names from then
            on.
        length: bytes in a training sequence, L, 8 to 128; tests go up to 16 L.
        steps: 10 to 2,000.
        seed: of the starting weights and the batches.
        text: None for the built-in text, a string, a `pathlib.Path`, or a `lab.Text` such as
            `lab.python_text()`.
        guesses: {method: "holds", "degrades" or "fails"} on sequences of up to 16 L, compared with
            the next race. With any of them, also with None, the Train button asks for those that
            are missing.
        emma: "yes" or "no": whether ALiBi's continuation of the built-in text names its hero again.
            Asked for together with the guesses, and None until then.

    >>> from alibi_viz.widgets import LengthLab
    >>> app = LengthLab(methods=["alibi", "none"], steps=10)
    >>> app.train().result()
    >>> list(app.means["alibi"]), app.models["alibi"].config.position
    ([64, 128, 256, 512, 1024], 'alibi')
    """

    min_width = 360
    why = Why(
        "On longer sequences of a text, the same bytes are predicted at every length, and only "
        "their context changes. So a line that rises there means that longer sequences make the "
        "predictions worse.",
        "09_the_study",
        "Part two: race three models of your own",
    )
    methods = Tuple(("alibi", "sinusoidal", "rotary"))
    length = Int(LENGTH, min=8, max=128)
    steps = Int(STEPS, min=10, max=2000)
    seed = Int(0, min=0, max=2**31 - 1)
    text = traitlets.Any(None)
    guesses = Dict()
    emma = Enum(captions.YES_OR_NO, None, allow_none=True)

    def __init__(self, **state: Any) -> None:
        self._race: RaceState | None = None  # the latest
        self._step: int | None = None  # of the earlier test that the reader has gone back to
        self._tests_drawn = 0  # of the race
        self._boxes: dict[str, Widget] = {}  # of the methods that are offered
        self._columns: dict[str, MethodColumn] = {}  # of the methods that have been chosen so far
        ignored = sorted(state.keys() & EARLIER_SETTINGS)
        super().__init__(**{name: state[name] for name in state if name not in ignored})
        if ignored:
            self.ask(
                f"LengthLab has no {join(ignored)} any more, and ignores it. lab.compare trains "
                "with several seeds, and lab.sweep on tasks as well."
            )
        load_compiler()

    @validate("methods")
    def _check_methods(self, proposal: Any) -> tuple[str, ...]:
        """Your own functions and classes become names, which are known from then on."""
        with raising_bad_value():
            chosen = [
                method if isinstance(method, str) else remember_method(method)
                for method in proposal.value
            ]
        known = known_methods()
        if not set(chosen) <= set(known) or len(set(chosen)) > MAX_METHODS:
            raise BadValue(
                f"methods must be at most {MAX_METHODS} names out of {'; '.join(known)}, "
                f"got {short_repr(proposal.value)}"
            )
        return tuple(name for name in known if name in chosen)

    @validate("text")
    def _read_text(self, proposal: Any) -> lab.Text | None:
        text = proposal.value
        if text is None or isinstance(text, lab.Text):
            return text
        with raising_bad_value():
            return lab.load_text(text)

    @validate("guesses")
    def _check_guesses(self, proposal: Any) -> Any:
        guesses = proposal.value
        outcomes = [None, *captions.OUTCOMES]
        are_outcomes = all(guess in outcomes for guess in guesses.values())
        if not set(guesses) <= set(known_methods()) or not are_outcomes:
            raise BadValue(
                f"guesses must be {{method: {', '.join(captions.OUTCOMES)} or None}}, got "
                f"{short_repr(guesses)}"
            )
        return guesses

    # The results of the latest race.

    @property
    def results(self) -> pd.DataFrame:
        """All rows so far, with the columns of `lab.COLUMNS` and the origin "live"."""
        return results_table(list(self._shown.rows))

    @property
    def means(self) -> dict[str, dict[int, float]]:
        """{method: {length: bits per byte}} of the last test of all models.

        Empty before the first race.
        """
        losses = self._shown.results().set_index(["x", "label"])["value"]
        return losses.unstack("label", sort=False).to_dict()

    @property
    def models(self) -> dict[str, LanguageModel]:
        """{method: model}."""
        return self._shown.models

    @property
    def written(self) -> dict[str, Written]:
        """{method: what its model wrote last}."""
        return self._shown.written

    @property
    def running(self) -> bool:
        """Whether a race is running. Once it is False, the app shows how that ended."""
        with self._lock:
            return self._shown.state == "running"

    def train(self) -> Background:
        """Start a new race, and return its future.

        Raises:
            RuntimeError: a race is running.
            BadValue: no method is chosen, a method of your own fails, or the text is too short.
            TrainingDiverged (from the future): the loss became NaN or infinite.
        """
        with self._lock:
            if self.running:
                raise RuntimeError(
                    "a race is running: wait for its end or stop it; nothing was changed"
                )
            race = self._planned()
            try:
                steps = race.start()
            except Exception as error:  # a class of the user's own may raise anything
                raise BadValue(str(error) or type(error).__name__) from error

            self._race = race
            self._step = None
            self.say("")
            work = Background(
                steps, self._show_tests, self._on_end, show_progress=self._show_progress
            )
            self.works = [work]
            work.start()
            self.refresh()
            return work

    def stop(self) -> None:
        """End the race after the current row. Does nothing without a race."""
        for work in self.works:
            work.stop()

    def controls(self) -> list[Widget]:
        self._question = HTML(GUESS)
        self._row_of_columns = VBox().add_class("s-columns")
        self._emma_buttons = self.link(
            _choice(EMMA_GUESS, captions.YES_OR_NO, "s-guess-emma"), "emma"
        )
        self._emma_question = labeled(EMMA_GUESS, self._emma_buttons)
        train = button("Train", "play", "s-train", "Start a new race", self._on_train)
        train.button_style = "primary"
        self._stop = button("Stop", "stop", "s-stop", "End the race, keep the curves", self.stop)
        self._moments = Moments(self._go_back)

        self._methods = row()
        numbers = [
            labeled(label, self.field(name, f"s-{name}", "72px", tip))
            for name, label, tip in NUMBERS
        ]
        self._more, folded = fold(
            "More settings",
            "The methods, the training length, the steps and the seed",
            self._methods,
            row(*numbers),
        )
        reset = self.reset_button(self._moments.go_to_end)
        start = row(self._emma_question, train, self._stop, self._more, reset)
        self._panel = column(self._question, self._moments, self._row_of_columns, start, folded)
        return [self._panel, HTML(f"<style>{STYLE}</style>")]

    def body(self) -> list[Widget]:
        """The caption is above the curves, because it is the verdict."""
        return [
            self.controls_row,
            self.message_line,
            self.caption_line.add_class("s-verdict"),
            self.plot,
            self.details_line,
            self.reason,
        ]

    def draw(self) -> Drawn:
        race = self._shown
        results = race.results(self._step)
        self._update_controls(race)
        self._show_columns(race)
        low, high = LOSSES
        axes = replace(
            IN_LETTERS.axes(race.length, text=race.source), low=low, high=high, is_steady=True
        )
        picture = curve_picture(
            race.slots,
            _with_plain_lengths(axes),
            results,
            height=HEIGHT,
            page_width=self.page_width,
            compact=True,
        )
        is_outdated = race.state != "ready" and race.settings != self._planned().settings
        summary, details = captions.caption(race, results, self._step, is_outdated=is_outdated)
        return Drawn(picture, summary, details)

    @property
    def _shown(self) -> RaceState:
        """The latest race, or else the one that Train would start."""
        return self._race or self._planned()

    def _planned(self) -> RaceState:
        """The race that Train would start now."""
        known = known_methods()
        return RaceState(
            methods={name: known[name] for name in self.methods},
            length=self.length,
            steps=self.steps,
            seed=self.seed,
            text=self.text,
            guesses=dict(self.guesses),
            emma=self.emma if self._asks_about_emma else None,
        )

    @property
    def _asks_about_emma(self) -> bool:
        """Whether there is a text of ALiBi that may name her again."""
        return "alibi" in self.methods and continues_opening(self.text, self.length)

    # What is shown while a race runs: this is called on its thread.

    def _show_tests(self) -> None:
        """Draw what has been tested and written. Between two tests, only the bars move."""
        if self._shown.tests == self._tests_drawn:
            self._show_progress()
        else:
            self.refresh()

    def _show_progress(self) -> None:
        """Move the bars, which costs far less than to draw."""
        with self._lock:
            race = self._shown
            for method, steps in race.steps_done.items():
                if method in self._columns:
                    done = steps if self._step is None else self._step
                    self._columns[method].bar.value = captions.progress_bar(race, method, done)

    def _on_end(self, error: BaseException | None) -> None:
        with self._lock:
            race = self._shown
            if error:
                race.state = "failed"
                self.say(str(error) or type(error).__name__)
            else:
                race.state = "finished" if race.steps in race.tested_steps else "stopped"
                # What the lesson says about the race may be read now.
                self.page.answered = race.state == "finished"
            if len(race.tested_steps) > 1:
                self._moments.offer(race.tested_steps, race.steps)
            self.refresh()

    def _go_back(self, step: int) -> None:
        """Show the race after a step."""
        with self._lock:
            is_last = step == self._shown.tested_steps[-1]
            self._step = None if is_last else step
            self.attempt(self.refresh)

    # The controls.

    def _update_controls(self, race: RaceState) -> None:
        """Offer what fits the methods and the race. Lock the settings while it runs."""
        known = known_methods()
        new = [name for name in known if name not in self._boxes]
        boxes = self.boxes("methods", new, lambda name: summary(known[name]))
        self._boxes |= dict(zip(new, boxes, strict=True))
        self._methods.children = list(self._boxes.values())
        for method in self.methods:
            if method not in self._columns:
                self._columns[method] = self._column(method)
        self._row_of_columns.children = [
            self._columns[name] for name in known if name in self._columns
        ]

        # The slider takes the place of the question: both together would push the curves off a
        # laptop's screen.
        is_running = race.state == "running"
        has_moments = not is_running and len(race.tested_steps) > 1
        show(has_moments, self._moments)
        show(not has_moments, self._question)
        show(self._asks_about_emma, self._emma_question)
        self._stop.disabled = not is_running
        for widget in below(self._panel):
            if widget.has_trait("disabled") and widget not in (self._stop, self._more):
                widget.disabled = is_running

    def _column(self, method: str) -> "MethodColumn":
        """A column for a method, in which one guesses how it does."""
        guess = self.link(
            _choice(in_prose(method), captions.OUTCOMES, f"s-guess-{method}"),
            "guesses",
            read=lambda outcome: {**self.guesses, method: outcome},
            show=lambda guesses: guesses.get(method),
        )
        return MethodColumn(method, guess)

    def _show_columns(self, race: RaceState) -> None:
        """Show the progress and the text of each chosen method, and which guesses were right."""
        self._tests_drawn = race.tests
        texts = race.written if self._step is None else race.moments[self._step]
        # An earlier test says nothing of the end.
        verdicts = captions.verdicts(race) if self._step is None else {}
        _mark(self._emma_buttons, verdicts.get(HERO))
        for method, shown in self._columns.items():
            show(method in self.methods, shown)
            is_in_race = method in race.methods
            shown.layout.border_left = f"4px solid {race.color(method)}" if is_in_race else "none"
            shown.text.value = captions.text_of(method, texts.get(method), race.length)
            _mark(shown.guess, verdicts.get(method))
        self._show_progress()

    def _on_train(self) -> None:
        missing = []
        if self.guesses:
            missing = [method for method in self.methods if not self.guesses.get(method)]
            if self._asks_about_emma and self.emma is None:
                missing.append(HERO)
        if missing:
            names = [in_prose(name) for name in missing]
            self.ask(f"Make your guess first, for {join(names)}.")
        else:
            self.attempt(self.train)


class MethodColumn(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """What a race shows of one model: the guess about it, its bar, and its text."""

    def __init__(self, method: str, guess: ToggleButtons) -> None:
        self.guess = guess
        self.bar = HTML()
        self.text = HTML().add_class("s-text-of").add_class(f"s-text-{method}")
        layout = Layout(padding="0 0 0 10px", overflow="visible")
        super().__init__([labeled(in_prose(method), guess), self.bar, self.text], layout=layout)


def _choice(about: str, options: Iterable[str], css: str) -> ToggleButtons:
    """Buttons for a guess about something, of which none is pressed at first."""
    tips = [f"{about} {option}" for option in options]
    buttons = ToggleButtons(options=tuple(options), value=None, tooltips=tips)
    buttons.style.button_width = "max-content"
    return buttons.add_class(css)


def _mark(buttons: ToggleButtons, verdict: captions.Verdict | None) -> None:
    """Put a check mark on the button with the answer, and a cross on a wrong guess."""
    icons = dict.fromkeys(buttons.options, "")
    if verdict:
        icons[verdict.guess] = CROSS
        icons[verdict.answer] = CHECK
    buttons.icons = list(icons.values())


def _with_plain_lengths(axes: Axes) -> Axes:
    """The axes for readers who don't know the symbol L."""
    ticks = {}
    for length in axes.ticks:
        times = length / (axes.length or length)
        words = "as in training" if times == 1 else f"\N{MULTIPLICATION SIGN}{times:g} longer"
        ticks[length] = f"{length:,}<br>{words}"
    return replace(
        axes,
        ticks=ticks,
        title="Loss by the length of the text, in letters",
        x_title="",
    )
