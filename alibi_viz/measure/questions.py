"""What the lab asks of trained models: how each question is measured. `questions.toml` describes
them in words.

A question that is added to `QUESTIONS` is measured by `lab.measure` and sweeps, and shown by apps
and the command line.
"""

import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.resources import files
from itertools import pairwise
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from alibi_viz.arguments import check_choice
from alibi_viz.data.tales import LONGEST, SHORTEST, retell
from alibi_viz.data.tasks import TASKS, Task
from alibi_viz.data.text import Text
from alibi_viz.measure import losses as evaluation
from alibi_viz.measure import sentences as say
from alibi_viz.measure.attention_statistics import attention_stats
from alibi_viz.measure.losses import TARGETS, evaluation_lengths
from alibi_viz.measure.table import AS_TRAINED, COLUMNS, Axes, Row, Scale
from alibi_viz.measure.task_accuracy import accuracy
from alibi_viz.models import LanguageModel

# How a question is measured, for a trained model, the text or task, the training length L, and how
# many times that to test up to: (position on the axis, value, number of samples). The value is NaN
# where the model is not defined.
Measured = Iterator[tuple[int, Any, int]]

# The most consecutive parts of the held-out text: their differences tell how sure the mean loss is
BLOCKS = 16


def _lengths(
    model: LanguageModel, text: Text, length: int, longest: int, targets: int = TARGETS
) -> Measured:
    """On sequences of L, 2L, 4L, ... bytes, lists: the means of equal blocks of whole sequences,
    the same for all."""
    lengths = evaluation_lengths(length, longest)
    for tested, bits in evaluation.shared_losses(
        model, text, lengths, targets=max(targets, *lengths)
    ):
        blocks = math.gcd(
            BLOCKS, len(bits) // lengths[-1]
        )  # whole sequences: the longest length divides the targets
        yield tested, bits.view(blocks, -1).double().mean(1).tolist(), len(bits)


POSITION_TARGETS, MAX_SEQUENCES = (
    32_768,
    128,
)  # bytes to predict, and the largest number of sequences


def _positions(model: LanguageModel, text: Text, length: int, longest: int) -> Measured:
    """Means over bins of positions, which widen because single positions are noisy. One ends at the
    training length."""
    tested = length * longest
    targets = min(max(POSITION_TARGETS, tested), MAX_SEQUENCES * tested)
    bits = evaluation.loss_by_position(model, text, tested, targets=targets)
    sequences = min(targets, len(text.validation) - 1) // tested
    halves = range(-2 * length.bit_length(), 2 * longest.bit_length())
    edges = {1, tested + 1} | {round(length * 2 ** (half / 2)) + 1 for half in halves}
    for first, end in pairwise(sorted(edge for edge in edges if edge <= tested + 1)):
        yield (
            round((first + end - 1) / 2),
            float(bits[first - 1 : end - 1].mean()),
            (end - first) * sequences,
        )


SAME_TARGETS, STRIDE = (
    1024,
    16,
)  # 16 targets per sequence: each has the requested context, or up to 15 bytes less


def _contexts(model: LanguageModel, text: Text, length: int, longest: int) -> Measured:
    """Of one fixed set of bytes, each predicted from L, 2L, 4L, ... bytes before it."""
    contexts = evaluation_lengths(length, longest)
    available = len(text.validation) - contexts[-1] - 1
    stride = min(STRIDE, length, available)
    targets = min(SAME_TARGETS, available) // stride * stride
    for context in contexts:
        data = text.validation[contexts[-1] + stride - context : contexts[-1] + targets + 1]
        bits = evaluation.sequence_losses(model, data.unfold(0, context + 1, stride), last=stride)
        yield context, float(bits.double().mean()), targets


EDGES = [
    2**power for power in range(SHORTEST.bit_length() - 1, LONGEST.bit_length() + 1)
]  # of the bins: 16 to 2,048
FEWEST, MOST = 16, 64  # names in each bin
SPARE = 32  # bytes: no fact is longer, and no other value of it is this much longer or shorter


