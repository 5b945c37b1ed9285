"""Where inside a long window does the loss rise?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pandas as pd

from alibi_viz.lab.evaluation import loss_by_position
from alibi_viz.lab.questions.outcomes import quoted
from alibi_viz.lab.questions.question import Answer, Question, with_multiple
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Panel

__all__ = ["ByPosition"]

TARGETS, MAX_WINDOWS = 32_768, 128  # bytes to predict, and the largest number of windows


class ByPosition(Question):
    """Bits per byte by position in windows of 16L bytes; the first byte is position 1."""

    name = "by position"
    summary = "The loss inside one long window, by position."
    x_title = "position in the window, bytes"
    hover = "around position %{x:.0f}"

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 16) -> Iterator[Answer]:
        assert isinstance(source, Text)
        window = length * longest
        targets = min(max(TARGETS, window), MAX_WINDOWS * window)
        bits = loss_by_position(model, source, window, targets=targets)
        windows = min(targets, len(source.validation) - 1) // window
        for first, end in pairwise(_edges(length, window)):
            mean = float(bits[first - 1 : end - 1].mean())
            yield Answer(round((first + end - 1) / 2), mean, (end - first) * windows)

    def axes(self, length: int, xs: Sequence[int]) -> Panel:
        longest = max([16 * length, *xs])
        powers = {2**power for power in range(longest.bit_length())}
        ticks = {x: with_multiple(x, x / length) if x >= length else f"{x}" for x in sorted({*powers, length, longest})}
        title = f"Loss inside windows of {longest:,} bytes, by position"
        return replace(super().axes(length, xs), title=title, ticks=ticks, high=4.0)

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        clauses = [_describe(label, rows, length) for label, rows in results.groupby("label", sort=False)]
        if not clauses:
            return []
        numbers = "; ".join(clauses)
        return [f"Bits per byte in one long window: {numbers}. The first bytes are hard, because they have no context."]


def _edges(length: int, longest: int) -> list[int]:
    """Bins of positions that widen with the position, because single positions are noisy.

    A bin ends at the training length, so that none mixes positions seen in training with others.
    """
    halves = range(-2 * length.bit_length(), 2 * (longest // length).bit_length())
    edges = {1, longest + 1} | {round(length * 2 ** (half / 2)) + 1 for half in halves}
    return [edge for edge in sorted(edges) if edge <= longest + 1]


def _describe(label: str, rows: pd.DataFrame, length: int) -> str:
    bits = rows.set_index("x")["value"]
    first, beyond = bits[bits.index == 1].mean(), bits[bits.index > length]
    inside = bits[(bits.index > length / 2) & (bits.index <= length)].mean()
    if bits.isna().any() or pd.isna([first, inside]).any():
        return f"{quoted(label)} is not defined in windows this long"
    then = "" if beyond.empty else f", then {beyond.max():.1f} at worst"
    return f"{quoted(label)} {first:.1f} for the first byte, {inside:.1f} up to {length:,}{then}"
