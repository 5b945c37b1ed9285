"""How good is a model on windows longer than those it was trained on?"""

import math
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from alibi_viz.lab.evaluation import count_shared_targets, length_losses
from alibi_viz.lab.questions.outcomes import TIE, SeedCurves, best, join, outcomes, quoted
from alibi_viz.lab.questions.question import Answer, Question, with_multiple
from alibi_viz.lab.race import evaluation_lengths
from alibi_viz.lab.results import AS_TRAINED, seed_curves
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Curves, Panel

__all__ = ["LongerWindows", "best_at", "loss_panel", "rises", "undefined"]

TARGETS = 8192  # bytes predicted at each length


class LongerWindows(Question):
    """Bits per byte on nonoverlapping windows of L, 2L, 4L, ... bytes, always of the same target bytes."""

    name = "longer windows"
    summary = "The loss on windows longer than those trained on, always on the same target bytes."
    evaluations = (AS_TRAINED, "window", "pi", "ntk")
    while_training = True
    guess_at = (2, 4, 16)

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 16) -> Iterator[Answer]:
        assert isinstance(source, Text)
        lengths = evaluation_lengths(length, longest)
        targets = max(TARGETS, *lengths)
        for tested, bits in length_losses(model, source, lengths, targets=targets):
            yield Answer(tested, bits, count_shared_targets(source, lengths, targets))

    def layout(self, curves: Mapping[str, Curves], length: int, xs: Sequence[int], marks: Mapping[str, float]) -> Panel:
        return loss_panel(
            "Loss on longer windows",
            "length of the test windows, bytes",
            "%{fullData.name}, windows of %{x} bytes",
            curves=curves,
            length=length,
            xs=xs,
            marks=marks,
        )

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        curves = seed_curves(results)
        if not curves:
            return []
        return [
            *_at_four_times(curves, length),
            *outcomes(rises(curves)),
            *undefined(curves, length),
            *best_at(curves, length, "At the training length"),
            *best_at(curves, max(results["x"]), "On the longest windows"),
        ]


def loss_panel(
    title: str,
    x_title: str,
    hover: str,
    *,
    curves: Mapping[str, Curves],
    length: int,
    xs: Sequence[int],
    marks: Mapping[str, float],
) -> Panel:
    """A panel of bits per byte at L, 2L, 4L, ...; `hover` describes the position of a point."""
    lengths = sorted({length, *(xs or evaluation_lengths(length))})
    return Panel(
        title=title,
        x_title=x_title,
        y_title="bits per byte",
        hover=f"{hover}<br>%{{y:.2f}} bits per byte<extra></extra>",
        curves=curves,
        ticks={x: with_multiple(x, x / length) for x in lengths},
        low=2.0,
        high=3.0,
        length=length,
        marks=marks,
    )


def rises(curves: SeedCurves) -> dict[str, list[float]]:
    """The largest rise of the loss above its value at the shortest length: {label: one rise per seed}.

    Labels with one length only, or that are not defined beyond their first, are left out.
    """
    results_by_label = {}
    for label, seeds in curves.items():
        each = [_rise(points) for points in seeds.values()]
        if all(map(math.isfinite, each)):
            results_by_label[label] = each
    return results_by_label


def _rise(points: Mapping[int, float]) -> float:
    first, *beyond = (points[x] for x in sorted(points))
    finite = [value for value in beyond if math.isfinite(value)]
    return max(finite) - first if finite else math.nan


def undefined(curves: SeedCurves, length: int) -> list[str]:
    """Sentences on labels without a value beyond their training length, so that a missing line isn't a surprise."""
    single = [quoted(label) for label, seeds in curves.items() if all(len(points) == 1 for points in seeds.values())]
    ends = [
        quoted(label)
        for label, seeds in curves.items()
        if quoted(label) not in single and any(math.isnan(points[max(points)]) for points in seeds.values())
    ]
    sentences = [f"Not defined beyond {length:,}: {join(ends)}."] if ends else []
    return [*sentences, f"Tested at its training length only: {join(single)}."] if single else sentences


def best_at(curves: SeedCurves, x: int, where: str, *, lowest: bool = True) -> list[str]:
    """A sentence on which labels are best at x in every seed; none for fewer than two labels."""
    present = {
        label: seeds
        for label, seeds in curves.items()
        if any(math.isfinite(points.get(x, math.nan)) for points in seeds.values())
    }
    if len(present) < 2:
        return []
    several = any(len(seeds) > 1 for seeds in present.values())
    suffix = " in every seed" if several else ""
    leaders = [quoted(label) for label in best(present, x, lowest=lowest)]
    if not leaders:
        return [f"{where} no method is best{suffix}."]
    if len(leaders) == 1:
        return [f"{where} {leaders[0]} is best{suffix}."]
    if len(leaders) == len(present):
        return [f"{where} all are within {TIE:g} of the best{suffix}."]
    return [f"{where} {join(leaders)} are best{suffix}, within {TIE:g} of each other."]


def _at_four_times(curves: SeedCurves, length: int) -> list[str]:
    """How far the others are from ALiBi, or from the best, at four times the training length."""
    x = 4 * length
    means = {}
    for label, seeds in curves.items():
        values = [points[x] for points in seeds.values() if math.isfinite(points.get(x, math.nan))]
        if values:
            means[label] = sum(values) / len(values)
    if not means:
        return []
    first = "alibi" if "alibi" in means else min(means, key=lambda label: means[label])
    others = [
        f"{quoted(label)} {abs(bits - means[first]):.2f} {'more' if bits >= means[first] else 'less'}"
        for label, bits in means.items()
        if label != first
    ]
    sentence = f"On windows of {x:,} bytes, four times as long, {quoted(first)} needs {means[first]:.2f} bits per byte"
    return [f"{sentence}, {join(others)}." if others else f"{sentence}."]
