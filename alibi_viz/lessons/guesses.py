"""Guesses: the reader commits to one, then sees the truth. The score goes on through all lessons.

A guess is a widget that waits for its button, so "Run all" goes on without an answer. Once it has
one, the page opens the text below that tells it, up to the next guess: in the notebook, put it into
`<details class="after-guess">` (see page.js). The first guess at a question counts, from 0 points
to 1. The score is kept in `guesses.json` in the current
folder and sent nowhere. A file that can't be read or written costs the score, not the lesson: the
widget says so. The cell of a guess contains the answer, so hide its source in the notebook
(`"jupyter": {"source_hidden": true}`).

Code names what there is to choose by ids, and the reader sees words. A notebook stores both, with
the answer, as metadata of the output: `{"guesses": [...]}`.
"""

import html
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from textwrap import fill
from typing import Any
from weakref import WeakSet

import numpy as np
from ipywidgets import HTML, Button, FloatSlider, GridBox, Label, Layout, RadioButtons, VBox, Widget

from alibi_viz.arguments import as_list, check_choice, check_instance, check_number
from alibi_viz.figures import theme
from alibi_viz.figures.curve_plot import COMMON_METHODS, STYLES, assign_slots
from alibi_viz.figures.theme import Picture
from alibi_viz.figures.yardstick_lines import FONT_SIZE, label
from alibi_viz.files import write
from alibi_viz.widgets.core.controls import FIT, button, row
from alibi_viz.widgets.core.page import PageWidget
from alibi_viz.widgets.core.plot import Plot

FILE = Path("guesses.json")
# Characters per line of the text that a notebook stores: JupyterLab would break a longer line
# inside a word.
WRAP = 76
TOLERANCE = 0.15  # of the axis' height: so close to the truth, a point of a curve is right
UNFINISHED = "Finish your guess first: choose, press every item, or move each point."

_score_lines: WeakSet[HTML] = WeakSet()  # the scores on the page, which follow every guess

Result = tuple[float, str]  # the points for a guess, from 0 to 1, and the answer in words


class Box(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A box of widgets in the style of the apps.

    A notebook stores its text and the data of its guesses, so these never change.
    """

    def __init__(
        self, text: str, *children: Widget, guesses: Sequence[dict[str, Any]] = ()
    ) -> None:
        self.text = text
        self.metadata = {"guesses": list(guesses)} if guesses else {}
        super().__init__(layout=Layout(overflow="visible"))
        self.page = PageWidget(app=self.model_id)
        self.children = [HTML(theme.STYLE), *children, self.page]
        # Not "alibi-app", which has a picture for readers without a kernel.
        self.add_class("alibi-guess")

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        return bundle | {"text/plain": self.text}, self.metadata  # ipywidgets would cut the text


class Guess(Box):
    """A question, the widgets that take a guess, and a button that shows the answer.

    Args:
        key: the name of the question in the score.
        why: the reason for the answer.
        value: returns the reader's guess, or None while it isn't finished.
        reveal: shows the truth, for a guess.
        kind: "choice", "order" or "curve".
        options: what there is to choose from, {id: words}.
        answer: the id of the right one, or all ids in order.
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
        kind: str,
        options: Mapping[str, str],
        answer: Sequence[str],
    ) -> None:
        for name, argument in (("key", key), ("question", question), ("why", why)):
            check_instance(name, argument, str)
        self.key = key
        self.why = why
        self.value = value
        self.reveal = reveal

        asked = HTML(f"<b>Your guess.</b> {html.escape(question)}").add_class("alibi-caption")
        show = button(
            "Show the answer", "", "s-answer", "Compare your guess with the truth", self.answer
        )
        self.response = HTML().add_class("alibi-caption")

        lines = [fill(f"Your guess. {question}", WRAP)]
        for words in options.values():
            lines.append(fill(f"  ( ) {words}", WRAP, subsequent_indent=" " * 6))
        self.data = {
            "kind": kind,
            "question": question,
            "options": list(options.items()),  # nbformat sorts the keys of an object
            "answer": answer,
            "why": why,
        }
        super().__init__("\n".join(lines), asked, *inputs, show, self.response, guesses=[self.data])

    def answer(self) -> None:
        """Compare the guess with the truth, and count it if it is the first."""
        value = self.value()
        if value is None:
            self._respond(UNFINISHED)
            return

        self.points, answer = self.reveal(value)
        if self.points == 1:
            verdict = "Right."
        elif self.points > 0:
            verdict = "Partly right."
        else:
            verdict = "Not this time."
        reason = html.escape(f"{answer} {self.why}")
        score = _update_score(self.key, self.points)
        self.page.answered = True
        self._respond(f"<b>{verdict}</b> {reason}<br><i>{score}</i>")

    def _respond(self, words: str) -> None:
        self.response.value = f'<div role="alert">{words}</div>'  # screen readers announce it


