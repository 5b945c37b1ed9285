"""Which slopes does a model with learned slopes end up with?"""

from collections.abc import Iterator, Sequence

import pandas as pd

from alibi_viz.lab.questions.outcomes import join, quoted
from alibi_viz.lab.questions.question import Answer, Question
from alibi_viz.lab.results import seed_curves
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.relative import Alibi
from alibi_viz.panel import Panel
from alibi_viz.slopes import alibi_slopes

__all__ = ["Slopes"]


class Slopes(Question):
    """The learned slope of each head, 1 to H; nothing for models whose slopes are fixed. All layers share them."""

    name = "slopes"
    summary = "The slopes that were learned, by head."
    x_title = "head"
    unit = "nats per token"
    in_race = False

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 16) -> Iterator[Answer]:
        position = model.transformer.position
        if isinstance(position, Alibi) and position.learned is not None:
            for head, slope in enumerate(position.slopes.tolist(), start=1):
                yield Answer(head, slope, 1)

    def axes(self, length: int, xs: Sequence[int]) -> Panel:
        heads = range(1, max([4, *xs]) + 1)
        return Panel(
            title="Learned slopes, by head",
            x_title=self.x_title,
            y_title="slope, nats per token",
            hover="%{fullData.name}, head %{x}<br>slope %{y:.4f}<extra></extra>",
            ticks={head: f"{head}" for head in heads},
            low=0.0,
            high=0.3,
            step=0.1,
            log=False,
        )

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        sentences = []
        for label, seeds in seed_curves(results).items():
            table = pd.DataFrame(seeds)  # one row per head, one column per seed
            slopes = [
                f"{row.mean():.3f}" + (f" ({row.min():.3f} to {row.max():.3f})" if len(row) > 1 else "")
                for _, row in table.sort_index().iterrows()
            ]
            fixed = ", ".join(f"{slope:.3f}" for slope in alibi_slopes(len(table)).tolist())
            sentences.append(
                f"{quoted(label)} has learned {join(slopes)} for heads 1 to {len(table)}; the fixed ones are {fixed}."
            )
        return sentences
