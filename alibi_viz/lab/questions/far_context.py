"""Does context beyond the training length help where nothing else does? Passages that come back, by context."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from alibi_viz.lab.passages import PassagesText, Recurrence, recall_losses
from alibi_viz.lab.questions.outcomes import best_at, join, quoted, undefined
from alibi_viz.lab.questions.question import Answer, Question
from alibi_viz.lab.race import evaluation_lengths
from alibi_viz.lab.results import AS_TRAINED, seed_curves
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Panel

__all__ = ["FarContext", "scored_recurrences"]

MAX_RECURRENCES = 192  # scored at each context
GAIN = 0.1  # bits per byte: a smaller change does not count as a gain or a loss


class FarContext(Question):
    """Bits per byte of passages that come back from beyond 64 bytes, predicted from 64, 128, ..., 1,024 bytes.

    The targets are the same for every context and every model: all bytes but the first of second occurrences whose
    first occurrence starts more than 64 bytes back, and is within the longest context as a whole. See `recall_losses`.
    """

    title = "Passages that come back from far, predicted from more and more context"
    x_title = "bytes of context before each passage's last byte"
    hover = "%{x} bytes of context"
    evaluations = (AS_TRAINED, "window")
    in_race = False

    def __init__(self, task: str, name: str) -> None:
        self.task, self.name = task, name
        self.summary = "The loss on passages that come back from beyond 64 bytes, from more and more context."

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 16) -> Iterator[Answer]:
        assert isinstance(source, PassagesText)
        targets = scored_recurrences(source, source.near + 1, source.far)[:MAX_RECURRENCES]
        for context in evaluation_lengths(source.near, source.far // source.near):
            losses = recall_losses(model, source, targets, context)
            yield Answer(context, float(losses.double().mean()), losses.numel())

    def axes(self, length: int, xs: Sequence[int]) -> Panel:
        contexts = evaluation_lengths(PassagesText.near, PassagesText.far // PassagesText.near)
        return replace(super().axes(length, contexts), low=0.0, chance=PassagesText.chance)

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        if not curves:
            return []
        first, last = min(results["x"]), max(results["x"])
        gains = {label: [points[first] - points[last] for points in seeds.values()] for label, seeds in curves.items()}
        gains = {label: each for label, each in gains.items() if all(map(math.isfinite, each))}
        every = " in every seed" if any(len(each) > 1 for each in gains.values()) else ""
        less = _with_means({label: each for label, each in gains.items() if min(each) >= GAIN})
        more = _with_means({label: each for label, each in gains.items() if max(each) <= -GAIN})
        comparison = f"With {last:,} bytes of context instead of {first:,}"
        return [
            f"Without recall, a byte needs {PassagesText.chance:g} bits.",
            *([f"{comparison}, at least {GAIN:g} bits less{every}: {less}."] if less else []),
            *([f"{comparison}, at least {GAIN:g} bits more{every}: {more}."] if more else []),
            *undefined(curves, length),
            *best_at(curves, last, "With the most context"),
        ]


def scored_recurrences(text: PassagesText, shortest: int, end: int) -> list[Recurrence]:
    """The recurrences of the validation part with enough text before them, and shortest <= distance < end.

    A recurrence is left out if its first occurrence does not fit into the longest context as a whole.
    """
    return [
        each
        for each in text.recurrences[1]
        if each.position + each.length > text.far
        and shortest <= each.distance < end
        and each.distance + each.length <= text.far
    ]


def _with_means(gains: dict[str, list[float]]) -> str:
    return join([f"{quoted(label)} ({-sum(each) / len(each):+.2f})" for label, each in gains.items()]) if gains else ""
