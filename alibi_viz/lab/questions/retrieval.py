"""How far back can a model find, copy or continue? The share of correct answers of a task, by distance."""

import math
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from alibi_viz.lab.questions.longer_windows import best_at
from alibi_viz.lab.questions.outcomes import FOUND, SeedCurves, join, quoted
from alibi_viz.lab.questions.question import Answer, Question, with_multiple
from alibi_viz.lab.race import evaluation_distances
from alibi_viz.lab.results import seed_curves
from alibi_viz.lab.tasks import TASKS, Task, accuracy, task_samples
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Curves, Panel

__all__ = ["Retrieval"]

TASK_TOKENS = 65_536  # read at each distance


class Retrieval(Question):
    """The share of correct answers of one task at the largest distances that fit into L, 2L, 4L, ... tokens.

    Args:
        name: of the task.
        title, x_title: of the panel.
        summary: what is measured, in one sentence.
    """

    unit = "share of answers"
    lowest_is_best = False
    while_training = True

    def __init__(self, name: str, title: str, x_title: str, summary: str) -> None:
        self.name = self.task = name
        self.title, self.x_title, self.summary = title, x_title, summary

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 32) -> Iterator[Answer]:
        assert isinstance(source, Task)
        for distance in evaluation_distances(source, length, longest):
            samples = task_samples(source, distance, max_tokens=TASK_TOKENS)
            yield Answer(distance, accuracy(model, source, distance, samples=samples), samples)

    def rescale(self, x: int, old: int, new: int) -> int:
        task = TASKS[self.task]
        return task.max_distance(task.min_length(x) * new // old)

    def layout(self, curves: Mapping[str, Curves], length: int, xs: Sequence[int], marks: Mapping[str, float]) -> Panel:
        task = TASKS[self.task]
        return Panel(
            title=self.title,
            x_title=self.x_title,
            y_title="share right",
            hover="%{fullData.name}, distance %{x}<br>%{y:.0%} right<extra></extra>",
            curves=curves,
            ticks={x: with_multiple(x, task.min_length(x) / length) for x in xs or evaluation_distances(task, length)},
            low=0.0,
            high=1.0,
            step=0.1,
            length=task.max_distance(length),
            marks=marks,
            chance=task.chance,
        )

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        chance = f"Guessing is right {TASKS[self.task].chance:.1%} of the time."
        if not curves:
            return [chance]
        furthest = max(results["x"])
        samples = min(results["count"][results["x"] == furthest])
        several = any(len(seeds) > 1 for seeds in curves.values())
        return [
            f"At least nine in ten answers are right{' in every seed' if several else ''}: {_reached(curves)}.",
            *best_at(curves, furthest, "At the largest distance", lowest=False),
            f"At that distance {samples} answers were tested{' per seed' if several else ''}. {chance}",
        ]


def _reached(curves: SeedCurves) -> str:
    """Up to which distance each label solves the task, in every seed."""
    clauses = []
    for label, seeds in curves.items():
        solved = [_solved_up_to(points) for points in seeds.values()]
        clauses.append(f"{quoted(label)} up to {min(solved):,}" if min(solved) else f"{quoted(label)} at no distance")
    return join(clauses)


def _solved_up_to(points: Mapping[int, float]) -> int:
    """The largest distance up to which every share is high; 0 if not even the smallest is."""
    reached = 0
    for x in sorted(points):
        if not math.isfinite(points[x]) or points[x] < FOUND:
            break
        reached = x
    return reached
