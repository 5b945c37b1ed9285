"""How far back can a model find, copy or continue? The accuracy on a task, by distance."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

import pandas as pd

from alibi_viz.lab.confidence import share_interval, share_with_interval
from alibi_viz.lab.questions.outcomes import FOUND, best_at, join, quoted
from alibi_viz.lab.questions.question import Answer, Question, with_multiple
from alibi_viz.lab.race import evaluation_distances
from alibi_viz.lab.results import seed_curves
from alibi_viz.lab.tasks import TASKS, Task, accuracy
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Panel, Points

__all__ = ["Retrieval"]

SAMPLES = 512  # examples at each distance; copy asks for several symbols in each


class Retrieval(Question):
    """The share of correct answers of one task at the largest distances that fit into L, 2L, 4L, ... tokens.

    The intervals are those of `share_interval` for the examples of all seeds together. Examples of copy have several
    answers each; counting an example as one answer makes the interval wider than necessary, never too narrow.
    """

    unit = "share of answers"
    limits = (0.0, 1.0)
    lowest_is_best = False
    while_training = True

    def __init__(self, task: str, title: str, x_title: str, summary: str) -> None:
        self.name = self.task = task
        self.title, self.x_title, self.summary = title, x_title, summary

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 32) -> Iterator[Answer]:
        assert isinstance(source, Task)
        for distance in evaluation_distances(source, length, longest):
            yield Answer(distance, accuracy(model, source, distance, samples=SAMPLES), SAMPLES)

    def axes(self, length: int, xs: Sequence[int]) -> Panel:
        task = TASKS[self.task]
        return Panel(
            title=self.title,
            x_title=self.x_title,
            y_title="accuracy",
            hover="%{fullData.name}, distance %{x}<br>accuracy %{y:.0%}<extra></extra>",
            ticks={x: with_multiple(x, task.min_length(x) / length) for x in xs or evaluation_distances(task, length)},
            low=0.0,
            high=1.0,
            step=0.1,
            length=task.max_distance(length),
            chance=task.chance,
        )

    def notes(self, rows: pd.DataFrame) -> dict[int, str]:
        intervals = {x: (count, *share_interval(share, count)) for x, (share, count) in _pooled(rows).items()}
        return {
            x: f"95% interval {low:.1%} to {high:.1%}, {count:,} examples"
            for x, (count, low, high) in intervals.items()
        }

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        chance = f"Guessing is right {TASKS[self.task].chance:.1%} of the time."
        if not curves:
            return [chance]
        several = any(len(seeds) > 1 for seeds in curves.values())
        solved = {label: min(map(_solved_up_to, seeds.values())) for label, seeds in curves.items()}
        limits = [f"{quoted(label)} {f'up to {x:,}' if x else 'not at all'}" for label, x in solved.items()]
        furthest = max(results["x"])
        at_furthest = results[results["x"] == furthest]
        samples = min(at_furthest["count"])
        shares = [
            f"{quoted(label)} {share_with_interval(*pooled)}"
            for label, rows in at_furthest.groupby("label", sort=False)
            for pooled in _pooled(rows).values()
        ]
        return [
            f"Solved, with at least {FOUND:.0%} correct answers{' in every seed' if several else ''}: {join(limits)}.",
            *best_at(curves, furthest, "At the largest distance", lowest=False),
            f"At that distance {samples} examples were tested{' per seed' if several else ''}. {chance}",
            *([f"Correct there, with 95% intervals over the examples: {join(shares)}."] if shares else []),
        ]


def _pooled(rows: pd.DataFrame) -> dict[int, tuple[float, int]]:
    """{x: share and count} over all seeds of one label; without the distances at which it isn't defined."""
    defined = rows.dropna(subset="value")
    counts = defined.groupby("x")["count"].sum()
    correct = (defined["value"] * defined["count"]).groupby(defined["x"]).sum()
    return {int(x): (float(correct[x] / count), int(count)) for x, count in counts.items()}


def _solved_up_to(points: Points) -> int:
    """The largest distance up to which the task is solved; 0 if it isn't at the smallest."""
    return max(takewhile(lambda x: points[x] >= FOUND, sorted(points)), default=0)
