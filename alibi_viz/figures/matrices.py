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
_GAP, _MASKED, _FIRST_COLOR = 0, 1, 2  # the meaning of a byte in the image; colors go from 2 to 254
_DENSITY = (
    1.5  # image pixels per pixel on the page: sharp enough on high-resolution screens, and small
)
_MAX_SIDE = 440  # pixels of one tile
_PAD = 4  # pixels around the grid, for the frame of a tile; plotly hides what lies outside the axes
# Pixels between tiles, across and down: for two tick labels, and for a title. Like the sides, they
# are even numbers, so that `_DENSITY` makes them whole image pixels.
_GAPS = (18, 24)
_MARGIN = {"l": 56, "r": 20, "t": 58, "b": 46}
_BAR_LENGTH, _LEGEND_WIDTH = 220, 440  # pixels: the color bar, and the same with its text
_TILES, _TITLES = "tiles", "titles"  # the traces
_HTML_CELLS, _HTML_SIDE = 32, 224  # of a picture in HTML: queries and keys at most, and pixels


def png_source(pixels: NDArray[np.uint8], palette: bytes, **options: Any) -> str:
    """An image of rows of a palette [height, width] as a data URI. `options` are Pillow's for
    PNG."""
    image, file = Image.fromarray(pixels, mode="P"), io.BytesIO()
    image.putpalette(palette)
    image.save(file, "PNG", **options)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def named_trace(figure: go.Figure, name: str) -> Any:
    """The trace of a figure with this name."""
    return next(figure.select_traces({"name": name}))


