"""The app of lesson 5 on why rotary fails on longer texts: `TwoSwitches`."""

import html
import math
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from ipywidgets import HTML, ToggleButton, Widget
from traitlets import Bool, Tuple, dlink

from alibi_viz import lab, study
from alibi_viz.figures.switches_plot import (
    ANGLES_STOP,
    BOTH,
    FAR_BRAKE,
    STATES,
    Outcome,
    switch_outcomes,
    switches_picture,
)
from alibi_viz.formatting import format_percent, format_slope
from alibi_viz.measure.continuations import Continuation, known_words
from alibi_viz.measure.table import AS_TRAINED
from alibi_viz.study.records import published_records, table_by_setting
from alibi_viz.widgets.core.app import App, Drawn, Why
from alibi_viz.widgets.core.background import Background
from alibi_viz.widgets.core.controls import FIT

METHOD = "rotary"
SETTING = "main"  # of the study, whose results are shown
SEED = 0  # of the model that writes
BRAKE_SLOPE = 1 / 16
# The state for `angles_stop` and `far_brake`
_STATES = {
    (False, False): AS_TRAINED,
    (False, True): FAR_BRAKE,
    (True, False): ANGLES_STOP,
    (True, True): BOTH,
}
_IN_WORDS = {
    AS_TRAINED: "As trained",
    FAR_BRAKE: "With the far brake",
    ANGLES_STOP: "With angles that stop",
    BOTH: "With both switches",
}


class TwoSwitches(App):
    """Two switches on one trained rotary model, and what each of the four states does.

    On a text that is longer than in training, far keys take over a rotary model's attention: they
    are many, and angles that are new raise their scores. One switch takes the new angles away, the
    other lowers the scores of far keys. Each changes the share that far keys get, and with it
    the loss. Nothing is trained. A state is a "?" until the reader has switched to it, or clicked
    on its cell.

    Traits:
        angles_stop: whether keys beyond the training length are turned as if they were at its end.
        far_brake: whether a line lowers the scores of keys beyond the training length.
        visited: the states whose numbers are shown: "as trained", "far brake", "angles stop", and
            "angles stop and far brake". The present one is always among them.

    The numbers are those of the study, means over all seeds. `outcomes` has them for every state,
    and `writer` writes the text of the published model.

    >>> from alibi_viz.widgets import TwoSwitches
    >>> app = TwoSwitches(angles_stop=True)
    >>> app
    TwoSwitches(angles_stop=True, far_brake=False, visited=('as trained', 'angles stop'))
    >>> app.outcomes["angles stop"].bits < app.outcomes["as trained"].bits
    True
    """

    min_width = 360
    why = Why(
        "The model is the same in all four states, so whatever changes is the work of a switch.",
        "05_why_it_extrapolates",
        "A test by surgery",
    )
    angles_stop = Bool(False)
    far_brake = Bool(False)
    visited = Tuple((AS_TRAINED,)).tag(choices="states")
    states = STATES

    def __init__(self, **state: Any) -> None:
        self.outcomes = _outcomes()
        self.writer = Writer()
        super().__init__(**state)
        self.works = [self.writer]

    @property
    def now(self) -> str:
        """The present state."""
        return _STATES[self.angles_stop, self.far_brake]

    def controls(self) -> list[Widget]:
        # Before `App` draws, because the present state is always shown.
        self.observe(self._visit, names=["angles_stop", "far_brake", "visited"])
        self._visit()
        return [
            self._switch(
                "angles_stop",
                "angles stop",
                "s-angles_stop",
                "Turn every far key as if it were as far back as the farthest in training",
            ),
            self._switch(
                "far_brake",
                "far brake",
                "s-far_brake",
                "Lower the scores of far keys, the more the farther they are",
            ),
            self.reset_button(),
        ]

    def body(self) -> list[Widget]:
        parts = super().body()
        parts.insert(parts.index(self.details_line), self.writer.panel)
        return parts

    def draw(self) -> Drawn:
        self.writer.show(self.now)
        picture = switches_picture(
            self.outcomes,
            now=self.now,
            shown=self.visited,
            length=_length(),
            yardsticks=lab.load_text().yardsticks,
            page_width=self.page_width,
        )
        caption = _describe(self.now, self.outcomes[self.now], self.outcomes[AS_TRAINED])
        return Drawn(picture, caption, _describe_switches(_length()))

    def clicked(self, trace: str, point: Mapping[str, Any]) -> None:
        """Switch to the state of the cell that was clicked."""
        if trace == "cells":
            is_right = point["x"] > 1
            is_below = point["y"] > 1
            self.set_together({"angles_stop": is_below, "far_brake": is_right})

    def _switch(self, name: str, label: str, css: str, tip: str) -> ToggleButton:
        """A button for a `Bool` that looks like a switch."""

        def icon(pressed: bool) -> str:
            return "toggle-on" if pressed else "toggle-off"

        switch = ToggleButton(description=label, tooltip=tip, layout=FIT)
        switch.add_class(css)
        dlink((switch, "value"), (switch, "icon"), icon)
        return self.link(switch, name)

    def _visit(self, _: Any = None) -> None:
        """Add the present state to those that are shown."""
        if self.now not in self.visited:
            self.visited = (*self.visited, self.now)


