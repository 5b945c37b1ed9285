"""What one panel of curves shows, as plain data: questions of the lab fill it in, `figures.panel` draws it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Curves", "Panel", "Points"]

Points = Mapping[int, float]  # {position on the horizontal axis: value}, NaN where the value is not defined


@dataclass(frozen=True)
class Curves:
    """The curves of one method.

    Attributes:
        mean: the mean over the seeds, drawn thick with markers.
        seeds: one curve per seed, drawn thin.
        published: one curve per seed trained elsewhere, drawn thin and dotted.
        guesses: values that the reader expects, drawn as open markers.
    """

    mean: Points
    seeds: Sequence[Points] = ()
    published: Sequence[Points] = ()
    guesses: Points = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """Curves of several methods, with their axes.

    Attributes:
        title, x_title, y_title: text around the panel.
        hover: plotly's hover template of a point.
        curves: {method: its curves}.
        ticks: {position on the horizontal axis: its label}. The outermost ticks are the ends of a logarithmic axis.
        low, high: the vertical axis includes at least this range.
        step: the vertical axis ends at multiples of this.
        length: the training length, drawn as a dotted line with everything beyond it shaded; None for no line.
        marks: {label: position} of at most two more vertical lines. Those outside the ticks are not drawn.
        chance: the value of guessing at random, drawn as a horizontal line; None for no line.
        log: whether the horizontal axis is logarithmic. A linear axis starts at 0.
    """

    title: str
    x_title: str
    y_title: str
    hover: str
    curves: Mapping[str, Curves]
    ticks: Mapping[int, str]
    low: float
    high: float
    step: float = 0.5
    length: int | None = None
    marks: Mapping[str, float] = field(default_factory=dict)
    chance: float | None = None
    log: bool = True
