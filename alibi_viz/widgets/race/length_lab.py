"""LengthLab: train small models on short sequences, and test them on longer ones."""

import importlib
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import torch
import traitlets
from ipywidgets import HTML, HBox, Layout, Textarea, ToggleButtons, VBox, Widget
from traitlets import Bool, Dict, Enum, Int, Tuple, Unicode, validate

from alibi_viz import lab
from alibi_viz.data.text import YOURS
from alibi_viz.figures import curve_plot as picture
from alibi_viz.figures import panels
from alibi_viz.formatting import in_prose
from alibi_viz.measure.questions import QUESTIONS, Question
from alibi_viz.measure.sentences import join
from alibi_viz.measure.table import Axes, over_seeds
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.methods import Method, summary
from alibi_viz.train.training import BATCH_SIZE, LENGTH, STEPS, limited_threads
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.background import Background
from alibi_viz.widgets.core.controls import below, button, column, fold, labeled, row, show
from alibi_viz.widgets.core.own_methods import known_methods, remember_method
from alibi_viz.widgets.core.traits import (
    BadValue,
    raising_bad_value,
    short_repr,
)
from alibi_viz.widgets.race import captions
from alibi_viz.widgets.race.moments import Moments
from alibi_viz.widgets.race.state import HERO, RaceState, Written, continues_opening

STYLE = Path(__file__).with_name("race.css").read_text(encoding="utf-8")
NUMBERS = (
    ("length", "training length L", "Bytes in a training sequence, 8 to 128"),
    ("steps", "steps", f"Training steps, each on a batch of {BATCH_SIZE} sequences"),
    ("seeds", "seeds", "Number of races, one after the other, with different seeds"),
    ("seed", "first seed", "Sets the starting weights and the batches"),
)
MAX_PATH = 400  # characters: a longer line is a text, not a path
GUESS = """<div style="line-height: 1.5; max-width: 60em">
What happens at up to 16 times the training length?
A model <b>holds</b> if its loss rises by at most 0.1 bits per byte, and <b>fails</b> from 0.5 on.
</div>"""
SIMPLE_GUESS = """<div style="line-height: 1.4">
What does each loss do on texts up to 16 times as long?
It <b>holds</b> if it rises by at most 0.1 bits, and <b>fails</b> if it rises by 0.5 or more.
</div>"""
EMMA_GUESS = f"Will ALiBi's tale name {HERO} again?"
# Pixels
HEIGHT = 316
STACKED_HEIGHT = 500  # with one plot below the other
SIMPLE_HEIGHT = 190
# The axis of losses is the same in all states of a race: a byte has 8 bits.
LOWEST_LOSS = 0.0
HIGHEST_LOSS = 8.0
# The icons of a button with the right answer, and of one with a wrong guess
CHECK = "check"
CROSS = "times"

