"""Colors, fonts and the empty figure from which every figure starts.

theme.toml says why they are what they are.
"""

import tomllib
from collections.abc import Iterable, Mapping
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
from alibi_viz.formatting import true_minus

_THEME = tomllib.loads(Path(__file__).with_name("theme.toml").read_text(encoding="utf-8"))
COLORS = tuple(_THEME["colors"])
# The colors that single marks have
BLUE = COLORS[0]
ORANGE = COLORS[1]
GREEN = COLORS[2]
GRAY = COLORS[6]
DASHES = tuple(_THEME["dashes"])
SYMBOLS = tuple(_THEME["symbols"])
DIVERGING = tuple(_THEME["diverging"])
SEQUENTIAL = tuple(sequential.Cividis)
# Of a scale: odd, so that zero has its own, and images need two more values for gaps and masks
NUM_COLORS = 253
# Gray, not a color of any scale, lighter than the dark end of the colors of weights on both themes;
# once for images and once for plotly
MASKED_RGBA = (160, 160, 160, 112)
MASKED = "rgba(160, 160, 160, 0.44)"
SHADE = "rgba(128, 128, 128, 0.10)"  # of lengths beyond those of training
DOTTED = {"color": GRAY, "width": 1.5, "dash": "dot"}
# An annotation that is the title of a plot, above its upper left corner
TITLE = {"x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "showarrow": False}
COLOR_BAR = {"thickness": 10, "outlinewidth": 0, "xpad": 0, "ticks": "outside", "ticklen": 3}
INK = _THEME["template"]["font"]["color"]
_AXES = {"xaxis": _THEME["axis"], "yaxis": _THEME["axis"]}
_TEMPLATE = {"layout": {**_THEME["template"], **_AXES, "colorway": list(COLORS)}}
_WIDTH = 900  # pixels of a saved figure that has no width
_PNG_SCALE = 2  # pixels of a PNG for each pixel of its figure
STYLE = f"<style>\n{Path(__file__).with_name('theme.css').read_text(encoding='utf-8')}</style>"


# A plotly figure as plain dicts, {"data": [trace, ...], "layout": {...}}. A function that makes one
# has no memory: it returns new dicts at each call, and changes none that it got. Unlike
# `go.Figure`, they are not checked, which takes several milliseconds, and each property stands at
# its own place: {"font": {"size": 12}} and not {"font_size": 12}.
Picture = dict[str, Any]


def picture(traces: Iterable[dict[str, Any]], *, height: int, **layout: Any) -> Picture:
    """A figure of these traces in the common style, as wide as the page.

    `layout` are further properties of plotly's layout.

    >>> from alibi_viz.figures import theme
    >>> made = theme.picture([{"type": "scatter", "y": [1, 2]}], height=300)
    >>> made["data"], made["layout"]["height"]
    ([{'type': 'scatter', 'y': [1, 2]}], 300)
    """
    common = {"template": _TEMPLATE, "height": height, "autosize": True}
    return {"data": list(traces), "layout": common | layout}


def figure(made: Picture) -> go.Figure:
    """A picture as a plotly figure, whose properties plotly has checked, for a page without an app.

    On white, because outside of an app text doesn't get the color of a dark page.
    """
    return go.Figure(made).update_layout(paper_bgcolor="white")


def blank(height: int, **layout: Any) -> go.Figure:
    """An empty plotly figure in the common style."""
    return figure(picture([], height=height, **layout))


def on_white(figure: go.Figure) -> go.Figure:
    """A plain copy for files: on white, and without the random ids of a live figure."""
    copy = go.Figure(figure)
    # The background of a plot, even of one whose axes are hidden, would cover the images below it.
    copy.update_layout(paper_bgcolor="white", plot_bgcolor="rgba(0, 0, 0, 0)")
    for trace in copy.data:
        trace.uid = None
    return copy


def as_array(
    values: ArrayLike | Tensor, dtype: DTypeLike = np.float64, name: str = "values"
) -> NDArray[Any]:
    """`np.asarray`, also for tensors that NumPy doesn't take.

    These require gradients, are on a GPU or have a dtype unknown to NumPy. Raises TypeError that
    names the argument if the values aren't numbers.

    >>> import torch
    >>> from alibi_viz.figures.theme import as_array
    >>> as_array(torch.ones(2, dtype=torch.bfloat16, requires_grad=True))
    array([1., 1.])
    """
    try:
        if isinstance(values, Tensor):
            values = values.detach().cpu()
            if values.is_floating_point():
                values = values.double()  # NumPy has no bfloat16
        array = np.asarray(values)
        if np.iscomplexobj(array):
            raise TypeError("these are complex")
        with np.errstate(over="ignore"):  # what is too large for float32 is infinite
            return array.astype(dtype, copy=False)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # the last from torch
        raise TypeError(f"{name} must be an array of numbers: {error}") from error


@dataclass(frozen=True)
class ColorScale:
    """The colors of the values from `low` to `high`.

    White is zero, an end or the middle of the scale (create it with `around_zero`), blue is below
    and orange above. A scale of weights, such as `WEIGHT_SCALE`, has the colors of weights.

    >>> import numpy as np
    >>> from alibi_viz.figures.theme import ColorScale
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
        """The smallest scale with `low`, `high`, and zero at an end or in the middle."""
        size = max(-low, high)
        if size == 0:
            size = 1.0  # a scale needs a length
        return cls(
            low=-size if low < 0 or high <= 0 else 0.0,
            high=size if high > 0 else 0.0,
        )

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
        places = np.linspace(0, len(stops) - 1, NUM_COLORS)
        channels = [np.interp(places, range(len(stops)), channel) for channel in stops.T]
        return np.stack(channels, axis=1).round().astype(np.uint8)

    @property
    def _colors(self) -> tuple[str, ...]:
        if self.weights:
            return SEQUENTIAL
        zero = len(DIVERGING) // 2
        first = 0 if self.low < 0 else zero
        last = len(DIVERGING) - 1 if self.high > 0 else zero
        return DIVERGING[first : last + 1]

    def color_axis(self, **bar: Any) -> dict[str, Any]:
        """A plotly `coloraxis` with this scale, labeled at round values. `bar` are further
        properties of its color bar.

        It always runs from 0 to 1 and only the labels change: plotly redraws labels quickly, a
        changed axis slowly.
        """
        colors = self._colors
        stops = [[number / (len(colors) - 1), color] for number, color in enumerate(colors)]
        ticks = self._ticks()
        style = ".0%" if self.weights else ".3g"
        labels = [true_minus(f"{tick:{style}}") for tick in ticks]
        return {
            "cmin": 0,
            "cmax": 1,
            "colorscale": stops,
            "colorbar": {
                **COLOR_BAR,
                **bar,
                "tickvals": self.fraction(ticks).tolist(),
                "ticktext": labels,
            },
        }

    def _ticks(self) -> list[float]:
        """The labeled values: both ends, zero, and the middle of a scale with one side."""
        if self.weights:
            return [0.0, 0.25, 0.5, 0.75, 1.0]
        if self.low < 0 < self.high:
            return [self.low, 0.0, self.high]
        return [self.low, (self.low + self.high) / 2, self.high]


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

    names = ", ".join(Path(path).name for path in figures)
    suffixes = {Path(path).suffix.lower() for path in figures}
    if not suffixes <= {".svg", ".pdf", ".png"}:
        raise ValueError(f"images must be .svg, .pdf or .png, got {names}")

    images = []
    try:
        with ExitStack() as stack:
            for path, figure in figures.items():
                suffix = Path(path).suffix.lower()
                options = {
                    "format": suffix[1:],
                    "scale": _PNG_SCALE if suffix == ".png" else 1,
                    "width": figure.layout.width or _WIDTH,
                    "height": figure.layout.height,
                }
                scratch = stack.enter_context(replacing(path))
                images.append({"fig": on_white(figure), "path": scratch, "opts": options})
            # plotly's own `write_images` loses errors, and each time waits for MathJax from the
            # internet.
            page = kaleido.PageGenerator(mathjax=False)
            # A PDF page is as large as its figure: a margin would push out its lower right edges.
            page.header += "<style>@page { margin: 0; }</style>"
            errors = kaleido.write_fig_from_object_sync(images, kopts={"page_generator": page})
            if errors:
                raise errors[0]
    except ChromeNotFoundError as error:
        message = (
            f"no images are written ({names}), because they need Chrome or Chromium, and "
            "none was found"
        )
        raise RuntimeError(message) from error
