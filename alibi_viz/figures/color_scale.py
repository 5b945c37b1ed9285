"""Colors for biases and for weights.

Biases get a diverging scale: white is zero, blue is below and orange above. Weights get a sequential scale from 0 to 1.
plotly's color axis always runs from 0 to 1 and only the labels of its color bar change: plotly redraws labels quickly,
but a changed color axis slowly.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import theme

NUM_COLORS = 253  # odd, so that zero has its own color; an image needs two of a byte's 256 values for gaps and masks
_LINEAR_BELOW = 1 / 16  # the logarithmic scale is linear between minus this and this


@dataclass(frozen=True)
class ColorScale:
    """The colors of the values from `low` to `high`.

    `kind` is "linear" or "logarithmic" for biases, where zero is an end or the middle of the scale (create it with
    `around_zero`), and "weight" for weights, such as `WEIGHT_SCALE`.

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
        """The smallest scale that contains `low` and `high` and has zero at an end or in the middle."""
        size = max(-low, high) or 1.0
        return cls(-size if low < 0 or high <= 0 else 0.0, size if high > 0 else 0.0, kind)

    def fraction(self, values: ArrayLike) -> NDArray[np.floating]:
        """The position of each value on the color bar, from 0 at `low` to 1 at `high`."""
        value, ends = np.asarray(values), np.array([self.low, self.high])
        if self.kind == "logarithmic":
            value, ends = (np.sign(each) * np.log1p(np.abs(each) / _LINEAR_BELOW) for each in (value, ends))
        low, high = ends.tolist()
        return (value - low) * (1 / (high - low))

    def indices(self, values: NDArray[np.floating]) -> NDArray[np.uint8]:
        """The row of `palette` for each value. Values beyond an end get the color of that end."""
        scaled = self.fraction(values)
        scaled *= NUM_COLORS - 1  # in place: there may be millions of values
        return np.rint(scaled.clip(0, NUM_COLORS - 1, out=scaled), out=scaled).astype(np.uint8)

    @cached_property
    def palette(self) -> NDArray[np.uint8]:
        """Red, green and blue of each color, uint8 [NUM_COLORS, 3]."""
        return theme.rgb(self._colors, NUM_COLORS)

    @property
    def _colors(self) -> tuple[str, ...]:
        if self.kind == "weight":
            return theme.SEQUENTIAL
        middle = len(theme.DIVERGING) // 2
        return theme.DIVERGING[0 if self.low < 0 else middle : None if self.high > 0 else middle + 1]

    @property
    def axis(self) -> dict[str, object]:
        """Properties of a plotly `coloraxis` with this scale, with labels at both ends and at round values."""
        stops = [[at / (len(self._colors) - 1), color] for at, color in enumerate(self._colors)]
        ticks, style = [0.0, 0.25, 0.5, 0.75, 1.0], ".0%"
        if self.kind != "weight":
            size, style = max(-self.low, self.high), ".3g"
            sizes = [size, size / 2]
            if self.kind == "logarithmic":  # powers of ten that are far enough apart to be readable
                sizes = [size, *(10.0**power for power in range(3, -2, -1) if 10.0**power < size / 2.5)]
            sizes = sizes[::2] if self.low < 0 < self.high else sizes  # a side has half of the room
            ticks = sorted({0.0, *(tick for each in sizes for tick in (-each, each) if self.low <= tick <= self.high)})
        labels = [f"{tick:{style}}".replace("-", "\N{MINUS SIGN}") for tick in ticks]
        bar = {"colorbar_tickvals": self.fraction(ticks).tolist(), "colorbar_ticktext": labels}
        return {"cmin": 0, "cmax": 1, "colorscale": stops, **bar}


WEIGHT_SCALE = ColorScale(0.0, 1.0, "weight")
