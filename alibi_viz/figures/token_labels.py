"""Show tokens in figures: no markup, never empty, never cut inside a character.

plotly interprets some HTML, and LaTeX between dollar signs, in every label. A user's text has to
appear as it is.
"""

import html
from functools import lru_cache

import regex
from wcwidth import wcswidth

_VISIBLE = regex.compile(r"[^\p{C}\p{M}\p{Z}]")
# Characters that change the direction of a line: right-to-left letters, and the marks that override
# it.
_DIRECTION = regex.compile(r"[\p{bc=R}\p{bc=AL}\p{bc=AN}\u202a-\u202e\u2066-\u2069]")


def literal(text: str) -> str:
    """Escape a text so that plotly shows it as it is.

    >>> literal("<b>AT&T</b> costs $5")
    '&lt;b&gt;AT&amp;T&lt;/b&gt; costs &#36;5'
    """
    return html.escape(text, quote=False).replace("$", "&#36;")


def label(token: str, columns: int = 10) -> str:
    """A token for a plotly axis, escaped, and cut to at most `columns` columns with an ellipsis.

    A Chinese character or an emoji takes two columns.

    >>> label("cat"), label("incomprehensibilities"), label("\\u200b")
    ('cat', 'incompreh…', 'U+200B')
    """
    return literal(_cut(token, columns))


def quoted_token(token: str, columns: int = 24) -> str:
    """A token in quotation marks, for a sentence; not escaped for plotly.

    >>> quoted_token("cat")
    '“cat”'
    """
    text = _cut(token, columns)
    if _DIRECTION.search(text):
        # Isolated, so that a right-to-left token does not reverse the words around it
        text = f"\u2068{text}\u2069"
    return f"“{text}”"


@lru_cache(4096)
def _cut(token: str, columns: int) -> str:
    """At most `columns` columns of the token, or of its code points if nothing of it can be seen,
    with the ellipsis."""
    if not _VISIBLE.search(token):
        token = " ".join(f"U+{ord(character):04X}" for character in token)
    characters = regex.findall(r"\X", token)  # each drawn as one
    widths = [max(0, wcswidth(character)) for character in characters]
    if sum(widths) <= columns:
        return token

    room = columns - 1  # the ellipsis takes one
    kept = 0
    used = 0
    for width in widths:
        used += width
        if used > room:
            break
        kept += 1
    kept = max(1, kept)
    return "".join(characters[:kept]) + "…"
