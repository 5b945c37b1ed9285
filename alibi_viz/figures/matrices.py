"""Matrices in figures: large ones as heatmaps, and a grid of many small ones, such as one per head.

The grid is one PNG in a layout image. An invisible heatmap over it has the hover texts, for fewer cells if there are
many, and takes clicks. One heatmap per head would be simpler, but plotly gets every number as text: in JupyterLab, a
step of a slider took 239 ms for 16 heads of 128 x 128 and 1,702 ms for 32 of 256 x 256 (139 and 179 ms with at most 64
cells a side), compared with 46 and 65 ms for one image.

The coordinates of a grid are pixels on the page, x to the right and y down, from the upper left corner of the first
tile. They don't depend on the size of the matrices, so that only the image changes with it.
"""

import base64
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from PIL import Image

from alibi_viz.figures import theme
from alibi_viz.figures.color_scale import WEIGHT_SCALE
from alibi_viz.figures.theme import as_array, update_changed, with_gaps

LETTER = 6.2  # pixels of a letter of a title
_GAP, _MASKED, _FIRST_COLOR = 0, 1, 2  # the meaning of a byte in the image; colors go from 2 to 254
_DENSITY = 1.5  # image pixels per pixel on the page: sharp enough on high-resolution screens, and small
_MAX_SIDE = 440  # pixels of one tile
_PAD = 4  # pixels around the grid, for the frame of a tile; plotly hides what lies outside the axes
# Pixels between tiles, across and down: for two tick labels, and for a title. Like the sides, they are even numbers, so
# that `_DENSITY` makes them whole image pixels.
_GAPS = (18, 24)
_TILES, _TITLES = "tiles", "titles"  # the traces
_MOST_TICKS = 8


def png_source(pixels: NDArray[np.uint8], palette: bytes, **options: Any) -> str:
    """An image of rows of a palette [height, width] as a data URI. `options` are those of Pillow for PNG."""
    image, file = Image.fromarray(pixels, mode="P"), io.BytesIO()
    image.putpalette(palette)
    image.save(file, "PNG", **options)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def named_trace(figure: go.Figure, name: str) -> Any:
    """The trace of a figure with this name."""
    return next(figure.select_traces({"name": name}))


