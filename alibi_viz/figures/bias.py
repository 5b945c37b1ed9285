"""The bias of every head as small multiples: one colour scale, masked cells grey, true values under the pointer.

Five traces on one pair of axes, made once: the image (see atlas.py), frames, an invisible heatmap that answers the
pointer, a marker that is never seen but carries the colour bar, and titles.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.figures import theme
from alibi_viz.figures.atlas import Atlas
from alibi_viz.figures.color_scale import SCALES, ColorScale

__all__ = ["SCALES", "answer_pointer", "bias_figure", "blank", "draw", "on_click"]

HOVER_MANY, HOVER_ONE = 2048, 65536  # cells that answer the pointer: with all heads in view, and with one
_IMAGE, _FRAMES, _HOVER, _BAR, _TITLES = range(5)
_TEMPLATE = (
    "head %{customdata[0]}<br>query %{customdata[1]}, key %{customdata[2]}<br>distance %{customdata[3]}"
    "<br>bias %{customdata[4]}<extra></extra>"
)
_TOP, _BOTTOM, _LEFT, _RIGHT = 60, 48, 58, 16  # margins, in pixels
_BAR_LENGTH, _LEGEND, _LETTER = 280, 480, 6.2  # pixels: the colour bar, with its words, and a title's average letter


def bias_figure(bias: ArrayLike, masked: ArrayLike, **options: object) -> go.Figure:
    """The picture as a plain figure; the arguments are those of `draw`.

    >>> from alibi_viz.figures.bias import bias_figure
    >>> figure = bias_figure(alibi_bias(alibi_slopes(2), 4), ~causal_mask(4))
    >>> figure.data[2].customdata[3, 0].tolist()  # the first cell of the last row: head, query, key, distance, bias
    [1, 3, 0, 3, -0.1875]
    """
    figure = blank()
    draw(figure, bias, masked, **options)  # type: ignore[arg-type]
    return figure


def blank() -> go.Figure:
    """The sheet with its five traces."""
    margin = {"l": _LEFT, "r": _RIGHT, "t": _TOP, "b": _BOTTOM}
    figure = theme.blank(480, hovermode="closest", showlegend=False, margin=margin)
    figure.add_image(colormodel="rgba", hoverinfo="skip")
    line = {"color": theme.MASKED, "width": 1}
    figure.add_scatter(mode="lines", line=line, cliponaxis=False, hoverinfo="skip")
    figure.add_heatmap(opacity=0, showscale=False, hoverongaps=False, hovertemplate=_TEMPLATE)
    figure.add_scatter(
        x=[None], y=[None], mode="markers", marker={"color": [1], "coloraxis": "coloraxis"}, hoverinfo="skip"
    )
    # Titles have a trace of their own: as texts of the frames, with none at most points, they get lost on a redraw.
    figure.add_scatter(mode="text", textposition="top right", textfont={"size": 11}, cliponaxis=False, hoverinfo="skip")
    bar = {"orientation": "h", "thickness": 10, "len": _BAR_LENGTH, "lenmode": "pixels", "outlinewidth": 0}
    bar |= {"x": 0, "xanchor": "left", "yref": "container", "y": 1, "yanchor": "top", "ypad": 6, "xpad": 0}
    figure.update_layout(coloraxis_colorbar={**bar, "ticks": "outside", "ticklen": 3})
    axis = {"showgrid": False, "showline": False, "tickangle": 0, "fixedrange": True}
    figure.update_xaxes(**axis, title_text="key position j")
    # The tiles are square because width and height are chosen so; plotly's own way goes astray when a page is resized.
    figure.update_yaxes(**axis, title_text="query position i", scaleanchor=False)
    place = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "middle"}
    figure.add_annotation(place, showarrow=False, xshift=_BAR_LENGTH + 20, yshift=_TOP - 12)
    return figure


def draw(
    figure: go.Figure,
    bias: ArrayLike,
    masked: ArrayLike,
    *,
    heads: ArrayLike | None = None,
    slopes: list[str] | None = None,
    scale: str = "linear",
    page_width: int = 880,
    pointer: bool = True,
) -> None:
    """Put the biases into the sheet, one tile a head.

    Args:
        figure: what `blank` made, plain or live.
        bias: [heads, length, length] or broadcastable to it, finite where not masked.
        masked: bool, likewise; these cells are grey.
        heads: [heads], the number of each head; 1, 2, ... by default.
        slopes: [heads], each slope as it is written above its tile where there is room; none by default.
        scale: "linear" or "logarithmic" (linear up to 1/16, logarithmic beyond), over all that is shown. Zero is always
            the middle of the colour scale or its end.
        page_width: pixels that the picture may take.
        pointer: answer the pointer. That takes the browser half as long again, so a picture that is moving leaves it to
            `answer_pointer`, once it stands still.
    """
    values = np.asarray(bias, dtype=np.float32)
    hidden = np.asarray(masked, dtype=bool)
    numbers = np.arange(1, len(values) + 1) if heads is None else np.asarray(heads)
    atlas = Atlas(len(values), values.shape[-1], page_width - _LEFT - _RIGHT)
    visible = np.where(hidden, np.float32(0), values)
    colors = ColorScale.around_zero(float(visible.min(initial=0)), float(visible.max(initial=0)), scale)
    png = atlas.png(colors.indices(visible), hidden, colors.palette)
    hover = _hover(atlas, values, hidden, numbers) if pointer else {"visible": False}
    width, height = atlas.extent
    with figure.batch_update():
        across, down = (side * atlas.tile_pixels / atlas.length for side in atlas.extent)  # pixels
        whole = max(across, min(_LEGEND, page_width - _LEFT - _RIGHT))  # the colour bar and its words need room
        figure.layout.update(width=round(whole) + _LEFT + _RIGHT, height=round(down) + _TOP + _BOTTOM)
        figure.layout.xaxis.update(range=[0, width], domain=[0, across / whole], **_ticks(atlas, atlas.columns, 0))
        figure.layout.yaxis.update(range=[height, 0], **_ticks(atlas, atlas.rows, 1))
        step = 1 / atlas.zoom  # an image trace places the centre of its first pixel
        figure.data[_IMAGE].update(source=png, x0=step / 2, y0=step / 2, dx=step, dy=step)
        figure.data[_IMAGE].zsmooth = "fast" if atlas.tile_pixels < atlas.length * atlas.zoom else False
        corners = np.array([atlas.corner(tile) for tile in range(atlas.tiles)])  # [tiles, x and y]
        figure.data[_FRAMES].update(_frames(corners, atlas.length))
        figure.data[_TITLES].update(x=corners[:, 0], y=corners[:, 1], text=_titles(atlas, numbers, slopes))
        figure.data[_HOVER].update(hover)
        figure.layout.coloraxis.update(colors.axis)
        grey = f' &nbsp; <span style="color:{theme.MASKED}">■</span> masked' if hidden.any() else ""
        figure.layout.annotations[0].text = f"{scale} scale{grey}"


def answer_pointer(
    figure: go.Figure, bias: ArrayLike, masked: ArrayLike, heads: ArrayLike | None = None, page_width: int = 880
) -> None:
    """Add the true values under the pointer to what `draw(..., pointer=False)` drew from the same arguments."""
    values, hidden = np.asarray(bias, dtype=np.float32), np.asarray(masked, dtype=bool)
    numbers = np.arange(1, len(values) + 1) if heads is None else np.asarray(heads)
    atlas = Atlas(len(values), values.shape[-1], page_width - _LEFT - _RIGHT)
    with figure.batch_update():
        figure.data[_HOVER].update(_hover(atlas, values, hidden, numbers))


def on_click(figure: go.FigureWidget, answer: Callable[[int], None]) -> None:
    """Call `answer(head)`, with the head's number, when the user clicks into a tile of a live figure."""

    def clicked(trace: go.Heatmap, points: Any, _: Any) -> None:
        for row, column in points.point_inds:
            if trace.z[row][column] is not None:  # not a gap
                answer(int(trace.customdata[row][column][0]))

    figure.data[_HOVER].on_click(clicked)


