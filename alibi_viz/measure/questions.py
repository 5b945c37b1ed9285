"""The questions that the lab asks of trained models, and how each is measured.

To add a question, write

1. a function that answers it, like those below,
2. its line in `QUESTIONS`, at the end of this file,
3. its words in `questions.toml`: what is measured, in which unit, and the titles of its figure.

Then sweeps and the study measure it. Each answer is a row of the table of results, which apps,
figures and the command line show like the rows of any other question.
"""

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from statistics import fmean
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from alibi_viz.arguments import check_choice
from alibi_viz.data.tales import LONGEST, SHORTEST, retell
from alibi_viz.data.tasks import TASKS, Task
from alibi_viz.data.text import Text
from alibi_viz.measure.attention_statistics import attention_stats
from alibi_viz.measure.losses import (
    TARGETS,
    evaluation_lengths,
    loss_by_position,
    sequence_losses,
    shared_losses,
)
from alibi_viz.measure.table import AS_TRAINED, COLUMNS, Axes, Row
from alibi_viz.measure.task_accuracy import accuracy
from alibi_viz.models import LanguageModel

# What the functions below give, for a trained model, the text or task, the training length L, and
# how many times that to test up to: (position on the axis, value, number of samples). A value may
# be a list, the means of equal blocks of the held-out text, and is NaN where the model is not
# defined.
Answers = Iterator[tuple[int, Any, int]]

# The most blocks of the held-out text, whose differences tell how sure the mean loss is.
BLOCKS = 16
# "by position": bytes to predict, and the largest number of sequences.
POSITION_TARGETS = 32_768
MAX_SEQUENCES = 128
# "same targets": passages to predict, and how many bytes each has, of which the last has the
# requested context and the first 15 bytes less.
PASSAGES = 128
STRIDE = 16
# "names": the edges of the bins of distances, 16 to 2,048 bytes.
EDGES = [2**power for power in range(SHORTEST.bit_length() - 1, LONGEST.bit_length() + 1)]
# "names": how many names a bin has.
FEWEST = 16
MOST = 64
# "names": bytes. No fact is longer, and no other value of it is this much longer or shorter.
SPARE = 32
# "attention beyond L" and "softmax denominator": the last positions of so many sequences, the same
# at every length.
SEQUENCES = 8
QUERIES = 32
# "needle" and "induction": examples of each length.
SAMPLES = 512


def _loss_on_longer_sequences(
    model: LanguageModel, text: Text, length: int, longest: int, targets: int = TARGETS
) -> Answers:
    """The loss on sequences of L, 2L, 4L, ... bytes.

    Each value is a list: the means of equal blocks of the text, which are the same at all lengths.
    """
    lengths = evaluation_lengths(length, longest)
    targets = max(targets, *lengths)
    for tested, bits in shared_losses(model, text, lengths, targets=targets):
        # Blocks of whole sequences: the longest length divides the targets.
        blocks = math.gcd(BLOCKS, len(bits) // lengths[-1])
        means = bits.view(blocks, -1).double().mean(1)
        yield tested, means.tolist(), len(bits)


def _loss_by_position(model: LanguageModel, text: Text, length: int, longest: int) -> Answers:
    """The mean loss in bins of positions in sequences of the greatest length.

    The bins widen, because single positions are noisy. One of them ends at the training length.
    """
    tested = length * longest
    targets = min(max(POSITION_TARGETS, tested), MAX_SEQUENCES * tested)
    bits = loss_by_position(model, text, tested, targets=targets)
    sequences = min(targets, len(text.validation) - 1) // tested

    # The first position of each bin; two bins to a doubling.
    edges = {1, tested + 1}
    for half_octave in range(-2 * length.bit_length(), 2 * longest.bit_length()):
        edge = round(length * 2 ** (half_octave / 2)) + 1
        if edge <= tested + 1:
            edges.add(edge)

    for first, end in pairwise(sorted(edges)):
        center = round((first + end - 1) / 2)
        mean = float(bits[first - 1 : end - 1].mean())
        yield center, mean, (end - first) * sequences


def _loss_on_same_targets(model: LanguageModel, text: Text, length: int, longest: int) -> Answers:
    """The loss on one fixed set of bytes, each predicted from L, 2L, 4L, ... bytes before it.

    They are passages spread evenly over the held-out text. Each value is a list: the means of equal
    blocks of consecutive passages.
    """
    contexts = evaluation_lengths(length, longest)
    stride = min(STRIDE, length)
    first_end = contexts[-1] + 1
    last_end = len(text.validation)
    passages = min(PASSAGES, 1 + (last_end - first_end) // stride)
    blocks = math.gcd(BLOCKS, passages)
    ends = torch.linspace(first_end, last_end, passages, dtype=torch.float64, device="cpu")

    for context in contexts:
        # A byte before the first target, and the last target has no byte to predict.
        offsets = torch.arange(-context - 1, 0, device="cpu")
        sequences = text.validation[ends.round().long()[:, None] + offsets]
        bits = sequence_losses(model, sequences, last=stride)
        yield context, bits.view(blocks, -1).double().mean(1).tolist(), bits.numel()


def _memory_of_names(model: LanguageModel, text: Text, length: int, longest: int) -> Answers:
    """What names are worth, in bins of the distance at which they were last told.

    Only for tales: other texts don't record what they recall. Up to the distance L, no sequence is
    longer than L.
    """
    if not text.recalled:
        return
    # A tale speaks of these two all the time, and seldom of others.
    names = text.facts.query("kind in ('hero', 'friend')")
    reach = names["distance"] + names["stop"] - names["start"]  # from the mention to the name's end

    for first, end in pairwise(EDGES):
        if end > length * longest:
            return
        context = length if end <= length else end + SPARE
        in_bin = (first <= names["distance"]) & (names["distance"] < end)
        in_context = reach <= context
        after_enough_text = names["stop"] > context + SPARE
        asked = names[in_bin & in_context & after_enough_text]
        if len(asked) < FEWEST:
            continue

        bits = memory_bits(model, text, asked[:MOST], context)
        geometric_mean = round((first * end) ** 0.5)
        yield geometric_mean, float(bits.double().mean()), len(bits)


def memory_bits(model: LanguageModel, text: Text, facts: pd.DataFrame, context: int) -> Tensor:
    """How many bits more each fact takes if its context has told another value: float32 [facts].

    A tale speaks of Leo, and later of Leo again. We tell the model the same tale with another boy's
    name before that. If it needs more bits for "Leo" then, it has remembered the name; if it needs
    as many, it has forgotten.
    """
    data = text.validation.numpy().tobytes()
    told = []  # sequences of context + 1 bytes, which end with the fact
    retold = []  # the same, with another value before the fact
    for start, stop in zip(facts["start"], facts["stop"], strict=True):
        begin = stop - context - 1
        fact = data[start:stop]
        told.append(data[begin:stop])

        before = data[begin - SPARE : start].decode("utf-8", "replace")
        changed = retell(before, fact.decode()).encode() + fact
        # Shorter values may leave too little text.
        padded = b" " * context + changed
        retold.append(padded[-context - 1 :])

    sizes = torch.tensor((facts["stop"] - facts["start"]).to_list(), device="cpu")
    longest = int(sizes.max())

    def bits_of_last(sequences: list[bytes]) -> Tensor:
        as_lists = [list(sequence) for sequence in sequences]
        stacked = torch.tensor(as_lists, dtype=torch.uint8, device="cpu")
        return sequence_losses(model, stacked, last=longest)

    # The last bytes of a sequence are those of its fact, which may be shorter than the longest.
    is_fact = torch.arange(longest, device="cpu") >= longest - sizes[:, None]
    return (bits_of_last(retold) - bits_of_last(told)).where(is_fact, 0).sum(1)


def _attention_beyond(model: LanguageModel, text: Text, length: int, longest: int) -> Answers:
    """The share of attention at least L back, in sequences of L, 2L, 4L, ... bytes."""
    return _attention("beyond", model, text, length, longest)


def _softmax_denominator(model: LanguageModel, text: Text, length: int, longest: int) -> Answers:
    """The denominator of the softmax in bits, in sequences of L, 2L, 4L, ... bytes."""
    return _attention("denominator_bits", model, text, length, longest)


def _attention(
    statistic: str, model: LanguageModel, text: Text, length: int, longest: int
) -> Answers:
    """The mean of a field of `AttentionStats`, of the same queries at each length."""
    lengths = evaluation_lengths(length, longest)
    sequences = min(SEQUENCES, len(text.validation) // lengths[-1])
    queries = min(QUERIES, length)
    for tested in lengths:
        mean = math.nan
        if model.is_defined_at(tested):
            stats = attention_stats(
                model,
                text,
                tested,
                trained=length,
                windows=sequences,
                queries=queries,
                spacing=lengths[-1],
            )
            mean = float(getattr(stats, statistic).mean())
        yield tested, mean, sequences * queries


def _task_accuracy(model: LanguageModel, task: Task, length: int, longest: int) -> Answers:
    """The share of correct answers in examples of L, 2L, 4L, ... tokens."""
    for tested in evaluation_lengths(length, longest):
        yield tested, accuracy(model, task, tested, samples=SAMPLES), SAMPLES


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question about trained models."""

    name: str
    # None if the answers come from elsewhere: for "gap" from a race, which tests its models at both
    # lengths anyway, and for "sliding windows" from `lab.length_curve`
    measure: Callable[..., Answers] | None = None
    summary: str  # what is measured, in one sentence
    figure: Axes  # of its figure, whatever the values
    note: str = ""  # a sentence on how to read the values
    # Whether the values are losses per byte, which can be compared with the yardsticks of a text
    is_loss: bool = False
    # How models may be changed before they are measured: "as trained", or `VARIANTS` in surgery
    variants: Sequence[str] = (AS_TRAINED,)

    @property
    def unit(self) -> str:
        """The unit of the values."""
        return self.figure.unit

    @property
    def task(self) -> str:
        """What the models are trained on: "text", or the task that has the name of the question."""
        return self.name if self.name in TASKS else "text"

    def at(self, x: int) -> str:
        """A point in words."""
        return self.figure.point.format(x=f"{x:,}")

    def row(self, trained: Row, x: int, value: float | list[float], count: int) -> Row:
        """The row of an answer, measured after the training step of the row `trained`.

        If the answer is a list of means of blocks, its mean is the value, and the row has "blocks".
        """
        answer = {
            "question": self.name,
            "unit": self.unit,
            "x": x,
            "value": fmean(value) if isinstance(value, list) else value,
            "count": count,
        }
        if isinstance(value, list):
            answer["blocks"] = value
        return {name: trained[name] for name in COLUMNS} | answer

    def axes(self, length: int, xs: Sequence[int] = (), text: Text | None = None) -> Axes:
        """The axes of its figure, for values at `xs`.

        If the values are losses, they have the yardsticks of the text, unless that is unknown.
        """
        if not self.figure.log:
            return replace(self.figure, ticks=_step_ticks(max(xs, default=1)))
        return replace(
            self.figure,
            ticks=_length_ticks(length, xs or evaluation_lengths(length)),
            length=length,
            chance=TASKS[self.task].chance if self.task in TASKS else None,
            yardsticks=text.yardsticks if self.is_loss and text is not None else {},
        )


def _step_ticks(last: int) -> dict[int, str]:
    """About six labeled training steps, of which one is the last."""
    spacing = math.ceil(last / 6)
    # The tick before the last one would be too close to it at less than half the spacing.
    steps = [*range(spacing, last - spacing // 2, spacing), last]
    return {step: f"{step:,}" for step in steps}


def _length_ticks(length: int, xs: Sequence[int]) -> dict[int, str]:
    """Labels at L and all its doublings and halvings that the values at `xs` need."""
    powers = [0.0, *(math.log2(x / length) for x in xs)]
    ticks = {}
    for power in range(math.floor(min(powers)), math.ceil(max(powers)) + 1):
        x = max(1, round(length * 2.0**power))
        if power < 0:
            ticks[x] = f"{x:,}"
        elif power == 0:
            ticks[x] = f"{x:,}<br>L"
        else:
            ticks[x] = f"{x:,}<br>{2**power} L"
    return ticks


_TOML = (files("alibi_viz.measure") / "questions.toml").read_text(encoding="utf-8")
_WORDS = tomllib.loads(_TOML)
_IN_LETTERS = tomllib.loads(_TOML.replace("byte", "letter"))


def _question(
    name: str, measure: Callable[..., Answers] | None, words: Mapping[str, Any] = _WORDS
) -> Question:
    """A question in the words of `questions.toml`."""
    its = words[name]
    return Question(**its | {"name": name, "measure": measure, "figure": Axes(**its["figure"])})


def in_letters(question: Question) -> Question:
    """The question in the words of the lessons, where a byte is a letter."""
    return _question(question.name, question.measure, _IN_LETTERS)


# In the order in which apps show them. The first of a task is asked while models train.
QUESTIONS = [
    _question("longer sequences", _loss_on_longer_sequences),
    _question("gap", None),
    _question("by position", _loss_by_position),
    _question("same targets", _loss_on_same_targets),
    _question("names", _memory_of_names),
    _question("attention beyond L", _attention_beyond),
    _question("softmax denominator", _softmax_denominator),
    _question("needle", _task_accuracy),
    _question("induction", _task_accuracy),
    _question("sliding windows", None),
]


def find_question(name: str) -> Question:
    """The question of that name, one of `QUESTIONS`. Raises ValueError for an unknown name.

    >>> from alibi_viz import lab
    >>> lab.find_question("gap").unit
    'bits per byte'
    """
    questions = {question.name: question for question in QUESTIONS}
    check_choice("question", name, questions)
    return questions[name]


def main_question(task: str) -> Question:
    """The first of the `QUESTIONS` about this task, which a race asks while models train."""
    return next(question for question in QUESTIONS if question.task == task)
