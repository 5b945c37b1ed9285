"""What a model has written, as HTML."""

import html
import math
import re
from collections.abc import Collection

from alibi_viz.formatting import format_percent

# A word of three or more letters, but not the name of a tag or an entity
_WORD = re.compile(r"(?<![\w</&])[^\W\d_]{3,}(?!\w)")


def written_html(
    name: str,
    prompt: str,
    continuation: str,
    *,
    known_words: float,
    unknown_words: Collection[str],
) -> str:
    """A text below its name, and how many of its words are real.

    The prompt is paler, and a wavy line is under unknown words.

    Args:
        name: what stands above the text.
        prompt: the beginning, which the model was given.
        continuation: the rest as HTML, because words in it may be marked.
        known_words: the share of real words; nothing is said about it if it is NaN.
        unknown_words: the others.

    >>> from alibi_viz.widgets.core.written import written_html
    >>> page = written_html("it", "A ", "grm box", known_words=0.5, unknown_words={"grm"})
    >>> page.removeprefix("<div>it, <b>50%</b> real words")
    '<p tabindex="0"><span class="prompt">A </span><s>grm</s> box</p></div>'
    """

    def marked(word: re.Match[str]) -> str:
        return f"<s>{word[0]}</s>" if word[0] in unknown_words else word[0]

    share = ""
    if not math.isnan(known_words):
        share = f", <b>{format_percent(known_words)}</b> real words"
    text = f'<span class="prompt">{html.escape(prompt)}</span>{_WORD.sub(marked, continuation)}'
    return f'<div>{name}{share}<p tabindex="0">{text}</p></div>'
