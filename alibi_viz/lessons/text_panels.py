"""Texts side by side in a lesson, as HTML that needs no kernel."""

import html
from collections.abc import Mapping, Sequence

from alibi_viz.arguments import as_list, check_instance

# {who writes: the text, in parts}. The first part is the prompt that all continue.
Texts = Mapping[str, Sequence[str]]

_COLUMN = (
    '<div style="flex: 1 1 300px; line-height: 1.5"><b>{}</b><br>'
    '<span style="opacity: 0.6">{}</span>{}</div>'
)
_ROW = (
    '<div style="display: flex; flex-wrap: wrap; gap: 8px 32px; max-width: 60em; '
    'text-align: left">{}</div>'
)


class SideBySide:
    """HTML for a notebook, and its text for everywhere else."""

    def __init__(self, page: str, text: str) -> None:
        self.page = page
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.page


def side_by_side(texts: Texts) -> SideBySide:
    """What several models write, side by side.

    Args:
        texts: {who writes: the text, in parts}. The first part, the prompt, is paler.

    Raises:
        TypeError: `texts` is not a mapping, or a text is no list of strings.

    >>> from alibi_viz import lessons
    >>> before = ("Once upon", " a time")
    >>> after = ("Once upon", " a tttt")
    >>> lessons.side_by_side({"before": before, "after": after})
    before: Once upon a time
    after: Once upon a tttt
    """
    check_instance("texts", texts, Mapping)

    columns = []
    lines = []
    for writer, text in texts.items():
        check_instance("who writes", writer, str)
        parts = as_list(f"the text of {writer!r}", text, "strings", str)
        prompt = "".join(parts[:1])
        continuation = "".join(parts[1:])
        columns.append(
            _COLUMN.format(html.escape(writer), html.escape(prompt), html.escape(continuation))
        )
        lines.append(f"{writer}: {prompt}{continuation}")

    return SideBySide(_ROW.format("".join(columns)), "\n".join(lines))
