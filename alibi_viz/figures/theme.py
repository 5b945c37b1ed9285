"""Colors, fonts and the empty figure from which every figure starts; theme.toml says why they are what they are."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, DTypeLike, NDArray
from plotly.colors import sequential
from plotly.io import write_images
from torch import Tensor

_THEME = tomllib.loads(Path(__file__).with_name("theme.toml").read_text(encoding="utf-8"))
COLORS, DASHES, SYMBOLS, DIVERGING = (tuple(_THEME[name]) for name in ("colors", "dashes", "symbols", "diverging"))
SEQUENTIAL = tuple(sequential.Cividis)
# Half-transparent gray, different from zero and from every color of the scales.
MASKED_RGBA, MASKED = (128, 128, 128, 90), "rgba(128, 128, 128, 0.35)"
SHADE = "rgba(128, 128, 128, 0.10)"  # of lengths beyond those of training
DOTTED = {"color": "#8C8C8C", "width": 1.5, "dash": "dot"}
COLOR_BAR = {"thickness": 10, "outlinewidth": 0, "xpad": 0, "ticks": "outside", "ticklen": 3}
INK = _THEME["template"]["font"]["color"]
_AXES = {"xaxis": _THEME["axis"], "yaxis": _THEME["axis"]}
_TEMPLATE = go.layout.Template(layout={**_THEME["template"], **_AXES, "colorway": COLORS})
_WIDTH, _PNG_SCALE = 900, 2  # of saved images: pixels of the figure, and pixels of a PNG for each of these
STYLE = f"<style>\n{Path(__file__).with_name('theme.css').read_text(encoding='utf-8')}</style>"


def blank(height: int, **layout: object) -> go.Figure:
    """An empty figure in the common style, as wide as the page. `layout` are further plotly layout properties."""
    return go.Figure(layout={"template": _TEMPLATE, "height": height, "autosize": True, **layout})


def on_white(figure: go.Figure) -> go.Figure:
    """A plain copy with a white background and without the random ids of a live figure, for files."""
    copy = go.Figure(figure)
    copy.update_layout(paper_bgcolor="white", plot_bgcolor="white")
    for trace in copy.data:
        trace.uid = None
    return copy


def rgb(scale: tuple[str, ...], steps: int) -> NDArray[np.uint8]:
    """A color scale sampled at `steps` evenly spaced positions: uint8 [steps, 3], linear between its colors.

    >>> from alibi_viz.figures import theme
    >>> rgb(DIVERGING, 9)[4].tolist()
    [255, 255, 255]
    """
    stops = np.array([list(bytes.fromhex(color[1:])) for color in scale])
    where = np.linspace(0, len(scale) - 1, steps)
    return np.stack([np.interp(where, range(len(scale)), channel) for channel in stops.T], 1).round().astype(np.uint8)


def as_array(values: ArrayLike | Tensor, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """`np.asarray`, also for tensors that require gradients, are on a GPU or have a dtype unknown to NumPy.

    >>> as_array(torch.ones(2, dtype=torch.bfloat16, requires_grad=True))
    array([1., 1.])
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values  # NumPy has no bfloat16
    return np.asarray(values, dtype=dtype)


def with_gaps(values: ArrayLike | Tensor, masked: ArrayLike | None = None) -> NDArray[np.object_]:
    """The z of a heatmap: None where a cell is masked, or NaN if there is no mask. plotly would send NaN as text."""
    cells = as_array(values)
    gaps: NDArray[np.object_] = cells.astype(object)
    gaps[np.isnan(cells) if masked is None else np.asarray(masked)] = None
    return gaps


def update_changed(target: Any, **properties: Any) -> None:
    """`target.update(**properties)` for a plotly object, without the properties that have these values already.

    plotly validates every value that it is given, equal or not: 0.2 ms each.
    """
    for name, value in properties.items():
        if not np.array_equal(target[name], value):
            target[name] = value


def save_images(figures: Mapping[str | Path, go.Figure]) -> None:
    """Write figures to files on a white background, {path: figure}; the suffix is .svg, .pdf or .png.

    One browser draws them all, which is faster than one after the other. Raises ValueError for another suffix, and
    RuntimeError if there is no Chrome or Chromium.
    """
    from kaleido.errors import ChromeNotFoundError  # noqa: PLC0415  # slow to import, rarely needed

    suffixes, names = [Path(path).suffix.lower() for path in figures], ", ".join(Path(path).name for path in figures)
    if not {*suffixes} <= {".svg", ".pdf", ".png"}:
        raise ValueError(f"images must be .svg, .pdf or .png, got {names}")
    scales = [_PNG_SCALE if suffix == ".png" else 1 for suffix in suffixes]
    try:
        write_images(fig=[*map(on_white, figures.values())], file=[*map(str, figures)], width=_WIDTH, scale=scales)
    except ChromeNotFoundError as error:
        message = f"no images are written ({names}), because they need Chrome or Chromium, and none was found"
        raise RuntimeError(message) from error
