"""WindowExplorer: how far back each head looks in your own text, and what share of the work can be left out."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go
from ipywidgets import Widget

from alibi_viz.figures import windows as window_plot
from alibi_viz.lab.attention_sources import AttentionSource, Reading
from alibi_viz.lab.text import load_text
from alibi_viz.lab.windows import head_windows
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.attention.text_app import MAX_TOKENS, TextApp
from alibi_viz.widgets.core.app import Why
from alibi_viz.widgets.core.formatting import format_percent, format_slope

__all__ = ["WindowExplorer"]


class WindowExplorer(TextApp):
    """How many steps back each head looks in a text: beyond, the keys together have at most 2^-24 of the weight.

    A circle is the window that the head needs, read from its weights. A diamond is the bound that `alibi_attention`
    finds without computing the weights; it leaves out what lies beyond. `source` and errors are those of
    `AttentionExplorer`.

    Traits:
        text: at most 50,000 characters, of which the first 4,096 tokens are read. The default is the start of the
            validation part of the built-in text, 4,096 bytes.
        num_heads: 1 to 32; fixed for a model.
        content: where q . k comes from: "same word", "equal" or "random"; with a model "layer 1", "layer 2" and so on.

    >>> from alibi_viz.widgets import WindowExplorer
    >>> app = WindowExplorer(text="word " * 100, content="equal", num_heads=2)
    >>> print(app.caption)  # doctest: +ELLIPSIS
    Every head looks at the whole text, 100 tokens: nothing can be left out. Content is 0 for every pair, ...
    """

    why = Why(
        "A steep slope leaves distant keys so little weight that leaving them out changes the result no more than "
        "rounding does.",
        "03_attention",
        "Steep heads don't need the whole text",
    )
    typing_delay = 0.3  # all weights of 4,096 tokens take a second

    def __init__(self, source: AttentionSource | LanguageModel | str | None = None, **state: Any) -> None:
        self._windows: tuple[Reading, pd.DataFrame] | None = None
        if "text" not in state:
            state["text"] = bytes(load_text().validation[:MAX_TOKENS].tolist()).decode("utf-8", "replace")
        super().__init__(source, **state)

    def blank(self) -> go.Figure:
        return window_plot.blank()

    def controls(self) -> list[Widget]:
        return [*super().controls(), self.reset_button()]

    def draw(self) -> str:
        reading = self.read()
        if self._windows is None or self._windows[0] is not reading:
            self._windows = reading, head_windows(reading)
        windows, length = self._windows[1], len(reading.tokens)
        window_plot.draw(self.figure, windows, length)
        self.note_length(reading)
        return f"{_describe(windows, length)} {reading.note}"


def _describe(windows: pd.DataFrame, length: int) -> str:
    """Describe the steepest head, how many heads look at everything, and the share of the work that is left out."""
    left_out, everywhere = windows["left_out"].mean(), int((windows["left_out"] == 0).sum())
    flat = windows["slope"] <= 0
    missing = f" Heads without a positive slope are not drawn: {int(flat.sum())} of {len(windows)}." * bool(flat.any())
    if left_out == 0:
        tokens = "1 token" if length == 1 else f"{length:,} tokens"
        return f"Every head looks at the whole text, {tokens}: nothing can be left out.{missing}"
    steep = windows.loc[windows["slope"].idxmax()]
    parts = [
        f"Head {steep['head']:.0f}, the steepest (slope {format_slope(steep['slope'])}), looks {steep['needed']:,.0f} "
        "steps back: all keys further away together have at most 2^-24 of any query's weight.",
        f"The bound, found without computing the weights, is {steep['bound']:,.0f}.",
        f"Heads that look at all {length:,} tokens: {everywhere} of {len(windows)}." if everywhere else "",
        f"In all, {format_percent(left_out)} of the pairs of query and key can be left out.{missing}",
    ]
    return " ".join(filter(None, parts))