_python = cache(lab.python_text)


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

    The models are trained on sequences of `length` bytes. `train` starts the race on a thread, so
    the kernel stays free, and returns a future: `await app.train()` in a notebook,
    `app.train().result()` in a script. Changes of the state during a race apply to the next one.
    After a race, a slider goes back to each of its tests.

    Traits:
        methods: at most seven position methods: names, or your own functions law(distance, head,
            num_heads) and subclasses of `Position`, which are offered under their names from then
            on.
        length: bytes in a training sequence, L, 8 to 128; tests go up to 16 L.
        steps: 10 to 2,000.
        seed: of the starting weights and the batches.
        seeds: how many races, 1 to 5: seed, seed + 1, ..., one after the other.
        text: None for the built-in text, a string, a `pathlib.Path`, or a `lab.Text` such as
            `lab.python_text()`.
        guesses: {method: "holds", "degrades" or "fails"} on sequences of up to 16 L, compared with
            the next race on a text. With None instead, the Train button asks for a guess first.
        emma: "yes" or "no": whether ALiBi's continuation of the built-in text names its hero again.
            Asked together with the guesses in simple mode, and None until then.
        question: the name of one of `lab.QUESTIONS`, except "sliding windows". Questions about
            a task, such as "needle", need a race of their own on that task; the others share a race
            on the text.
        simple: show only what a first race needs: a column per model with its guess and its text,
            which it writes anew whenever it is tested, Train and Stop, and the curves. The caption
            is above the figure.

    >>> from alibi_viz.widgets import LengthLab
    >>> app = LengthLab(methods=["alibi", "none"], steps=10)
    >>> app.train().result()
    >>> list(app.means["alibi"]), app.models["alibi"].config.position
    ([64, 128, 256, 512, 1024], 'alibi')
    """

    min_width = 360
    redraw_to_fit = True  # the plots stack on a narrow page
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
    seeds = Int(1, min=1, max=5)
    text = traitlets.Any(None)
    guesses = Dict()
    emma = Enum(captions.YES_OR_NO, None, allow_none=True)
    question = Unicode("longer sequences").tag(choices="questions")
    simple = Bool(False)

    def __init__(self, **state: Any) -> None:
        self.questions = {question.name: question for question in QUESTIONS}
        del self.questions["sliding windows"]  # only `lab.length_curve` answers it
        self._races: dict[str, RaceState] = {}  # {task: the latest race on it}
        self._work: Background | None = None  # a race, or the measurements after it
        # {method: class} of the chosen methods when `draw` last drew them; empty before that
        self._drawn_methods: dict[str, Method] = {}
        self._drawn_tests = 0  # of the race that was drawn last
        self._step: int | None = None  # of the test that the reader has gone back to
        self.texts: dict[str, lab.Text] = {}  # in the menu
        with suppress(ImportError):  # some distributions of Python leave its reference out
            self.texts = {_python().name: _python()}
        super().__init__(**state)
        load_compiler()
        figure_at = self.children.index(self.figure)
        self._above_figure = self.children[:figure_at]
        self._below_caption = self.children[figure_at + 2 :]
        self._arrange()
        self.observe(lambda _: self._measure(), names="question")
        self.observe(self._arrange, names="simple")

    @validate("methods")
    def _check_methods(self, proposal: Any) -> tuple[str, ...]:
        """Your own functions and classes become names, which are known from then on."""
        with raising_bad_value():
            chosen = [
                method if isinstance(method, str) else remember_method(method)
                for method in proposal.value
            ]
        known = known_methods()
        if not set(chosen) <= set(known) or len(set(chosen)) > picture.MAX_METHODS:
            raise BadValue(
                f"methods must be at most {picture.MAX_METHODS} names out of {'; '.join(known)}, "
                f"got {short_repr(proposal.value)}"
            )
        self.redraw_if_edited()
        return tuple(name for name in known if name in chosen)

    @validate("text")
    def _read_text(self, proposal: Any) -> lab.Text | None:
        """What `load_text` makes of it; the menu offers all texts that the app has had."""
        text = proposal.value
        if text is None:  # the built-in text
            return None
        if not isinstance(text, lab.Text):
            with raising_bad_value():
                text = lab.load_text(text)
        self.texts[text.name] = text
        return text

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

    # The results of the race that the open question is about.

    @property
    def results(self) -> pd.DataFrame:
        """All rows so far, with the columns of `lab.COLUMNS` and the origin "live"."""
        return self._shown.table.copy()

    @property
    def means(self) -> dict[str, dict[int, float]]:
        """{method: {x: value}} for the open question, the mean over the seeds.

        Empty before the first race.
        """
        results = self._shown.results(self._question)
        means = over_seeds(results)["mean"].unstack("label", sort=False)
        return means.to_dict()

    @property
    def models(self) -> dict[str, LanguageModel]:
        """{method: model} of the last complete seed or, if there is none, of the latest."""
        return self._shown.last_models

    @property
    def written(self) -> dict[str, Written]:
        """{method: what the model of the last seed writes beyond L}, after a race on a text."""
        return dict(self._shown.written)

    @property
    def running(self) -> bool:
        """Whether models are trained or measured.

        Once it is False, the app shows how that ended.
        """
        with self._lock:
            return self._work is not None

    def train(self) -> Background:
        """Start a new race, on the task that the open question is about, and return its future.

        Raises:
            RuntimeError: a race is running.
            BadValue: no method is chosen, a method of your own fails, or the text is unreadable or
                too short.
            TrainingDiverged (from the future): the loss became NaN or infinite.
        """
        work = self._work
        if work and not self._active:  # it measures the models of the race before
            work.stop()
            work.join()

        with self._lock:
            if self._active:
                raise RuntimeError(
                    "a race is running: wait for its end or stop it; nothing was changed"
                )
            race = self._planned()
            try:
                steps = race.start()
            except Exception as error:  # a class of the user's own may raise anything
                raise BadValue(str(error) or type(error).__name__) from error

            self._races[race.task] = race
            self._step = None
            self.say("")
            return self._run(steps)

    def stop(self) -> None:
        """End the race after the current row. Does nothing without a race."""
        for work in self.works:
            work.stop()

    def redraw_if_edited(self) -> None:
        """Draw again if a chosen name stands for another law by now, which no trait notices."""
        for name, drawn_method in self._drawn_methods.items():
            if known_methods()[name] is not drawn_method:
                self.refresh()
                return

    def blank(self) -> go.Figure:
        return picture.blank(HEIGHT)

    def controls(self) -> list[Widget]:
        self._guess_buttons: dict[str, ToggleButtons] = {}  # {method or hero: its buttons}
        # Of the methods that have been chosen so far
        self._guess_rows: dict[str, HBox] = {}
        self._columns_of_methods: dict[str, MethodColumn] = {}
        self._guesses = column().add_class("s-guesses")
        self._guess_prompt = HTML(GUESS)
        self._columns = VBox().add_class("s-columns")
        self._emma = labeled(EMMA_GUESS, self._emma_buttons())
        self._moments = Moments(self._go_back)
        # Before `App` draws, because another race has other tests.
        self.observe(self._forget_step, names="question")
        self._methods = row()
        self._lanes = HTML().add_class("s-lanes")
        self._written = HTML().add_class("s-written")

        train = button("Train", "play", "s-train", "Start a new race", self._on_train)
        train.button_style = "primary"
        self._stop = button("Stop", "stop", "s-stop", "End the race, keep the curves", self.stop)
        ask_first = self.checkbox(
            "guesses",
            "guess first",
            "s-guess",
            "Say what you expect, then train",
            read=lambda checked: dict.fromkeys(self.methods) if checked else {},
            show=bool,
        )

        numbers = []
        for name, label, tip in NUMBERS:
            field = self.field(name, f"s-{name}", "72px", tip)
            numbers.append(labeled(label, field))
        self._more, folded = fold(
            "More settings",
            "The methods, seeds and the text",
            self._methods,
            row(*numbers),
            self._text_controls(),
        )
        settings = column(folded)
        self._question_menu = self.menu("question", "question", "s-question", "What is measured")
        reset = self.reset_button(self._on_reset)

        settings_of_a_race = (ask_first, self._more, self._question_menu, reset)
        self._hidden_when_simple = (*settings_of_a_race, settings, self.reason)
        start = row(self._emma, train, self._stop, self._moments, *settings_of_a_race)
        self._panel = column(self._guesses, self._columns, start, settings)
        return [column(self._panel, HTML(f"<style>{STYLE}</style>"), self._lanes)]

    def draw(self) -> tuple[str, str]:
        question = self._question
        race = self._shown
        at_end = race.results(question)
        step = self._step if question is race.main else None
        results = at_end if step is None else race.results(question, step)
        # The built-in text isn't written, which takes half a second, before it has been read.
        text = None if results.empty else race.text_read
        axes = question.axes(race.length, sorted(results["x"].unique()), text)
        if question is race.main and question.is_loss:
            axes = replace(axes, low=LOWEST_LOSS, high=HIGHEST_LOSS, is_steady=True)
        is_simple = self._is_simple(race)
        losses = race.losses if question is race.main and not is_simple else None
        if losses is not None and step is not None:
            losses = losses[losses["x"] <= step]

        is_stacked = losses is not None and self.page_width < panels.NARROW
        height = STACKED_HEIGHT if is_stacked else HEIGHT
        if is_simple:
            height = SIMPLE_HEIGHT

        with self.figure.batch_update():
            picture.arrange(self.figure, height, compact=is_simple, stacked=is_stacked)
            picture.draw(
                self.figure,
                race.slots,
                _with_plain_lengths(axes) if is_simple else axes,
                results,
                training=losses,
                steps=race.steps,
                stacked=is_stacked,
            )
        self._drawn_tests = race.tests
        self._drawn_methods = {name: known_methods()[name] for name in self.methods}

        self._written.value = captions.written_html(race)
        # They are from the end of the race.
        show(race.written and not is_simple and step is None, self._written)
        self._offer_moments(race, question)
        self._update_controls()
        self._mark_guesses(race, at_end)
        self._show_texts(race, step)
        self._show_progress()
        if step is not None:
            return captions.caption_at(race, step, results), ""
        if is_simple:
            return captions.simple_caption(race, results, self._note(race))
        return captions.caption(race, question, results, self._note(race), self.running)

    @property
    def _question(self) -> Question:
        return self.questions[self.question]

    @property
    def _race(self) -> RaceState | None:
        """The race that the open question is about, if there was one."""
        return self._races.get(self._question.task)

    @property
    def _shown(self) -> RaceState:
        """The race that the open question is about, or else the one that Train would start."""
        return self._race or self._planned()

    @property
    def _active(self) -> RaceState | None:
        """The race that is running, if there is one."""
        for race in self._races.values():
            if race.state == "running":
                return race
        return None

    def _is_simple(self, race: RaceState) -> bool:
        """Whether a race is shown with a column for each model and its text."""
        return self.simple and race.task == "text" and self._question is race.main

    def _planned(self) -> RaceState:
        """The race that Train would start now."""
        task = self._question.task
        return RaceState(
            task=task,
            methods=self.methods,
            length=self.length,
            steps=self.steps,
            seed=self.seed,
            seeds=self.seeds,
            text=self.text if task == "text" else None,
            guesses=dict(self.guesses),
            emma=self.emma if self._asks_about_emma else None,
            writes_while_training=self.simple,
        )

    @property
    def _asks_about_emma(self) -> bool:
        """Whether the reader is to guess if ALiBi's text names her again."""
        if not self.simple or not self.guesses or self._question.task != "text":
            return False
        return "alibi" in self.methods and continues_opening(self.text, self.length)

    def _note(self, race: RaceState) -> str:
        """A note on another race or changed settings; empty for none."""
        active = self._active
        if active and active is not race:
            return "The race that is running is for another question."
        if race.models and not active and race != self._planned():
            return "The settings have changed since this race: train again to apply them."
        return ""

    # What runs on the thread: a race, if there is one, and then the measurements for the question
    # that is open.

    def _run(self, steps: Iterable[None]) -> Background:
        steps = self._race_then_measure(steps, torch.get_num_threads())
        work = Background(steps, self._show_rows, self._on_end, show_progress=self._show_progress)
        self._work = work
        self.works = [work]
        work.start()
        self.refresh()
        return work

    def _race_then_measure(self, race_steps: Iterable[None], threads: int) -> Iterator[None]:
        with limited_threads(1, threads):
            yield from race_steps
            if self._active:
                self._active.state = "finished"
            # After a measurement, another question may be open.
            while measurement := self._measurement():
                yield from measurement

    def _on_end(self, error: BaseException | None) -> None:
        with self._lock:
            race = self._active
            if race:  # it has not reached its end
                if error:
                    race.state = "failed"
                elif len(race.complete) == race.seeds:
                    race.state = "finished"
                else:
                    race.state = "stopped"

            work = self._work
            self._work = None
            if error:
                self.say(str(error) or type(error).__name__)
            self.refresh()

            if work and not error and not work.stopped:
                self._measure()  # another question may have been opened meanwhile

    def _measurement(self) -> Iterator[None] | None:
        """What measures the trained models for the open question, unless that has been done."""
        question = self._question  # once, because the user may open another meanwhile
        race = self._races.get(question.task)
        if race is None or not race.unmeasured(question):
            return None
        return race.measure(question)

    def _measure(self) -> None:
        """Measure the trained models for the open question, unless the thread will do it."""
        with self._lock:
            if self._work is None and self._measurement():
                self._run(())

    # What is shown while a race runs.

    def _show_rows(self) -> None:
        """Draw the rows so far. In a simple race only a test changes more than the bars."""
        race = self._shown
        if self._is_simple(race) and race.tests == self._drawn_tests:
            self._show_progress()
        else:
            self.refresh()

    def _show_progress(self) -> None:
        """Move the bars, which costs far less than to draw."""
        with self._lock:
            race = self._active or self._shown
            if not self.simple:
                self._lanes.value = captions.lanes(race, self._step)
                return
            for method, steps in captions.steps_done(race, self._step).items():
                if method in self._columns_of_methods:
                    bar = captions.progress_bar(race, method, steps)
                    self._columns_of_methods[method].bar.value = bar

    def _show_texts(self, race: RaceState, step: int | None) -> None:
        """Show what each model of a simple race writes, now or at an earlier step."""
        for method in race.methods:
            if method in self._columns_of_methods:
                text = self._columns_of_methods[method].text
                text.value = captions.text_beside_others(race, method, step)
                show(race.task == "text", text)

    # Back through a race that is over.

    def _offer_moments(self, race: RaceState, question: Question) -> None:
        """Offer the tests of a race that is over."""
        is_over = race.state not in ("ready", "running") and not self.running
        steps = race.tested_steps if is_over and question is race.main else []
        self._moments.offer(steps, race.steps, self._step)

    def _go_back(self, step: int | None) -> None:
        """Show the race after a step, or its end."""
        with self._lock:
            if step != self._step:
                self._step = step
                self.attempt(self.refresh)

    def _forget_step(self, _: object) -> None:
        self._step = None

    def _on_reset(self) -> None:
        self._clear_own_text()
        self._go_back(None)

    # The controls.

    def _arrange(self, _: Any = None) -> None:
        """Put the caption above the figure in simple mode, because it is the verdict there."""
        if self.simple:
            self.add_class("alibi-simple")
            middle = [self._caption, self.figure]
        else:
            self.remove_class("alibi-simple")
            middle = [self.figure, self._caption]
        self.children = [*self._above_figure, *middle, self._written, *self._below_caption]

    def _update_controls(self) -> None:
        """Show the controls that fit the mode and the methods. Lock the settings during a race."""
        self._add_method_boxes()
        self._update_guesses()
        show(not self.simple, *self._hidden_when_simple, self._lanes)

        running = self.running
        self._stop.disabled = not running
        for widget in below(self._panel):
            if widget in (self._stop, self._more, self._question_menu):
                continue
            if widget.has_trait("disabled"):
                widget.disabled = running

    def _add_method_boxes(self) -> None:
        """Add a checkbox for each position method that has been registered since."""
        offered = [box.description for box in self._methods.children]
        new = [name for name in known_methods() if name not in offered]
        boxes = self.boxes("methods", new, _describe)
        self._methods.children = [*self._methods.children, *boxes]

    def _update_guesses(self) -> None:
        """Show a row of buttons for each chosen method, if guesses are asked for."""
        for method in self.methods:
            if method not in self._guess_rows:
                self._guess_rows[method] = self._guess_row(method)
        known = [name for name in known_methods() if name in self._guess_rows]
        rows = [self._guess_rows[name] for name in known]
        asks = bool(self.guesses) and self._question.task == "text"

        if self.simple:
            self._guess_prompt.value = SIMPLE_GUESS
            self._guesses.children = [self._guess_prompt]
            self._columns.children = [self._column(name) for name in known]
        else:
            self._guess_prompt.value = GUESS
            self._guesses.children = [self._guess_prompt, *rows]
            self._columns.children = []

        for method, guess_row in self._guess_rows.items():
            show(method in self.methods, guess_row)
            if method in self._columns_of_methods:
                show(method in self.methods, self._columns_of_methods[method])
            show(asks or not self.simple, self._guess_buttons[method])
        # After a simple race, the slider takes the place of its question: both together would push
        # the curves off a laptop's screen.
        is_answered = self.simple and self._moments.is_offered
        show(asks and not is_answered, self._guesses)
        show(self.simple, self._columns)
        show(self._asks_about_emma, self._emma)

    def _column(self, method: str) -> "MethodColumn":
        """The column of a method in a simple race."""
        if method not in self._columns_of_methods:
            self._columns_of_methods[method] = MethodColumn(self._guess_rows[method])
        made = self._columns_of_methods[method]
        if method in self._shown.methods:
            made.layout.border_left = f"4px solid {self._shown.color(method)}"
        return made

    def _guess_row(self, method: str) -> HBox:
        """The buttons with which the user guesses how a method does."""
        buttons = _choice(method, captions.OUTCOMES, f"s-guess-{method}")
        self._guess_buttons[method] = buttons
        self.link(
            buttons,
            "guesses",
            read=lambda outcome: {**self.guesses, method: outcome},
            show=lambda guesses: guesses.get(method),
        )

        return labeled(method, buttons, label_width="86px")

    def _emma_buttons(self) -> ToggleButtons:
        """The buttons with which the user guesses whether ALiBi's text names her again."""
        buttons = _choice(EMMA_GUESS, captions.YES_OR_NO, "s-guess-emma")
        self._guess_buttons[HERO] = buttons
        return self.link(buttons, "emma")

    def _mark_guesses(self, race: RaceState, results: pd.DataFrame) -> None:
        """Put a check mark on the button with the answer, and a cross on a wrong guess."""
        verdicts = captions.verdicts(race, results) if self._question is race.main else {}
        for name, buttons in self._guess_buttons.items():
            verdict = verdicts.get(name)
            icons = []
            for option in buttons.options:
                icon = ""
                if verdict and option == verdict.answer:
                    icon = CHECK
                elif verdict and option == verdict.guess:
                    icon = CROSS
                icons.append(icon)
            if list(buttons.icons) != icons:
                buttons.icons = icons

    def _on_train(self) -> None:
        missing = []
        if self.guesses and self._question.task == "text":
            missing = [method for method in self.methods if not self.guesses.get(method)]
            if self._asks_about_emma and self.emma is None:
                missing.append(HERO)
        if missing:
            names = [in_prose(name) for name in missing]
            self.ask(f"Make your guess first, for {join(names)}.")
        else:
            self.attempt(self.train)

    def _text_controls(self) -> Widget:
        """A menu of texts, and a field for your own text or for the path of a file.

        A file is not uploaded, because a message to the kernel that is too large closes the
        connection.
        """
        menu = self.menu(
            "text",
            "text",
            "s-text",
            "The text that the models are trained on",
            {None: "tales"},
            offered=lambda: (None, *self.texts.values()),
        )
        hint = "your own text, or the path of a file"
        self._own_text = Textarea(
            placeholder=hint,
            tooltip=hint,
            continuous_update=False,
            rows=1,
            layout=Layout(width="min(100%, 420px)"),
        )
        self._own_text.add_class("s-own-text")
        self._own_text.observe(self._read_own_text, names="value")
        self.observe(self._on_text, names="text")
        return row(menu, self._own_text)

    def _read_own_text(self, change: Any) -> None:
        entered = change.new.strip()
        if not entered:
            return
        is_path = "\n" not in entered and len(entered) <= MAX_PATH

        def set_text() -> None:
            self.text = Path(entered).expanduser() if is_path else entered

        self.attempt(set_text)

    def _on_text(self, change: Any) -> None:
        """Empty the field, unless the text is what was typed there."""
        was_typed = change.new is not None and change.new.name == YOURS
        if not was_typed:
            self._clear_own_text()

    def _clear_own_text(self) -> None:
        self._own_text.value = ""


class MethodColumn(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """What a simple race shows of one model: the guess about it, its bar, and its text."""

    def __init__(self, guess_row: HBox) -> None:
        self.bar = HTML()
        self.text = HTML().add_class("s-text-of")
        layout = Layout(padding="0 0 0 10px", overflow="visible")
        super().__init__([guess_row, self.bar, self.text], layout=layout)


def _choice(about: str, options: Iterable[str], css: str) -> ToggleButtons:
    """Buttons for a guess about something, of which none is pressed at first."""
    tips = [f"{about} {option}" for option in options]
    buttons = ToggleButtons(options=tuple(options), value=None, tooltips=tips)
    buttons.style.button_width = "max-content"
    return buttons.add_class(css)


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


def _describe(method: str) -> str:
    """What a position method does, for a tooltip."""
    return summary(known_methods()[method])
