"""The questions that a race answers, each a panel: what is on its axes, and what is marked there."""

import math
from collections.abc import Iterable, Mapping

from alibi_viz.figures.panel import Curves, Panel

__all__ = ["context_panel", "distance_panel", "gap_panel", "length_panel", "position_panel", "times"]

NOTHING: Mapping[str, float] = {}


def length_panel(
    curves: Mapping[str, Curves], length: int, lengths: Iterable[int], marks: Mapping[str, float] = NOTHING
) -> Panel:
    """Bits per byte by the length of the test windows."""
    return Panel(
        title="Loss on longer windows",
        x_title="length of the test windows, bytes",
        y_title="bits per byte",
        hover="%{fullData.name}, windows of %{x} bytes<br>%{y:.2f} bits per byte<extra></extra>",
        curves=curves,
        ticks=_in_lengths(lengths, length),
        low=2.5,
        high=3.5,
        length=length,
        marks=marks,
    )


def gap_panel(curves: Mapping[str, Curves], length: int, steps: int) -> Panel:
    """By training step, how far the loss at 4 L is above the loss at L."""
    every = math.ceil(steps / 6)
    return Panel(
        title=f"How much worse windows of {4 * length:,} are than windows of {length:,}, as training goes on",
        x_title="step",
        y_title="bits per byte more",
        hover="%{fullData.name}, step %{x}<br>%{y:+.2f} bits per byte<extra></extra>",
        curves=curves,
        ticks={step: f"{step:,}" for step in (*range(every, steps - every // 2, every), steps)},
        low=-0.2,
        high=1.0,
        log=False,
    )


def position_panel(
    curves: Mapping[str, Curves], length: int, longest: int, marks: Mapping[str, float] = NOTHING
) -> Panel:
    """Bits per byte by the position in one long window, the first byte being position 1."""
    powers = [2**power for power in range(longest.bit_length()) if 2**power != length]
    ticks = {place: f"{place:,}<br>{times(place / length)}" if place >= length else f"{place}" for place in powers}
    return Panel(
        title=f"Loss inside windows of {longest:,} bytes, by position",
        x_title="position in the window, bytes",
        y_title="bits per byte",
        hover="%{fullData.name}, around position %{x:.0f}<br>%{y:.2f} bits per byte<extra></extra>",
        curves=curves,
        ticks=dict(sorted({**ticks, length: f"{length:,}<br>L", longest: _tick(longest, length)}.items())),
        low=2.5,
        high=4.0,
        length=length,
        marks=marks,
    )


def context_panel(
    curves: Mapping[str, Curves], length: int, contexts: Iterable[int], marks: Mapping[str, float] = NOTHING
) -> Panel:
    """Bits per byte of the same bytes, each predicted from ever more text before it."""
    return Panel(
        title="The same bytes, predicted from ever more text before them",
        x_title="bytes of context before each predicted byte",
        y_title="bits per byte",
        hover="%{fullData.name}, %{x} bytes of context<br>%{y:.2f} bits per byte<extra></extra>",
        curves=curves,
        ticks=_in_lengths(contexts, length),
        low=2.5,
        high=3.5,
        length=length,
        marks=marks,
    )


def distance_panel(
    curves: Mapping[str, Curves],
    length: int,
    distances: Iterable[int],
    chance: float,
    marks: Mapping[str, float] = NOTHING,
) -> Panel:
    """Share of needles found, by how far back they lie."""
    return Panel(
        title="Needles found, by distance",
        x_title="distance of the needle, tokens",
        y_title="share found",
        hover="%{fullData.name}, %{x} tokens back<br>%{y:.0%} found<extra></extra>",
        curves=curves,
        ticks={far: f"{far:,}<br>{times((far + 1) / length)}" for far in sorted({*distances})},
        low=0.0,
        high=1.0,
        unit=0.1,
        length=length - 1,
        marks=marks,
        chance=chance,
    )


def times(ratio: float) -> str:
    """A length in training lengths.

    >>> from alibi_viz.figures.race_panels import times
    >>> times(1), times(4)
    ('L', '4 L')
    """
    return "L" if ratio == 1 else f"{ratio:g} L"


def _in_lengths(lengths: Iterable[int], length: int) -> dict[int, str]:
    return {tested: _tick(tested, length) for tested in sorted({length, *lengths})}


def _tick(tested: int, length: int) -> str:
    return f"{tested:,}<br>{times(tested / length)}"