def guess_choice(
    key: str, question: str, options: Mapping[str, str], answer: str, why: str = ""
) -> Guess:
    """Ask for one of several options, {id: words}. The answer is the id of one.

    Raises ValueError if `answer` is not among them.

    >>> from alibi_viz import lessons
    >>> options = {"flat": "the flattest", "steep": "the steepest"}
    >>> lessons.guess_choice("heads", "Which head looks furthest?", options, "flat")
    Your guess. Which head looks furthest?
      ( ) the flattest
      ( ) the steepest
    """
    check_instance("options", options, Mapping)
    check_choice("answer", answer, options)
    buttons = RadioButtons(
        options=[(words, name) for name, words in options.items()], value=None, layout=FIT
    )

    def reveal(value: str) -> Result:
        return float(value == answer), f"It is “{options[answer]}”."

    def value() -> str | None:
        return buttons.value

    return Guess(
        key, question, why, value, reveal, buttons, kind="choice", options=options, answer=[answer]
    )


def guess_order(
    key: str, question: str, items: Mapping[str, str], answer: Sequence[str], why: str = ""
) -> Guess:
    """Ask for the order of some items, {id: words}: the reader presses one after the other.

    The answer is their ids in order. The points are the share of pairs in the right order. Raises
    ValueError if `answer` doesn't have the same items.
    """
    check_instance("items", items, Mapping)
    answer = as_list("answer", answer, "strings", str)
    if sorted(items) != sorted(answer) or len(items) < 2:
        raise ValueError(f"answer must hold the items {', '.join(items)} in order, got {answer}")
    order: list[str] = []  # the items that have been pressed

    def press(item: str) -> None:
        if item in order:
            order.remove(item)
        else:
            order.append(item)
        for name, item_button in buttons.items():
            if name in order:
                item_button.description = f"{order.index(name) + 1}. {items[name]}"
                item_button.button_style = "info"
            else:
                item_button.description = items[name]
                item_button.button_style = ""

    def value() -> list[str] | None:
        return order if len(order) == len(items) else None

    def reveal(guess: list[str]) -> Result:
        pairs = list(combinations(answer, 2))
        right = sum(guess.index(first) < guess.index(second) for first, second in pairs)
        verb = "is" if right == 1 else "are"
        in_order = ", ".join(items[item] for item in answer)
        words = f"It is {in_order}: {right} of {len(pairs)} pairs {verb} in the right order."
        return right / len(pairs), words

    buttons = {
        item: button(words, "", "s-item", "Press again to take it out", partial(press, item))
        for item, words in items.items()
    }
    inputs = row(*buttons.values())
    return Guess(
        key, question, why, value, reveal, inputs, kind="order", options=items, answer=answer
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
    yardsticks: Mapping[str, float] | None = None,
    x_title: str = "",
    y_title: str = "",
    why: str = "",
) -> Guess:
    """Ask for some points of a curve, then draw the truth over the guess.

    The reader drags the points or sets them with sliders. The first point is given, and the guess
    is finished once each of the others has been moved. A point that is dragged out of the axes
    stays at their edge.

    Args:
        key: the name of the question in the score.
        x, truth: the curve; x is positive and increasing, and its axis logarithmic.
        low, high: the range of the guess and of the axis, which widens if the truth lies outside.
        at: the values of x that the reader sets; by default the last two after the first.
        others: {name: y}, more curves that are drawn with the truth.
        yardsticks: {name: y}, such as `Text.yardsticks` for losses: gray lines to compare with,
            which are there before the guess. Those outside of the axis are left out.

    Raises ValueError for other values of x, for curves of another length or with NaN, for another
    curve with the name of the truth, and if `low` isn't less than `high`.
    """
    check_instance("question", question, str)
    check_instance("name", name, str)
    check_number("low", low)
    check_number("high", high, "a finite number above low", lambda end: low < end < math.inf)
    check_instance("others", {} if others is None else others, Mapping)
    check_instance("yardsticks", {} if yardsticks is None else yardsticks, Mapping)
    x = as_list("x", x, "numbers", float | int)
    truth = as_list("truth", truth, "numbers", float | int)
    at = as_list("at", at, "numbers", float | int) or x[1:][-2:]
    curves = _all_curves(name, truth, others or {})
    _check_curves(x, curves, at)

    step = 10.0 ** math.floor(math.log10((high - low) / 20))
    sliders = [
        FloatSlider(
            truth[0],
            description=f"at {point:,}",
            min=low,
            max=high,
            step=step,
            style={"description_width": "initial"},
            tooltip=question,
            layout=Layout(width="240px"),
        )
        for point in at
    ]
    unmoved = set(sliders)
    lines = yardsticks or {}
    plot = Plot()

    def draw(*, with_truth: bool = False) -> None:
        heights = [slider.value for slider in sliders]
        made = _guess_picture(
            x,
            [truth[0], *heights],
            at,
            curves=curves if with_truth else {},
            yardsticks=lines,
            value_range=(low, high),
            axis_titles=(x_title, y_title),
        )
        plot.show(made)

    def move(change: Any) -> None:
        unmoved.discard(change.owner)
        draw(with_truth=guess.points is not None)

    def value() -> list[float] | None:
        return None if unmoved else [slider.value for slider in sliders]

    def reveal(heights: list[float]) -> Result:
        true_heights = [truth[x.index(point)] for point in at]
        tolerance = TOLERANCE * (high - low)
        close = sum(
            abs(height - true_height) <= tolerance
            for height, true_height in zip(heights, true_heights, strict=True)
        )
        draw(with_truth=True)
        shown = [f"{y:.2f} at {point:,}" for y, point in zip(true_heights, at, strict=True)]
        words = f"It is {' and '.join(shown)}: {_describe_close(close, len(at))}."
        return close / len(at), words

    inputs = row(Label("Drag each circle up or down, or move its slider:"), *sliders)
    guess = Guess(
        key, question, why, value, reveal, plot, inputs, kind="curve", options={}, answer=[]
    )
    plot.app = guess.model_id
    for number, slider in enumerate(sliders):
        plot.add_handle(
            [f"guess {number}"],
            "Drag your guess up or down",
            partial(_set_within_range, slider),
            axis="y",
        )
        slider.observe(move, names="value")
    draw()
    return guess


