"""Colors, fonts and the empty figure from which every figure starts.

Figures must be readable in JupyterLab's light and dark themes. So their background is transparent, lines are
half-transparent gray, and the colors below have enough contrast on white and on near-black. No single color suits text
on both: inside an app, `STYLE` gives it the notebook's text color; a saved figure gets a white background (`on_white`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, DTypeLike, NDArray
from plotly.colors import sequential
from plotly.io import write_images
from torch import Tensor

# Okabe and Ito's palette, distinct for all common kinds of color blindness. Its black and yellow are left out, because
# they disappear on one of the two themes; its orange and sky blue are darkened for the light one. Each color has a
# contrast of at least 3 to white and to #111111. Give every series a dash or a symbol too: never rely on color alone.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#BE8400", "#4499D0", "#8C8C8C")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross")

# Blue below zero, orange above, white at zero: for ranges [-a, a] only. Lightness decreases evenly on both sides,
# so the distance from zero can be read in a grayscale print.
DIVERGING = ("#0B2A5B", "#1F5FA8", "#5B9BD0", "#AFD0E8", "#FFFFFF", "#F8CFA0", "#E8974A", "#B8560F", "#5E2403")
SEQUENTIAL = tuple(sequential.Cividis)
# Half-transparent gray, different from zero and from every color of the scales. Captions explain what is masked.
MASKED_RGBA = (128, 128, 128, 90)
MASKED = "rgba(128, 128, 128, 0.35)"
SHADE = "rgba(128, 128, 128, 0.10)"  # of lengths beyond those of training
DOTTED = {"color": "#8C8C8C", "width": 1.5, "dash": "dot"}
COLOR_BAR = {"thickness": 10, "outlinewidth": 0, "xpad": 0, "ticks": "outside", "ticklen": 3}

INK = "#2B2B2B"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_WIDTH, _PNG_SCALE = 900, 2  # of saved images: pixels of the figure, and pixels of a PNG for each of these
_LINE = "rgba(128, 128, 128, 0.30)"
_TRANSPARENT = "rgba(0, 0, 0, 0)"
_AXIS = {"gridcolor": _LINE, "zeroline": False, "linecolor": _LINE, "ticks": "outside", "ticklen": 4}
_AXIS |= {"tickcolor": _LINE, "title": {"standoff": 8}}
_TEMPLATE = go.layout.Template(
    layout={
        "paper_bgcolor": _TRANSPARENT,
        "plot_bgcolor": _TRANSPARENT,
        "font": {"family": _FONT, "size": 12, "color": INK},
        "colorway": COLORS,
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "margin": {"l": 60, "r": 24, "t": 40, "b": 48},
        "hoverlabel": {"bgcolor": INK, "bordercolor": "#888888", "font": {"color": "white", "family": _FONT}},
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0, "bgcolor": _TRANSPARENT},
        "dragmode": False,  # otherwise scrolling a touch screen would zoom the figure
    }
)

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
    stops = np.array([[int(color[at : at + 2], 16) for at in (1, 3, 5)] for color in scale])
    where = np.linspace(0, len(scale) - 1, steps)
    channels = [np.interp(where, np.arange(len(scale)), stops[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=1).round().astype(np.uint8)


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

    names = ", ".join(Path(path).name for path in figures)
    suffixes = [Path(path).suffix.lower() for path in figures]
    if not {*suffixes} <= {".svg", ".pdf", ".png"}:
        raise ValueError(f"images must be .svg, .pdf or .png, got {names}")
    drawn = [on_white(figure) for figure in figures.values()]
    scales = [_PNG_SCALE if suffix == ".png" else 1 for suffix in suffixes]
    try:
        write_images(fig=drawn, file=list(map(str, figures)), width=_WIDTH, scale=scales)
    except ChromeNotFoundError as error:
        message = f"no images are written ({names}), because they need Chrome or Chromium, and none was found"
        raise RuntimeError(message) from error