def _titles(atlas: Atlas, numbers: NDArray[np.integer], slopes: list[str] | None) -> list[str]:
    """The number of each head, and its slope where all tiles have room for it."""
    short = [f"head {number}" for number in numbers]
    if slopes is None:
        return short
    long = [f"{name}, m = {slope}" for name, slope in zip(short, slopes, strict=True)]
    return long if max(map(len, long)) * _LETTER <= atlas.tile_pixels else short


def _frames(corners: NDArray[np.floating], side: int) -> dict[str, object]:
    """A line around each tile, where white cells would melt into white paper."""
    around = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0], [np.nan, np.nan]]) * side  # NaN lifts the pen
    path = (corners[:, None, :] + around).reshape(-1, 2)
    return {"x": path[:, 0], "y": path[:, 1]}


def _ticks(atlas: Atlas, tiles: int, axis: int) -> dict[str, object]:
    """The first and the last position of every tile along an axis, and the middle one where there is room.

    Where there is little, a 0 would run into the last position of the tile to its left, and only the first is written.
    """
    last, roomy = atlas.length - 1, atlas.tile_pixels >= 160
    positions = sorted({0, last // 2, last} if roomy else {0, last})
    places = [tile * atlas.pitch[axis] + at + 0.5 for tile in range(tiles) for at in positions]
    words = [str(at) if roomy or at or not tile or axis else "" for tile in range(tiles) for at in positions]
    return {"tickvals": places, "ticktext": words}


def _hover(
    atlas: Atlas, values: NDArray[np.float32], hidden: NDArray[np.bool_], heads: NDArray[np.integer]
) -> dict[str, object]:
    """The invisible heatmap: its cell edges, and for every cell [head, query, key, distance, bias].

    z is 0 on a cell and None in a gap, where there is nothing to say.
    """
    picked = atlas.hover_cells(HOVER_ONE if atlas.tiles == 1 else HOVER_MANY)
    side = len(picked)
    rows, columns = atlas.rows * (side + 1) - 1, atlas.columns * (side + 1) - 1
    z = np.full((rows, columns), None, dtype=object)
    custom = np.full((rows, columns, 5), None, dtype=object)
    query, key = np.meshgrid(picked, picked, indexing="ij")
    # A float32 in its own shortest digits: converted to Python's float it would drag 9 false digits along.
    exact = values[:, query, key].astype(str).astype(np.float64).astype(object)
    exact[np.broadcast_to(hidden, values.shape)[:, query, key]] = "masked"
    for tile in range(atlas.tiles):
        row, column = (at * (side + 1) for at in divmod(tile, atlas.columns))
        here = slice(row, row + side), slice(column, column + side)
        z[here] = 0
        custom[here] = np.stack(
            [np.full_like(query, heads[tile]), query, key, np.abs(query - key), exact[tile]], axis=-1, dtype=object
        )
    edges = np.append(np.arange(0, atlas.length, math.ceil(atlas.length / side)), atlas.length)
    x, y = (
        np.concatenate([edges + tile * pitch for tile in range(tiles)])
        for tiles, pitch in zip((atlas.columns, atlas.rows), atlas.pitch, strict=True)
    )
    return {"x": x, "y": y, "z": z, "customdata": custom, "visible": True}
