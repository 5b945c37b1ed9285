"""What one panel of curves shows, as plain data: questions of the lab fill it in, `figures.panel` draws it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Curves", "Panel", "Points"]

Points = Mapping[int, float]  # {position on the horizontal axis: value}, NaN where the value is not defined


@dataclass(frozen=True)
class Curves:
    """The curves of one method."""

    mean: Points  # over the seeds; drawn thick with markers
    seeds: Sequence[Points] = ()  # one curve per seed, drawn thin
    intervals: Mapping[int, tuple[float, float]] = field(default_factory=dict)  # ends around the mean, drawn as bars
    notes: Mapping[int, str] = field(default_factory=dict)  # further lines in the hover text of the mean


@dataclass(frozen=True)
class Panel:
    """Curves of several methods, with their axes."""

    title: str
    x_title: str
    y_title: str
    hover: str  # plotly's hover template of a point
    ticks: Mapping[int, str]  # {position on the horizontal axis: label}; the outermost are the ends of a log axis
    low: float  # the vertical axis includes at least low to high
    high: float
    curves: Mapping[str, Curves] = field(default_factory=dict)  # {method: its curves}
    step: float = 0.5  # the vertical axis ends at multiples of this
    length: int | None = None  # training length, drawn as a dotted line with everything beyond it shaded
    marks: Mapping[str, float] = field(default_factory=dict)  # {label: position} of up to two more vertical lines
    chance: float | None = None  # the value of guessing at random, drawn as a horizontal line
    log: bool = True  # logarithmic horizontal axis; a linear one starts at 0
