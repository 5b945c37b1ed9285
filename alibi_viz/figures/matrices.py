"""Many matrices in one figure, such as one per head: a grid of square tiles on one color scale.

The grid is one PNG in a layout image. An invisible heatmap over it has the hover texts, for fewer
cells if there are many, and takes clicks. One heatmap per head would be simpler, but plotly gets
every number as text: in JupyterLab, a step of a slider took 1,702 ms for 32 heads of 256 x 256 (179
ms with at most 64 cells a side), and one image 65 ms.

The coordinates of a grid are pixels on the page, x to the right and y down, from the upper left
corner of the first tile. They don't depend on the size of the matrices, so that only the image
changes with it.

Reports show a few matrices side by side as HTML, which needs neither a kernel nor JavaScript.
"""

import base64
import html
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from alibi_viz.arguments import check_instance
from alibi_viz.figures import theme
from alibi_viz.figures.theme import WEIGHT_SCALE, ColorScale, as_array, update_changed

LETTER = 6.2  # pixels of a letter of a title

# The meaning of a byte in the image; colors go from 2 to 254.
_GAP = 0
_MASKED = 1
_FIRST_COLOR = 2

# Image pixels per pixel on the page: sharp enough on high-resolution screens, and small
_DENSITY = 1.5
_MAX_SIDE = 440  # pixels of one tile
_PAD = 4  # pixels around the grid, for the frame of a tile; plotly hides what lies outside the axes
# Pixels between tiles, for two tick labels and for a title. Like the sides, they are even numbers,
# so that `_DENSITY` makes them whole image pixels.
_GAP_ACROSS = 18
_GAP_DOWN = 24
_MARGIN = {"l": 56, "r": 20, "t": 58, "b": 46}
_ROOMY_SIDE = 160  # pixels from which each tile has its own tick labels
_TICK_ROOM = 24  # pixels of a tick label
_BAR_LENGTH = 220  # pixels of the color bar
_LEGEND_WIDTH = 440  # pixels of the color bar with its text

# The names of the traces
_TILES = "tiles"
_TITLES = "titles"

# A picture in HTML
_HTML_CELLS = 32  # queries and keys at most
_HTML_SIDE = 224  # pixels


def png_source(pixels: NDArray[np.uint8], palette: bytes, **options: Any) -> str:
    """An image as a data URI, from rows of a palette, [height, width].

    `options` are Pillow's for PNG.
    """
    image = Image.fromarray(pixels, mode="P")
    image.putpalette(palette)
    file = io.BytesIO()
    image.save(file, "PNG", **options)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def named_trace(figure: go.Figure, name: str) -> Any:
    """The trace of a figure with this name."""
    return next(figure.select_traces({"name": name}))


