"""The answer to "Why this picture?" below every app: one sentence, and a link to the lesson that explains it."""

import html
from typing import NamedTuple

__all__ = ["Why"]


class Why(NamedTuple):
    """Why an app draws what it draws.

    Attributes:
        sentence: the reason.
        lesson: the name of the notebook that explains it, without its suffix.
        section: the heading in that notebook. It has no formula, because its link is made of its words.

    >>> from alibi_viz.widgets.core.why import Why
    >>> print(Why("Slopes fall.", "01_slopes", "The rule").as_html())
    <details class="alibi-why"><summary>Why this picture?</summary>Slopes fall. More in <a href="01_slopes.ipynb\
#The-rule" target="_blank">lesson 1, “The rule”</a>.</details>
    """

    sentence: str
    lesson: str
    section: str

    def as_html(self) -> str:
        """A line that unfolds. Inside the lesson itself, its link scrolls to the section (see `Page` in page.py)."""
        number = int(self.lesson.partition("_")[0])
        target = html.escape(f"{self.lesson}.ipynb#{self.section.replace(' ', '-')}")
        return (
            f'<details class="alibi-why"><summary>Why this picture?</summary>{html.escape(self.sentence)} More in '
            f'<a href="{target}" target="_blank">lesson {number}, “{html.escape(self.section)}”</a>.</details>'
        )
