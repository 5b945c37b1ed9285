"""How each question of the lab is measured: generators of (position on the axis, value, number of samples).

The value is NaN where a model is not defined. The arguments are a trained model, the text or task, the training length,
and how many times that to test up to.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean

import pandas as pd
import torch
from torch import Tensor

from alibi_viz.lab.attention_stats import attention_stats
from alibi_viz.lab.evaluation import (
    TARGETS,
    evaluation_lengths,
    loss_by_context,
    loss_by_position,
    shared_losses,
    window_losses,
)
from alibi_viz.lab.tales import LONGEST, SHORTEST, retell
from alibi_viz.lab.tasks import Task, accuracy, evaluation_distances
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.relative import Alibi

Measured = Iterator[tuple[int, float, int]]


def nothing(model: LanguageModel, text: Text, length: int, longest: int) -> Measured:
    """For a question that is only answered while models train."""
    yield from ()


def lengths(model: LanguageModel, text: Text, length: int, longest: int) -> Measured:
    """Bits per byte on nonoverlapping windows of L, 2L, 4L, ... bytes, always of the same target bytes."""
    for tested, means, count in length_blocks(model, text, length, longest):
        yield tested, fmean(means), count


BLOCKS = 16  # consecutive parts of the held-out text: how the loss differs between them tells how sure its mean is


def length_blocks(
    model: LanguageModel, text: Text, length: int, longest: int, targets: int = TARGETS
) -> Iterator[tuple[int, list[float], int]]:
    """As `lengths`, with the means of equal blocks of the text instead of one mean; one block if it is too short."""
    lengths = evaluation_lengths(length, longest)
    for tested, bits in shared_losses(model, text, lengths, targets=max(targets, *lengths)):
        blocks = BLOCKS if len(bits) % (BLOCKS * tested) == 0 else 1
        yield tested, bits.view(blocks, -1).double().mean(1).tolist(), len(bits)


POSITION_TARGETS, MAX_WINDOWS = 32_768, 128  # bytes to predict, and the largest number of windows


def positions(model: LanguageModel, text: Text, length: int, longest: int) -> Measured:
    """Means over bins of positions, which widen with the position because single positions are noisy.

    A bin ends at the training length, so that none mixes positions seen in training with others.
    """
    window = length * longest
    targets = min(max(POSITION_TARGETS, window), MAX_WINDOWS * window)
    bits = loss_by_position(model, text, window, targets=targets)
    windows = min(targets, len(text.validation) - 1) // window
    halves = range(-2 * length.bit_length(), 2 * longest.bit_length())
    edges = {1, window + 1} | {round(length * 2 ** (half / 2)) + 1 for half in halves}
    for first, end in pairwise(sorted(edge for edge in edges if edge <= window + 1)):
        yield round((first + end - 1) / 2), float(bits[first - 1 : end - 1].mean()), (end - first) * windows


SAME_TARGETS, STRIDE = 1024, 16  # 16 targets per window: each has the requested context, or up to 15 bytes less


def contexts(model: LanguageModel, text: Text, length: int, longest: int) -> Measured:
    """Bits per byte of one fixed set of bytes, each predicted from L, 2L, 4L, ... bytes before it."""
    contexts = evaluation_lengths(length, longest)
    available = len(text.validation) - contexts[-1] - 1
    stride = min(STRIDE, length, max(1, available))
    targets = max(stride, min(SAME_TARGETS, available))
    for context in contexts:
        losses = loss_by_context(model, text, [context], targets=targets, stride=stride, longest=contexts[-1])
        yield context, losses[context], targets // stride * stride


EDGES = [2**power for power in range(SHORTEST.bit_length() - 1, LONGEST.bit_length() + 1)]  # of the bins: 16 to 2,048
MAX_FACTS = 64  # in each bin
SPARE = 32  # bytes: no fact is longer, and no other value of it is this much longer or shorter


def facts(model: LanguageModel, text: Text, length: int, longest: int) -> Measured:
    """Bins of distances, for tales; other texts don't record their facts."""
    if text.recalled is None:
        return
    facts = text.facts
    for first, end in pairwise(EDGES):
        context = max(length, end) + SPARE
        is_in_bin = (facts["distance"] >= first) & (facts["distance"] < end) & (facts["stop"] > context + SPARE)
        if end <= length * longest and is_in_bin.any():
            bits = memory_bits(model, text, facts[is_in_bin][:MAX_FACTS], context)
            yield round((first * end) ** 0.5), float(bits.double().mean()), len(bits)


def memory_bits(model: LanguageModel, text: Text, facts: pd.DataFrame, context: int) -> Tensor:
    """How many bits more a model needs for each fact when its context has told another value: float32 [facts].

    A tale says that the bell is in the barn, and later that it is found there. We tell the model the same tale with
    another place. If it needs more bits for "barn" then, it has remembered; if it needs as many, it has forgotten.

    Args:
        model, text: a model with a vocabulary of 256, and tales whose validation part it predicts.
        facts: rows of `text.facts`, each with at least `context` + 32 bytes before it.
        context: how many bytes the model sees before the last byte of the fact.
    """
    data = text.validation.numpy().tobytes()
    told, retold = [], []
    for start, stop in zip(facts["start"], facts["stop"], strict=True):
        before, fact = data[stop - context - 1 - SPARE : start].decode("utf-8", "replace"), data[start:stop]
        told.append(data[stop - context - 1 : stop])
        retold.append((retell(before, fact.decode()).encode() + fact)[-context - 1 :])
    sizes = torch.tensor((facts["stop"] - facts["start"]).to_numpy())
    longest = int(sizes.max())
    windows = torch.frombuffer(bytearray(b"".join(retold + told)), dtype=torch.uint8).view(2, len(facts), context + 1)
    without, with_fact = (window_losses(model, each, last=longest) for each in windows)
    return (without - with_fact).where(torch.arange(longest) >= longest - sizes[:, None], 0).sum(1)


WINDOWS, QUERIES = 8, 32  # the last positions of so many windows, the same at every length


def attention(statistic: str, model: LanguageModel, text: Text, length: int, longest: int) -> Measured:
    """A field of `AttentionStats` in windows of L, 2L, 4L, ... bytes, the mean over layers, heads and queries."""
    lengths = evaluation_lengths(length, longest)
    windows, queries = min(WINDOWS, len(text.validation) // lengths[-1]), min(QUERIES, length)
    shared = {"windows": windows, "queries": queries, "spacing": lengths[-1]}
    for tested in lengths:
        value = math.nan
        if model.is_defined_at(tested):
            value = float(getattr(attention_stats(model, text, tested, trained=length, **shared), statistic).mean())
        yield tested, value, windows * queries


def slopes(model: LanguageModel, source: Text | Task, length: int, longest: int) -> Measured:
    """The learned slope of each head, 1 to H, which all layers share; nothing for models whose slopes are fixed."""
    position = model.transformer.position
    if isinstance(position, Alibi) and position.learned is not None:
        for head, slope in enumerate(position.slopes.tolist(), start=1):
            yield head, slope, 1


SAMPLES = 512  # examples at each distance


def task(model: LanguageModel, task: Task, length: int, longest: int) -> Measured:
    """The share of correct answers at the largest distances that fit into L, 2L, 4L, ... tokens."""
    for distance in evaluation_distances(task, length, longest):
        yield distance, accuracy(model, task, distance, samples=SAMPLES), SAMPLES