@dataclass(frozen=True)
class Grid:
    """`tiles` squares in rows, at most `width` pixels wide and `height` pixels high together.

    The default height leaves the controls in view.

    >>> from alibi_viz.figures.matrices import Grid
    >>> grid = Grid(8, 840)
    >>> grid.columns, grid.side, grid.corners[5].tolist()
    (4, 196, [214, 220])
    """

    tiles: int
    width: int = 840
    height: int = 500

    @cached_property
    def columns(self) -> int:
        """The number of columns with large tiles and few empty places."""

        def quality(columns: int) -> float:
            """The side of a tile times the root of the filled share of the grid, up to a factor."""
            places = columns * self._rows(columns)
            return self._side(columns) / math.sqrt(places)

        return max(range(1, self.tiles + 1), key=quality)

    @cached_property
    def rows(self) -> int:
        """The number of rows; the last one may have empty places."""
        return self._rows(self.columns)

    @cached_property
    def side(self) -> int:
        """The width and height of a tile."""
        return self._side(self.columns)

    def _rows(self, columns: int) -> int:
        return math.ceil(self.tiles / columns)

    def _side(self, columns: int) -> int:
        fits_across = (self.width + _GAP_ACROSS) / columns - _GAP_ACROSS
        fits_down = (self.height + _GAP_DOWN) / self._rows(columns) - _GAP_DOWN
        side = int(min(fits_across, fits_down, _MAX_SIDE))
        even = side // 2 * 2
        return max(even, 2)

    @cached_property
    def corners(self) -> NDArray[np.int64]:
        """The upper left corner (x, y) of each tile, [tiles, 2]."""
        tile = np.arange(self.tiles)
        x = tile % self.columns * (self.side + _GAP_ACROSS)
        y = tile // self.columns * (self.side + _GAP_DOWN)
        return np.stack([x, y], axis=1)

    @property
    def extent(self) -> tuple[int, int]:
        """The width and height of all tiles together."""
        width, height = (self.corners.max(0) + self.side).tolist()
        return width, height

    def ranges(self, width: float) -> tuple[list[float], list[float]]:
        """The ranges of an x axis of this width and of the y axis, where one unit is one pixel."""
        _, height = self.extent
        x_range = [-_PAD, width - _PAD]
        y_range: list[float] = [height + _PAD, -_PAD]  # down
        return x_range, y_range

    def arrange(
        self, cells: NDArray[Any], gaps: tuple[int, int] = (1, 1), fill: Any = None
    ) -> NDArray[Any]:
        """Arrange [tiles, rows, columns, ...] like the tiles on one sheet, [height, width, ...].

        `gaps` are the numbers of cells between tiles, across and down, which have the value `fill`.
        """
        tile_height, tile_width = cells.shape[1:3]
        gap_across, gap_down = gaps
        height = self.rows * (tile_height + gap_down) - gap_down
        width = self.columns * (tile_width + gap_across) - gap_across
        sheet = np.full((height, width, *cells.shape[3:]), fill, dtype=cells.dtype)
        for number, tile in enumerate(cells):
            row, column = divmod(number, self.columns)
            top = row * (tile_height + gap_down)
            left = column * (tile_width + gap_across)
            sheet[top : top + tile_height, left : left + tile_width] = tile
        return sheet

    def png(
        self, colors: NDArray[np.uint8], masked: NDArray[np.bool_], palette: NDArray[np.uint8]
    ) -> str:
        """The image of all tiles as a data URI, gray where masked.

        Args:
            colors: rows of the palette, [tiles, rows, columns].
            masked: bool, the same shape.
            palette: red, green and blue of each color, [NUM_COLORS, 3].
        """
        tiles = np.where(masked, np.uint8(_MASKED), colors + np.uint8(_FIRST_COLOR))
        side = int(self.side * _DENSITY)
        rows, columns = tiles.shape[1:]
        tiles = tiles.take(_centers(rows, side), axis=1)
        tiles = tiles.take(_centers(columns, side), axis=2)

        # A frame, so that white cells are visible on a white page
        tiles[:, [0, -1], :] = _MASKED
        tiles[:, :, [0, -1]] = _MASKED

        gaps = (int(_GAP_ACROSS * _DENSITY), int(_GAP_DOWN * _DENSITY))
        sheet = self.arrange(tiles, gaps, fill=_GAP)
        red, green, blue, opacity = theme.MASKED_RGBA
        black = bytes(3)  # of the gaps, which are transparent
        return png_source(
            sheet,
            black + bytes([red, green, blue]) + palette.tobytes(),
            transparency=bytes([0, opacity]),  # of the gaps and of masked cells
            compress_level=1,
        )

    def visible_cells(self, length: int) -> NDArray[np.int64]:
        """The positions 0 <= p < length that the image shows: at most one per image pixel.

        A tile with a side of 440 pixels has 660 image pixels:

        >>> from alibi_viz.figures.matrices import Grid
        >>> len(Grid(1).visible_cells(500)), len(Grid(1).visible_cells(9999))
        (500, 660)
        """
        side = int(self.side * _DENSITY)
        if length <= side:
            return np.arange(length)
        return _centers(length, side)

    def hover_cells(self, length: int, limit: int) -> NDArray[np.int64]:
        """Evenly spaced positions 0 <= p < length, for at most `limit` hover texts in all tiles.

        There is at least one position.

        >>> from alibi_viz.figures.matrices import Grid
        >>> Grid(16).hover_cells(8, 1024).tolist()
        [0, 1, 2, 3, 4, 5, 6, 7]
        >>> Grid(16).hover_cells(8, 256).tolist()
        [1, 3, 5, 7]
        """
        most_per_side = max(1, math.isqrt(limit // self.tiles))
        step = math.ceil(length / most_per_side)
        centers = np.arange(step // 2, length + step // 2, step)
        return np.minimum(centers, length - 1)


def page_grid(tiles: int, page_width: int) -> Grid:
    """The grid for a figure from `blank` on a page of so many pixels."""
    return Grid(tiles, page_width - _MARGIN["l"] - _MARGIN["r"] - 2 * _PAD)


def _centers(cells: int, pixels: int) -> NDArray[np.int64]:
    """The cell under the center of each of `pixels` pixels."""
    return (2 * np.arange(pixels) + 1) * cells // (2 * pixels)


def blank(template: str) -> go.Figure:
    """A figure of one grid and its color bar, without data.

    `template` is that of the hover texts.
    """
    figure = theme.blank(height=480, hovermode="closest", showlegend=False, margin=_MARGIN)
    add_grid(figure, template)
    # plotly draws a color bar only for a trace that uses its colors.
    named_trace(figure, _TITLES).marker.update(color=[0], coloraxis="coloraxis")
    figure.update_layout(
        coloraxis_colorbar={
            **theme.COLOR_BAR,
            "orientation": "h",
            "len": _BAR_LENGTH,
            "lenmode": "pixels",
            "x": 0,
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "ypad": 6,
        }
    )

    axis = {
        "showgrid": False,
        "showline": False,
        "tickangle": 0,
        "tickfont_size": 11,
        "fixedrange": True,
    }
    figure.update_xaxes(**axis, title_text="key position j")
    # Tiles are square because of the figure's size. A `scaleanchor` would fail when the page is
    # resized.
    figure.update_yaxes(**axis, title_text="query position i", scaleanchor=False)

    # The legend beside the color bar
    figure.add_annotation(
        xref="paper",
        x=0,
        xanchor="left",
        xshift=_BAR_LENGTH + 20,
        yref="paper",
        y=1,
        yanchor="middle",
        yshift=_MARGIN["t"] - 12,
        showarrow=False,
    )
    return figure


def draw(
    figure: go.Figure,
    grid: Grid,
    cells: NDArray[Any],
    masked: NDArray[np.bool_],
    *,
    scale: ColorScale,
    titles: Sequence[str],
    axis_labels: tuple[Sequence[int], Sequence[int]],
    legend: str,
) -> None:
    """Draw matrices into a figure from `blank`, plain or live.

    The hover texts are removed, because they are slow; see `fill_hover`.

    Args:
        figure: from `blank`.
        grid: from `page_grid`.
        cells: [tiles, rows, columns], of which `Grid.visible_cells` may leave some out.
        masked: bool, the same shape.
        scale: the colors.
        titles: the title of each tile.
        axis_labels: the numbers of all rows and of all columns.
        legend: the text beside the color bar.
    """
    grid_width, grid_height = grid.extent
    legend_width = min(_LEGEND_WIDTH, grid.width + 2 * _PAD)
    plot_width = max(grid_width + 2 * _PAD, legend_width)
    plot_height = grid_height + 2 * _PAD
    x_range, y_range = grid.ranges(plot_width)
    row_labels, column_labels = axis_labels

    if masked.any():
        legend += f' &nbsp; <span style="color:{theme.MASKED}">■</span> masked'

    with figure.batch_update():
        update_changed(
            figure.layout,
            width=plot_width + _MARGIN["l"] + _MARGIN["r"],
            height=plot_height + _MARGIN["t"] + _MARGIN["b"],
        )
        _draw_axis(figure.layout.xaxis, x_range, column_labels, grid.corners[:, 0], grid.side)
        _draw_axis(figure.layout.yaxis, y_range, row_labels, grid.corners[:, 1], grid.side)
        png = grid.png(scale.indices(cells), masked, scale.palette)
        fill_grid(figure, grid, png, titles)
        # On each change, a FigureWidget redraws every visible trace and copies all data.
        update_changed(
            named_trace(figure, _TILES), visible=False, x=None, y=None, z=None, customdata=None
        )
        update_changed(figure.layout.coloraxis, **scale.axis)
        (legend_annotation,) = figure.layout.annotations
        update_changed(legend_annotation, text=legend)


def _draw_axis(
    axis: Any,
    ends: list[float],
    labels: Sequence[int],
    tile_starts: NDArray[np.int64],
    side: int,
) -> None:
    """Set the range of an axis and label cells of the tiles that start there.

    Small tiles share the labels of the first: labels would overlap, and each takes the browser
    1 ms.
    """
    is_roomy = side >= _ROOMY_SIDE
    labeled_starts = np.unique(tile_starts) if is_roomy else tile_starts[:1]

    if _TICK_ROOM * len(labels) <= side:
        count = len(labels)
    elif is_roomy:
        count = 3
    else:
        count = 2
    labeled_cells = np.unique(np.linspace(0, len(labels) - 1, count).astype(int))
    centers = (labeled_cells + 0.5) * side / len(labels)

    update_changed(
        axis,
        range=ends,
        tickvals=np.add.outer(labeled_starts, centers).ravel(),
        ticktext=[str(labels[cell]) for cell in labeled_cells] * len(labeled_starts),
    )


def add_grid(figure: go.Figure, template: str, x: str = "x", y: str = "y") -> None:
    """Add a grid's image, titles and hover layer to a pair of axes.

    In the hover `template`, z is the tile's number.
    """
    figure.add_heatmap(
        name=_TILES,
        hovertemplate=f"{template}<extra></extra>",
        opacity=0,
        showscale=False,
        hoverongaps=False,
        xaxis=x,
        yaxis=y,
    )
    figure.add_scatter(
        name=_TITLES,
        mode="markers+text",
        marker={"opacity": 0, "size": 1},
        textposition="top right",
        textfont={"size": 11},
        cliponaxis=False,
        hoverinfo="skip",
        xaxis=x,
        yaxis=y,
    )
    figure.add_layout_image(xref=x, yref=y, x=0, y=0, sizing="stretch", layer="below")


def fill_grid(figure: go.Figure, grid: Grid, png: str, titles: Sequence[str]) -> None:
    """Show matrices in the grid of a figure, with a title above each."""
    width, height = grid.extent
    (image,) = figure.layout.images
    update_changed(image, source=png, sizex=width, sizey=height)
    update_changed(
        named_trace(figure, _TITLES),
        x=grid.corners[:, 0],
        y=grid.corners[:, 1] - 2,
        text=titles,
    )


def fill_hover(
    figure: go.Figure,
    grid: Grid,
    size: int | tuple[int, int],
    custom: NDArray[np.object_],
    tile_numbers: Sequence[int],
) -> None:
    """Fill the hover layer of a figure with a grid.

    Args:
        figure: from `blank`, or with a grid from `add_grid`.
        grid: the grid.
        size: the (rows, columns) of each matrix, or one number for both.
        custom: the data of the hover texts, [tiles, rows, columns, ...]; for fewer rows and columns
            than the matrix has, each is that of several cells.
        tile_numbers: the number of each tile.
    """
    rows, columns = (size, size) if isinstance(size, int) else size
    tiles, hover_rows, hover_columns = custom.shape[:3]
    number_of_cell = np.array(tile_numbers, dtype=object)[:, None, None]
    update_changed(
        named_trace(figure, _TILES),
        x=_cell_edges(grid.corners[:, 0], grid.side, columns, hover_columns),
        y=_cell_edges(grid.corners[:, 1], grid.side, rows, hover_rows),
        z=grid.arrange(np.broadcast_to(number_of_cell, (tiles, hover_rows, hover_columns))),
        customdata=grid.arrange(custom),
        visible=True,
    )


def _cell_edges(
    tile_starts: NDArray[np.int64], side: int, length: int, count: int
) -> NDArray[np.float64]:
    """The edges of `count` hover cells in each tile, whose matrix has so many rows or columns."""
    cells_per_text = math.ceil(length / count)
    edges = np.append(np.arange(0, length, cells_per_text), length) * (side / length)
    return np.add.outer(np.unique(tile_starts), edges).ravel()


def on_tile_click(figure: go.FigureWidget, callback: Callable[[int], None]) -> None:
    """Call `callback(number)` when the user clicks a tile of a live figure."""

    def clicked(tiles: go.Heatmap, points: Any, _: Any) -> None:
        for row, column in points.point_inds:
            if tiles.z[row][column] is not None:  # not a gap
                callback(int(tiles.z[row][column]))

    named_trace(figure, _TILES).on_click(clicked)


def comparison_html(wanted: Tensor, got: Tensor, place: tuple[int, int, int]) -> str:
    """Draw the correct weights, the checked ones, and their difference for one head, as HTML.

    Of long sequences, the part around `place` is shown.

    Args:
        wanted: the correct weights [heads, query, key].
        got: the checked weights, the same shape.
        place: (head, query, key), negative from the end; a frame marks the cell.
    """
    num_heads, num_queries, num_keys = wanted.shape
    head = place[0] % num_heads
    query = place[1] % num_queries
    key = place[2] % num_keys

    queries = _part_around(query, num_queries)
    keys = _part_around(key, num_keys)
    marked_cell = (query - queries.start, key - keys.start)

    correct = as_array(wanted[head])[queries, keys]
    checked = as_array(got[head])[queries, keys]
    error = checked - correct

    # A scale needs a length, even if all are zero.
    largest = max(correct.max(), checked.max())
    if largest == 0:
        largest = 1.0
    largest_error = np.abs(error).max()
    if largest_error == 0:
        largest_error = 1.0

    weight_scale = ColorScale(0.0, float(largest), weights=True)
    error_scale = ColorScale(-largest_error, largest_error)
    error_caption = f"got minus wanted ({-largest_error:.2g} blue, {largest_error:.2g} orange)"
    return _side_by_side(
        f"head {head + 1}, queries {queries.start} to {queries.stop - 1} down, "
        f"keys {keys.start} to {keys.stop - 1} across",
        [
            _picture(f"wanted (0 to {largest:.2g})", correct, weight_scale, marked_cell),
            _picture(f"got (0 to {largest:.2g})", checked, weight_scale, marked_cell),
            _picture(error_caption, error, error_scale, marked_cell),
        ],
    )


def _part_around(position: int, length: int) -> slice:
    """At most `_HTML_CELLS` positions that include this one, and mostly those before it.

    >>> _part_around(70, 80)
    slice(41, 73, None)
    """
    start = max(0, min(position + 3, length) - _HTML_CELLS)
    return slice(start, min(start + _HTML_CELLS, length))


def weights_html(weights: Mapping[str, Tensor], rows: str) -> str:
    """Draw attention weights side by side, as HTML.

    Args:
        weights: {caption: weights [rows, keys]}. Each row is drawn relative to its largest weight.
        rows: what a row is, such as "heads".
    """
    check_instance("weights", weights, Mapping)
    pictures = []
    for caption, matrix in weights.items():
        values = as_array(matrix)
        largest = values.max(-1, keepdims=True).clip(1e-30)
        pictures.append(_picture(caption, values / largest, WEIGHT_SCALE))
    return _side_by_side(
        f"{rows} (down), keys (across). Yellow is the largest weight of a row.", pictures
    )


def _side_by_side(text: str, pictures: Sequence[str]) -> str:
    return (
        f"<p>{html.escape(text)}</p>"
        f'<div style="display:flex;flex-wrap:wrap;gap:16px">{"".join(pictures)}</div>'
    )


def _picture(
    caption: str,
    values: NDArray[np.float64],
    scale: ColorScale,
    marked_cell: tuple[int, int] | None = None,
) -> str:
    """One matrix with a caption, and a frame around a cell (row, column)."""
    caption = html.escape(caption)
    # Without compression, any version of zlib writes the same bytes.
    source = png_source(scale.indices(values), scale.palette.tobytes(), compress_level=0)
    cell_size = _HTML_SIDE / max(values.shape)
    height, width = (round(cell_size * cells) for cells in values.shape)

    frame = ""
    if marked_cell is not None:
        row, column = marked_cell
        place = f"top:{row * cell_size - 1:g}px;left:{column * cell_size - 1:g}px"
        size = f"width:{cell_size:g}px;height:{cell_size:g}px;box-sizing:border-box"
        outline = f"outline:2px solid {theme.COLORS[1]}"
        frame = f'<div style="position:absolute;{place};{size};{outline}"></div>'

    image = (
        f'<img alt="{caption}" width="{width}" height="{height}" '
        f'style="image-rendering:pixelated;outline:1px solid #888" src="{source}">'
    )
    return (
        f'<figure style="margin:0"><div style="position:relative">{image}{frame}</div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )
