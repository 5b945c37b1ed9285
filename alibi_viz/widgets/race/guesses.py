"""Guesses that the reader makes before a race: which methods hold, degrade or fail on longer windows."""

from typing import Any

from ipywidgets import HTML, HBox, ToggleButtons, VBox

from alibi_viz.lab import evaluation_lengths
from alibi_viz.lab.say import MAX_RISE_HOLDING, MIN_RISE_FAILING
from alibi_viz.widgets.core.controls import labeled
from alibi_viz.widgets.race.traits import OUTCOMES


class GuessRows(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """One row of buttons per method, shown while the checkbox `box` is checked and the race is one on a text.

    Checking the box asks for a guess about every method, unchecking it removes all guesses.
    """

    def __init__(self, app: Any) -> None:
        self._app, self._disabled = app, False
        self.box = app.checkbox(
            "guesses",
            "guess first",
            "s-guess",
            "Say what you expect, then train",
            read=lambda checked: dict.fromkeys(app.methods) if checked else {},
            show=bool,
        )
        self._buttons: dict[str, ToggleButtons] = {}  # of the methods that have been chosen so far
        self._rows: dict[str, HBox] = {}
        self._question = HTML()
        super().__init__(layout={"overflow": "visible"})
        self.add_class("s-guesses")
        self._update()
        app.observe(self._update, names=("methods", "guesses", "length", "question"))

    def disable(self, disabled: bool) -> None:
        """Lock the guesses, or unlock them."""
        self._disabled = disabled
        for control in (self.box, *self._buttons.values()):
            control.disabled = disabled

    def missing(self) -> list[str]:
        """The methods for which a guess was asked and not made."""
        asked = self._app.methods if self._are_shown() else ()
        return [method for method in asked if self._app.guesses.get(method) is None]

    def _are_shown(self) -> bool:
        return bool(self._app.guesses) and self._app.questions[self._app.question].task == "text"

    def _update(self, _: Any = None) -> None:
        """Show the rows of the chosen methods."""
        for method in self._app.methods:
            if method not in self._rows:
                self._buttons[method] = self._row_of_buttons(method)
                self._rows[method] = labeled(method, self._buttons[method])
                self._rows[method].children[0].layout.width = "80px"
        length, *_, longest = evaluation_lengths(self._app.length)
        self._question.value = (
            '<div style="line-height: 1.5; max-width: 60em">'
            f"What happens on windows of up to {longest:,} bytes, {longest // length} times the training length? A "
            f"model <b>holds</b> if its loss rises by at most {MAX_RISE_HOLDING} bits per byte, and <b>fails</b> from "
            f"{MIN_RISE_FAILING} on."
            "</div>"
        )
        self.layout.display = None if self._are_shown() else "none"
        self.children = [self._question, *(self._rows[method] for method in self._app.methods)]

    def _row_of_buttons(self, method: str) -> ToggleButtons:
        tips = [f"{method} {outcome}" for outcome in OUTCOMES]
        buttons = ToggleButtons(options=OUTCOMES, value=None, tooltips=tips, style={"button_width": "max-content"})
        buttons.disabled = self._disabled
        self._app.link(
            buttons.add_class(f"s-guess-{method}"),
            "guesses",
            read=lambda outcome: {**self._app.guesses, method: outcome},
            show=lambda guesses: guesses.get(method),
        )
        return buttons
