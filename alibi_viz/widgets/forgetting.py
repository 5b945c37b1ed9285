"""The app of lesson 1 on the half-life of a slope: `Forgetting`."""

import math
from collections.abc import Mapping
from typing import Any

from ipywidgets import Label, Layout, Text, Widget
from traitlets import Bool, Int, Unicode, validate

from alibi_viz.figures.forgetting_plot import forgetting_picture
from alibi_viz.figures.token_labels import quoted_token
from alibi_viz.formatting import format_number, format_percent
from alibi_viz.widgets.core.app import App, Drawn, Why
from alibi_viz.widgets.core.controls import labeled
from alibi_viz.widgets.core.traits import BadValue, short_repr

SENTENCE = (
    "The bell is hidden under the bridge. Emma asks the old fox, and the fox asks her: "
    "where is the bell?"
)
BRIDGE = 14  # how many words back it is in `SENTENCE`
PUNCTUATION = ".,:;!?"
LONGEST_HALF_LIFE = 32


class Forgetting(App):
    """How much weight each word of a sentence keeps when only the distance counts.

    All words match the last word equally well. A click on a word marks it, and the half-life can be
    dragged in the picture.

    Traits:
        half_life: 1 to 32, the number of words after which the weight has halved.
        text: 2 to 40 words. A new text marks its first word.
        word: 0 to 39, the marked word, counted in words back from the last one. At the start, the
            bridge of the built-in text.
        square_root: whether a second curve shows the law -m sqrt(d), with the same slope m.
    """

    why = Why("Forgetting at a constant rate is a half-life.", "01_the_line", "One subtraction")
    half_life = Int(4, min=1, max=LONGEST_HALF_LIFE)
    text = Unicode(SENTENCE)
    word = Int(BRIDGE, min=0, max=39)
    square_root = Bool(False)

    def __init__(self, **state: Any) -> None:
        text = state.get("text", SENTENCE)
        if isinstance(text, str) and text != SENTENCE:
            state.setdefault("word", _words_back_to_first(text))
        super().__init__(**state)

    @validate("text")
    def _check_text(self, proposal: Any) -> Any:
        text = proposal.value
        if not 2 <= len(text.split()) <= 40:
            raise BadValue(f"text must be a text of 2 to 40 words, got {short_repr(text)}")
        return text

    def controls(self) -> list[Widget]:
        # Before `App` draws, because the new text may not have the marked word.
        self.observe(self._on_new_text, names="text")
        self.handle("half_life", ["handle"], "Drag the half-life", self._words_back)
        half_life = self.slider(
            "half_life",
            "half-life in words",
            "s-half_life",
            "The weight halves every so many words; or drag the circle",
        )
        word = self.field(
            "word", "s-word", "44px", "How many words back the marked word is; or click a word"
        )
        text = Text(
            description="text",
            continuous_update=False,
            tooltip="a text of 2 to 40 words",
            style={"description_width": "initial"},
            layout=Layout(width="250px"),
        ).add_class("s-text")
        return [
            half_life,
            labeled("marked word", word, Label("back")),
            self.link(text, "text"),
            self.reset_button(),
        ]

    def draw(self) -> Drawn:
        words = self.text.split()
        last = len(words) - 1
        if self.word > last:
            raise ValueError(
                f"word must be an integer from 0 to {last} in this text, got {self.word}"
            )
        picture = forgetting_picture(words, self.half_life, self.word, square_root=self.square_root)

        slope = math.log(2) / self.half_life
        left = format_percent(math.exp(-slope * self.word))
        if self.square_root:
            by_square_root = math.exp(-slope * math.sqrt(self.word))
            left += f", and with the square root {format_percent(by_square_root)}"
        unit = "word" if self.half_life == 1 else "words"
        half_life = f"{self.half_life} {unit}"
        marked = words[last - self.word]
        start = quoted_token(marked.rstrip(PUNCTUATION) or marked)
        caption = (
            f"A half-life of {half_life} is a slope of {format_number(slope)}: {half_life} back, a "
            f"word weighs half as much as the last one. {start}, {self.word} back, keeps {left}."
        )
        return Drawn(picture, caption)

    def _on_new_text(self, _: object) -> None:
        self.word = _words_back_to_first(self.text)

    def clicked(self, trace: str, point: Mapping[str, Any]) -> None:
        """A click on a word marks it."""
        self.word = self._words_back(point["x"])

    def _words_back(self, place: float) -> int:
        """How many words back from the last one a place of the axis is."""
        last = len(self.text.split()) - 1
        return round(last - place)


def _words_back_to_first(text: str) -> int:
    """How many words back the first word of a text is; 39 at most."""
    return min(max(len(text.split()) - 1, 0), 39)
