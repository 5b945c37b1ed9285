"""Does more context help? The same bytes are predicted from longer and longer contexts."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from alibi_viz.lab.evaluation import loss_by_context
from alibi_viz.lab.questions.longer_windows import best_at, loss_panel, rises, undefined
from alibi_viz.lab.questions.outcomes import outcomes
from alibi_viz.lab.questions.question import Answer, Question
from alibi_viz.lab.race import evaluation_lengths
from alibi_viz.lab.results import seed_curves
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Curves, Panel

__all__ = ["SameTargets"]

TARGETS, STRIDE = 1024, 16  # 16 targets per window: each has the requested context, or up to 15 bytes less


class SameTargets(Question):
    """Bits per byte of one fixed set of bytes, each predicted from L, 2L, 4L, ... bytes before it."""

    name = "same targets"
    summary = "The loss on the same bytes, each predicted from more and more context."

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 16) -> Iterator[Answer]:
        assert isinstance(source, Text)
        contexts = evaluation_lengths(length, longest)
        available = len(source.validation) - contexts[-1] - 1
        stride = min(STRIDE, length, max(1, available))
        targets = max(stride, min(TARGETS, available))
        for context in contexts:
            losses = loss_by_context(model, source, [context], targets=targets, stride=stride, longest=contexts[-1])
            yield Answer(context, losses[context], targets // stride * stride)

    def layout(self, curves: Mapping[str, Curves], length: int, xs: Sequence[int], marks: Mapping[str, float]) -> Panel:
        return loss_panel(
            "The same bytes, predicted from more and more context",
            "bytes of context before each predicted byte",
            "%{fullData.name}, %{x} bytes of context",
            curves=curves,
            length=length,
            xs=xs,
            marks=marks,
        )

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        if not curves:
            return []
        less = min(STRIDE, length) - 1
        return [
            f"The same bytes each time, with the context shown or up to {less} bytes less.",
            *outcomes(rises(curves)),
            *undefined(curves, length),
            *best_at(curves, max(results["x"]), "With the most context"),
        ]
