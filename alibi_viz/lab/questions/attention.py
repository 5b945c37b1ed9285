"""Where do trained models attend on longer windows: beyond L, to how many keys, and to the first tokens?"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd
from torch import Tensor

from alibi_viz.lab.attention_stats import SINKS, AttentionStats, attention_stats
from alibi_viz.lab.questions.outcomes import SeedCurves, join, quoted, undefined, values_at
from alibi_viz.lab.questions.question import Answer, Question
from alibi_viz.lab.race import evaluation_lengths
from alibi_viz.lab.results import AS_TRAINED, seed_curves
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Panel

__all__ = ["BeyondL", "Denominator", "Sinks"]

WINDOWS, QUERIES = 8, 32  # the last positions of so many windows, the same at every length
SETTLED = 0.1  # bits: a denominator that grows by no more than this, when the window doubles, counts as bounded


class AttentionByLength(Question):
    """A statistic of the attention in windows of L, 2L, 4L, ... bytes, the mean over layers, heads and queries."""

    x_title = "length of the windows, bytes"
    hover = "windows of %{x} bytes"
    evaluations: tuple[str, ...] = (AS_TRAINED, "window")
    in_race = False

    def statistic(self, stats: AttentionStats) -> Tensor:
        """The statistic of each head, [layers, heads]."""
        raise NotImplementedError

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 16) -> Iterator[Answer]:
        assert isinstance(source, Text)
        lengths = evaluation_lengths(length, longest)
        windows, queries = min(WINDOWS, len(source.validation) // lengths[-1]), min(QUERIES, length)
        shared = {"windows": windows, "queries": queries, "spacing": lengths[-1]}
        for tested in lengths:
            value = math.nan
            if model.is_defined_at(tested):
                stats = attention_stats(model, source, tested, trained=length, **shared)
                value = float(self.statistic(stats).mean())
            yield Answer(tested, value, windows * queries)

    def shares(self, curves: SeedCurves, x: int) -> list[str]:
        """The share of the attention of each label at x: the mean over the seeds, and their range."""
        parts = []
        for label, values in values_at(curves, x).items():
            spread = f" ({values.min():.1%} to {values.max():.1%})" if len(values) > 1 else ""
            parts.append(f"{quoted(str(label))} {values.mean():.1%}{spread}")
        return parts


class ShareByLength(AttentionByLength):
    """A share of the attention weights."""

    unit = "share of attention"
    limits = (0.0, 1.0)

    def axes(self, length: int, xs: Sequence[int]) -> Panel:
        hover = f"%{{fullData.name}}, {self.hover}<br>%{{y:.1%}} of the attention<extra></extra>"
        return replace(super().axes(length, xs), hover=hover, low=0.0, high=1.0, step=0.1)


class BeyondL(ShareByLength):
    """The share of the attention on keys at least L back."""

    name = "attention beyond L"
    summary = "The share of the attention on keys at least L bytes back, which no query had in training."
    title = "Attention on keys at least L back"

    def statistic(self, stats: AttentionStats) -> Tensor:
        return stats.beyond

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        if not curves:
            return []
        furthest = max(results["x"])
        shares = self.shares(curves, furthest)
        visible = range(furthest - min(QUERIES, length) + 1, furthest + 1)  # keys that each query sees
        equal = sum(max(0, keys - length) / keys for keys in visible) / len(visible)
        return [
            f"In windows of {furthest:,} bytes, keys at least {length:,} back get this share of the attention: "
            f"{join(shares)}. If all keys had equal weight, it would be {equal:.1%}.",
            *undefined(curves, length),
        ]


class Denominator(AttentionByLength):
    """The denominator of the softmax, in bits: log2 of the sum of exp(logit - largest logit)."""

    name = "softmax denominator"
    summary = (
        "The softmax's denominator relative to the largest logit of the row, in bits: 0 if one key gets all the "
        "attention, and log2 of the number of keys if all get the same."
    )
    title = "Denominator of the softmax, log2"
    unit = "bits"
    in_race = True

    def statistic(self, stats: AttentionStats) -> Tensor:
        return stats.denominator_bits

    def axes(self, length: int, xs: Sequence[int]) -> Panel:
        return replace(super().axes(length, xs), y_title="log2 of the denominator", low=0.0, high=4.0, step=1.0)

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        if not curves:
            return []
        longest = max(results["x"])
        half = max((x for x in results["x"] if 2 * x <= longest), default=0)
        sentences = []
        growth = (values_at(curves, longest) - values_at(curves, half)).dropna(axis="columns", how="any")
        if half and len(growth.columns):
            several = " in every seed" if len(growth) > 1 else ""
            bounded = [str(label) for label in growth if growth[label].abs().max() <= SETTLED]
            growing = [str(label) for label in growth if growth[label].min() > SETTLED]
            numbers = {str(label): f"{quoted(str(label))} ({growth[label].mean():+z.2f})" for label in growth}
            clauses = [
                f"it changes by at most {SETTLED:g} bits{several} for {join([numbers[label] for label in bounded])}",
                f"it grows by more{several} for {join([numbers[label] for label in growing])}",
            ]
            kept = [clause for clause, labels in zip(clauses, (bounded, growing), strict=True) if labels]
            if kept:
                sentences.append(f"From windows of {half:,} to {longest:,} bytes {'; '.join(kept)}.")
        sentences.append("If all keys had equal weight, it would grow by 1 bit each time the window doubles.")
        return [*sentences, *undefined(curves, length)]


class Sinks(ShareByLength):
    """The share of the attention on the first 4 tokens."""

    name = "attention sinks"
    summary = f"The share of the attention on the first {SINKS} tokens of a window."
    title = f"Attention on the first {SINKS} tokens"
    evaluations = (AS_TRAINED, "window", "window and sinks")

    def statistic(self, stats: AttentionStats) -> Tensor:
        return stats.sinks

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        if not curves:
            return []
        sentences = [
            f"In windows of {x:,} bytes, the first {SINKS} tokens get this share of the attention: "
            f"{join(self.shares(curves, x))}."
            for x in dict.fromkeys((min(results["x"]), max(results["x"])))
        ]
        return [*sentences, *undefined(curves, length)]
