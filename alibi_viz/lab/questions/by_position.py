"""Where inside a long window does the loss rise?"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import pandas as pd

from alibi_viz.lab.evaluation import loss_by_position
from alibi_viz.lab.questions.outcomes import quoted
from alibi_viz.lab.questions.question import Answer, Question, with_multiple
from alibi_viz.lab.results import seed_curves
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Curves, Panel

__all__ = ["ByPosition"]

TARGETS, MAX_WINDOWS = 32_768, 128  # bytes to predict, and the largest number of windows


class ByPosition(Question):
    """Bits per byte by position in windows of 16L bytes; the first byte is position 1."""

    name = "by position"
    summary = "The loss inside one long window, by position."

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 16) -> Iterator[Answer]:
        assert isinstance(source, Text)
        window = length * longest
        targets = min(max(TARGETS, window), MAX_WINDOWS * window)
        bits = loss_by_position(model, source, window, targets=targets)
        windows = min(targets, len(source.validation) - 1) // window
        for first, end in pairwise(_edges(length, window)):
            positions = end - first
            yield Answer(round((first + end - 1) / 2), float(bits[first - 1 : end - 1].mean()), positions * windows)

    def layout(self, curves: Mapping[str, Curves], length: int, xs: Sequence[int], marks: Mapping[str, float]) -> Panel:
        longest = max([16 * length, *xs])
        powers = [2**power for power in range(longest.bit_length()) if 2**power != length]
        ticks = {x: with_multiple(x, x / length) if x >= length else f"{x}" for x in powers}
        ticks |= {length: with_multiple(length, 1), longest: with_multiple(longest, longest / length)}
        return Panel(
            title=f"Loss inside windows of {longest:,} bytes, by position",
            x_title="position in the window, bytes",
            y_title="bits per byte",
            hover="%{fullData.name}, around position %{x:.0f}<br>%{y:.2f} bits per byte<extra></extra>",
            curves=curves,
            ticks=dict(sorted(ticks.items())),
            low=2.0,
            high=4.0,
            length=length,
            marks=marks,
        )

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        sentences = [_describe(label, seeds, length) for label, seeds in seed_curves(results).items()]
        if not sentences:
            return []
        clauses = "; ".join(sentences)
        return [f"Bits per byte in one long window: {clauses}. The first bytes are hard, because they have no context."]


def _edges(length: int, longest: int) -> list[int]:
    """Bins of positions that widen with the position, because single positions are noisy.

    A bin ends at the training length, so that none mixes positions seen in training with others.
    """
    halves = range(-2 * length.bit_length(), 2 * (longest // length).bit_length())
    edges = {1, longest + 1} | {round(length * 2 ** (half / 2)) + 1 for half in halves}
    return [edge for edge in sorted(edges) if edge <= longest + 1]


def _describe(label: str, seeds: Mapping[int, Mapping[int, float]], length: int) -> str:
    each = list(seeds.values())
    first = [points[1] for points in each if math.isfinite(points.get(1, math.nan))]
    inside = [value for points in each for x, value in points.items() if length / 2 < x <= length]
    beyond = [value for points in each for x, value in points.items() if x > length and math.isfinite(value)]
    if not first or not inside or not beyond:
        return f"{quoted(label)} is not defined in windows this long"
    start, middle = sum(first) / len(first), sum(inside) / len(inside)
    numbers = f"{start:.1f} for the first byte, {middle:.1f} up to {length:,}, then {max(beyond):.1f} at worst"
    return f"{quoted(label)} {numbers}"
