"""How good is a model on windows longer than those it was trained on?"""

from collections.abc import Iterator

import pandas as pd

from alibi_viz.lab.evaluation import TARGETS, count_shared_targets, length_losses
from alibi_viz.lab.modify import VARIANTS
from alibi_viz.lab.questions.outcomes import SeedCurves, best_at, join, outcomes, quoted, rises, undefined, values_at
from alibi_viz.lab.questions.question import Answer, Question
from alibi_viz.lab.race import evaluation_lengths
from alibi_viz.lab.results import AS_TRAINED, seed_curves
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel

__all__ = ["LongerWindows"]


class LongerWindows(Question):
    """Bits per byte on nonoverlapping windows of L, 2L, 4L, ... bytes, always of the same target bytes."""

    name = "longer windows"
    summary = "The loss on longer windows than in training, always on the same target bytes."
    title = "Loss on longer windows"
    x_title = "length of the test windows, bytes"
    hover = "windows of %{x} bytes"
    evaluations = (AS_TRAINED, *VARIANTS)
    while_training = True

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 16) -> Iterator[Answer]:
        assert isinstance(source, Text)
        lengths = evaluation_lengths(length, longest)
        targets = max(TARGETS, *lengths)
        for tested, bits in length_losses(model, source, lengths, targets=targets):
            yield Answer(tested, bits, count_shared_targets(source, lengths, targets))

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        if not curves:
            return []
        return [
            *_at_four_times(curves, length),
            *outcomes(rises(curves)),
            *undefined(curves, length),
            *best_at(curves, length, "At the training length"),
            *best_at(curves, max(results["x"]), "On the longest windows"),
        ]


def _at_four_times(curves: SeedCurves, length: int) -> list[str]:
    """How far the others are from ALiBi, or from the best, at four times the training length."""
    x = 4 * length
    means = values_at(curves, x).mean()
    if means.empty:
        return []
    first = "alibi" if "alibi" in means else means.idxmin()
    others = [
        f"{quoted(label)} {abs(bits - means[first]):.2f} {'more' if bits >= means[first] else 'less'}"
        for label, bits in means.drop(first).items()
    ]
    sentence = f"On windows of {x:,} bytes, four times as long, {quoted(first)} needs {means[first]:.2f} bits per byte"
    return [f"{sentence}, {join(others)}." if others else f"{sentence}."]
