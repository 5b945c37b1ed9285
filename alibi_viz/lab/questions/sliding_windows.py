"""Does a pretrained model gain from longer windows? `lab.length_curve` measures it, in tokens instead of bytes."""

import pandas as pd

from alibi_viz.lab.questions.outcomes import best_at, outcomes, rises, undefined
from alibi_viz.lab.questions.question import Question
from alibi_viz.lab.results import seed_curves

__all__ = ["SlidingWindows"]


class SlidingWindows(Question):
    """Bits per byte of the end of a text, predicted in sliding windows of more and more tokens."""

    name = "sliding windows"
    summary = "The loss on the same bytes, predicted in sliding windows of more and more tokens."
    title = "The same bytes, predicted in longer and longer windows"
    x_title = "length of the sliding windows, tokens"
    hover = "windows of %{x} tokens"

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        if not curves:
            return []
        longest = best_at(curves, max(results["x"]), "In the longest windows")
        return [*outcomes(rises(curves)), *undefined(curves, length), *longest]