def _set_within_range(slider: FloatSlider, height: float) -> None:
    slider.value = min(max(height, slider.min), slider.max)


def _all_curves(
    name: str, truth: list[float], others: Mapping[str, Sequence[float]]
) -> dict[str, Sequence[float]]:
    """All curves by name, the truth first. Raises ValueError if another has its name."""
    if name in others:
        raise ValueError(f"others must not have the name of the truth, {name!r}")
    return {name: truth, **others}


def _check_curves(x: list[float], curves: Mapping[str, Sequence[float]], at: list[float]) -> None:
    """Raise ValueError unless each curve has a number for each x, and `at` can be set."""
    if [0, *x] != sorted({0, *x}):
        raise ValueError(f"x must be positive and increasing, got {x}")
    for name, y in curves.items():
        if len(y) != len(x):
            raise ValueError(f"{name!r} must have {len(x)} numbers, as x, got {len(y)}")
        if not np.isfinite(y).all():
            raise ValueError(f"{name!r} must have finite numbers, got {list(y)}")
    can_be_set = set(at) <= set(x[1:]) and len(set(at)) == len(at)
    if not at or not can_be_set:
        raise ValueError(f"at must be different values of x after the first, got {at}")


def _guess_picture(
    x: Sequence[float],
    heights: Sequence[float],
    at: Sequence[float],
    *,
    curves: Mapping[str, Sequence[float]],
    yardsticks: Mapping[str, float],
    value_range: tuple[float, float],
    axis_titles: tuple[str, str],
) -> Picture:
    """The line of a guess with a circle to drag for each point, and curves to compare it with.

    `heights` are those of the first x and of the points at `at`.
    """
    low, high = value_range
    x_title, y_title = axis_titles
    first = math.log10(x[0])
    last = math.log10(x[-1])
    margin = 0.08 * (last - first)
    x_range = [first - margin, last + margin]
    guessed = {
        "type": "scatter",
        "name": "your guess",
        "x": [x[0], *at],
        "y": list(heights),
        "line": {"color": theme.GRAY, "dash": "dash"},
        "marker": {"size": 9},
        "cliponaxis": False,
    }
    circles = [
        {
            "type": "scatter",
            "name": f"guess {number}",
            "x": [place],
            "y": [height],
            "mode": "markers",
            "marker": {
                "size": 22,
                "color": theme.MASKED,
                "line": {"color": theme.GRAY, "width": 2},
            },
            "cliponaxis": False,
            "hoverinfo": "skip",
            "showlegend": False,
        }
        for number, (place, height) in enumerate(zip(at, heights[1:], strict=True))
    ]
    lines, labels = _yardstick_lines(yardsticks, value_range, x_range)
    drawn = list(chain.from_iterable(curves.values()))
    return theme.picture(
        [guessed, *circles, *_curve_traces(curves, x), *lines],
        height=320,
        width=640,
        xaxis={
            "type": "log",
            "range": x_range,
            "tickvals": list(x),
            "ticktext": [f"{value:,}" for value in x],
            "title": {"text": x_title},
            "fixedrange": True,
        },
        yaxis={
            "range": [min([low, *drawn]), max([high, *(1.03 * height for height in drawn)])],
            "title": {"text": y_title},
            "fixedrange": True,
        },
        annotations=labels,
    )


