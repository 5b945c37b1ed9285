"""What the models of a race write beyond their training length, as HTML to show below the figure."""

import html
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from alibi_viz import lab
from alibi_viz.lab.evaluation import Continuation, known_words
from alibi_viz.lab.say import join
from alibi_viz.lab.tales import Mention, mentions
from alibi_viz.models import LanguageModel

# The two marks are no colors of methods. They tint the background, so the text keeps its contrast on both themes.
STYLE = """<style>
.alibi-written { color: var(--alibi-ink); line-height: 1.5; max-width: 60em; }
.alibi-written summary { font-weight: 600; }
.alibi-written p { margin: 2px 0 8px 0; }
.alibi-written pre { font-family: var(--jp-code-font-family, monospace); font-size: 12px; line-height: 1.6;
  color: inherit; background: none; white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere;
  max-height: 13em; overflow-y: auto; margin: 0; padding: 2px 0 2px 10px; }
.alibi-written .prompt { opacity: 0.75; }
.alibi-written .beyond { background: rgba(128, 128, 128, 0.18); }
.alibi-written :is(b, u) { font-weight: 700; border-radius: 3px; padding: 1px 0; }
.alibi-written b { background: rgba(120, 94, 240, 0.32); }
.alibi-written u { background: rgba(255, 200, 0, 0.36); text-underline-offset: 2px; }
</style>"""


class Written(NamedTuple):
    """What one model writes.

    Attributes:
        texts: as `lab.continuations` returns them.
        known_words: the share of words beyond the training length that occur in the training text; NaN without words.
    """

    texts: list[Continuation]
    known_words: float


def write(model: LanguageModel, text: lab.Text, length: int, seed: int) -> Written:
    """Let a model write beyond its training length, and count its words."""
    texts = lab.continuations(model, text, length, seed=seed)
    return Written(texts, known_words([each.beyond for each in texts], text))


def written_html(written: Mapping[str, Written], settings: Any) -> str:
    """The first text of each method, with everything beyond the training length shaded; empty if there is none.

    Names, animals, places and things of the tales are marked: in bold if they occur up to the training length,
    underlined if the text names another one later.
    """
    if not written:
        return ""
    length = settings.length
    blocks = "".join(_block(method, each, settings) for method, each in written.items())
    legend = (
        " Names, animals, places and things are <b>&nbsp;from the opening&nbsp;</b> or <u>&nbsp;new&nbsp;</u>."
        if "</b>" in blocks
        else ""
    )
    return (
        f'{STYLE}<details open class="alibi-written"><summary>What they write</summary>'
        f"<p>All continue the same {length // 2} bytes (paler); text beyond the training length of {length} is "
        f'<span class="beyond">shaded</span>.{legend}</p>{blocks}</details>'
    )


def _block(method: str, written: Written, settings: Any) -> str:
    text, known = written.texts[0], written.known_words
    note = "" if math.isnan(known) else f": {known:.0%} of its words occur in the training text"
    note = note if text.beyond else f" (not defined beyond {settings.length})"
    return (
        f'<div>{html.escape(method)}{note}</div><pre tabindex="0" style="border-left: 4px solid '
        f'{settings.color(method)}">{_marked(text)}</pre><p>{html.escape(_about(text))}</p>'
    )


def _marked(text: Continuation) -> str:
    """The three parts of a text, with its mentions marked."""
    whole, pieces, start = "".join(text), [], 0
    opening, later = _split_mentions(text)
    known = {mention.value for mention in opening}
    kinds = {mention.kind for mention in opening}
    marks = [
        (mention, "b" if mention.value in known else "u")
        for mention in (*opening, *later)
        if mention.value in known or mention.kind in kinds
    ]
    for part, css in zip(text, text._fields, strict=True):
        end = start + len(part)
        pieces.append(f'<span class="{css}">')
        for mention, tag in marks:
            first, last = max(mention.start, start), min(mention.stop, end)
            if first < last:
                pieces += [_printable(whole[start:first]), f"<{tag}>{_printable(whole[first:last])}</{tag}>"]
                start = last
        pieces.append(f"{_printable(whole[start:end])}</span>")
        start = end
    return "".join(pieces)


def _about(text: Continuation) -> str:
    """How far a text names whom its opening names first, and who is new; empty without a name."""
    opening, later = ([mention for mention in part if mention.kind == "name"] for part in _split_mentions(text))
    if not opening or not text.beyond:
        return ""
    first, known = opening[0].value, {mention.value for mention in opening}
    ends = [mention.stop for mention in later if mention.value == first]
    sentence = f"{first} is not named again"
    if ends:
        last, end = (len("".join(text)[:stop].encode()) for stop in (ends[-1], None))
        sentence = f"{first} is named up to byte {last:,} of {end:,}"
    new = list(dict.fromkeys(mention.value for mention in later if mention.value not in known))
    return f"{sentence}; {join(new)} {'is' if len(new) == 1 else 'are'} new." if new else f"{sentence}."


def _split_mentions(text: Continuation) -> tuple[list[Mention], list[Mention]]:
    """The mentions that start in the opening, which is as long as a training window, and the later ones."""
    found, end = mentions("".join(text)), len(text.prompt) + len(text.within)
    return [each for each in found if each.start < end], [each for each in found if each.start >= end]


def _printable(text: str) -> str:
    """Escaped text, with control characters replaced, some of which would reverse the text or end the page."""
    return html.escape("".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text))
