"""The bias of every head as small multiples: one square tile per head, all on one color scale.

A tile shows either the bias or what the softmax makes of it, e^bias. The tiles are one layout image, see atlas.py. The
two traces are an invisible heatmap for hover texts and clicks, and the titles, whose markers carry the color bar.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import theme
from alibi_viz.figures.arrays import as_array, update_changed
from alibi_viz.figures.atlas import BORDER, Atlas, on_tile_click
from alibi_viz.figures.color_scale import SCALES, WEIGHT_SCALE, ColorScale

__all__ = ["SCALES", "SHOWS", "bias_figure", "blank", "draw", "on_click", "weights_from_bias"]

SHOWS = ("weight", "bias")
HOVER_ALL, HOVER_ONE = 2048, 65536  # cells with a hover text: with several heads in the figure, and with one
_HOVER, _TITLES = range(2)
# On each change, a FigureWidget redraws every visible trace and copies all data, so this empties the hover layer.
_NO_HOVER = {"visible": False, "x": None, "y": None, "z": None, "customdata": None}
_TEMPLATE = (
    "head %{customdata[0]}<br>query %{customdata[1]}, key %{customdata[2]}<br>distance %{customdata[3]}"
    "<br>bias %{customdata[4]}<br>relative weight %{customdata[5]:.3g}<extra></extra>"
)
_TOP, _BOTTOM, _LEFT, _RIGHT, _PAD = 58, 46, 56, 20, 2  # margins, in pixels; the last is for the frames of the tiles
_BAR_LENGTH, _LEGEND_WIDTH, _LETTER = 220, 440, 6.2  # pixels: the color bar, with its text; a letter of a title

Floats = NDArray[np.float32]


def bias_figure(bias: ArrayLike, masked: ArrayLike, **options: Any) -> go.Figure:
    """Biases as a plain plotly figure with hover texts. The arguments are those of `draw`.

    >>> from alibi_viz import figures
    >>> figure = figures.bias_figure(alibi_bias(alibi_slopes(2), 4), ~causal_mask(4), show="bias")
    >>> figure.data[0].customdata[3, 0].tolist()  # head, query, key, distance, bias and relative weight of a cell
    [1, 3, 0, 3, -0.1875, 0.8290291]
    """
    figure = blank()
    add_hover = draw(figure, bias, masked, **options)
    add_hover(figure)
    return figure


def blank() -> go.Figure:
    """The figure without data."""
    margin = {"l": _LEFT, "r": _RIGHT, "t": _TOP, "b": _BOTTOM}
    figure = theme.blank(480, hovermode="closest", showlegend=False, margin=margin)
    figure.add_heatmap(opacity=0, showscale=False, hoverongaps=False, hovertemplate=_TEMPLATE)
    marker = {"color": [0], "coloraxis": "coloraxis", "opacity": 0, "size": 1}
    text = {"textposition": "top right", "textfont": {"size": 11}, "cliponaxis": False, "hoverinfo": "skip"}
    figure.add_scatter(mode="markers+text", marker=marker, **text)
    figure.add_layout_image(xref="x", yref="y", x=-BORDER, y=-BORDER, sizing="stretch", layer="below")
    bar = {"orientation": "h", "thickness": 10, "len": _BAR_LENGTH, "lenmode": "pixels", "outlinewidth": 0}
    bar |= {"x": 0, "xanchor": "left", "yref": "container", "y": 1, "yanchor": "top", "ypad": 6, "xpad": 0}
    figure.update_layout(coloraxis_colorbar={**bar, "ticks": "outside", "ticklen": 3})
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
    numbers = np.arange(1, tiles + 1) if heads is None else np.asarray(heads)
    atlas = Atlas(tiles, page_width - _LEFT - _RIGHT - 2 * _PAD)
    positions = atlas.visible_cells(length)
    if show == "weight":
        colors = WEIGHT_SCALE
        cells = weights_from_bias(values[:, positions], hidden[:, positions])[..., positions]
    else:
        visible = np.where(hidden, np.float32(0), values)
        colors = ColorScale.around_zero(float(visible.min(initial=0)), float(visible.max(initial=0)), scale)
        cells = visible[:, positions][..., positions]
    png = atlas.png(colors.indices(cells), hidden[:, positions][..., positions], colors.palette)
    gray = f' &nbsp; <span style="color:{theme.MASKED}">■</span> masked' if hidden.any() else ""
    text = {"weight": "weight left, e<sup>bias</sup>", "bias": f"bias, {scale} scale"}[show]
    with figure.batch_update():
        _place_tiles(figure, atlas, page_width)
        _label_tiles(figure, atlas, length, numbers, slopes)
        figure.layout.images[0].source = png
        update_changed(figure.data[_HOVER], **_NO_HOVER)
        update_changed(figure.layout.coloraxis, **colors.axis)
        update_changed(figure.layout.coloraxis.colorbar, **colors.bar)
        update_changed(figure.layout.annotations[0], text=text + gray)
    return lambda figure: _add_hover(figure, atlas, values, hidden, numbers)


def on_click(figure: go.FigureWidget, callback: Callable[[int], None]) -> None:
    """Call `callback(head)` with the head's number when the user clicks a tile of a live figure."""
    on_tile_click(figure.data[_HOVER], callback)


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


