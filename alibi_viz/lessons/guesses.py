"""Guesses: the reader commits to one, then sees the truth. The score goes on through all lessons.

A guess is a widget that waits for its button, so "Run all" goes on without an answer. The first
guess at a question counts, from 0 points to 1. The score is kept in `guesses.json` in the current
folder and sent nowhere. A file that can't be read or written costs the score, not the lesson: the
widget says so. The cell of a guess contains the answer, so hide its source in the notebook
(`"jupyter": {"source_hidden": true}`).
"""

import html
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from textwrap import fill
from typing import Any
from weakref import WeakSet

import plotly.graph_objects as go
from ipywidgets import HTML, Button, FloatSlider, GridBox, Label, Layout, RadioButtons, VBox, Widget
from traitlets import HasTraits

from alibi_viz.arguments import as_list, check_choice, check_instance, check_number
from alibi_viz.figures import theme
from alibi_viz.figures.curve_plot import COMMON_METHODS, STYLES, assign_slots
from alibi_viz.files import write
from alibi_viz.lessons.text_panels import Texts, side_by_side
from alibi_viz.widgets.core.controls import FIT, below, button, row
from alibi_viz.widgets.core.figure import LiveFigure, Page

FILE = Path("guesses.json")
# Characters of a line of the text that a notebook stores: JupyterLab would break a longer one in a
# word
WRAP = 76
TOLERANCE = 0.15  # of the axis' height: so close to the truth, a point of a curve is right
# A circle to drag, as a path in pixels: plotly would resize a shape of type "circle" that is
# grabbed near its edge.
_CIRCLE = "M-11,0C-11,-15,11,-15,11,0C11,15,-11,15,-11,0Z"
_scores: WeakSet[HTML] = WeakSet()  # the scores on the page, which follow every guess
Result = tuple[float, str]  # the points for a guess, from 0 to 1, and the answer in words