def _names(model: LanguageModel, text: Text, length: int, longest: int) -> Measured:
    """Bins of distances, for tales: other texts don't record what they recall. Up to L, no sequence
    exceeds L."""
    if not text.recalled:
        return
    names = text.facts.query(
        "kind in ('hero', 'friend')"
    )  # a tale speaks of them all the time, seldom of others
    distance, reach = names["distance"], names["distance"] + names["stop"] - names["start"]
    for first, end in pairwise(EDGES):
        context = length if end <= length else end + SPARE
        told = names[
            (distance >= first)
            & (distance < end)
            & (reach <= context)
            & (names["stop"] > context + SPARE)
        ]
        if end <= length * longest and len(told) >= FEWEST:
            bits = memory_bits(model, text, told[:MOST], context)
            yield round((first * end) ** 0.5), float(bits.double().mean()), len(bits)


def memory_bits(model: LanguageModel, text: Text, facts: pd.DataFrame, context: int) -> Tensor:
    """How many bits more a model needs for each fact when its context has told another value:
    float32 [facts].

    A tale speaks of Leo, and later of Leo again. We tell the model the same tale with another boy's
    name before that. If it needs more bits for "Leo" then, it has remembered the name; if it needs
    as many, it has forgotten.
    """
    data = text.validation.numpy().tobytes()
    told, retold = [], []
    for start, stop in zip(facts["start"], facts["stop"], strict=True):
        before, fact = (
            data[stop - context - 1 - SPARE : start].decode("utf-8", "replace"),
            data[start:stop],
        )
        told.append(data[stop - context - 1 : stop])
        padded = (
            b" " * context + retell(before, fact.decode()).encode()
        )  # a shorter value may leave too little text
        retold.append((padded + fact)[-context - 1 :])
    sizes = torch.from_numpy((facts["stop"] - facts["start"]).to_numpy())
    longest = int(sizes.max())
    sequences = torch.frombuffer(bytearray(b"".join(retold + told)), dtype=torch.uint8).view(
        2, len(facts), context + 1
    )
    without, with_fact = (
        evaluation.sequence_losses(model, each, last=longest) for each in sequences
    )
    return (
        (without - with_fact)
        .where(torch.arange(longest, device="cpu") >= longest - sizes[:, None], 0)
        .sum(1)
    )


SEQUENCES, QUERIES = 8, 32  # the last positions of so many sequences, the same at every length


