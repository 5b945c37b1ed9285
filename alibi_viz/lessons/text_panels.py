"""Pages of HTML in a lesson, which need no kernel: texts side by side, and lesson 11's timeline and
decision tree.

What the timeline and the tree say is in history.toml.
"""

import html
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from alibi_viz.arguments import check_instance

Texts = Mapping[
    str, Sequence[str]
]  # {who writes: the text, in parts; the first is the prompt that all continue}
HISTORY: dict[str, Any] = tomllib.loads(
    (files("alibi_viz.lessons") / "history.toml").read_text("utf-8")
)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
COLORS = ("#0072B2", "#D55E00", "#009E73")  # of the lanes

_COLUMN = (
    '<div style="flex: 1 1 300px; line-height: 1.5"><b>{}</b><br><span style="opacity: '
    '0.6">{}</span>{}</div>'
)
_ROW = (
    '<div style="display: flex; flex-wrap: wrap; gap: 8px 32px; max-width: 60em; text-align: '
    'left">{}</div>'
)
# Readable without it, too: GitHub and notebooks that are not trusted leave styles out.
_STYLE = f"<style>\n{(files('alibi_viz.lessons') / 'history.css').read_text('utf-8')}</style>"


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
    check_instance("texts", texts, Mapping)
    shown = texts.items()
    columns = (
        _COLUMN.format(*map(html.escape, (name, "".join(text[:1]), "".join(text[1:]))))
        for name, text in shown
    )
    return Page(
        _ROW.format("".join(columns)), "\n".join(f"{name}: {''.join(text)}" for name, text in shown)
    )


def timeline() -> Page:
    """Who used ALiBi, what was measured, and what else was tried, by year. Each entry unfolds, with
    its source.

    The first of each column is open.

    >>> print(lessons.timeline())  # doctest: +ELLIPSIS
    Models with ALiBi: ALiBi (2021), BLOOM (2022), BloombergGPT (2023), ...
    """
    lanes, rows, lines = HISTORY["lane"], [], []
    rows.append("<th></th>" + "".join(f"<th>{html.escape(lane['name'])}</th>" for lane in lanes))
    for year in sorted({when[:4] for lane in lanes for when, *_ in lane["entries"]}):
        row = f"<th>{year}</th>"
        for color, lane in zip(COLORS, lanes, strict=True):
            shown = [entry for entry in lane["entries"] if entry[0].startswith(year)]
            entries = "".join(_entry(entry is lane["entries"][0], *entry) for entry in shown)
            row += f'<td style="border-left-color: {color}">{entries}</td>'
        rows.append(row)
    for lane in lanes:
        lines.append(
            f"{lane['name']}: "
            f"{', '.join(f'{name} ({when[:4]})' for when, name, *_ in lane['entries'])}"
        )
    return Page(
        _history(f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"), "\n".join(lines)
    )


def _history(content: str) -> str:
    return f'{_STYLE}<div class="alibi-history">{content}</div>'


def _entry(unfolded: bool, when: str, name: str, text: str, source: str) -> str:
    link = f'<a href="{html.escape(source)}" target="_blank" rel="noopener">Source</a>'
    summary = f"<summary>{html.escape(name)} <small>{MONTHS[int(when[5:]) - 1]}</small></summary>"
    return f"<details{' open' * unfolded}>{summary}<p>{html.escape(text)} {link}</p></details>"


def decision_tree() -> Page:
    """Which position method to use: questions whose answers unfold the next question, or an advice.

    >>> print(lessons.decision_tree())  # doctest: +ELLIPSIS
    What do you want to do?
      Use a trained model.
        Are your inputs longer than those it was trained on?
          No.
            Keep the method that it was trained with...
    """
    return Page(_history(_branch("start")), _lines("start"))


def _branch(name: str) -> str:
    """The HTML of a question with its answers, each of which unfolds what follows; or of an
    advice."""
    node = HISTORY["tree"][name]
    if "answers" not in node:
        return f"<p>{html.escape(node['text'])}</p>"
    answers = (
        f"<li><details><summary>{html.escape(answer)}</summary>{_branch(following)}</details></li>"
        for answer, following in node["answers"].items()
    )
    return f"<div><b>{html.escape(node['text'])}</b><ul>{''.join(answers)}</ul></div>"


def _lines(name: str, indent: str = "") -> str:
    """The same as indented text."""
    node = HISTORY["tree"][name]
    lines = [indent + node["text"]]
    for answer, following in node.get("answers", {}).items():
        lines += [f"{indent}  {answer}", _lines(following, f"{indent}    ")]
    return "\n".join(lines)
