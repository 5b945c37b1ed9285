"""What the models of a race write beyond their training length, as HTML to show below the figure."""

import html
import math
from collections.abc import Mapping
from typing import NamedTuple

from alibi_viz import lab
from alibi_viz.lab.questions import join
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.race.settings import RaceSettings

__all__ = ["Written", "write", "written_html"]

STYLE = """<style>
.alibi-written { color: var(--alibi-ink); line-height: 1.5; max-width: 60em; }
.alibi-written summary { cursor: pointer; font-weight: 600; }
.alibi-written pre { font-family: var(--jp-code-font-family, monospace); font-size: 12px; line-height: 1.45;
  color: inherit; background: none; white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere;
  max-height: 15em; overflow-y: auto; margin: 0 0 8px 0; padding: 2px 0 2px 10px; }
.alibi-written .prompt { opacity: 0.65; }
.alibi-written .beyond { background: rgba(128, 128, 128, 0.22); }
</style>"""


class Written(NamedTuple):
    """What one model writes.

    Attributes:
        texts: as `lab.continuations` returns them.
        known_words: the share of words beyond the training length that occur in the training text; NaN without words.
    """

    texts: list[lab.Continuation]
    known_words: float


def write(model: LanguageModel, text: lab.Text, length: int, seed: int) -> Written:
    """Let a model write beyond its training length, and count its words."""
    texts = lab.continuations(model, text, length, seed=seed)
    return Written(texts, lab.known_words([each.beyond for each in texts], text))


def written_html(written: Mapping[str, Written], settings: RaceSettings) -> str:
    """One text per method, with everything beyond the training length shaded; empty if nothing was written."""
    if not written:
        return ""
    length = settings.length
    explanation = (
        f"Each model continues the first {length // 2} bytes of the validation text, which are paler. What it writes "
        f'beyond byte {length}, its training length, is <span class="beyond">shaded</span>.'
    )
    blocks = "".join(_block(method, each.texts[0], settings) for method, each in written.items())
    return (
        f'{STYLE}<details open class="alibi-written"><summary>What they write</summary>'
        f"<p>{explanation} {html.escape(_describe_words(written, length))}</p>{blocks}</details>"
    )


def _block(method: str, text: lab.Continuation, settings: RaceSettings) -> str:
    note = "" if text.beyond else f" (not defined beyond {settings.length})"
    return (
        f'<div>{html.escape(method)}{note}</div><pre style="border-left: 4px solid {settings.color(method)}">'
        f'<span class="prompt">{_printable(text.prompt)}</span>{_printable(text.within)}'
        f'<span class="beyond">{_printable(text.beyond)}</span></pre>'
    )


def _describe_words(written: Mapping[str, Written], length: int) -> str:
    """How many of the words are words, counted over all texts, because the one that is shown may be an exception."""
    shares = {method: each.known_words for method, each in written.items() if not math.isnan(each.known_words)}
    if not shares:
        return ""
    samples = len(next(iter(written.values())).texts)
    return (
        f"There, {join([f'{share:.0%} of the words of {method}' for method, share in shares.items()])} occur in the "
        f"training text. This counts words of three or more letters in {samples} texts per model; the first is shown."
    )


def _printable(text: str) -> str:
    """Escaped text, with control characters replaced, some of which would reverse the text or end the page."""
    return html.escape("".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text))
