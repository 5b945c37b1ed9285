"""Does any head recognize the needle clearly enough to outweigh its bias?"""

from collections.abc import Iterator, Sequence
from itertools import takewhile

import pandas as pd

from alibi_viz.lab.needle import has_slopes, needle_margins
from alibi_viz.lab.questions.outcomes import join, quoted
from alibi_viz.lab.questions.question import Answer, Question, with_multiple
from alibi_viz.lab.race import evaluation_distances
from alibi_viz.lab.results import seed_curves
from alibi_viz.lab.tasks import TASKS, Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Panel

__all__ = ["NeedleMargin"]

NEEDLE = TASKS["needle"]
SAMPLES = 64  # examples at each distance


class NeedleMargin(Question):
    """The margin of the needle minus the one it needs, in nats, in the best head (see `lab.needle_margins`).

    Only methods with one slope per head have one, fixed or learned: ALiBi and decay.
    """

    name = "needle margin"
    summary = (
        "How much higher the needle scores than it must to get half of a head's attention, in the best head of all "
        "layers."
    )
    title = "Margin of the needle minus the margin needed, best head"
    x_title = "distance of the needle, tokens"
    task = "needle"
    unit = "nats"
    lowest_is_best = False
    in_race = False

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 32) -> Iterator[Answer]:
        if not has_slopes(model):
            return
        for distance in evaluation_distances(NEEDLE, length, longest):
            table = needle_margins(model, [distance], samples=SAMPLES)
            yield Answer(distance, float((table["found"] - table["needed"]).max()), SAMPLES)

    def axes(self, length: int, xs: Sequence[int]) -> Panel:
        xs = xs or evaluation_distances(NEEDLE, length)
        return Panel(
            title=self.title,
            x_title=self.x_title,
            y_title="margin found - margin needed, nats",
            hover="%{fullData.name}, distance %{x}<br>%{y:+.1f} nats<extra></extra>",
            ticks={x: with_multiple(x, NEEDLE.min_length(x) / length) for x in xs},
            low=-5.0,
            high=5.0,
            step=5.0,
            length=NEEDLE.max_distance(length),
        )

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        if not curves:
            return []
        several = " in every seed" if any(len(seeds) > 1 for seeds in curves.values()) else ""
        reach = {label: min(map(_positive_up_to, seeds.values())) for label, seeds in curves.items()}
        limits = [f"{quoted(label)} {f'up to {x:,}' if x else 'at no distance'}" for label, x in reach.items()]
        return [
            f"In the best head the mean margin is larger than needed{several}: {join(limits)}.",
            "For half of its attention, a head with slope m needs about m d + ln(1/m) nats at distance d.",
        ]


def _positive_up_to(points: dict[int, float]) -> int:
    """The largest distance up to which the margin found exceeds the one needed; 0 if it doesn't at the smallest."""
    return max(takewhile(lambda x: points[x] > 0, sorted(points)), default=0)
