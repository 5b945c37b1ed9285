"""Small pages of HTML in a lesson, and texts that two models write, side by side."""

import html
from collections.abc import Mapping, Sequence

Texts = Mapping[str, Sequence[str]]  # {who writes: the text, in parts; the first is the prompt that all continue}

_COLUMN = '<div style="flex: 1 1 300px; line-height: 1.5"><b>{}</b><br><span style="opacity: 0.6">{}</span>{}</div>'
_ROW = '<div style="display: flex; flex-wrap: wrap; gap: 8px 32px; max-width: 60em; text-align: left">{}</div>'


class Page:
    """HTML for a notebook, and its text for everywhere else."""

    def __init__(self, page: str, text: str) -> None:
        self.page, self.text = page, text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.page


def side_by_side(texts: Texts) -> Page:
    """What several models write, side by side. The prompt, the first part of each text, is paler.

    >>> lessons.side_by_side({"before": ("Once upon", " a time"), "after": ("Once upon", " a tttt")})
    before: Once upon a time
    after: Once upon a tttt
    """
    columns = (_COLUMN.format(*map(html.escape, (name, text[0], "".join(text[1:])))) for name, text in texts.items())
    return Page(_ROW.format("".join(columns)), "\n".join(f"{name}: {''.join(text)}" for name, text in texts.items()))