def _place_tiles(figure: go.Figure, atlas: Atlas, page_width: int) -> None:
    """The size of the figure, its axes and the image. One unit of an axis is one pixel."""
    across, down = atlas.extent
    width, height = across + 2 * _PAD, down + 2 * _PAD
    total_width = max(width, min(_LEGEND_WIDTH, page_width - _LEFT - _RIGHT))
    update_changed(figure.layout, width=total_width + _LEFT + _RIGHT, height=height + _TOP + _BOTTOM)
    update_changed(figure.layout.xaxis, range=[-_PAD, across + _PAD], domain=[0, width / total_width])
    update_changed(figure.layout.yaxis, range=[down + _PAD, -_PAD])
    update_changed(figure.layout.images[0], sizex=across + 2 * BORDER, sizey=down + 2 * BORDER)


def _label_tiles(
    figure: go.Figure, atlas: Atlas, length: int, numbers: NDArray[np.integer], slopes: Sequence[str] | None
) -> None:
    """Positions on the axes, and above each tile its head, with the slope if all tiles have room for it."""
    update_changed(figure.layout.xaxis, **_ticks(atlas, length, atlas.columns, 0))
    update_changed(figure.layout.yaxis, **_ticks(atlas, length, atlas.rows, 1))
    corners = np.array([atlas.corner(tile) for tile in range(atlas.tiles)])
    titles = [f"head {number}" for number in numbers]
    if slopes is not None:
        long = [f"{title}, m = {slope}" for title, slope in zip(titles, slopes, strict=True)]
        titles = long if max(map(len, long)) * _LETTER <= atlas.side else titles
    update_changed(figure.data[_TITLES], x=corners[:, 0], y=corners[:, 1], text=titles)


def _ticks(atlas: Atlas, length: int, tiles: int, axis: int) -> dict[str, object]:
    """The first, the middle and the last position of every tile along an axis. Small tiles share the ends of the first.

    There, a 0 would run into the last position of the tile to its left, and the browser needs 1 ms per label.
    """
    last, roomy = length - 1, atlas.side >= 160
    positions = sorted({0, last // 2, last} if roomy else {0, last})
    tiles = tiles if roomy else 1
    places = [tile * atlas.pitch[axis] + (at + 0.5) * atlas.side / length for tile in range(tiles) for at in positions]
    return {"tickvals": places, "ticktext": [str(at) for at in positions] * tiles}


def _add_hover(
    figure: go.Figure, atlas: Atlas, values: Floats, hidden: NDArray[np.bool_], heads: NDArray[np.integer]
) -> None:
    """Fill the invisible heatmap: for every cell [head, query, key, distance, bias, relative weight].

    z is the head in a cell and None in a gap between tiles, which has no hover text.
    """
    length = values.shape[-1]
    positions = atlas.hover_cells(length, HOVER_ONE if atlas.tiles == 1 else HOVER_ALL)
    query, key = np.meshgrid(positions, positions, indexing="ij")
    bias = _shortest(values[:, query, key])
    bias[hidden[:, query, key]] = "masked"
    weight = _shortest(weights_from_bias(values[:, positions], hidden[:, positions])[..., positions])
    numbers = np.broadcast_arrays(heads[:, None, None], query, key, np.abs(query - key), bias, weight)
    custom = atlas.hover_sheet(np.stack(numbers, axis=-1, dtype=object))
    z = custom[..., 0]
    x, y = atlas.hover_edges(length, len(positions))
    with figure.batch_update():
        figure.data[_HOVER].update(x=x, y=y, z=z, customdata=custom, visible=True)


def _shortest(values: Floats) -> NDArray[np.object_]:
    """float32 values as Python floats with their own shortest digits, not the 17 digits of a converted float64."""
    return values.astype(str).astype(np.float64).astype(object)
