"""A LaTeX table of means over seeds, in the style of the package booktabs."""

import math
from collections.abc import Sequence

import pandas as pd

__all__ = ["escape", "latex_table"]

SPECIAL = {character: f"\\{character}" for character in "&%$#_{}"}
SPECIAL |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "±": r"$\pm$"}
# What pdfLaTeX accepts without further packages: ASCII, Western European letters, dashes and quotation marks.
ACCEPTED = {*map(chr, range(0x20, 0x7F)), *map(chr, range(0xC0, 0x100))} - {*"ÐÞðþ"}
ACCEPTED |= {*"\u2013\u2014\u2018\u2019\u201c\u201d\u2026"}


def escape(text: str) -> str:
    r"""Escape the characters that LaTeX treats specially, and write those that pdfLaTeX doesn't know as code points.

    >>> from alibi_viz.lab.latex import escape
    >>> print(escape("square_root & 50%"))
    square\_root \& 50\%
    >>> print(escape("λ"))
    U+03BB
    """
    return "".join(SPECIAL.get(char) or (char if char in ACCEPTED else f"U+{ord(char):04X}") for char in text)


def latex_table(summary: pd.DataFrame, rows: Sequence[tuple[str, str]], length: int, caption: str) -> str:
    """A table with a row for each curve and a column for each length; it needs `\\usepackage{booktabs}`.

    Args:
        summary: means over seeds, as `intervals.over_seeds` returns them.
        rows: (curve, text in the first column); a text that starts with a space is indented.
        length: the training length.
        caption: above the table, in plain text; special characters are escaped.
    """
    xs = sorted(summary.index.unique("x"))
    header = ["bits per byte at", *(f"{x} (${'' if x == length else f'{x / length:g}'}L$)" for x in xs)]
    cells = {key: _cell(mean, half) for key, mean, half in summary[["mean", "half_width"]].itertuples()}
    body = []
    for curve, text in rows:
        indent = r"\quad " if text.startswith(" ") else ""
        body.append([indent + escape(text.strip()), *(cells.get((curve, x), "--") for x in xs)])
    lines = [
        r"\begin{table}",
        r"\centering",
        r"\caption{" + escape(caption) + "}",
        r"\label{tab:comparison}",
        r"\footnotesize\setlength{\tabcolsep}{2.5pt}",  # so that five lengths fit on a page of the class article
        f"\\begin{{tabular}}{{@{{}}l{'r' * len(xs)}@{{}}}}",
        r"\toprule",
        _row(header),
        r"\midrule",
        *map(_row, body),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(mean: float, half_width: float) -> str:
    if math.isnan(mean):
        return "--"
    return f"{mean:.3f}" if math.isnan(half_width) else f"{mean:.3f}\\,$\\pm$\\,{half_width:.3f}"
