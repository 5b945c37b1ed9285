"""Colors, fonts and the empty figure from which every figure starts; theme.toml says why they are
what they are."""

import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, DTypeLike, NDArray
from plotly.colors import sequential
from torch import Tensor

from alibi_viz.arguments import check_instance
from alibi_viz.files import replacing

_THEME = tomllib.loads(Path(__file__).with_name("theme.toml").read_text(encoding="utf-8"))
COLORS, DASHES, SYMBOLS, DIVERGING = (
    tuple(_THEME[name]) for name in ("colors", "dashes", "symbols", "diverging")
)
SEQUENTIAL = tuple(sequential.Cividis)
# Of a scale: odd, so that zero has its own, and images need two more values for gaps and masks
NUM_COLORS = 253
MASKED_RGBA, MASKED = (
    (128, 128, 128, 90),
    "rgba(128, 128, 128, 0.35)",
)  # gray, not a color of any scale
SHADE = "rgba(128, 128, 128, 0.10)"  # of lengths beyond those of training
DOTTED = {"color": COLORS[6], "width": 1.5, "dash": "dot"}
COLOR_BAR = {"thickness": 10, "outlinewidth": 0, "xpad": 0, "ticks": "outside", "ticklen": 3}
INK = _THEME["template"]["font"]["color"]
_AXES = {"xaxis": _THEME["axis"], "yaxis": _THEME["axis"]}
_TEMPLATE = go.layout.Template(layout={**_THEME["template"], **_AXES, "colorway": COLORS})
_WIDTH, _PNG_SCALE = (
    900,
    2,
)  # of saved images: pixels of a figure without a width, and pixels of a PNG for each
STYLE = f"<style>\n{Path(__file__).with_name('theme.css').read_text(encoding='utf-8')}</style>"


def blank(height: int, **layout: object) -> go.Figure:
    """An empty figure in the common style, as wide as the page. `layout` are further plotly layout
    properties."""
    return go.Figure(layout={"template": _TEMPLATE, "height": height, "autosize": True, **layout})


def on_white(figure: go.Figure) -> go.Figure:
    """A plain copy with a white background and without the random ids of a live figure, for
    files."""
    copy = go.Figure(figure)
    copy.update_layout(paper_bgcolor="white", plot_bgcolor="white")
    for trace in copy.data:
        trace.uid = None
    return copy


def as_array(
    values: ArrayLike | Tensor, dtype: DTypeLike = np.float64, name: str = "values"
) -> NDArray[Any]:
    """`np.asarray`, also for tensors that require gradients, are on a GPU or have a dtype unknown
    to NumPy.

    Raises TypeError that names the argument if they aren't numbers.

    >>> as_array(torch.ones(2, dtype=torch.bfloat16, requires_grad=True))
    array([1., 1.])
    """
    try:
        if isinstance(values, Tensor):
            values = values.detach().cpu()
            values = (
                values.double() if values.is_floating_point() else values
            )  # NumPy has no bfloat16
        if np.iscomplexobj(array := np.asarray(values)):
            raise TypeError("these are complex")
        with np.errstate(over="ignore"):  # what is too large for float32 is infinite
            return array.astype(dtype, copy=False)
    except (TypeError, ValueError, RuntimeError) as error:  # the last from torch
        raise TypeError(f"{name} must be an array of numbers: {error}") from error


def with_gaps(values: ArrayLike | Tensor, masked: ArrayLike | None = None) -> NDArray[np.object_]:
    """The z of a heatmap: None where a cell is masked, or NaN if there is no mask. plotly would
    send NaN as text."""
    cells = as_array(values)
    gaps: NDArray[np.object_] = cells.astype(object)
    gaps[np.isnan(cells) if masked is None else np.asarray(masked)] = None
    return gaps


def update_changed(target: Any, **properties: Any) -> None:
    """`target.update(**properties)`, but only what has changed: plotly takes 0.2 ms to validate
    each value."""
    for name, value in properties.items():
        if not np.array_equal(target[name], value):
            target[name] = value


