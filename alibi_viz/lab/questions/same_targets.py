"""Does more context help? The same bytes are predicted from longer and longer contexts."""

from collections.abc import Iterator

import pandas as pd

from alibi_viz.lab.evaluation import loss_by_context
from alibi_viz.lab.questions.outcomes import best_at, outcomes, rises, undefined
from alibi_viz.lab.questions.question import Answer, Question
from alibi_viz.lab.race import evaluation_lengths
from alibi_viz.lab.results import seed_curves
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel

__all__ = ["SameTargets"]

TARGETS, STRIDE = 1024, 16  # 16 targets per window: each has the requested context, or up to 15 bytes less


class SameTargets(Question):
    """Bits per byte of one fixed set of bytes, each predicted from L, 2L, 4L, ... bytes before it."""

    name = "same targets"
    summary = "The loss on the same bytes, each predicted from more and more context."
    title = "The same bytes, predicted from more and more context"
    x_title = "bytes of context before each predicted byte"
    hover = "%{x} bytes of context"

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 16) -> Iterator[Answer]:
        assert isinstance(source, Text)
        contexts = evaluation_lengths(length, longest)
        available = len(source.validation) - contexts[-1] - 1
        stride = min(STRIDE, length, max(1, available))
        targets = max(stride, min(TARGETS, available))
        for context in contexts:
            losses = loss_by_context(model, source, [context], targets=targets, stride=stride, longest=contexts[-1])
            yield Answer(context, losses[context], targets // stride * stride)

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        if not curves:
            return []
        return [
            f"The same bytes each time, from the context shown or up to {min(STRIDE, length) - 1} bytes less.",
            *outcomes(rises(curves)),
            *undefined(curves, length),
            *best_at(curves, max(results["x"]), "With the most context"),
        ]