class Written(NamedTuple):
    """What the published model writes in a state."""

    text: Continuation  # the first of them
    known_words: float  # the share of the words beyond the training length, in all texts
    texts: int


class Writer:
    """Shows what the published model writes in a state, as soon as it has been written.

    It writes in the background, once for each state. It doesn't know the app, which can be freed
    while a thread is still writing.
    """

    def __init__(self) -> None:
        self.panel = HTML().add_class("s-written")
        self._state = ""
        self._pages: dict[str, str] = {}  # {state: what is shown of its text}
        self._lock = threading.Lock()  # the panel is changed by several threads
        self._works: dict[str, Background] = {}

    def show(self, state: str) -> None:
        """Show the text of a state, now or when it has been written."""
        self._state = state
        if state not in self._works:
            work = Background(self._write(state), end=lambda _: self._display())
            self._works[state] = work.start()
        self._display()

    def stop(self) -> None:
        """End the threads after the text that each is writing."""
        for work in self._works.values():
            work.stop()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until all texts that were asked for have been written."""
        for work in self._works.values():
            work.result(timeout)

    def _write(self, state: str) -> Iterator[None]:
        try:
            self._pages[state] = written_html(state, write_in(state))
        except Exception as error:
            self._pages[state] = _page(f"The text could not be written: {html.escape(str(error))}")
            raise
        yield

    def _display(self) -> None:
        with self._lock:
            busy = _page(f"{_IN_WORDS[self._state]}, the model is writing …")
            self.panel.value = self._pages.get(self._state, busy)


@cache
def write_in(state: str) -> Written:
    """Let the published model write in a state, which takes seconds."""
    model = study.published_model(METHOD).model
    length = _length()
    if state in (ANGLES_STOP, BOTH):
        model = lab.modify(model, rotary="rerope")
    if state in (FAR_BRAKE, BOTH):
        model = lab.modify(model, far_slope=BRAKE_SLOPE)
    text = lab.load_text()
    texts = lab.continuations(model, text, length, seed=SEED)
    share = known_words([written.beyond for written in texts], text)
    return Written(texts[0], share, len(texts))


def written_html(state: str, written: Written) -> str:
    """A text with its part beyond the training length shaded, and the share of known words."""
    words = f"{_IN_WORDS[state]}, the model of seed {SEED} writes"
    if not math.isnan(written.known_words):
        words += (
            f": <b>{format_percent(written.known_words)}</b> of the shaded words, in "
            f"{written.texts} such texts, occur in the tales"
        )
    parts = []
    for name, part in written.text._asdict().items():
        parts.append(f'<span class="{name}">{html.escape(part)}</span>')
    return _page(f"{words}.", "".join(parts))


def _page(words: str, text: str = "") -> str:
    """Words above a text; the text has room before it is there."""
    return f'<div class="alibi-switches"><div>{words}</div><pre tabindex="0">{text}</pre></div>'


@cache
def _outcomes() -> dict[str, Outcome]:
    """The published numbers of all states."""
    results = table_by_setting(published_records([SETTING]), "published")
    return switch_outcomes(results[results["label"] == METHOD])


@cache
def _length() -> int:
    """The training length of the published model."""
    length: int = study.published_model(METHOD).settings["length"]
    return length


def _describe(state: str, outcome: Outcome, trained: Outcome) -> str:
    """What the state does, and whose numbers these are."""
    saved = ""
    if state != AS_TRAINED:
        saved = f", {trained.bits - outcome.bits:.2f} fewer than as trained"
    return (
        f"{_IN_WORDS[state]}, {METHOD} needs {outcome.bits:.2f} bits per byte on texts of "
        f"{outcome.longest:,} bytes{saved}, and far keys get {format_percent(outcome.far_share)} "
        f"of its attention. The numbers are means over {outcome.seeds} seeds, and the text below "
        f"is by the model of seed {SEED}."
    )


def _describe_switches(length: int) -> str:
    """What the two switches do."""
    last = length - 1
    return (
        f"The model was trained on texts of {length} bytes, and far keys are {length} or more "
        f"bytes back. Angles stop: all far keys are turned as if they were {last} bytes back, so "
        "that no angle is new (ReRoPE, Su 2023). Far brake: a line of slope "
        f"{format_slope(BRAKE_SLOPE)} lowers the scores of far keys. We chose both constants, and "
        "what a switch repairs depends on them. Nothing was trained again."
    )