def _attention(
    statistic: str, model: LanguageModel, text: Text, length: int, longest: int
) -> Measured:
    """A field of `AttentionStats` in sequences of L, 2L, 4L, ... bytes, the mean over layers, heads
    and queries."""
    lengths = evaluation_lengths(length, longest)
    sequences, queries = min(SEQUENCES, len(text.validation) // lengths[-1]), min(QUERIES, length)
    shared = {"trained": length, "windows": sequences, "queries": queries, "spacing": lengths[-1]}
    for tested in lengths:
        stats = (
            attention_stats(model, text, tested, **shared) if model.is_defined_at(tested) else None
        )
        yield (
            tested,
            float(getattr(stats, statistic).mean()) if stats else math.nan,
            sequences * queries,
        )


SAMPLES = 512  # examples of each length


def _accuracy(model: LanguageModel, task: Task, length: int, longest: int) -> Measured:
    """The share of correct answers in examples of L, 2L, 4L, ... tokens."""
    for tested in evaluation_lengths(length, longest):
        yield tested, accuracy(model, task, tested, samples=SAMPLES), SAMPLES


@dataclass(frozen=True)
class Question:
    """One question about trained models."""

    name: str
    summary: str  # what is measured, in one sentence
    title: str
    x_title: str
    point: str  # a point in words, such as "sequences of {x} bytes"
    measure: Callable[..., Measured]
    scale: Scale
    tell: Callable[["Question", pd.DataFrame], list[str]] = (
        say.ends
    )  # sentences on the rows of one variant
    note: str = ""  # a sentence on how to read the values
    log: bool = True  # whether the horizontal axis is one of tokens
    task: str = "text"  # what the models are trained on
    variants: tuple[str, ...] = (
        AS_TRAINED,
    )  # how models may be changed before: `lab.modify.VARIANTS`
    while_training: bool = (
        False  # whether a race answers it at each checkpoint, instead of measuring trained models
    )
    in_race: bool = True  # whether LengthLab offers it

    @property
    def unit(self) -> str:
        """The unit of the values."""
        return self.scale.unit

    def at(self, x: int) -> str:
        """A point in words."""
        return self.point.format(x=f"{x:,}")

    def row(self, trained: Row, x: int, value: float, count: int) -> Row:
        """The row of an answer, measured after the training step of the row `trained`."""
        answer = {"question": self.name, "unit": self.unit, "x": x, "value": value, "count": count}
        return {name: trained[name] for name in COLUMNS} | answer

    def say(self, rows: pd.DataFrame, length: int) -> list[str]:
        """Sentences on the rows of this question and one variant, from training on `length`
        tokens."""
        told = [] if rows.empty else [*self.tell(self, rows), *say.undefined(self, rows)]
        return [*told, *([self.note] if self.note else [])]

    def axes(self, length: int, xs: Sequence[int] = ()) -> Axes:
        """The axes of its figure, for values at `xs`."""
        shared = {
            "title": self.title,
            "x_title": self.x_title,
            "point": self.point,
            **asdict(self.scale),
        }
        if not self.log:
            last = max(xs, default=1)
            every = math.ceil(last / 6)
            steps = {x: f"{x:,}" for x in [*range(every, last - every // 2, every), last]}
            return Axes(**shared, ticks=steps, log=False)
        task = TASKS.get(self.task)
        powers = [0.0, *(math.log2(x / length) for x in xs or evaluation_lengths(length))]
        ticks = {}
        for power in range(math.floor(min(powers)), math.ceil(max(powers)) + 1):
            x = max(1, round(length * 2.0**power))
            ticks[x] = f"{x:,}" if power < 0 else f"{x:,}<br>{f'{2**power} L' if power else 'L'}"
        return Axes(**shared, ticks=ticks, length=length, chance=task.chance if task else None)


# How each question of `questions.toml` is measured. "gap" is part of a race, "sliding windows" of
# `lab.length_curve`.
_MEASURES: dict[str, Callable[..., Measured]] = {
    "longer sequences": _lengths,
    "by position": _positions,
    "same targets": _contexts,
    "names": _names,
    "attention beyond L": partial(_attention, "beyond"),
    "softmax denominator": partial(_attention, "denominator_bits"),
    "needle": _accuracy,
    "induction": _accuracy,
}


def _load(
    name: str, scale: dict[str, Any], tell: str = "ends", variants: Sequence[str] = (), **more: Any
) -> Question:
    """A question as `questions.toml` describes it; `tell` names a function of `say`."""
    scale = scale | {"limits": tuple(scale.get("limits", Scale.limits))}
    more |= {"measure": _MEASURES.get(name, lambda *_: iter(())), "tell": getattr(say, tell)}
    return Question(name, **more, scale=Scale(**scale), variants=(AS_TRAINED, *variants))


_DESCRIPTIONS = tomllib.loads(
    (files("alibi_viz.measure") / "questions.toml").read_text(encoding="utf-8")
)
*QUESTIONS, SLIDING_WINDOWS = [_load(name, **fields) for name, fields in _DESCRIPTIONS.items()]


def find_question(name: str) -> Question:
    """The question of that name, one of `QUESTIONS` or "sliding windows". Raises ValueError for an
    unknown name."""
    questions = {question.name: question for question in (*QUESTIONS, SLIDING_WINDOWS)}
    check_choice("question", name, questions)
    return questions[name]


def main_question(task: str) -> Question:
    """The first of the `QUESTIONS` about this task, which a race asks while models train."""
    return next(question for question in QUESTIONS if question.task == task)