@dataclass(frozen=True)
class ColorScale:
    """The colors of the values from `low` to `high`.

    White is zero, an end or the middle of the scale (create it with `around_zero`), blue is below
    and orange above. A scale of weights, such as `WEIGHT_SCALE`, has the colors of weights.

    >>> ColorScale.around_zero(-8.0, 0.0).indices(np.array([-8.0, -4.0, 0.0])).tolist()
    [0, 126, 252]
    >>> ColorScale.around_zero(-8.0, 2.0)
    ColorScale(low=-8.0, high=8.0, weights=False)
    """

    low: float
    high: float
    weights: bool = False

    @classmethod
    def around_zero(cls, low: float, high: float) -> "ColorScale":
        """The smallest scale that contains `low` and `high` and has zero at an end or in the
        middle."""
        size = max(-low, high) or 1.0
        return cls(-size if low < 0 or high <= 0 else 0.0, size if high > 0 else 0.0)

    def fraction(self, values: ArrayLike) -> NDArray[np.floating]:
        """The position of each value on the color bar, from 0 at `low` to 1 at `high`."""
        return (np.asarray(values) - self.low) * (1 / (self.high - self.low))

    def indices(self, values: NDArray[np.floating]) -> NDArray[np.uint8]:
        """The row of `palette` for each value. Values beyond an end get the color of that end."""
        scaled = self.fraction(values)
        scaled *= NUM_COLORS - 1  # in place: there may be millions of values
        return np.rint(scaled.clip(0, NUM_COLORS - 1, out=scaled), out=scaled).astype(np.uint8)

    @cached_property
    def palette(self) -> NDArray[np.uint8]:
        """Red, green and blue of each color, uint8 [NUM_COLORS, 3]."""
        stops = np.array([list(bytes.fromhex(color[1:])) for color in self._colors])
        where = np.linspace(0, len(stops) - 1, NUM_COLORS)
        return (
            np.stack([np.interp(where, range(len(stops)), each) for each in stops.T], 1)
            .round()
            .astype(np.uint8)
        )

    @property
    def _colors(self) -> tuple[str, ...]:
        if self.weights:
            return SEQUENTIAL
        middle = len(DIVERGING) // 2
        return DIVERGING[0 if self.low < 0 else middle : None if self.high > 0 else middle + 1]

    @property
    def axis(self) -> dict[str, object]:
        """Properties of a plotly `coloraxis` with this scale, with labels at both ends and at round
        values.

        It always runs from 0 to 1 and only the labels change: plotly redraws labels quickly, a
        changed axis slowly.
        """
        stops = [[at / (len(self._colors) - 1), color] for at, color in enumerate(self._colors)]
        ticks, style = [0.0, 0.25, 0.5, 0.75, 1.0], ".0%"
        if not self.weights:
            size, style = max(-self.low, self.high), ".3g"
            sizes = (
                [size] if self.low < 0 < self.high else [size, size / 2]
            )  # a side may have half of the room
            ticks = sorted(
                {
                    0.0,
                    *(
                        tick
                        for each in sizes
                        for tick in (-each, each)
                        if self.low <= tick <= self.high
                    ),
                }
            )
        labels = [f"{tick:{style}}".replace("-", "\N{MINUS SIGN}") for tick in ticks]
        bar = {"colorbar_tickvals": self.fraction(ticks).tolist(), "colorbar_ticktext": labels}
        return {"cmin": 0, "cmax": 1, "colorscale": stops, **bar}


WEIGHT_SCALE = ColorScale(0.0, 1.0, weights=True)


def save_images(figures: Mapping[str | Path, go.Figure]) -> None:
    """Write figures to files on a white background, {path: figure}; the suffix is .svg, .pdf or
    .png.

    One browser draws them all. Raises ValueError for another suffix, and RuntimeError without
    Chrome or Chromium.
    """
    check_instance("figures", figures, Mapping)
    import kaleido  # noqa: PLC0415  # slow to import, rarely needed
    from kaleido.errors import ChromeNotFoundError  # noqa: PLC0415

    names, drawn = ", ".join(Path(path).name for path in figures), []
    if not {Path(path).suffix.lower() for path in figures} <= {".svg", ".pdf", ".png"}:
        raise ValueError(f"images must be .svg, .pdf or .png, got {names}")
    try:
        with ExitStack() as stack:
            for path, figure in figures.items():
                size = {"width": figure.layout.width or _WIDTH, "height": figure.layout.height}
                suffix, scratch = Path(path).suffix.lower(), stack.enter_context(replacing(path))
                options = {
                    "format": suffix[1:],
                    "scale": _PNG_SCALE if suffix == ".png" else 1,
                    **size,
                }
                drawn.append({"fig": on_white(figure), "path": scratch, "opts": options})
            # plotly's own `write_images` loses errors, and each time waits for MathJax from the
            # internet.
            if errors := kaleido.write_fig_from_object_sync(drawn, kopts={"mathjax": False}):
                raise errors[0]
    except ChromeNotFoundError as error:
        message = (
            f"no images are written ({names}), because they need Chrome or Chromium, and "
            "none was found"
        )
        raise RuntimeError(message) from error
