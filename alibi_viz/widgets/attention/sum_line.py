"""The line below the figure of AttentionExplorer: the sum behind a weight."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
from traitlets import Int, List, Unicode

from alibi_viz.attention import AttentionTrace
from alibi_viz.figures import attention_plot
from alibi_viz.figures.token_labels import quoted_token
from alibi_viz.formatting import format_fixed, format_percent


class SumLine(anywidget.AnyWidget):
    """One line about the cell under the pointer, which it outlines in every matrix; see
    sum_line.js."""

    rest = Unicode(help="the line while the pointer is elsewhere").tag(sync=True)
    query = Int(help="the query whose weights are the bars, counted from 0").tag(sync=True)
    matrices: List[Any] = List(list(attention_plot.STEPS), help="traces").tag(sync=True)
    columns = Unicode(attention_plot.COLUMNS, help="the trace above the bars").tag(sync=True)
    _esm = Path(__file__).with_name("sum_line.js").read_text(encoding="utf-8")
    _css = Path(__file__).with_name("sum_line.css").read_text(encoding="utf-8")


def sums_in_words(
    tokens: Sequence[str], trace: AttentionTrace, *, with_bias: bool
) -> Callable[[int, int, int], str]:
    """A function of head, query and key, each from 0, that says how the weight comes about.

    >>> import torch
    >>> import alibi_viz as av
    >>> from alibi_viz.widgets.attention.sum_line import sums_in_words
    >>> zeros = torch.zeros(1, 1, 3, 2)
    >>> trace = av.attention_trace(zeros, zeros, torch.tensor([1.0]))
    >>> describe = sums_in_words(["to", "be", "or"], trace, with_bias=True)
    >>> describe(0, 2, 0).replace("\N{MINUS SIGN}", "-")
    '“or” → “to”, 2 back: 0.00 - 2.00 = -2.00 → 9.0%'
    """
    words = [quoted_token(token, 16) for token in tokens]
    content, bias, logits, weights = (
        np.asarray(getattr(trace, step)[0]).tolist() for step in attention_plot.STEPS
    )

    def describe(head: int, query: int, key: int) -> str:
        pair = f"{words[query]} → {words[key]}, {_steps(query - key)}"
        logit = logits[head][query][key]
        if np.isneginf(logit):
            return f"{pair}: masked"

        weight = format_percent(weights[head][query][key])
        terms = format_fixed(content[head][query][key], 2)
        if with_bias:
            bias_of_pair = bias[head][query][key]
            sign = "+" if bias_of_pair > 0 else "\N{MINUS SIGN}"
            terms += f" {sign} {format_fixed(abs(bias_of_pair), 2)} = {format_fixed(logit, 2)}"
        return f"{pair}: {terms} → {weight}"

    return describe


def _steps(distance: int) -> str:
    """How far a key is from its query, in words."""
    if distance < 0:
        return f"{-distance} ahead"
    return f"{distance} back"