@dataclass(frozen=True)
class Grid:
    """`tiles` square matrices in rows, at most `width` pixels wide and `height` pixels high together.

    The default height leaves the controls in view.

    >>> grid = Grid(8, 840)
    >>> grid.rows, grid.columns, grid.side, grid.corners[5].tolist()
    (2, 4, 196, [214, 220])
    """

    tiles: int
    width: int = 840
    height: int = 500

    @cached_property
    def columns(self) -> int:
        """The number of columns that maximizes the tile side times the root of the filled share of the grid."""
        return max(range(1, self.tiles + 1), key=lambda n: self._side(n) / math.sqrt(n * math.ceil(self.tiles / n)))

    @property
    def rows(self) -> int:
        return math.ceil(self.tiles / self.columns)

    @cached_property
    def side(self) -> int:
        """The width and height of a tile."""
        return self._side(self.columns)

    @property
    def extent(self) -> tuple[int, int]:
        """The width and height of all tiles together."""
        x, y = (self.corners.max(0) + self.side).tolist()
        return x, y

    @cached_property
    def corners(self) -> NDArray[np.int64]:
        """The upper left corner of each tile, [tiles, 2]."""
        places = [divmod(tile, self.columns)[::-1] for tile in range(self.tiles)]
        return np.array(places) * (self.side + np.array(_GAPS))

    def arrange(self, cells: NDArray[Any], gaps: Sequence[int] = (1, 1), fill: Any = None) -> NDArray[Any]:
        """Arrange [tiles, side, side, ...] like the tiles, with gaps of so many cells across and down.

        >>> Grid(2).arrange(np.array([[["a"]], [["b"]]], dtype=object))
        array([['a', None, 'b']], dtype=object)
        """
        side = cells.shape[1]
        across, down = (side + gap for gap in gaps)
        shape = self.rows * down - gaps[1], self.columns * across - gaps[0], *cells.shape[3:]
        sheet = np.full(shape, fill, dtype=cells.dtype)
        for tile, each in enumerate(cells):
            row, column = divmod(tile, self.columns)
            sheet[row * down :, column * across :][:side, :side] = each
        return sheet

    def png(self, colors: NDArray[np.uint8], masked: NDArray[np.bool_], palette: NDArray[np.uint8]) -> str:
        """The image as a data URI.

        Args:
            colors: uint8 [tiles, length, length], rows of the palette; ignored where masked.
            masked: bool, broadcastable to the shape of `colors`.
            palette: uint8 [NUM_COLORS, 3], of a `ColorScale`.
        """
        cells = np.where(masked, np.uint8(_MASKED), colors + np.uint8(_FIRST_COLOR))
        cell_of_pixel = _centers(cells.shape[-1], int(self.side * _DENSITY))
        cells = cells.take(cell_of_pixel, axis=1).take(cell_of_pixel, axis=2)
        cells[:, [0, -1]] = cells[:, :, [0, -1]] = _MASKED  # a frame, so that white cells are visible on a white page
        sheet = self.arrange(cells, [int(gap * _DENSITY) for gap in _GAPS], fill=_GAP)
        *gray, opacity = theme.MASKED_RGBA
        options = {"transparency": bytes([0, opacity]), "compress_level": 1}
        return png_source(sheet, bytes(3) + bytes(gray) + palette.tobytes(), **options)

    def visible_cells(self, length: int) -> NDArray[np.int64]:
        """The positions 0 <= p < length that the image shows: all of them, or one per pixel if there are more cells."""
        side = int(self.side * _DENSITY)
        return np.arange(length) if length <= side else _centers(length, side)

    def hover_cells(self, length: int, limit: int) -> NDArray[np.int64]:
        """Evenly spaced positions 0 <= p < length, at least one, such that tiles * len(positions)^2 <= `limit`.

        >>> Grid(16).hover_cells(8, 1024).tolist(), Grid(16).hover_cells(8, 256).tolist()
        ([0, 1, 2, 3, 4, 5, 6, 7], [1, 3, 5, 7])
        """
        step = math.ceil(length / max(1, math.isqrt(limit // self.tiles)))
        return np.minimum(np.arange(step // 2, length + step // 2, step), length - 1)

    def _side(self, columns: int) -> int:
        counts = np.array([columns, math.ceil(self.tiles / columns)])
        sides = (np.array([self.width, self.height]) + _GAPS) / counts - _GAPS
        return max(int(min(*sides, _MAX_SIDE)) // 2 * 2, 2)


def _centers(cells: int, pixels: int) -> NDArray[np.int64]:
    """The cell under the center of each of `pixels` pixels."""
    return (2 * np.arange(pixels) + 1) * cells // (2 * pixels)


def add_grid(figure: go.Figure, template: str, x: str = "x", y: str = "y") -> None:
    """Add the image of a grid, its titles and its hover layer to a pair of axes. `template` is that of the hover texts.

    There, z is the number of the tile, counted from 1 or as given to `fill_hover`.
    """
    axes = {"xaxis": x, "yaxis": y}
    figure.add_heatmap(
        name=_TILES, opacity=0, showscale=False, hoverongaps=False, hovertemplate=f"{template}<extra></extra>", **axes
    )
    text = {"textposition": "top right", "textfont": {"size": 11}, "cliponaxis": False, "hoverinfo": "skip"}
    figure.add_scatter(name=_TITLES, mode="markers+text", marker={"opacity": 0, "size": 1}, **text, **axes)
    figure.add_layout_image(xref=x, yref=y, x=0, y=0, sizing="stretch", layer="below")


def fill_grid(figure: go.Figure, grid: Grid, png: str, titles: Sequence[str]) -> None:
    """Show matrices in the grid of a figure, with a title above each."""
    across, down = grid.extent
    update_changed(figure.layout.images[0], source=png, sizex=across, sizey=down)
    update_changed(named_trace(figure, _TITLES), x=grid.corners[:, 0], y=grid.corners[:, 1] - 2, text=titles)


def grid_ranges(grid: Grid, width: float | None = None) -> tuple[list[float], list[float]]:
    """The ranges of the axes of a grid, where one unit is one pixel. `width` is that of the x axis, if it is wider."""
    across, down = grid.extent
    return [-_PAD, (width or across + 2 * _PAD) - _PAD], [down + _PAD, -_PAD]


def fill_hover(figure: go.Figure, grid: Grid, length: int, custom: NDArray[np.object_], numbers: Sequence[int]) -> None:
    """Fill the hover layer: what the template shows of each cell [tiles, side, side, ...], and the tiles' numbers.

    The cells are those at `hover_cells` of matrices of `length`.
    """
    count = custom.shape[1]
    edges = np.append(np.arange(0, length, math.ceil(length / count)), length) * (grid.side / length)
    x, y = (np.add.outer(np.unique(starts), edges).ravel() for starts in grid.corners.T)
    z = np.broadcast_to(np.array(numbers, dtype=object)[:, None, None], custom.shape[:3])
    cells = {"z": grid.arrange(z), "customdata": grid.arrange(custom)}
    update_changed(named_trace(figure, _TILES), x=x, y=y, **cells, visible=True)


def clear_hover(figure: go.Figure) -> None:
    """Empty the hover layer: on each change, a FigureWidget redraws every visible trace and copies all data."""
    update_changed(named_trace(figure, _TILES), visible=False, x=None, y=None, z=None, customdata=None)


def on_tile_click(figure: go.FigureWidget, callback: Callable[[int], None]) -> None:
    """Call `callback(number)` when the user clicks a tile of a live figure."""

    def clicked(tiles: go.Heatmap, points: Any, _: Any) -> None:
        for row, column in points.point_inds:
            if tiles.z[row][column] is not None:  # not a gap
                callback(int(tiles.z[row][column]))

    named_trace(figure, _TILES).on_click(clicked)


def blank_pair() -> go.Figure:
    """The figure of two matrices without data."""
    figure = theme.blank(390, hovermode="closest", showlegend=False, margin={"l": 56, "r": 80, "t": 34, "b": 48})
    figure.set_subplots(1, 2, horizontal_spacing=0.06, subplot_titles=("correct", "other"))
    for column in (1, 2):
        figure.add_heatmap(coloraxis="coloraxis", hoverongaps=False, xgap=1, ygap=1, row=1, col=column)
    figure.update_annotations(font_size=14)
    figure.update_xaxes(showgrid=False, fixedrange=True, title_text="key position")
    figure.update_yaxes(showgrid=False, fixedrange=True)
    bar = {**theme.COLOR_BAR, "x": 1.02, **WEIGHT_SCALE.bar}
    return figure.update_layout(coloraxis={**WEIGHT_SCALE.axis, "colorbar": bar})


def draw_pair(
    figure: go.Figure,
    correct: Any,
    other: Any,
    *,
    rows: Sequence[int],
    keys: Sequence[int],
    row_name: str = "query",
    names: tuple[str, str] = ("correct", "other"),
) -> None:
    """Draw two matrices of weights side by side into a figure from `blank_pair`, plain or live.

    Args:
        figure: the figure.
        correct: [rows, keys], the weights of a correct implementation from 0 to 1; 0 is masked and not drawn.
        other: the weights to compare, the same shape.
        rows: the number of each row, such as the positions of the queries.
        keys: the positions of the keys.
        row_name: what a row is, "query" or "head".
        names: the titles of the two heatmaps.

    >>> figure = blank_pair()
    >>> draw_pair(figure, [[1.0, 0.0], [0.6, 1.0]], [[1.0, 0.0], [0.9, 1.0]], rows=[0, 1], keys=[0, 1])
    >>> figure.data[1].z  # weights of 0 are masked
    ([1.0, None], [0.9, 1.0])
    """
    with figure.batch_update():
        for column, (weights, name) in enumerate(zip((correct, other), names, strict=True)):
            hover = f"{row_name} %{{y}}, key %{{x}}<br>weight %{{z:.3g}}<extra>{name}</extra>"
            z = with_gaps(weights, ~(as_array(weights) > 0)).tolist()
            figure.data[column].update(x=list(keys), y=list(rows), z=z, hovertemplate=hover)
            figure.layout.annotations[column].text = f"<b>{name}</b>"
        figure.update_xaxes(range=[keys[0] - 0.5, keys[-1] + 0.5], tickvals=_last_and_others(keys))
        figure.update_yaxes(range=[rows[-1] + 0.5, rows[0] - 0.5], tickvals=_last_and_others(rows))
        figure.layout.yaxis.title.text = {"query": "query position"}.get(row_name, row_name)


def _last_and_others(positions: Sequence[int]) -> list[int]:
    """Every position or every few, with the last, which is the newest token."""
    return list(positions[:: -math.ceil(len(positions) / _MOST_TICKS)])[::-1]
