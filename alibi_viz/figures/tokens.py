"""Tokens as text in a picture: never markup, never empty, never cut through a character.

Plotly reads a little HTML, and LaTeX between dollar signs, in every label. A user's text must be shown, not read.
"""

import html
import textwrap
import unicodedata

__all__ = ["full", "label", "literal", "quoted"]

_JOINER = "\u200d"  # glues emoji into one
# What turns the direction of a line: right-to-left letters, and the marks that override it.
_TURNS = {"R", "AL", "AN", "RLE", "RLO", "RLI", "LRE", "LRO", "LRI", "FSI", "PDF", "PDI"}


def literal(text: str) -> str:
    """Text that plotly shows as it stands.

    >>> from alibi_viz.figures.tokens import literal
    >>> literal("<b>AT&T</b> costs $5")
    '&lt;b&gt;AT&amp;T&lt;/b&gt; costs &#36;5'
    """
    return html.escape(text, quote=False).replace("$", "&#36;")


def label(token: str, columns: int = 10) -> str:
    """A token for an axis, where plotly shows it as it stands: cut to so many columns, with an ellipsis.

    A Chinese character or an emoji takes two columns.

    >>> from alibi_viz.figures.tokens import label
    >>> label("cat"), label("incomprehensibilities"), label("\\u200b")
    ('cat', 'incompreh…', 'U+200B')
    """
    return literal(_cut(_visible(token), columns))


def quoted(token: str, columns: int = 24) -> str:
    """A token in quotation marks, for a sentence; plain text, not yet for plotly.

    >>> from alibi_viz.figures.tokens import quoted
    >>> quoted("cat")
    '“cat”'
    """
    return _in_marks(_cut(_visible(token), columns))


def full(token: str, columns: int = 80) -> str:
    """A token in quotation marks for plotly's pointer, in lines of 40 characters.

    >>> from alibi_viz.figures.tokens import full
    >>> full("a" * 50)
    '“aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa<br>aaaaaaaaaa”'
    """
    return "<br>".join(literal(line) for line in textwrap.wrap(quoted(token, columns), 41))


def _visible(token: str) -> str:
    """The token, or the numbers of its characters where the eye would see nothing."""
    if any(unicodedata.category(character)[0] not in "CMZ" for character in token):
        return token
    return " ".join(f"U+{ord(character):04X}" for character in token)


def _cut(token: str, columns: int) -> str:
    """At most so many columns, the ellipsis included; what is drawn as one character stays whole or goes."""
    widths = [_width(character) for character in token]
    if sum(widths) <= columns:
        return token
    end = 1
    while sum(widths[: end + 1]) < columns:
        end += 1
    while end > 1 and _joined(token, end):
        end -= 1
    return token[:end] + "…"


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _joined(token: str, at: int) -> bool:
    """Whether the characters before and after a cut are drawn as one."""
    after = token[at]
    tone = "\U0001f3fb" <= after <= "\U0001f3ff"
    return tone or after == _JOINER or token[at - 1] == _JOINER or unicodedata.category(after)[0] == "M"


def _in_marks(text: str) -> str:
    """In quotation marks; text that runs from right to left is isolated, so that it turns nothing but itself round."""
    if any(unicodedata.bidirectional(character) in _TURNS for character in text):
        text = f"\u2068{text}\u2069"
    return f"“{text}”"
