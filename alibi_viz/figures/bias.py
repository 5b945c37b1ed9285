"""The bias of every head as small multiples: one square tile per head, all on one color scale.

A tile shows either the bias or what the softmax makes of it, e^bias. The tiles are a grid of matrices.py, and the
markers of their titles carry the color bar.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import matrices, theme
from alibi_viz.figures.color_scale import WEIGHT_SCALE, ColorScale
from alibi_viz.figures.matrices import Grid
from alibi_viz.figures.theme import as_array, update_changed

SHOWS = ("weight", "bias")
HOVER_ALL, HOVER_ONE = 2048, 65536  # cells with a hover text: with several heads in the figure, and with one
_TEMPLATE = (
    "head %{z}<br>query %{customdata[0]}, key %{customdata[1]}<br>distance %{customdata[2]}"
    "<br>bias %{customdata[3]}<br>relative weight %{customdata[4]:.3g}"
)
_TOP, _BOTTOM, _LEFT, _RIGHT = 58, 46, 56, 20  # margins, in pixels
_PAD = 4  # pixels around the grid
_BAR_LENGTH, _LEGEND_WIDTH = 220, 440  # pixels: the color bar, and the same with its text

Floats = NDArray[np.float32]


def bias_figure(bias: ArrayLike, masked: ArrayLike, **options: Any) -> go.Figure:
    """Biases as a plain plotly figure with hover texts. The arguments are those of `draw`.

    >>> from alibi_viz import figures
    >>> figure = figures.bias_figure(alibi_bias(alibi_slopes(2), 4), ~causal_mask(4), show="bias")
    >>> figure.data[0].customdata[3, 0].tolist()  # query, key, distance, bias and relative weight of a cell of head 1
    [3, 0, 3, -0.1875, 0.8290291]
    """
    figure = blank()
    add_hover = draw(figure, bias, masked, **options)
    add_hover(figure)
    return figure


def blank() -> go.Figure:
    """The figure without data."""
    margin = {"l": _LEFT, "r": _RIGHT, "t": _TOP, "b": _BOTTOM}
    figure = theme.blank(480, hovermode="closest", showlegend=False, margin=margin)
    matrices.add_grid(figure, _TEMPLATE)
    matrices.named_trace(figure, "titles").marker.update(color=[0], coloraxis="coloraxis")
    bar = {**theme.COLOR_BAR, "orientation": "h", "len": _BAR_LENGTH, "lenmode": "pixels", "ypad": 6}
    bar |= {"x": 0, "xanchor": "left", "yref": "container", "y": 1, "yanchor": "top"}
    figure.update_layout(coloraxis_colorbar=bar)
    axis = {"showgrid": False, "showline": False, "tickangle": 0, "fixedrange": True}
    figure.update_xaxes(**axis, title_text="key position j")
    # Tiles are square because of the figure's size. A `scaleanchor` would fail when the page is resized.
    figure.update_yaxes(**axis, title_text="query position i", scaleanchor=False)
    place = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "middle"}
    figure.add_annotation(place, showarrow=False, xshift=_BAR_LENGTH + 20, yshift=_TOP - 12)
    return figure


def draw(
    figure: go.Figure,
    bias: ArrayLike,
    masked: ArrayLike,
    *,
    show: str = "weight",
    heads: ArrayLike | None = None,
    slopes: Sequence[str] | None = None,
    scale: str = "linear",
    page_width: int = 880,
) -> Callable[[go.Figure], None]:
    """Draw one tile per head into a figure from `blank`, plain or live.

    Returns a function that adds the hover texts to the figure. They take the browser longer than the image, so an app
    calls it when the user stops moving a control.

    Args:
        figure: the figure.
        bias: [heads, length, length] or [heads, 1, length]; finite where not masked.
        masked: bool, broadcastable to [heads, length, length]; these cells are gray.
        show: "weight" for the weight that a key gets at equal content, relative to the most favored key of its query
            (see `weights_from_bias`), or "bias" for the bias itself.
        heads: [heads], the number of each head; 1, 2, ... by default.
        slopes: [heads], the text of each slope, added to the title of its tile if there is room; none by default.
        scale: the color scale of the bias for all heads: "linear", or "logarithmic" with a linear part from -1/16 to
            1/16. Zero is in the middle or at an end.
        page_width: pixels available for the figure.
    """
    values, hidden = as_array(bias, np.float32), as_array(masked, bool)
    tiles, length = len(values), values.shape[-1]
    values, hidden = (np.broadcast_to(array, (tiles, length, length)) for array in (values, hidden))
    numbers = range(1, tiles + 1) if heads is None else np.asarray(heads).tolist()
    grid = Grid(tiles, page_width - _LEFT - _RIGHT - 2 * _PAD)
    positions = grid.visible_cells(length)
    shown = hidden[:, positions][..., positions]
    if show == "weight":
        colors = WEIGHT_SCALE
        cells = weights_from_bias(values[:, positions], hidden[:, positions])[..., positions]
    else:
        visible = np.where(hidden, np.float32(0), values)
        colors = ColorScale.around_zero(float(visible.min(initial=0)), float(visible.max(initial=0)), scale)
        cells = visible[:, positions][..., positions]
    png = grid.png(colors.indices(cells), shown, colors.palette)
    gray = f' &nbsp; <span style="color:{theme.MASKED}">■</span> masked' if hidden.any() else ""
    text = {"weight": "weight left, e<sup>bias</sup>", "bias": f"bias, {scale} scale"}[show]
    with figure.batch_update():
        _place(figure, grid, length, page_width)
        matrices.fill_grid(figure, grid, png, _titles(grid, numbers, slopes))
        matrices.clear_hover(figure)
        update_changed(figure.layout.coloraxis, **colors.axis)
        update_changed(figure.layout.coloraxis.colorbar, **colors.bar)
        update_changed(figure.layout.annotations[0], text=text + gray)
    return lambda figure: _add_hover(figure, grid, values, hidden, numbers)


def weights_from_bias(bias: Floats, masked: NDArray[np.bool_]) -> Floats:
    """e^(bias - the largest visible bias of its row), 0 where masked: the softmax before its normalization.

    This is a key's weight relative to that of the most favored key of the same query, if the content of both is equal.
    Forms of ALiBi that give the same attention weights also give the same result here.

    >>> bias, masked = alibi_bias(torch.tensor([1.0]), 3, form="key").expand(-1, 3, -1), ~causal_mask(3)
    >>> weights_from_bias(bias.numpy(), masked.numpy())[0, 2].round(3)
    array([0.135, 0.368, 1.   ], dtype=float32)
    """
    visible = np.where(masked, np.float32(-np.inf), bias)
    largest = visible.max(-1, keepdims=True)
    visible -= np.where(np.isneginf(largest), 0, largest)
    return np.exp(visible, out=visible)


def _place(figure: go.Figure, grid: Grid, length: int, page_width: int) -> None:
    """The size of the figure and its axes, where one unit is one pixel, with the positions of the tiles' cells.

    Tiles with room show their first, middle and last position. Small ones share the ends of the first: a 0 would run
    into the last position of the tile to its left, and the browser needs 1 ms per label.
    """
    across, down = (size + 2 * _PAD for size in grid.extent)
    width = max(across, min(_LEGEND_WIDTH, page_width - _LEFT - _RIGHT))
    update_changed(figure.layout, width=width + _LEFT + _RIGHT, height=down + _TOP + _BOTTOM)
    last, roomy = length - 1, grid.side >= 160
    positions = np.unique([0, last // 2, last] if roomy else [0, last])
    axes = (figure.layout.xaxis, figure.layout.yaxis)
    for axis, limits, corners in zip(axes, matrices.grid_ranges(grid, width), grid.corners.T, strict=True):
        starts = np.unique(corners) if roomy else corners[:1]
        places = np.add.outer(starts, (positions + 0.5) * grid.side / length).ravel()
        update_changed(axis, range=limits, tickvals=places, ticktext=positions.astype(str).tolist() * len(starts))


def _titles(grid: Grid, numbers: Sequence[int], slopes: Sequence[str] | None) -> list[str]:
    """The number of each head, with the slope if all tiles have room for it."""
    titles = [f"head {number}" for number in numbers]
    if slopes is not None:
        long = [f"{title}, m = {slope}" for title, slope in zip(titles, slopes, strict=True)]
        titles = long if max(map(len, long)) * matrices.LETTER <= grid.side else titles
    return titles


def _add_hover(
    figure: go.Figure, grid: Grid, values: Floats, hidden: NDArray[np.bool_], numbers: Sequence[int]
) -> None:
    """Fill the hover layer: for every cell [query, key, distance, bias, relative weight]."""
    length = values.shape[-1]
    positions = grid.hover_cells(length, HOVER_ONE if grid.tiles == 1 else HOVER_ALL)
    query, key = np.meshgrid(positions, positions, indexing="ij")
    bias = _shortest(values[:, query, key])
    bias[hidden[:, query, key]] = "masked"
    weight = _shortest(weights_from_bias(values[:, positions], hidden[:, positions])[..., positions])
    cells = np.stack(np.broadcast_arrays(query, key, np.abs(query - key), bias, weight), axis=-1, dtype=object)
    with figure.batch_update():
        matrices.fill_hover(figure, grid, length, cells, numbers)


def _shortest(values: Floats) -> NDArray[np.object_]:
    """float32 values as Python floats with their own shortest digits, not the 17 digits of a converted float64."""
    return values.astype(str).astype(np.float64).astype(object)
