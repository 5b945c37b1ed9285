"""How does the gap between long and short windows change as training goes on?"""

import math
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from alibi_viz.lab.questions.outcomes import HOLDS, join, outcomes, quoted
from alibi_viz.lab.questions.question import Answer, Question
from alibi_viz.lab.results import seed_curves
from alibi_viz.panel import Panel, Points

__all__ = ["Gap"]


class Gap(Question):
    """By training step, how many more bits per byte a model needs on windows of 4L than on windows of L."""

    name = "gap"
    summary = "How many more bits per byte windows of 4 L need than windows of L, by training step."
    while_training = True

    def at_checkpoint(self, step: int, losses: Mapping[int, float], length: int, count: int) -> Iterator[Answer]:
        if 4 * length in losses:
            yield Answer(step, losses[4 * length] - losses[length], count)

    def last_x(self, steps: int) -> int | None:
        return steps

    def axes(self, length: int, xs: Sequence[int]) -> Panel:
        last = max(xs, default=1)
        every = math.ceil(last / 6)
        return Panel(
            title=f"Loss on windows of {4 * length:,} minus loss on windows of {length:,}, by training step",
            x_title="step",
            y_title="difference, bits per byte",
            hover="%{fullData.name}, step %{x}<br>%{y:+.2f} bits per byte<extra></extra>",
            ticks={step: f"{step:,}" for step in (*range(every, last - every // 2, every), last)},
            low=-0.2,
            high=1.0,
            log=False,
        )

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        if not curves:
            return []
        ends = {label: [points[max(points)] for points in seeds.values()] for label, seeds in curves.items()}
        defined = {label: gaps for label, gaps in ends.items() if all(map(math.isfinite, gaps))}
        not_defined = [quoted(label) for label in ends if label not in defined]
        changing = [quoted(label) for label in defined if all(map(_still_changes, curves[label].values()))]
        sentences = outcomes(defined)
        if defined:
            sentences.append(
                f"The numbers are the loss on windows of {4 * length:,} minus that on windows of {length:,}, at the "
                "last checkpoint."
            )
        if not_defined:
            sentences.append(f"Not defined beyond the training length: {join(not_defined)}.")
        if changing:
            sentences.append(f"The gap is still changing for {join(changing)}: train longer before you trust it.")
        return [*sentences, "A small gap early on may only mean that little has been learned yet."]


def _still_changes(points: Points) -> bool:
    """Whether the gap changed in the second half of training by more than `HOLDS`."""
    gaps = [points[step] for step in sorted(points)]
    return len(gaps) > 1 and abs(gaps[-1] - gaps[len(gaps) // 2]) > HOLDS