class Box(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A box of widgets in the style of the apps. Its text is what a notebook stores, so it never
    changes."""

    def __init__(self, text: str, *children: Widget) -> None:
        self.text = text
        page = Page(controls=[part.model_id for child in children for part in below(child)])
        super().__init__([HTML(theme.STYLE), *children, page], layout=Layout(overflow="visible"))
        self.add_class(
            "alibi-guess"
        )  # not "alibi-app", which has a picture for readers without a kernel

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return super()._repr_mimebundle_(**options) | {
            "text/plain": self.text
        }  # ipywidgets would cut it


class Guess(Box):
    """A question, the widgets that take a guess, and a button that shows the answer.

    Args:
        key: the name of the question in the score.
        why: the reason for the answer.
        value: returns the reader's guess, or None while it isn't finished.
        reveal: shows the truth, for a guess.
        items: what there is to choose from, for the text.
    """

    points: float | None = None  # from 0 to 1, once the reader has guessed

    def __init__(
        self,
        key: str,
        question: str,
        why: str,
        value: Callable[[], Any],
        reveal: Callable[[Any], Result],
        *inputs: Widget,
        items: Sequence[str] = (),
    ) -> None:
        for name, text in (("key", key), ("question", question), ("why", why)):
            check_instance(name, text, str)
        self.key, self.why, self.value, self.reveal = key, why, value, reveal
        self.told = HTML().add_class("alibi-caption")
        asked = HTML(f"<b>Your guess.</b> {html.escape(question)}").add_class("alibi-caption")
        show = button(
            "Show the answer", "", "s-answer", "Compare your guess with the truth", self.answer
        )
        lines = [f"Your guess. {question}", *(f"  ( ) {item}" for item in items)]
        text = "\n".join(
            fill(line, WRAP, subsequent_indent=" " * 6 * (line != lines[0])) for line in lines
        )
        super().__init__(text, asked, *inputs, show, self.told)

    def answer(self) -> None:
        """Compare the guess with the truth, and count it if it is the first."""
        words, value = (
            "Finish your guess first: choose, press every item, or move each point.",
            self.value(),
        )
        if value is not None:
            self.points, answer = self.reveal(value)
            verdict = (
                "Right."
                if self.points == 1
                else "Partly right."
                if self.points
                else "Not this time."
            )
            words = (
                f"<b>{verdict}</b> "
                f"{html.escape(f'{answer} {self.why}')}<br><i>{_score(self.key, self.points)}</i>"
            )
        self.told.value = f'<div role="alert">{words}</div>'  # screen readers announce it


def guess_choice(
    key: str, question: str, options: Sequence[str], answer: str, why: str = ""
) -> Guess:
    """Ask for one of several options. Raises ValueError if `answer` is not among them.

    >>> lessons.guess_choice("parity", "Is 7 even or odd?", ["even", "odd"], "odd", why="It isn't twice an integer.")
    Your guess. Is 7 even or odd?
      ( ) even
      ( ) odd
    """
    options = as_list("options", options, "strings", str)
    check_choice("answer", answer, options)
    buttons = RadioButtons(options=options, value=None, layout=FIT)

    def reveal(value: str) -> Result:
        return float(value == answer), f"It is “{answer}”."

    return Guess(key, question, why, lambda: buttons.value, reveal, buttons, items=options)


def guess_order(
    key: str, question: str, items: Sequence[str], answer: Sequence[str], why: str = ""
) -> Guess:
    """Ask for the order of some items: the reader presses them one after the other. A pair in the
    right order counts.

    Raises ValueError if `answer` doesn't have the same items.
    """
    items, answer = (
        as_list("items", items, "strings", str),
        as_list("answer", answer, "strings", str),
    )
    if sorted(items) != sorted(answer) or len({*items}) < max(2, len(items)):
        raise ValueError(
            f"answer must hold the different items {items} in another order, got {answer}"
        )
    order: list[str] = []

    def press(item: str) -> None:
        order.remove(item) if item in order else order.append(item)
        for each, made in buttons.items():
            made.description = f"{order.index(each) + 1}. {each}" if each in order else each
            made.button_style = "info" if each in order else ""

    def reveal(value: list[str]) -> Result:
        pairs = list(combinations(answer, 2))
        good = sum(value.index(first) < value.index(second) for first, second in pairs)
        verb = "is" if good == 1 else "are"
        return good / len(
            pairs
        ), f"It is {', '.join(answer)}: {good} of {len(pairs)} pairs {verb} in the right order."

    buttons = {
        item: button(item, "", "s-item", "Press again to take it out", partial(press, item))
        for item in items
    }
    inputs = row(*buttons.values())
    return Guess(
        key,
        question,
        why,
        lambda: order if len(order) == len(items) else None,
        reveal,
        inputs,
        items=items,
    )


def guess_curve(
    key: str,
    question: str,
    x: Sequence[float],
    truth: Sequence[float],
    *,
    low: float,
    high: float,
    at: Sequence[float] = (),
    name: str = "measured",
    others: Mapping[str, Sequence[float]] | None = None,
    x_title: str = "",
    y_title: str = "",
    why: str = "",
) -> Guess:
    """Ask for some points of a curve, to drag or to set with sliders; then draw the truth over the
    guess.

    The first point is given, and the guess is finished once each of the others has been moved. A
    point that is dragged out of the axes stays at their edge.

    Args:
        key: the name of the question in the score.
        x, truth: the curve; x is positive and increasing, and its axis logarithmic.
        low, high: the range of the guess and of the axis, which widens if the truth lies outside.
        at: the values of x that the reader sets; by default the last two.
        others: {name: y}, more curves that are drawn with the truth.

    Raises ValueError for other values of x, for curves of another length, and if `low` isn't less
    than `high`.
    """
    check_instance("question", question, str)
    check_instance("name", name, str)
    check_number("low", low)
    check_number("high", high, "a finite number above low", lambda end: low < end < math.inf)
    check_instance("others", {} if others is None else others, Mapping)
    x, truth, at = (
        as_list(*each, "numbers", float | int) for each in (("x", x), ("truth", truth), ("at", at))
    )
    at = at or x[-2:]
    curves = {"truth": truth, **(others or {})}
    if any(len(x) != len(y) for y in curves.values()) or not set() < {*at} <= {*x[1:]}:
        raise ValueError(
            f"each curve needs a number for each x, and at values of x after the first, got {at=}"
        )
    if [0, *x] != sorted({0, *x}):
        raise ValueError(f"x must be positive and increasing, got {x}")
    titles = {"xaxis_title_text": x_title, "yaxis_title_text": y_title, "yaxis_range": [low, high]}
    step = 10.0 ** math.floor(math.log10((high - low) / 20))
    options = {
        "min": low,
        "max": high,
        "step": step,
        "style": {"description_width": "initial"},
        "tooltip": question,
    }
    sliders = [FloatSlider(truth[0], description=f"at {point:,}", **options) for point in at]
    waiting = {*sliders}  # not moved yet

    def draw() -> None:
        with figure.batch_update():
            figure.data[0].y = [truth[0], *(slider.value for slider in sliders)]
            for circle, point, slider in zip(figure.layout.shapes, at, sliders, strict=True):
                circle.update(xanchor=point, yanchor=slider.value)

    def drag(_: Any, circles: Any) -> None:
        for slider, height in zip(sliders, [circle.yanchor for circle in circles], strict=True):
            slider.value = height  # within its range
        draw()  # the circle was dragged sideways, too

    def move(change: Any) -> None:
        waiting.discard(change.owner)
        draw()

    def reveal(value: list[float]) -> Result:
        truths = [truth[x.index(point)] for point in at]
        good = sum(
            abs(y - right) <= TOLERANCE * (high - low)
            for y, right in zip(value, truths, strict=True)
        )
        with figure.batch_update():
            for trace in figure.data[1:]:
                trace.visible = True
            every = [y for trace in figure.data[1:] for y in trace.y]
            figure.layout.yaxis.range = [min(low, *every), max(high, 1.03 * max(every))]
        found = " and ".join(
            f"{right:.2f} at {point:,}" for point, right in zip(at, truths, strict=True)
        )
        close = f"{good} of your {len(at)} points {'is' if good == 1 else 'are'}"
        close = close if len(at) > 1 else f"your point is{' not' * (not good)}"
        return good / len(at), f"It is {found}: {close} close."

    inputs = row(Label("Drag each circle up or down, or move its slider:"), *sliders)
    guess = Guess(
        key,
        question,
        why,
        lambda: None if waiting else [each.value for each in sliders],
        reveal,
        inputs,
    )
    figure = LiveFigure(
        _curves({name: truth, **(others or {})}, x, at).update_layout(titles)
    )  # last, see App
    figure.set_trait(
        "_config", {"displayModeBar": False, "edits": {"shapePosition": True}}
    )  # circles can be dragged
    guess.children = [*guess.children[:2], figure, *guess.children[2:]]
    draw()
    figure.layout.on_change(drag, "shapes")
    for slider in sliders:
        slider.observe(move, names="value")
    return guess


def _curves(curves: Mapping[str, Sequence[float]], x: list[float], at: list[float]) -> go.Figure:
    """The figure of a guess: its line and a circle for each point to drag, both without heights,
    and hidden curves."""
    figure, gray = theme.blank(height=320, width=640), theme.COLORS[6]
    figure.add_scatter(
        name="your guess", x=[x[0], *at], line={"color": gray, "dash": "dash"}, marker_size=9
    )
    methods = [
        name.partition(",")[0] for name in curves
    ]  # "rotary, window" has the color of rotary
    slots = assign_slots([*dict.fromkeys(methods)], COMMON_METHODS)
    for number, (method, (name, y)) in enumerate(zip(methods, curves.items(), strict=True)):
        color, dash, symbol = STYLES[slots.index(method)]
        line = {"color": color, "dash": "dashdot" if method in methods[:number] else dash}
        figure.add_scatter(
            name=name, x=x, y=list(y), line=line, marker_symbol=symbol, visible=False
        )
    first, last = math.log10(x[0]), math.log10(x[-1])
    margin, ticks = 0.08 * (last - first), {"tickvals": x, "ticktext": [f"{each:,}" for each in x]}
    for _ in at:
        place = {"xsizemode": "pixel", "ysizemode": "pixel", "xanchor": x[0], "yanchor": 0}
        figure.add_shape(
            type="path", path=_CIRCLE, fillcolor=theme.MASKED, line_color=gray, **place
        )
    figure.update_xaxes(type="log", range=[first - margin, last + margin], **ticks)
    return figure.update_traces(cliponaxis=False)


def guess_grid(guesses: Iterable[Guess]) -> Box:
    """Show several guesses side by side, as many in a row as fit, with one button for the answers
    to those made."""
    guesses = as_list("guesses", guesses, "guesses", Guess)
    for guess in guesses:
        guess.children = [child for child in guess.children if not isinstance(child, Button)]
    cells = Layout(grid_template_columns="repeat(auto-fill, minmax(300px, 1fr))", grid_gap="24px")
    tip, made = (
        "Compare your guesses with the truth",
        lambda: [guess for guess in guesses if guess.value()] or guesses,
    )
    show = button("Show the answers", "", "s-answer", tip, lambda: [*map(Guess.answer, made())])
    return Box("\n".join(guess.text for guess in guesses), GridBox(guesses, layout=cells), show)


def live_texts(app: Any, traits: Sequence[str], write: Callable[[], Texts]) -> Box:
    """The texts that `write` returns, side by side, and again whenever one of the traits of `app`
    changes."""
    check_instance("app", app, HasTraits)
    page = HTML()

    def update(_: Any = None) -> str:
        texts = side_by_side(write())
        page.value = texts.page
        return texts.text

    app.observe(update, names=as_list("traits", traits, "names", str))
    return Box(update(), page)


def score() -> Box:
    """The points so far, and a button that deletes them. It follows the guesses that are made while
    it is shown."""

    def delete() -> None:  # the file may be damaged
        try:
            FILE.unlink(missing_ok=True)
            _score()
        except OSError as error:
            line.value = f"{FILE} can't be deleted ({error.strerror})."

    _scores.add(line := HTML())
    _score()
    deletes = button("Delete", "", "s-delete", f"Delete {FILE}", delete)
    return Box("Your score so far. Run this cell to see it.", row(line, deletes))


def _score(key: str = "", points: float = 0.0) -> str:
    """Add the points of a first guess to the file, and say the score, here and in all scores on the
    page."""
    try:
        scored = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
        if not isinstance(scored, dict) or not all(
            type(x) in (int, float) and 0 <= x <= 1 for x in scored.values()
        ):
            raise ValueError("not a table of points")
        if key and key not in scored:
            scored[key] = points
            write(FILE, json.dumps(scored, indent=1))
        words = (
            f"Score: {sum(scored.values()):.3g} of {len(scored)}."
            if scored
            else "Score: no guesses yet."
        )
    except ValueError:
        words = (
            f"No score: {FILE} is damaged. Delete it to start again; the lesson goes on without it."
        )
    except OSError as error:
        words = (
            f"No score: {FILE} can't be read or written ({error.strerror}); the lesson goes "
            "on without it."
        )
    for line in _scores:
        line.value = words
    return words
