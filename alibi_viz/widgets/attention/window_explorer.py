"""WindowExplorer: the span of each head in your own text, and what share of the work can be left
out."""

from typing import Any

from ipywidgets import Widget

from alibi_viz.data.text import load_text
from alibi_viz.figures import slope_plot as picture
from alibi_viz.formatting import format_percent, format_slope
from alibi_viz.measure.attention_sources import AttentionSource
from alibi_viz.measure.attention_statistics import head_spans
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.attention.text_app import NonBlank, TextApp
from alibi_viz.widgets.core.app import Why


class WindowExplorer(TextApp):
    """The span of each head in a text: beyond so many steps back, the keys together have at most
    2^-24 of the weight.

    A circle is the span that the head needs, read from its weights. A diamond is the bound that
    `alibi_attention` finds without computing them; it leaves out what lies beyond. `source` and
    errors are those of `AttentionExplorer`.

    Traits:
        text: at most 50,000 characters, of which the first 4,096 tokens are read; by default of the
            built-in text.
        num_heads: 1 to 32; fixed for a model.
        content: where q . k comes from: "same word" or "equal"; with a model "layer 1", "layer 2"
            and so on; by default the first of these.

    >>> from alibi_viz.widgets import WindowExplorer
    >>> app = WindowExplorer(text="word " * 100, content="equal", num_heads=2)
    >>> print(app.caption)
    The bound of every head includes the whole text, 100 tokens: nothing can be left out.
    """

    why = Why(
        "A steep slope leaves distant keys so little weight that leaving them out changes the "
        "result no more than rounding does.",
        "10_for_implementers",
        "Skip far keys",
    )
    text = NonBlank("")  # the start of the built-in text, which isn't written before it is read
    is_slow = True  # all weights of 4,096 tokens take a second
    blank = staticmethod(picture.blank_spans)

    def __init__(
        self, source: AttentionSource | LanguageModel | str | None = None, **state: Any
    ) -> None:
        if "text" not in state:
            start = load_text().validation[: self.longest]
            state["text"] = bytes(start.tolist()).decode("utf-8", "replace")
        super().__init__(source, **state)

    def controls(self) -> list[Widget]:
        return [*super().controls(), self.reset_button(self.show_text)]

    def draw(self) -> tuple[str, str]:
        reading = self.read(self.text)
        spans = head_spans(reading)
        length = len(reading.tokens)
        picture.draw_spans(self.figure, spans, length)
        self.note_length(reading)

        left_out = spans["left_out"]  # of the pairs of a head, a share
        if not left_out.any():
            tokens = "1 token" if length == 1 else f"{length:,} tokens"
            caption = (
                f"The bound of every head includes the whole text, {tokens}: nothing can be left "
                "out."
            )
            return caption, reading.note

        steepest = spans.loc[spans["slope"].idxmax()]
        slope = format_slope(steepest["slope"])
        caption = (
            f"Head {steepest['head']:.0f}, the steepest (slope {slope}), looks "
            f"{steepest['needed']:,.0f} steps back: keys beyond that have at most "
            "2^\N{MINUS SIGN}24 of a query's weight together. On average, a head can leave out "
            f"{format_percent(left_out.mean())} of the pairs."
        )
        heads_that_read_all = (left_out == 0).sum()
        details = (
            f"Bounds that include all {length:,} tokens: {heads_that_read_all} of {len(spans)}. "
            f"{reading.note}"
        )
        return caption, details