def _curve_traces(
    curves: Mapping[str, Sequence[float]], x: Sequence[float]
) -> list[dict[str, Any]]:
    """Curves in the colors of their methods, the truth as rings over the others.

    "rotary, window" has the color of rotary, and another dash.
    """
    methods = list(dict.fromkeys(_method_of(name) for name in curves))
    slots = assign_slots(methods, COMMON_METHODS)
    traces: list[dict[str, Any]] = []
    drawn = set()
    for name, y in curves.items():
        method = _method_of(name)
        color, dash, symbol = STYLES[slots.index(method)]
        if method in drawn:
            dash = "dashdot"
        drawn.add(method)
        traces.append(
            {
                "type": "scatter",
                "name": name,
                "x": list(x),
                "y": list(y),
                "line": {"color": color, "dash": dash},
                "marker": {"symbol": symbol},
                "cliponaxis": False,
            }
        )
    if len(traces) > 1:
        # The truth is the first. As a line, it would hide another curve that it agrees with.
        truth = traces.pop(0)
        rings = {"symbol": "circle-open", "size": 14, "color": theme.BLUE, "line": {"width": 3}}
        traces.append(truth | {"mode": "markers", "marker": rings})
    return traces


def _yardstick_lines(
    yardsticks: Mapping[str, float],
    value_range: tuple[float, float],
    x_range: Sequence[float],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A gray line and its label for each yardstick within the range of the axis."""
    low, high = value_range
    lines = []
    labels = []
    for name, bits in yardsticks.items():
        if not low <= bits <= high:
            continue
        line = {
            "type": "scatter",
            "name": label(name, bits),
            "mode": "lines",
            "x": [10**end for end in x_range],
            "y": [bits, bits],
            "line": theme.DOTTED,
            "hoverinfo": "skip",
            "showlegend": False,
        }
        words = {
            "text": label(name, bits),
            "font": {"size": FONT_SIZE},
            "showarrow": False,
            "xref": "paper",
            "x": 0,
            "xanchor": "left",
            "y": bits,
            "yanchor": "bottom",
        }
        lines.append(line)
        labels.append(words)
    return lines, labels


def _describe_close(close: int, points: int) -> str:
    """How many of the reader's points are close to the truth."""
    if points == 1:
        return "your point is close" if close else "your point is not close"
    verb = "is" if close == 1 else "are"
    return f"{close} of your {points} points {verb} close"


def _method_of(curve: str) -> str:
    """The method in the name of a curve: "rotary" in "rotary, window"."""
    return curve.partition(",")[0]


def guess_grid(guesses: Iterable[Guess]) -> Box:
    """Show several guesses side by side, with one button for the answers to those made."""
    guesses = as_list("guesses", guesses, "guesses", Guess)
    for guess in guesses:
        guess.children = [child for child in guess.children if not isinstance(child, Button)]

    def answer() -> None:
        made = [guess for guess in guesses if guess.value()]
        # Without any, each of them asks for a guess.
        for guess in made or guesses:
            guess.answer()

    show = button("Show the answers", "", "s-answer", "Compare your guesses with the truth", answer)
    # As many in a row as fit.
    cells = Layout(grid_template_columns="repeat(auto-fill, minmax(300px, 1fr))", grid_gap="24px")
    text = "\n".join(guess.text for guess in guesses)
    data = [guess.data for guess in guesses]
    return Box(text, GridBox(guesses, layout=cells), show, guesses=data)


def score() -> Box:
    """The points so far, and a button that deletes them.

    It follows the guesses that are made while it is shown.
    """
    line = HTML()

    def delete() -> None:
        try:
            FILE.unlink(missing_ok=True)
        except OSError as error:
            line.value = f"{FILE} can't be deleted ({error.strerror})."
            return
        _update_score()

    _score_lines.add(line)
    _update_score()
    delete_button = button("Delete", "", "s-delete", f"Delete {FILE}", delete)
    return Box("Your score so far. Run this cell to see it.", row(line, delete_button))


def _update_score(key: str = "", points: float = 0.0) -> str:
    """Store the points of a first guess, and say the score, here and in all scores on the page."""
    try:
        words = _describe_score(_stored_score(key, points))
    except ValueError:
        words = (
            f"No score: {FILE} is damaged. Delete it to start again; the lesson goes on without it."
        )
    except OSError as error:
        words = (
            f"No score: {FILE} can't be read or written ({error.strerror}); the lesson goes "
            "on without it."
        )
    for line in _score_lines:
        line.value = words
    return words


def _stored_score(key: str, points: float) -> dict[str, float]:
    """{question: points} in the file, after those of a first guess have been added.

    Raises ValueError for a damaged file, and OSError if it can't be read or written.
    """
    scored = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    if not isinstance(scored, dict) or not all(map(_is_points, scored.values())):
        raise ValueError("not a table of points")
    if key and key not in scored:
        scored[key] = points
        write(FILE, json.dumps(scored, indent=1))
    return scored


def _is_points(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1  # not True; NaN fails the comparison


def _describe_score(scored: Mapping[str, float]) -> str:
    if not scored:
        return "Score: no guesses yet."
    return f"Score: {sum(scored.values()):.3g} of {len(scored)}."