@dataclass(frozen=True)
class Grid:
    """`tiles` squares in rows, at most `width` pixels wide and `height` pixels high together.

    The default height leaves the controls in view.

    >>> grid = Grid(8, 840)
    >>> grid.columns, grid.side, grid.corners[5].tolist()
    (4, 196, [214, 220])
    """

    tiles: int
    width: int = 840
    height: int = 500

    @cached_property
    def columns(self) -> int:
        """The number of columns that maximizes the tile side times the root of the filled share of
        the grid."""
        return max(
            range(1, self.tiles + 1),
            key=lambda n: self._side(n) / math.sqrt(n * math.ceil(self.tiles / n)),
        )

    @cached_property
    def side(self) -> int:
        """The width and height of a tile."""
        return self._side(self.columns)

    def _side(self, columns: int) -> int:
        across, down = self.width + _GAPS[0], self.height + _GAPS[1]
        side = min(
            across / columns - _GAPS[0],
            down / math.ceil(self.tiles / columns) - _GAPS[1],
            _MAX_SIDE,
        )
        return max(int(side) // 2 * 2, 2)

    @cached_property
    def corners(self) -> NDArray[np.int64]:
        """The upper left corner of each tile, [tiles, 2]."""
        places = [divmod(tile, self.columns)[::-1] for tile in range(self.tiles)]
        return np.array(places) * (self.side + np.array(_GAPS))

    @property
    def extent(self) -> tuple[int, int]:
        """The width and height of all tiles together."""
        x, y = (self.corners.max(0) + self.side).tolist()
        return x, y

    def ranges(self, width: float) -> tuple[list[float], list[float]]:
        """The ranges of the axes, where one unit is one pixel, if the x axis has this width."""
        return [-_PAD, width - _PAD], [self.extent[1] + _PAD, -_PAD]

    def arrange(
        self, cells: NDArray[Any], gaps: Sequence[int] = (1, 1), fill: Any = None
    ) -> NDArray[Any]:
        """Arrange [tiles, rows, columns, ...] like the tiles, with gaps of so many cells across and
        down."""
        (rows, columns), (right, below) = cells.shape[1:3], gaps
        height = math.ceil(self.tiles / self.columns) * (rows + below) - below
        width = self.columns * (columns + right) - right
        sheet = np.full((height, width, *cells.shape[3:]), fill, dtype=cells.dtype)
        for tile, each in enumerate(cells):
            row, column = divmod(tile, self.columns)
            sheet[row * (rows + below) :, column * (columns + right) :][:rows, :columns] = each
        return sheet

    def png(
        self, colors: NDArray[np.uint8], masked: NDArray[np.bool_], palette: NDArray[np.uint8]
    ) -> str:
        """The image as a data URI: [tiles, rows, columns] as rows of the palette [NUM_COLORS, 3],
        gray where masked."""
        cells = np.where(masked, np.uint8(_MASKED), colors + np.uint8(_FIRST_COLOR))
        for axis in (1, 2):
            cells = cells.take(_centers(cells.shape[axis], int(self.side * _DENSITY)), axis)
        cells[:, [0, -1]] = cells[:, :, [0, -1]] = (
            _MASKED  # a frame, so that white cells are visible on a white page
        )
        sheet = self.arrange(cells, [int(gap * _DENSITY) for gap in _GAPS], fill=_GAP)
        *gray, opacity = theme.MASKED_RGBA
        options = {"transparency": bytes([0, opacity]), "compress_level": 1}
        return png_source(sheet, bytes(3) + bytes(gray) + palette.tobytes(), **options)

    def visible_cells(self, length: int) -> NDArray[np.int64]:
        """The positions 0 <= p < length that the image shows: all of them, or one per pixel if
        there are more cells.

        >>> len(Grid(1).visible_cells(500)), len(Grid(1).visible_cells(9999))  # on a side of 440, at 1.5 per pixel
        (500, 660)
        """
        side = int(self.side * _DENSITY)
        return np.arange(length) if length <= side else _centers(length, side)

    def hover_cells(self, length: int, limit: int) -> NDArray[np.int64]:
        """Evenly spaced positions 0 <= p < length, at least one, such that tiles * len(positions)^2
        <= `limit`.

        >>> Grid(16).hover_cells(8, 1024).tolist(), Grid(16).hover_cells(8, 256).tolist()
        ([0, 1, 2, 3, 4, 5, 6, 7], [1, 3, 5, 7])
        """
        step = math.ceil(length / max(1, math.isqrt(limit // self.tiles)))
        return np.minimum(np.arange(step // 2, length + step // 2, step), length - 1)


def page_grid(tiles: int, page_width: int) -> Grid:
    """The grid for a figure from `blank` on a page of so many pixels."""
    return Grid(tiles, page_width - _MARGIN["l"] - _MARGIN["r"] - 2 * _PAD)


def _centers(cells: int, pixels: int) -> NDArray[np.int64]:
    """The cell under the center of each of `pixels` pixels."""
    return (2 * np.arange(pixels) + 1) * cells // (2 * pixels)


def blank(template: str) -> go.Figure:
    """A figure of one grid and its color bar, without data. `template` is that of the hover
    texts."""
    figure = theme.blank(height=480, hovermode="closest", showlegend=False, margin=_MARGIN)
    add_grid(figure, template)
    named_trace(figure, _TITLES).marker.update(color=[0], coloraxis="coloraxis")
    bar = {
        **theme.COLOR_BAR,
        "orientation": "h",
        "len": _BAR_LENGTH,
        "lenmode": "pixels",
        "ypad": 6,
    }
    bar |= {"x": 0, "xanchor": "left", "yref": "container", "y": 1, "yanchor": "top"}
    figure.update_layout(coloraxis_colorbar=bar)
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
    place = {
        "xref": "paper",
        "x": 0,
        "xanchor": "left",
        "yref": "paper",
        "y": 1,
        "yanchor": "middle",
    }
    return figure.add_annotation(
        place, showarrow=False, xshift=_BAR_LENGTH + 20, yshift=_MARGIN["t"] - 12
    )


def draw(
    figure: go.Figure,
    grid: Grid,
    cells: NDArray[Any],
    masked: NDArray[np.bool_],
    *,
    scale: ColorScale,
    titles: Sequence[str],
    numbers: tuple[Sequence[int], Sequence[int]],
    legend: str,
) -> None:
    """Draw matrices into a figure from `blank`, plain or live, and remove its hover texts; see
    `fill_hover`.

    The cells and their mask are [tiles, rows, columns], of which `Grid.visible_cells` may leave
    some out. `numbers` are those of all rows and of all columns, for the labels of the axes, and
    `legend` is the text beside the color bar.
    """
    width, roomy = (
        max(grid.extent[0] + 2 * _PAD, min(_LEGEND_WIDTH, grid.width + 2 * _PAD)),
        grid.side >= 160,
    )
    height = grid.extent[1] + 2 * _PAD + _MARGIN["t"] + _MARGIN["b"]
    gray = f' &nbsp; <span style="color:{theme.MASKED}">■</span> masked' if masked.any() else ""
    axes = zip(
        (figure.layout.yaxis, figure.layout.xaxis),
        grid.ranges(width)[::-1],
        numbers,
        (1, 0),
        strict=True,
    )
    with figure.batch_update():
        update_changed(figure.layout, width=width + _MARGIN["l"] + _MARGIN["r"], height=height)
        for axis, ends, labels, side in axes:
            # Small tiles share the labels of the first: labels would overlap, and each takes the
            # browser 1 ms.
            starts = np.unique(grid.corners[:, side]) if roomy else grid.corners[:1, side]
            count = len(labels) if 24 * len(labels) <= grid.side else 3 if roomy else 2
            at = np.unique(np.linspace(0, len(labels) - 1, count).astype(int))
            places = np.add.outer(starts, (at + 0.5) * grid.side / len(labels)).ravel()
            update_changed(
                axis,
                range=ends,
                tickvals=places,
                ticktext=[str(labels[i]) for i in at] * len(starts),
            )
        fill_grid(figure, grid, grid.png(scale.indices(cells), masked, scale.palette), titles)
        # On each change, a FigureWidget redraws every visible trace and copies all data.
        update_changed(
            named_trace(figure, _TILES), visible=False, x=None, y=None, z=None, customdata=None
        )
        update_changed(figure.layout.coloraxis, **scale.axis)
        update_changed(figure.layout.annotations[0], text=legend + gray)


def add_grid(figure: go.Figure, template: str, x: str = "x", y: str = "y") -> None:
    """Add a grid's image, titles and hover layer to a pair of axes. In the hover `template`, z is
    the tile's number."""
    axes, hidden = (
        {"xaxis": x, "yaxis": y},
        {"opacity": 0, "showscale": False, "hoverongaps": False},
    )
    figure.add_heatmap(name=_TILES, hovertemplate=f"{template}<extra></extra>", **hidden, **axes)
    text = {
        "textposition": "top right",
        "textfont": {"size": 11},
        "cliponaxis": False,
        "hoverinfo": "skip",
    }
    figure.add_scatter(
        name=_TITLES, mode="markers+text", marker={"opacity": 0, "size": 1}, **text, **axes
    )
    figure.add_layout_image(xref=x, yref=y, x=0, y=0, sizing="stretch", layer="below")


def fill_grid(figure: go.Figure, grid: Grid, png: str, titles: Sequence[str]) -> None:
    """Show matrices in the grid of a figure, with a title above each."""
    across, down = grid.extent
    update_changed(figure.layout.images[0], source=png, sizex=across, sizey=down)
    update_changed(
        named_trace(figure, _TITLES), x=grid.corners[:, 0], y=grid.corners[:, 1] - 2, text=titles
    )


def fill_hover(
    figure: go.Figure,
    grid: Grid,
    size: int | tuple[int, int],
    custom: NDArray[np.object_],
    numbers: Sequence[int],
) -> None:
    """Fill the hover layer for cells [tiles, rows, columns, ...] of matrices of this size, and the
    tiles' numbers."""
    edges = []
    for starts, length, count in zip(
        grid.corners.T, np.broadcast_to(size, 2)[::-1], custom.shape[2:0:-1], strict=True
    ):
        ends = np.append(np.arange(0, length, math.ceil(length / count)), length) * (
            grid.side / length
        )
        edges.append(np.add.outer(np.unique(starts), ends).ravel())
    z = np.broadcast_to(np.array(numbers, dtype=object)[:, None, None], custom.shape[:3])
    data = {"x": edges[0], "y": edges[1], "z": grid.arrange(z), "customdata": grid.arrange(custom)}
    update_changed(named_trace(figure, _TILES), **data, visible=True)


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
        place: (head, query, key); a frame marks the cell.
    """
    head, *cell = (index % size for index, size in zip(place, wanted.shape, strict=True))
    parts = []  # at most `_HTML_CELLS` queries and keys that contain the cell, preferably before it
    for index, size in zip(cell, wanted.shape[1:], strict=True):
        start = max(0, min(index + 3, size) - _HTML_CELLS)
        parts.append(slice(start, min(start + _HTML_CELLS, size)))
    rows, keys = parts
    correct, checked = (as_array(weights[head])[rows, keys] for weights in (wanted, got))
    error = checked - correct
    largest, limit = max(correct.max(), checked.max()) or 1.0, np.abs(error).max() or 1.0
    weights, frame = (
        ColorScale(0.0, float(largest), weights=True),
        (cell[0] - rows.start, cell[1] - keys.start),
    )
    pictures = (
        _picture(f"wanted (0 to {largest:.2g})", correct, weights, frame),
        _picture(f"got (0 to {largest:.2g})", checked, weights, frame),
        _picture(
            f"got minus wanted ({-limit:.2g} blue, {limit:.2g} orange)",
            error,
            ColorScale(-limit, limit),
            frame,
        ),
    )
    where = (
        f"head {head + 1}, queries {rows.start} to {rows.stop - 1} down, keys {keys.start} to "
        f"{keys.stop - 1}"
    )
    return _side_by_side(f"{where} across", pictures)


def weights_html(weights: Mapping[str, Tensor], rows: str) -> str:
    """Draw weights [rows, keys] relative to the largest of each row, as HTML. `rows` says what a
    row is."""
    check_instance("weights", weights, Mapping)
    arrays = {name: as_array(each) for name, each in weights.items()}
    largest = {name: each.max(-1, keepdims=True).clip(1e-30) for name, each in arrays.items()}
    pictures = [_picture(name, each / largest[name], WEIGHT_SCALE) for name, each in arrays.items()]
    return _side_by_side(
        f"{rows} (down), keys (across). Yellow is the largest weight of a row.", pictures
    )


def _side_by_side(words: str, pictures: Sequence[str]) -> str:
    return (
        f"<p>{html.escape(words)}</p><div "
        f'style="display:flex;flex-wrap:wrap;gap:16px">{"".join(pictures)}</div>'
    )


def _picture(
    caption: str,
    values: NDArray[np.float64],
    scale: ColorScale,
    cell: tuple[int, int] | None = None,
) -> str:
    """One matrix with a caption, and a frame around a cell."""
    caption = html.escape(caption)
    source = png_source(
        scale.indices(values), scale.palette.tobytes(), compress_level=0
    )  # equal bytes with any zlib
    size, frame = _HTML_SIDE / max(values.shape), ""
    height, width = (round(size * length) for length in values.shape)
    if cell is not None:
        top, left = (place * size - 1 for place in cell)
        box = f"top:{top:g}px;left:{left:g}px;width:{size:g}px;height:{size:g}px;box-sizing:border-box"
        frame = f'<div style="position:absolute;{box};outline:2px solid {theme.COLORS[1]}"></div>'
    return (
        f'<figure style="margin:0"><div style="position:relative"><img alt="{caption}" '
        f'width="{width}" '
        f'height="{height}" style="image-rendering:pixelated;outline:1px solid #888" '
        f'src="{source}">{frame}</div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )
