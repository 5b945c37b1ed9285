"""The traits of SpotTheBug: the reader's guess and the reader's code."""

from typing import Any

from traitlets import HasTraits

from alibi_viz.widgets.core.traits import State

__all__ = ["Code", "Guess"]

MAX_CHARACTERS = 20_000


class Guess(State):
    """The name of a fault, or None. Whether it is one of the current answers is checked by the app."""

    info_text = "None or the name of a fault"

    def validate(self, obj: HasTraits, value: Any) -> str:
        if not isinstance(value, str):
            self.error(obj, value)
        return value


class Code(State):
    """Source text of at most `MAX_CHARACTERS`; empty for the faulty code."""

    info_text = f"a string of at most {MAX_CHARACTERS:,} characters"

    def validate(self, obj: HasTraits, value: Any) -> str:
        if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
            self.error(obj, value)
        return value
