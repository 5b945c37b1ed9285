"""What a reader does with the widgets of a guess, and what the page answers."""

from typing import TypeVar

from ipywidgets import Button, RadioButtons, Widget

from alibi_viz.widgets.core.controls import below

W = TypeVar("W", bound=Widget)


def widgets(box, kind):
    """The widgets of a kind inside a box."""
    return [widget for widget in below(box) if isinstance(widget, kind)]


def press(box, text):
    """Press a button; its text may have a place in front, as in "2. flat"."""
    for button in widgets(box, Button):
        if text in (button.description, button.description.partition(". ")[2]):
            button.click()
            return
    raise LookupError(f"no button says {text!r}")


def ask_for_answer(guess):
    """Press the button below a guess, and return what the reader is told."""
    press(guess, "Show the answer")
    return str(guess.response.value)


def select(guess, option):
    """Select one of the options of a choice."""
    (options,) = widgets(guess, RadioButtons)
    options.value = option


def choose(guess, option):
    """Guess one of the options of a choice, and return what the reader is told."""
    select(guess, option)
    return ask_for_answer(guess)
