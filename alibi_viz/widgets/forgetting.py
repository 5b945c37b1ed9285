"""The app of lesson 1 on the half-life of a slope: `Forgetting`."""

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
from ipywidgets import Label, Layout, Text, Widget
from traitlets import Bool, Int, Unicode, validate

from alibi_viz.figures import theme
from alibi_viz.figures.theme import named_trace
from alibi_viz.figures.token_labels import label, quoted_token
from alibi_viz.formatting import format_number, format_percent
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.controls import labeled
from alibi_viz.widgets.core.traits import BadValue, short_repr

SENTENCE = (
    "The bell is hidden under the bridge. Emma asks the old fox, and the fox asks her: "
    "where is the bell?"
)
BRIDGE = 14  # how many words back it is in `SENTENCE`
PUNCTUATION = ".,:;!?"
BRACKET = 1.12  # the height of the half-life above the bars
LONGEST_HALF_LIFE = 32
LEFT_END = -0.2  # where the handle of a half-life beyond the text stands, as a position of a word


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
        named_trace(self.figure, "columns").on_click(self._mark)

    @validate("text")
    def _check_text(self, proposal: Any) -> Any:
        text = proposal.value
        if not 2 <= len(text.split()) <= 40:
            raise BadValue(f"text must be a text of 2 to 40 words, got {short_repr(text)}")
        return text

    def controls(self) -> list[Widget]:
        # Before `App` draws, because the new text may not have the marked word.
        self.observe(self._on_new_text, names="text")
        self.below_figure = (
            self.handle("half_life", ["handle"], "Drag the half-life", self._words_back),
        )
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

    def blank(self) -> go.Figure:
        figure = theme.blank(
            height=290,
            showlegend=False,
            barmode="overlay",
            bargap=0.25,
            hovermode="closest",
            margin={"b": 76, "t": 12},
        )
        figure.update_layout(
            xaxis={"tickangle": -60, "showgrid": False, "ticks": ""},
            yaxis={
                "tickformat": ".0%",
                "range": [0, 1.36],
                "tickvals": [0, 0.25, 0.5, 0.75, 1],
                "title_text": "weight",
            },
        )
        self._add_words(figure)
        self._add_half_life(figure)
        figure.add_annotation(
            name="square root", xanchor="left", yshift=12, showarrow=False, font_color=theme.GREEN
        )
        return figure

    def _add_words(self, figure: go.Figure) -> None:
        """A bar for each word, the label of the marked one, and the square root."""
        figure.add_bar(name="weights", hoverinfo="skip")
        figure.add_scatter(
            name="square root",
            mode="lines",
            line={"color": theme.GREEN, "width": 3, "dash": "dash"},
            hoverinfo="skip",
        )
        # Invisible columns that are as high as the picture: many bars are too low for a click.
        figure.add_bar(
            name="columns",
            opacity=0,
            width=1,
            hovertemplate="%{customdata}<extra></extra>",
        )
        figure.add_annotation(
            name="word", yanchor="bottom", showarrow=False, font={"color": theme.ORANGE, "size": 14}
        )

    def _add_half_life(self, figure: go.Figure) -> None:
        """A line above the bars from the last word back to the one with half of its weight, and
        from there down to it."""
        figure.add_scatter(name="half-life", mode="lines", line=theme.DOTTED, hoverinfo="skip")
        figure.add_annotation(
            name="half-life", y=BRACKET, xanchor="right", yanchor="bottom", showarrow=False
        )
        figure.add_scatter(
            name="handle",
            mode="markers",
            marker={"size": 16, "color": theme.GRAY},
            cliponaxis=False,
            hoverinfo="skip",
        )

    def draw(self) -> str:
        words = self.text.split()
        last = len(words) - 1
        if self.word > last:
            raise ValueError(
                f"word must be an integer from 0 to {last} in this text, got {self.word}"
            )
        slope = math.log(2) / self.half_life
        kept = np.exp(-slope * np.arange(last, -1, -1))
        marked = last - self.word
        unit = "word" if self.half_life == 1 else "words"
        half_life = f"{self.half_life} {unit}"

        figure = self.figure
        with figure.batch_update():
            self._draw_words(words, kept, marked)
            self._draw_half_life(last, half_life)
            self._draw_square_root(last, slope)

        left = format_percent(kept[marked])
        if self.square_root:
            left += f", and with the square root {format_percent(self._by_square_root(slope))}"
        return (
            f"A half-life of {half_life} is a slope of {format_number(slope)}: {half_life} back, a "
            f"word weighs half as much as the last one. {_sentence_start(words[marked])}, "
            f"{self.word} back, keeps {left}."
        )

    def _draw_words(self, words: list[str], kept: np.ndarray, marked: int) -> None:
        """The bars, with the marked one in its own color."""
        figure = self.figure
        position = np.arange(len(words))
        labels = [label(word, 16) for word in words]
        labels[marked] = f"<b>{labels[marked]}</b>"
        figure.layout.xaxis.update(
            range=[-0.6, len(words) - 0.4], tickvals=position, ticktext=labels
        )
        colors = [theme.BLUE] * len(words)
        colors[marked] = theme.ORANGE
        named_trace(figure, "weights").update(x=position, y=kept, marker_color=colors)

        hover = []
        for word, back, share in zip(words, position[::-1], kept, strict=True):
            hover.append(f"{label(word, 16)}, {back} back: {format_percent(share)}")
        named_trace(figure, "columns").update(
            x=position, y=np.full(len(words), BRACKET - 0.04), customdata=hover
        )
        figure.update_annotations(
            {
                "text": f"<b>{format_percent(kept[marked])}</b>",
                "x": marked,
                "y": kept[marked],
            },
            {"name": "word"},
        )

    def _draw_half_life(self, last: int, half_life: str) -> None:
        """The line and its handle, which stay in sight when the half-life is longer than the
        text."""
        figure = self.figure
        is_beyond = self.half_life > last
        place = self._handle_place(last)
        text = f"half-life: {half_life}"
        if is_beyond:
            text += ", more than the text has"
        # Down to half of the weight, which the picture may not show
        corner = [None, None] if is_beyond else [place, place]
        named_trace(figure, "half-life").update(
            x=[last, place, *corner], y=[BRACKET, BRACKET, BRACKET, 0.5]
        )
        # To the left of the handle or, where that has too little room, above the line
        has_room = place > last / 2
        label_end = place - 0.7 if has_room else last + 0.4
        figure.update_annotations(
            {"text": text, "x": label_end, "yanchor": "middle" if has_room else "bottom"},
            {"name": "half-life"},
        )
        named_trace(figure, "handle").update(x=[place], y=[BRACKET])

    def _handle_place(self, last: int) -> float:
        """Where the handle of the half-life is, at most at the left edge."""
        return max(last - self.half_life, LEFT_END)

    def _draw_square_root(self, last: int, slope: float) -> None:
        """The weights by the law of the square root, as a curve."""
        figure = self.figure
        position = np.linspace(0, last, 200)
        weights = np.exp(-slope * np.sqrt(last - position))
        named_trace(figure, "square root").update(x=position, y=weights, visible=self.square_root)
        figure.update_annotations(
            {
                "text": "the square root, with the same slope",
                "x": 0,
                "y": weights[0],
                "visible": self.square_root,
            },
            {"name": "square root"},
        )

    def _by_square_root(self, slope: float) -> float:
        """The weight that the marked word keeps by the law of the square root."""
        return math.exp(-slope * math.sqrt(self.word))

    def _on_new_text(self, _: object) -> None:
        self.word = _words_back_to_first(self.text)

    def _mark(self, _: object, points: Any, __: object) -> None:
        """A click on a word marks it."""
        if points.xs:
            last = len(self.text.split()) - 1
            self.word = last - int(points.xs[0])

    def _words_back(self, place: float) -> int:
        """How many words back from the last one a place of the axis is."""
        last = len(self.text.split()) - 1
        return round(last - place)


def _words_back_to_first(text: str) -> int:
    """How many words back the first word of a text is; 39 at most."""
    return min(max(len(text.split()) - 1, 0), 39)


def _sentence_start(word: str) -> str:
    """A word in quotation marks, without the punctuation after it."""
    return quoted_token(word.rstrip(PUNCTUATION) or word)
