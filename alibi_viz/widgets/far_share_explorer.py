"""The app of lesson 5 on why rotary fails on longer texts: `FarShare`."""

import html
from functools import cache
from typing import Any

import numpy as np
from ipywidgets import HTML, Layout, SelectionSlider, Widget
from numpy.typing import NDArray
from traitlets import Enum, Tuple

from alibi_viz import lab, study
from alibi_viz.figures.far_share_plot import LENGTH, Setting, far_share_picture, far_share_points
from alibi_viz.formatting import format_percent, format_slope
from alibi_viz.measure.continuations import unknown_words
from alibi_viz.study.far_keys import BRAKES, LONGEST, NEVER, STOPS
from alibi_viz.study.far_texts import far_texts
from alibi_viz.widgets.core.app import App, Drawn, Why
from alibi_viz.widgets.core.controls import labeled
from alibi_viz.widgets.core.written import written_html

AS_TRAINED = (NEVER, 0.0)


class FarShare(App):
    """How much attention far keys get in a trained rotary model, and what this does to its loss.

    On texts that are longer than in training, far keys take over a rotary model's attention. Two
    sliders change what they get. Nothing is trained. Each setting that the reader has visited
    leaves a dot in a map of the loss.

    Traits:
        stop: the distance in letters at which angles stop growing; 1,024 is never, because no text
            here is longer.
        brake: the slope of a line that lowers the scores of keys beyond the training length.
        visited: the settings that have a dot, (stop, brake) each, with the present one.

    The numbers are those of `study.far_keys`, from eight models that are tested on 1,024 letters.
    The first of them is the published model, which writes.

    >>> from alibi_viz.widgets import FarShare
    >>> app = FarShare(stop=31)
    >>> app
    FarShare(stop=31, brake=0.0, visited=((31, 0.0),))
    """

    min_width = 360
    why = Why(
        "The model is the same in every setting, so whatever changes is the work of a slider.",
        "05_why_it_extrapolates",
        "A test by surgery",
    )
    stop = Enum(STOPS, NEVER)
    brake = Enum(BRAKES, 0.0)
    visited = Tuple(help="pairs of a stop and a brake").tag(choices="settings")

    def __init__(self, **state: Any) -> None:
        self._points, self._window = _results()
        self.settings: list[Setting] = list(self._points)
        super().__init__(**state)

    @property
    def now(self) -> Setting:
        """The present setting."""
        return self.stop, self.brake

    def controls(self) -> list[Widget]:
        # Before `App` draws, because the present setting always has a dot.
        self.observe(self._visit, names=["stop", "brake", "visited"])
        self._visit()
        self._text = HTML().add_class("s-written")
        return [
            self._choice(
                "stop",
                "angles stop at",
                "Turn keys that are farther back as if they were this many letters back",
                {NEVER: "never"},
            ),
            self._choice(
                "brake",
                "brake",
                "By how much the scores of far keys fall per letter",
                {slope: format_slope(slope) for slope in BRAKES},
            ),
            self.reset_button(),
        ]

    def body(self) -> list[Widget]:
        parts = super().body()
        parts.insert(parts.index(self.details_line), self._text)
        return parts

    def draw(self) -> Drawn:
        self._text.value = _text_of(self.now)
        picture = far_share_picture(
            self._points,
            now=self.now,
            visited=self.visited,
            window=self._window,
        )
        far_share, bits = self._points[self.now].mean(axis=0)
        caption = (
            f"{_in_words(self.now)}, far keys get {format_percent(far_share)} of the attention, "
            f"and rotary needs {bits:.2f} bits per letter (with a window {self._window:.2f})."
        )
        return Drawn(picture, caption, _describe(len(self._points[self.now])))

    def _choice(self, name: str, label: str, tip: str, texts: dict[Any, str]) -> Widget:
        """A slider for an `Enum`, with a text for some of its values."""
        options = [(texts.get(value, str(value)), value) for value in self.traits()[name].values]
        layout = Layout(width="230px", margin="2px 2px 2px 10px")
        slider = SelectionSlider(options=options, tooltip=tip, layout=layout)
        return labeled(label, self.link(slider.add_class(f"s-{name}"), name))

    def _visit(self, _: Any = None) -> None:
        """Add the present setting to those that have a dot."""
        if self.now not in self.visited:
            self.visited = (*self.visited, self.now)


@cache
def _results() -> tuple[dict[Setting, NDArray[np.float64]], float]:
    """The published far shares and losses in all settings, and the mean loss with a window."""
    return far_share_points(study.far_keys())


@cache
def _text_of(setting: Setting) -> str:
    """What the published model writes in a setting, as HTML."""
    far_text = far_texts()[setting]
    continuation = far_text.written.within + far_text.written.beyond
    unknown = unknown_words(continuation, lab.load_text())
    text = written_html(
        "What the model writes",
        far_text.written.prompt,
        html.escape(continuation),
        known_words=far_text.known_words,
        unknown_words={continuation[start:end] for start, end in unknown},
    )
    return f'<div class="alibi-written">{text}</div>'


def _in_words(setting: Setting) -> str:
    """The beginning of a sentence about a setting."""
    stop, brake = setting
    if setting == AS_TRAINED:
        return "As trained"
    changes = []
    if stop != NEVER:
        changes.append(f"angles that stop at {stop} letters")
    if brake:
        changes.append(f"a brake of slope {format_slope(brake)}")
    return f"With {' and '.join(changes)}"


def _describe(models: int) -> str:
    """Whose numbers these are, and what the sliders do."""
    return (
        f"Large dots are means over {models} models, which are the pale dots. They were trained on "
        f"{LENGTH} letters and tested on {LONGEST:,}; far keys are {LENGTH} or more letters back. "
        f"Where angles stop at {LENGTH - 1} or less, none is new (ReRoPE, Su 2023). The brake is a "
        "line that lowers the scores of far keys. Nothing was trained again. The text is by the "
        "first of these models. The share of real words is that of eight such texts, beyond "
        f"{LENGTH} letters."
    )
