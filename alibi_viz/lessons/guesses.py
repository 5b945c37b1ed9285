"""Guesses: the reader commits to one, then sees the truth. The score goes on through all lessons.

A guess is a widget that waits for its button, so "Run all" goes on without an answer. The first guess at a question
counts, from 0 points to 1. The score is kept in `guesses.json` in the current folder and sent nowhere. A file that
can't be read or written costs the score, not the lesson: the widget says so.
The cell of a guess contains the answer, so hide its source in the notebook (`"jupyter": {"source_hidden": true}`).
"""

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

import plotly.graph_objects as go
from ipywidgets import HTML, Button, FloatSlider, GridBox, HBox, Layout, RadioButtons, VBox, Widget

from alibi_viz.figures import theme

FILE = Path("guesses.json")
TOLERANCE = 0.15  # of the axis' height: so close to the truth, a point of a curve is right
_FIT, _WRAP = Layout(width="max-content"), Layout(flex_flow="row wrap", grid_gap="4px 20px", overflow="visible")
_STYLE = {"description_width": "initial"}


class _Box(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A box of widgets in the style of the apps. Its text is what a notebook stores, so it never changes."""

    def __init__(self, text: str, *children: Widget) -> None:
        self.text = text
        super().__init__([HTML(theme.STYLE), *children], layout=Layout(overflow="visible"))
        self.add_class("alibi-guess")  # not "alibi-app", which has a picture for readers without a kernel

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        return bundle | {"text/plain": self.text} if isinstance(bundle, dict) else bundle


class _Guess(_Box):
    """A question, the widgets that take a guess, and a button that shows the answer."""

    points: float | None = None  # from 0 to 1, once the reader has guessed

    def __init__(self, key: str, question: str, why: str, *inputs: Widget, items: Sequence[str] = ()) -> None:
        self.key, self.why, self._result = key, why, HTML().add_class("alibi-caption")
        button = Button(description="Show the answer", layout=_FIT, tooltip="Compare your guess with the truth")
        button.on_click(lambda _: self.answer())
        asked = HTML(f"<b>Your guess.</b> {html.escape(question)}").add_class("alibi-caption")
        text = "\n".join([f"Your guess. {question}", *(f"  ( ) {item}" for item in items)])
        super().__init__(text, asked, *inputs, button, self._result)

    def value(self) -> Any:
        """The reader's guess, or None while it is not finished."""
        raise NotImplementedError

    def reveal(self, value: Any) -> tuple[float, str]:
        """Show the truth. Returns the points for a guess, and the answer in words."""
        raise NotImplementedError

    def answer(self) -> None:
        """Compare the guess with the truth, and count it if it is the first."""
        if (value := self.value()) is None:
            return self._say("Finish your guess first.")
        self.points, answer = self.reveal(value)
        verdict = "Right." if self.points == 1 else "Partly right." if self.points else "Not this time."
        self._say(f"<b>{verdict}</b> {html.escape(f'{answer} {self.why}')}<br><i>{_count(self.key, self.points)}</i>")

    def _say(self, words: str) -> None:
        self._result.value = f'<div role="alert">{words}</div>'  # screen readers announce it


class ChoiceGuess(_Guess):
    """Ask for one of several options. Raises ValueError if `answer` is not among them.

    >>> lessons.guess_choice("parity", "Is 7 even or odd?", ["even", "odd"], "odd", why="It isn't twice an integer.")
    Your guess. Is 7 even or odd?
      ( ) even
      ( ) odd
    """

    def __init__(self, key: str, question: str, options: Sequence[str], answer: str, why: str = "") -> None:
        if answer not in options:
            raise ValueError(f"answer must be one of options={list(options)}, got {answer!r}")
        self.right = answer
        self.options = RadioButtons(options=list(options), value=None, layout=_FIT)
        super().__init__(key, question, why, self.options, items=options)

    def value(self) -> str | None:
        return self.options.value

    def reveal(self, value: str) -> tuple[float, str]:
        return float(value == self.right), f"It is “{self.right}”."


class OrderGuess(_Guess):
    """Ask for the order of some items: the reader presses them one after the other. A pair in the right order counts.

    Raises ValueError if `answer` doesn't have the same items.
    """

    def __init__(self, key: str, question: str, items: Sequence[str], answer: Sequence[str], why: str = "") -> None:
        if sorted(items) != sorted(answer) or len({*items}) < max(2, len(items)):
            raise ValueError(f"answer must hold the different items {list(items)} in another order, got {list(answer)}")
        self.right, self.order = list(answer), list[str]()
        self.buttons = {item: Button(tooltip="Press again to take it out", layout=_FIT) for item in items}
        for item, button in self.buttons.items():
            button.on_click(lambda _, item=item: self._press(item))
        super().__init__(key, question, why, HBox([*self.buttons.values()], layout=_WRAP), items=items)
        self._number()

    def value(self) -> list[str] | None:
        return self.order if len(self.order) == len(self.right) else None

    def reveal(self, value: list[str]) -> tuple[float, str]:
        pairs = list(combinations(self.right, 2))
        good = sum(value.index(first) < value.index(second) for first, second in pairs)
        return good / len(pairs), f"It is {', '.join(self.right)}: {good} of {len(pairs)} pairs are in the right order."

    def _press(self, item: str) -> None:
        self.order = [other for other in self.order if other != item] + [item] * (item not in self.order)
        self._number()

    def _number(self) -> None:
        for item, button in self.buttons.items():
            button.description = f"{self.order.index(item) + 1}. {item}" if item in self.order else item
            button.button_style = "info" if item in self.order else ""


class CurveGuess(_Guess):
    """Ask for some points of a curve, with a slider each; then draw the truth over the guess. The first point is given.

    Args:
        key: the name of the question in the score.
        x, truth: the curve, increasing in x.
        low, high: the range of the sliders and of the axis, which widens if the truth lies outside.
        at: the values of x that the reader sets; by default the last two.
        others: {name: y}, more curves that are drawn with the truth.
    """

    def __init__(
        self, key: str, question: str, x: Sequence[float], truth: Sequence[float], *, low: float, high: float,
        at: Sequence[float] = (), name: str = "measured", others: Mapping[str, Sequence[float]] | None = None,
        x_title: str = "", y_title: str = "", log_x: bool = True, why: str = "",
    ) -> None:  # fmt: skip
        self.x, self.truth, self.low, self.high, self.at = list(x), list(truth), low, high, list(at or x[-2:])
        if len(self.x) != len(self.truth) or not {*self.at} <= {*self.x[1:]} or not low < high:
            raise ValueError(f"truth needs a number for each x, at values of x after the first, low < high; got {at=}")
        curves = {name: self.truth} | {other: list(y) for other, y in (others or {}).items()}
        self.figure = go.FigureWidget(theme.blank(320, xaxis_title_text=x_title, yaxis_title_text=y_title))
        self.figure._config = {"displayModeBar": False}
        self.figure.add_scatter(name="your guess", line={"color": theme.COLORS[1], "dash": "dash"}, marker_size=9)
        for number, (label, y) in enumerate(curves.items()):
            line = {"color": theme.COLORS[(0, 2, 3, 4)[number % 4]], "dash": ("solid", "dot", "dashdot")[number % 3]}
            self.figure.add_scatter(name=label, x=self.x, y=y, line=line, visible=False)
        self.figure.update_traces(cliponaxis=False)
        ticks = {"tickvals": self.x, "ticktext": [f"{x:,}" for x in self.x]}
        self.figure.update_xaxes(type="log" if log_x else "linear", **ticks)
        first, last = (math.log10(end) if log_x else end for end in (self.x[0], self.x[-1]))
        margin = 0.03 * (last - first)
        self.figure.update_layout(xaxis_range=[first - margin, last + margin], yaxis_range=[low, high])
        step = 10.0 ** math.floor(math.log10((high - low) / 20))
        start = min(max(self.truth[0], low), high)
        options = {"min": low, "max": high, "step": step, "style": _STYLE, "tooltip": question}
        self.sliders = [FloatSlider(start, description=f"at {point:,}", **options) for point in self.at]
        self.moved: set[FloatSlider] = set()
        for slider in self.sliders:
            slider.observe(lambda change: self._draw(change.owner), names="value")
        self._draw()
        super().__init__(key, question, why, HBox(self.sliders, layout=_WRAP), self.figure)

    def value(self) -> list[float] | None:
        return [slider.value for slider in self.sliders] if self.moved else None

    def reveal(self, value: list[float]) -> tuple[float, str]:
        truths = [self.truth[self.x.index(point)] for point in self.at]
        good = sum(abs(y - truth) <= TOLERANCE * (self.high - self.low) for y, truth in zip(value, truths, strict=True))
        with self.figure.batch_update():
            for trace in self.figure.data[1:]:
                trace.visible = True
            every = [y for trace in self.figure.data[1:] for y in trace.y]
            self.figure.layout.yaxis.range = [min(self.low, *every), max(self.high, 1.03 * max(every))]
        found = " and ".join(f"{truth:.2f} at {point:,}" for point, truth in zip(self.at, truths, strict=True))
        return good / len(truths), f"It is {found}: {good} of your {len(truths)} points are close."

    def _draw(self, *moved: FloatSlider) -> None:
        self.moved |= {*moved}
        with self.figure.batch_update():
            self.figure.data[0].x = [self.x[0], *self.at]
            self.figure.data[0].y = [self.truth[0], *(slider.value for slider in self.sliders)]


class GuessGrid(_Box):
    """Show several guesses side by side, as many in a row as fit."""

    def __init__(self, guesses: Iterable[_Guess]) -> None:
        guesses = list(guesses)
        cells = Layout(grid_template_columns="repeat(auto-fill, minmax(300px, 1fr))", grid_gap="24px")
        super().__init__("\n".join(guess.text for guess in guesses), GridBox(guesses, layout=cells))


class Score(_Box):
    """The points so far, and a button that deletes them. It follows the guesses that are made while it is shown."""

    shown: ClassVar["WeakSet[Score]"] = WeakSet()

    def __init__(self) -> None:
        self.line, button = HTML(), Button(description="Delete", tooltip=f"Delete {FILE}", layout=_FIT)
        button.on_click(lambda _: self.delete())
        super().__init__("Your score so far. Run this cell to see it.", HBox([self.line, button]))
        self.line.value = _standing()
        Score.shown.add(self)

    def delete(self) -> None:
        """Delete the file, damaged or not. The next guess starts a new one."""
        try:
            FILE.unlink(missing_ok=True)
            self.line.value = _standing()
        except OSError as error:
            self.line.value = f"{FILE} can't be deleted: {html.escape(str(error.strerror))}."


def _read() -> dict[str, float]:
    """The points of each guess. Raises ValueError or OSError if the file is damaged or can't be read."""
    if not FILE.exists():
        return {}
    points = json.loads(FILE.read_text(encoding="utf-8"))
    if not isinstance(points, dict) or not all(type(x) in (int, float) and 0 <= x <= 1 for x in points.values()):
        raise ValueError("not a table of points")
    return points


def _count(key: str, points: float) -> str:
    """Add the points of a first guess to the file, and return the score in words."""
    try:
        if key not in (before := _read()):
            FILE.write_text(json.dumps(before | {key: points}, indent=1), encoding="utf-8")
    except ValueError:
        pass  # the score says that the file is damaged
    except OSError as error:
        return f"This guess isn't counted: {FILE} can't be written ({html.escape(str(error.strerror))})."
    for score in Score.shown:
        score.line.value = _standing()
    return _standing()


def _standing() -> str:
    """The score in words."""
    try:
        points = _read()
    except (OSError, ValueError):
        return f"No score: {FILE} is damaged. Delete it to start again; the lesson goes on without it."
    return f"Score: {sum(points.values()):.3g} of {len(points)}." if points else "Score: no guesses yet."
