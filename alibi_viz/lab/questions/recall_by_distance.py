"""From how far back does a model recall a passage? The loss on passages that come back, by distance."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

import pandas as pd

from alibi_viz.lab.passages import PassagesText, recall_losses
from alibi_viz.lab.questions.far_context import scored_recurrences
from alibi_viz.lab.questions.outcomes import best_at, join, quoted
from alibi_viz.lab.questions.question import Answer, Question, with_multiple
from alibi_viz.lab.results import seed_curves
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Panel, Points

__all__ = ["RecallByDistance"]

EDGES = [2**power for power in range(3, 11)]  # of the bins; the training length is one, so that no bin straddles it
MAX_RECURRENCES = 64  # scored in each bin
RECALLED = PassagesText.chance / 2  # bits per byte: passages of a bin count as recalled up to this loss


class RecallByDistance(Question):
    """Bits per byte of passages that come back, by distance, from 1,024 bytes of context; x is the middle of a bin."""

    title = "Passages that come back, by distance of their first occurrence"
    x_title = "distance of the first occurrence, bytes"
    hover = "distances around %{x}"
    in_race = False

    def __init__(self, task: str, name: str) -> None:
        self.task, self.name = task, name
        self.summary = f"The loss on passages that come back, by distance, in windows of {PassagesText.far:,} bytes."

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 16) -> Iterator[Answer]:
        assert isinstance(source, PassagesText)
        for first, end in pairwise(EDGES):
            targets = scored_recurrences(source, first, end)[:MAX_RECURRENCES]
            if targets:  # the validation part of a short text of your own may have none
                losses = recall_losses(model, source, targets, source.far)
                yield Answer(round((first * end) ** 0.5), float(losses.double().mean()), losses.numel())

    def axes(self, length: int, xs: Sequence[int]) -> Panel:
        ticks = {edge: with_multiple(edge, edge / length) if edge >= length else f"{edge}" for edge in EDGES}
        return replace(super().axes(length, xs), ticks=ticks, low=0.0, chance=PassagesText.chance)

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        if not curves:
            return []
        several = any(len(seeds) > 1 for seeds in curves.values())
        furthest = {label: min(map(_recalled_up_to, seeds.values())) for label, seeds in curves.items()}
        limits = [f"{quoted(label)} {f'up to around {x:,}' if x else 'not at all'}" for label, x in furthest.items()]
        return [
            f"Recalled, with at most {RECALLED:g} of {PassagesText.chance:g} bits per byte"
            f"{' in every seed' if several else ''}: {join(limits)}.",
            *best_at(curves, max(results["x"]), "At the largest distances"),
        ]


def _recalled_up_to(points: Points) -> int:
    """The middle of the last bin up to which all passages are recalled; 0 if those of the first are not."""
    return max(takewhile(lambda x: points[x] <= RECALLED, sorted(points)), default=0)
