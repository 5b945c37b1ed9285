"""What the models of a race write beyond their training length, as HTML to show below the figure."""

import html
import math
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

from alibi_viz.lab.evaluation import Continuation
from alibi_viz.lab.say import join
from alibi_viz.lab.tales import Mention, mentions


class Written(NamedTuple):
    """What one model writes.

    Attributes:
        texts: as `lab.continuations` returns them.
        known_words: the share of words beyond the training length that occur in the training text; NaN without words.
    """

    texts: list[Continuation]
    known_words: float


def written_html(race: Any) -> str:
    """The first text of each method, with everything beyond the training length shaded; empty if there is none.

    Names, animals, places and things of the tales are marked: in bold if they occur up to the training length,
    underlined if the text names another one later.
    """
    blocks = []
    for method, (texts, known) in dict(race.written).items():  # a copy: a running race adds to it
        note = "" if math.isnan(known) else f": {known:.0%} of its words occur in the training text"
        note = note if texts[0].beyond else f" (not defined beyond {race.length})"
        blocks.append(
            f'<div>{html.escape(method)}{note}</div><pre tabindex="0" style="border-left: 4px solid '
            f'{race.color(method)}">{_marked(texts[0])}</pre><p>{html.escape(_about(texts[0]))}</p>'
        )
    body = "".join(blocks)
    legend = "Names, animals, places and things are <b>&nbsp;from the opening&nbsp;</b> or <u>&nbsp;new&nbsp;</u>."
    return body and (
        '<details open class="alibi-written"><summary>What they write</summary>'
        f"<p>All continue the same {race.length // 2} bytes (paler); text beyond the training length of {race.length} "
        f'is <span class="beyond">shaded</span>. {legend if "</b>" in body else ""}</p>{body}</details>'
    )


def _marked(text: Continuation) -> str:
    """The three parts of a text, with its mentions marked."""
    opening, later = _split_mentions(text)
    values, kinds = {mention.value for mention in opening}, {mention.kind for mention in opening}
    tags = [""] * len("".join(text))  # of each letter
    for mention in (*opening, *later):
        if mention.kind in kinds:
            tag = "b" if mention.value in values else "u"
            tags[mention.start : mention.stop] = [tag] * (mention.stop - mention.start)
    letters = zip("".join(text), tags, strict=True)
    shown = ""
    for css, part in zip(text._fields, text, strict=True):
        shown += f'<span class="{css}">'
        for tag, run in groupby(islice(letters, len(part)), key=itemgetter(1)):
            words = _printable("".join(letter for letter, _ in run))
            shown += f"<{tag}>{words}</{tag}>" if tag else words
        shown += "</span>"
    return shown


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
