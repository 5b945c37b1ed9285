"""Texts beside an app, written again when the reader moves a control."""

from collections.abc import Callable, Sequence
from typing import Any

from ipywidgets import HTML

from alibi_viz.lessons.guesses import _Box
from alibi_viz.lessons.pages import Texts, side_by_side


class LiveTexts(_Box):
    """The texts that `write` returns, side by side, and again whenever one of the traits of `app` changes."""

    def __init__(self, app: Any, traits: Sequence[str], write: Callable[[], Texts]) -> None:
        self._write, self._page = write, HTML()
        super().__init__(self._update(), self._page)
        app.observe(lambda _: self._update(), names=list(traits))

    def _update(self) -> str:
        page = side_by_side(self._write())
        self._page.value = page._repr_html_()
        return repr(page)
