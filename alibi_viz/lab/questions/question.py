"""Base class of the lab's questions: how one is measured, shown in a panel, and summarized in a caption."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd
from torch import Tensor

from alibi_viz.lab.confidence import SEEDS, mean_interval
from alibi_viz.lab.race import evaluation_lengths
from alibi_viz.lab.results import AS_TRAINED, seed_curves
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Curves, Panel, Points

__all__ = ["Answer", "Question", "alibi_marks", "mean_curve", "with_multiple"]


class Answer(NamedTuple):
    """One measurement: the position on the question's axis, the value (NaN if not defined), and how many samples."""

    x: int
    value: float
    samples: int


class Question:
    """One question about trained models.

    To add a question, write a subclass in a file of its own and add an instance to `QUESTIONS`. It is then measured by
    `lab.measure`, saved in the records of a sweep, and shown by LengthLab, ComparisonExplorer and the command line.

    Attributes:
        name: the tab's title, and the value of the column "question".
        summary: what is measured, in one sentence.
        title, x_title: of the panel, as `axes` draws it.
        hover: plotly's template for the position of a point, such as "windows of %{x} bytes".
        task: what the models are trained on, as in `Run`.
        unit: of the values.
        limits: the smallest and the largest possible value; intervals end there.
        lowest_is_best: True for a loss, False for an accuracy.
        evaluations: how models may be changed before they are evaluated: "as trained" and names from
            `evaluation_variants`.
        while_training: whether a race answers it at each checkpoint, instead of measuring trained models.
        in_race: whether LengthLab offers it.
    """

    name: str
    summary: str
    title: str = ""
    x_title: str = ""
    hover: str = ""
    task: str = "text"
    unit: str = "bits per byte"
    limits: tuple[float, float] = (-math.inf, math.inf)
    lowest_is_best: bool = True
    evaluations: tuple[str, ...] = (AS_TRAINED,)
    while_training: bool = False
    in_race: bool = True

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 16) -> Iterator[Answer]:
        """Measure a model trained on `length` tokens, up to `longest` times that.

        By default there are no answers, for a question that only `at_checkpoint` answers.
        """
        yield from ()

    def at_checkpoint(self, step: int, losses: Mapping[int, float], length: int, count: int) -> Iterator[Answer]:
        """Answers at a checkpoint of training on text: `losses` is {window length: bits per byte}, on `count` bytes."""
        yield from ()

    def last_x(self, steps: int) -> int | None:
        """The end of the axis for `steps` training steps; None if it does not depend on them."""
        return None

    def axes(self, length: int, xs: Sequence[int]) -> Panel:
        """A panel without curves, for values at `xs`; by default, for a loss at multiples of the training length."""
        return Panel(
            title=self.title,
            x_title=self.x_title,
            y_title=self.unit,
            hover=f"%{{fullData.name}}, {self.hover}<br>%{{y:.2f}} {self.unit}<extra></extra>",
            ticks={x: with_multiple(x, x / length) for x in sorted({length, *(xs or evaluation_lengths(length))})},
            low=2.0,
            high=3.0,
            length=length,
        )

    def notes(self, rows: pd.DataFrame) -> dict[int, str]:
        """Notes on the mean of one label, for the hover text: {x: note}. `rows` are its results."""
        return {}

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        """Sentences on what holds in every seed, from the rows of this question and of one kind of evaluation."""
        raise NotImplementedError

    def layout(self, curves: Mapping[str, Curves], length: int, xs: Sequence[int], marks: Mapping[str, float]) -> Panel:
        """A panel with these curves; `marks` are left out where the horizontal axis is not in tokens."""
        axes = self.axes(length, xs)
        return replace(axes, curves=curves, marks={} if axes.length is None else marks)

    def panel(
        self,
        results: pd.DataFrame,
        length: int,
        *,
        labels: Sequence[str] | None = None,
        unfinished: pd.DataFrame | None = None,
        marks: Mapping[str, float] | None = None,
        last: int | None = None,
    ) -> Panel:
        """The panel of this question: every seed, the mean, and its 95% interval from three seeds on.

        Args:
            results: rows of this question and of one kind of evaluation.
            length: the training length.
            labels: which labels to show; those of the results by default. A label without rows is listed in the legend.
            unfinished: rows of seeds that are still training, drawn thin and left out of the mean.
            marks: {label: x} of vertical lines.
            last: the largest x to come, while results are incomplete.
        """
        tables = [results.head(0) if rows is None else rows for rows in (results, unfinished)]
        finished, unfinished_curves = map(seed_curves, tables)
        curves = {}
        for label in finished if labels is None else labels:
            seeds = list(finished.get(label, {}).values())
            all_seeds = [*seeds, *unfinished_curves.get(label, {}).values()]
            curves[label] = Curves(
                mean_curve(seeds or all_seeds),
                all_seeds if len(all_seeds) > 1 else [],
                self._intervals(seeds),
                notes=self.notes(results[results["label"] == label]),
            )
        xs = {*pd.concat(tables)["x"].tolist(), *([last] if last else [])}
        return self.layout(curves, length, sorted(xs), marks or {})

    def interval(self, mean: float, half_width: float) -> tuple[float, float]:
        """The ends of the interval of a mean, within the limits of the values."""
        return max(self.limits[0], mean - half_width), min(self.limits[1], mean + half_width)

    def _intervals(self, curves: Sequence[Points]) -> dict[int, tuple[float, float]]:
        """The interval of the mean over seeds, where enough of them have a finite value."""
        if len(curves) < SEEDS:
            return {}
        means = {x: mean for x, mean in mean_curve(curves).items() if math.isfinite(mean)}
        return {x: self.interval(*mean_interval([points[x] for points in curves])) for x in means}


def mean_curve(curves: Sequence[Points]) -> Points:
    """The mean of curves, at the positions that all of them have; empty for no curves."""
    shared = [x for x in curves[0] if all(x in points for points in curves)] if curves else []
    return {x: sum(points[x] for points in curves) / len(curves) for x in shared}


def alibi_marks(slopes: Tensor) -> dict[str, float]:
    """How far back ALiBi's flattest head attends: {label: tokens}, for the marks of a panel; `slopes` is [heads].

    >>> from alibi_viz.lab.questions import alibi_marks
    >>> alibi_marks(alibi_slopes(4))
    {'alibi 1/m': 256.0, 'alibi 4/m': 1024.0}
    """
    flattest = slopes.min()
    return {"alibi 1/m": float(1 / flattest), "alibi 4/m": float(4 / flattest)}


def with_multiple(x: int, ratio: float) -> str:
    """A tick label with the multiple of the training length below it, such as 1,024<br>16 L."""
    return f"{x:,}<br>{'L' if ratio == 1 else f'{ratio:g} L'}"
