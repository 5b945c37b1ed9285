"""What the lab asks of trained models: one `Question` each, in the order in which apps show them.

To add one, write a function that measures a model and add a `Question` to `QUESTIONS`. It is then measured by
`lab.measure`, saved by a sweep, and shown by LengthLab, ComparisonExplorer and the command line.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd

from alibi_viz.lab import measures, say
from alibi_viz.lab.attention_stats import SINKS
from alibi_viz.lab.evaluation import evaluation_lengths
from alibi_viz.lab.measures import Measured
from alibi_viz.lab.modify import VARIANTS
from alibi_viz.lab.tasks import TASKS, Task, evaluation_distances
from alibi_viz.models import LanguageModel
from alibi_viz.table import AS_TRAINED, Axes, share_interval

Measure = Callable[[LanguageModel, Any, int, int], Measured]  # of model, text or task, training length, longest
Ticks = Callable[[int, Sequence[int]], Mapping[int, str]]  # of training length and the positions that have values
Say = Callable[[pd.DataFrame, int], list[str]]  # of the rows of this question and one variant, and training length


def multiples(length: int, xs: Sequence[int]) -> dict[int, str]:
    """Ticks at the positions that have values, or at L, 2L, 4L, ..., with the multiple of L below the number."""
    return {x: _with_multiple(x, x / length) for x in sorted({length, *(xs or evaluation_lengths(length))})}


@dataclass(frozen=True)
class Question:
    """One question about trained models.

    Attributes:
        name: the value of the column "question".
        summary: what is measured, in one sentence.
        title, x_title: of its figure; "{L}", "{4L}" and "{last}" in the title are replaced by numbers.
        point: a point in words, such as "windows of {x} bytes".
        measure: yields (x, value, number of samples) for a trained model.
        say: sentences on what holds in every seed.
        task: what the models are trained on, as in `Run`.
        unit: of the values.
        value: a value in words.
        limits: the smallest and the largest possible value; intervals end there.
        ticks: of the horizontal axis.
        axes_settings: further fields of `Axes`.
        lowest_is_best: True for a loss, False for an accuracy.
        variants: how models may be changed before they are measured: "as trained" and names of `lab.VARIANTS`.
        while_training: whether a race answers it at each checkpoint, instead of measuring trained models.
        in_race: whether LengthLab offers it.
    """

    name: str
    summary: str
    title: str
    x_title: str
    point: str
    measure: Measure
    say: Say
    task: str = "text"
    unit: str = "bits per byte"
    value: str = "{y:.2f} bits per byte"
    limits: tuple[float, float] = (-math.inf, math.inf)
    ticks: Ticks = multiples
    axes_settings: Mapping[str, Any] = field(default_factory=dict)
    lowest_is_best: bool = True
    variants: tuple[str, ...] = (AS_TRAINED,)
    while_training: bool = False
    in_race: bool = True

    def axes(self, length: int, xs: Sequence[int] = (), marks: Mapping[str, float] | None = None) -> Axes:
        """The axes of its figure, for values at `xs`; `marks` are {label: x} of vertical lines."""
        ticks, settings = self.ticks(length, xs), {"low": 2.0, "high": 3.0, "y_title": self.unit, **self.axes_settings}
        if not settings.get("log", True):
            trained = None  # the axis has steps or heads, not tokens
        else:
            trained = TASKS[self.task].max_distance(length) if self.task in TASKS else length
        title = self.title.format_map({"L": f"{length:,}", "4L": f"{4 * length:,}", "last": f"{max(ticks):,}"})
        return Axes(
            title=title,
            x_title=self.x_title,
            point=self.point,
            value=self.value,
            ticks=ticks,
            length=trained,
            marks=(marks or {}) if trained else {},
            limits=self.limits,
            **settings,
        )

    def notes(self, rows: pd.DataFrame) -> dict[str, dict[int, str]]:
        """Notes on the means of shares of answers, for their hover texts: {label: {x: note}}."""
        if self.unit != "share of answers":
            return {}
        return {
            str(label): {
                x: f"95% interval {low:.1%} to {high:.1%}, {count:,} examples"
                for x, (share, count) in say.pooled_shares(own).items()
                for low, high in [share_interval(share, count)]
            }
            for label, own in rows.groupby("label")
        }


def _step_ticks(length: int, xs: Sequence[int]) -> dict[int, str]:
    last = max(xs, default=1)
    every = math.ceil(last / 6)
    return {step: f"{step:,}" for step in (*range(every, last - every // 2, every), last)}


def _position_ticks(length: int, xs: Sequence[int]) -> dict[int, str]:
    longest = max([16 * length, *xs])
    powers = {2**power for power in range(longest.bit_length())}
    return {x: _with_multiple(x, x / length) if x >= length else f"{x}" for x in sorted({*powers, length, longest})}


def _edge_ticks(edges: Sequence[int], length: int, xs: Sequence[int]) -> dict[int, str]:
    shown = [edge for edge in edges if not xs or edge <= 2 * max(xs)]
    return {edge: _with_multiple(edge, edge / length) if edge >= length else f"{edge}" for edge in shown}


def _task_ticks(task: Task, length: int, xs: Sequence[int]) -> dict[int, str]:
    distances = sorted(xs) or evaluation_distances(task, length)
    return {x: _with_multiple(x, task.min_length(x) / length) for x in distances}


def _with_multiple(x: int, ratio: float) -> str:
    """A tick label with the multiple of the training length below it, such as 1,024<br>16 L."""
    return f"{x:,}<br>{'L' if ratio == 1 else f'{ratio:g} L'}"


def _task_question(name: str, title: str, x_title: str, summary: str) -> Question:
    task = TASKS[name]
    return Question(
        name,
        summary,
        title,
        x_title,
        "distance {x}",
        measures.task,
        partial(say.task, task),
        task=name,
        unit="share of answers",
        value="accuracy {y:.0%}",
        limits=(0.0, 1.0),
        ticks=partial(_task_ticks, task),
        axes_settings={"y_title": "accuracy", "low": 0.0, "high": 1.0, "step": 0.1, "chance": task.chance},
        lowest_is_best=False,
        while_training=True,
    )


_SHARE: dict[str, Any] = {
    "unit": "share of attention",
    "value": "{y:.1%} of the attention",
    "limits": (0.0, 1.0),
    "axes_settings": {"low": 0.0, "high": 1.0, "step": 0.1},
}


_BY_LENGTH = ("length of the windows, bytes", "windows of {x} bytes")


QUESTIONS = [
    Question(
        "longer windows",
        "The loss on longer windows than in training, always on the same target bytes.",
        "Loss on longer windows",
        "length of the test windows, bytes",
        "windows of {x} bytes",
        measures.lengths,
        say.lengths,
        variants=(AS_TRAINED, *VARIANTS),
        while_training=True,
    ),
    Question(
        "gap",
        "How many more bits per byte windows of 4 L need than windows of L, by training step.",
        "Loss on windows of {4L} minus loss on windows of {L}, by training step",
        "step",
        "step {x}",
        measures.nothing,
        say.gap,
        value="{y:+.2f} bits per byte",
        ticks=_step_ticks,
        axes_settings={"y_title": "difference, bits per byte", "low": -0.2, "high": 1.0, "log": False},
        while_training=True,
    ),
    Question(
        "by position",
        "The loss inside one long window, by position.",
        "Loss inside windows of {last} bytes, by position",
        "position in the window, bytes",
        "around position {x:.0f}",
        measures.positions,
        say.positions,
        ticks=_position_ticks,
        axes_settings={"high": 4.0},
    ),
    Question(
        "same targets",
        "The loss on the same bytes, each predicted from more and more context.",
        "The same bytes, predicted from more and more context",
        "bytes of context before each predicted byte",
        "{x} bytes of context",
        measures.contexts,
        say.contexts,
    ),
    Question(
        "facts",
        "From how many bytes back does a model remember what a tale has told?",
        "What a fact is worth, by how long ago it was told",
        "bytes since the fact was last told",
        "facts told around {x} bytes before",
        measures.facts,
        say.facts,
        unit="bits per fact",
        value="{y:.2f} bits per fact",
        ticks=partial(_edge_ticks, measures.EDGES),
        axes_settings={"low": 0.0, "high": 3.0},
        lowest_is_best=False,
    ),
    Question(
        "attention beyond L",
        "The share of the attention on keys at least L bytes back, which no query had in training.",
        "Attention on keys at least L back",
        *_BY_LENGTH,
        partial(measures.attention, "beyond"),
        say.beyond,
        variants=(AS_TRAINED, "window"),
        in_race=False,
        **_SHARE,
    ),
    Question(
        "softmax denominator",
        "The softmax's denominator relative to the largest logit of the row, in bits: 0 if one key gets all the "
        "attention, and log2 of the number of keys if all get the same.",
        "Denominator of the softmax, log2",
        *_BY_LENGTH,
        partial(measures.attention, "denominator_bits"),
        say.denominator,
        unit="bits",
        value="{y:.2f} bits",
        axes_settings={"y_title": "log2 of the denominator", "low": 0.0, "high": 4.0, "step": 1.0},
        variants=(AS_TRAINED, "window"),
    ),
    Question(
        "attention sinks",
        f"The share of the attention on the first {SINKS} tokens of a window.",
        f"Attention on the first {SINKS} tokens",
        *_BY_LENGTH,
        partial(measures.attention, "sinks"),
        say.sinks,
        variants=(AS_TRAINED, "window", "window and sinks"),
        in_race=False,
        **_SHARE,
    ),
    Question(
        "slopes",
        "The slopes that were learned, by head.",
        "Learned slopes, by head",
        "head",
        "head {x}",
        measures.slopes,
        say.slopes,
        unit="nats per token",
        value="slope {y:.4f}",
        ticks=lambda length, xs: {head: f"{head}" for head in range(1, max([4, *xs]) + 1)},
        axes_settings={"y_title": "slope, nats per token", "low": 0.0, "high": 0.3, "step": 0.1, "log": False},
        in_race=False,
    ),
    _task_question(
        "needle",
        "Needles found, by distance",
        "distance of the needle, tokens",
        "The model must recall one value hidden in noise: from how many tokens back?",
    ),
    _task_question(
        "induction",
        "Cues continued correctly, by distance",
        "distance of the cue's first occurrence, tokens",
        "A cue appears for the second time: does the model recall what followed it the first time?",
    ),
]


SLIDING_WINDOWS = Question(  # of pretrained models, which the lab doesn't train: see `lab.length_curve`
    "sliding windows",
    "The loss on the same bytes, predicted in sliding windows of more and more tokens.",
    "The same bytes, predicted in longer and longer windows",
    "length of the sliding windows, tokens",
    "windows of {x} tokens",
    measures.nothing,
    lambda rows, length: say.losses(rows, length, "In the longest windows"),
)


def find_question(name: str) -> Question:
    """The question of that name, one of `QUESTIONS` or "sliding windows". Raises ValueError for an unknown name."""
    questions = {question.name: question for question in (*QUESTIONS, SLIDING_WINDOWS)}
    if name not in questions:
        raise ValueError(f"question must be one of {', '.join(questions)}, got {name!r}")
    return questions[name]


def main_question(task: str) -> Question:
    """The first of the `QUESTIONS` about this task, which a race asks while models train."""
    return next(question for question in QUESTIONS if question.task == task)
