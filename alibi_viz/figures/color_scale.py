"""From signed values to colours: zero is always white, blue lies below it and orange above.

The colour bar runs from 0 to 1 whatever it shows and only its labels change: plotly redraws labels cheaply, and a
colour axis dearly.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import theme

__all__ = ["COLORS", "SCALES", "ColorScale"]

SCALES = ("linear", "logarithmic")
COLORS = 253  # odd, so that zero has a colour of its own; two of a byte's 256 values mean "gap" and "masked"
_LINEAR_BELOW = 1 / 16  # where the logarithmic scale bends into a straight line through zero


@dataclass(frozen=True)
class ColorScale:
    """The colours of the values from `low` to `high`, "linear" or "logarithmic".

    One end is zero, or zero is the middle: make it with `around_zero`.

    >>> from alibi_viz.figures.color_scale import ColorScale
    >>> ColorScale.around_zero(-8.0, 0.0).indices(np.array([-8.0, -4.0, 0.0])).tolist()
    [0, 126, 252]
    >>> ColorScale.around_zero(-8.0, 2.0)
    ColorScale(low=-8.0, high=8.0, kind='linear')
    """

    low: float
    high: float
    kind: str = "linear"

    @classmethod
    def around_zero(cls, low: float, high: float, kind: str = "linear") -> "ColorScale":
        """The smallest scale that holds `low` and `high` and has zero at an end or in the middle."""
        size = max(-low, high) or 1.0
        return cls(-size if low < 0 or high <= 0 else 0.0, size if high > 0 else 0.0, kind)

    def share(self, values: ArrayLike) -> NDArray[np.floating]:
        """Where on the colour bar a value lies, 0 for `low` and 1 for `high`."""
        low, high = self._bend([self.low, self.high]).tolist()
        return (self._bend(values) - low) * (1 / (high - low))

    def indices(self, values: NDArray[np.floating]) -> NDArray[np.uint8]:
        """Which of the COLORS a value gets; values beyond the ends get the colour of that end."""
        return (self.share(values) * (COLORS - 1)).clip(0, COLORS - 1).round().astype(np.uint8)

    @cached_property
    def palette(self) -> NDArray[np.uint8]:
        """Red, green and blue of each colour, uint8 [COLORS, 3]."""
        middle = len(theme.DIVERGING) // 2
        sides = theme.DIVERGING[0 if self.low < 0 else middle : None if self.high > 0 else middle + 1]
        return theme.rgb(sides, COLORS)

    @property
    def axis(self) -> dict[str, object]:
        """A plotly `coloraxis` with a colour bar that shows this scale."""
        shown = self.palette[:: (COLORS - 1) // 36].tolist()
        stops = [[at / (len(shown) - 1), f"rgb({r},{g},{b})"] for at, (r, g, b) in enumerate(shown)]
        ticks = self.ticks()
        words = [f"{tick:.3g}".replace("-", "\N{MINUS SIGN}") for tick in ticks]
        bar = {"colorbar.tickvals": self.share(ticks).tolist(), "colorbar.ticktext": words}
        return {"cmin": 0, "cmax": 1, "colorscale": stops, **bar}

    def ticks(self) -> list[float]:
        """Both ends and round values between them, mirrored at zero, that do not crowd one another."""
        size = max(-self.low, self.high)
        powers = [10.0**power for power in range(3, -2, -1) if 10.0**power < size / 2.5]
        falling = [size, size / 2] if self.kind == "linear" else [size, *powers]
        if self.low < 0 < self.high:
            falling = falling[::2]
        below = [-value for value in falling] if self.low < 0 else []
        return [*below, 0.0, *(falling[::-1] if self.high > 0 else [])]

    def _bend(self, values: ArrayLike) -> NDArray[np.floating]:
        value = np.asarray(values)
        if self.kind == "linear":
            return value
        return np.sign(value) * np.log1p(np.abs(value) / _LINEAR_BELOW)
