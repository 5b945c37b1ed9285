"""Draw many square matrices as tiles of one PNG image.

One heatmap trace per head would send every number as text: 1.7 s for 32 heads of 256 x 256. A PNG with a palette is
small, and plotly swaps a layout image without touching the rest of the figure. Hover texts come from an invisible
heatmap over the image, with fewer cells if there are many (see `hover_cells`).

Coordinates are pixels on the page, x to the right and y down, from the upper left corner of the first tile. They do not
depend on the size of the matrices, so that only the image changes with it.
"""

import base64
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from PIL import Image

from alibi_viz.figures import theme
from alibi_viz.figures.color_scale import NUM_COLORS

__all__ = ["BORDER", "Atlas", "on_tile_click"]

_GAP, _MASKED, _FIRST_COLOR = 0, 1, 2  # the meaning of a byte in the image; colors go from 2 to 254
assert _FIRST_COLOR + NUM_COLORS <= 256
_DENSITY = 1.5  # image pixels per pixel on the page: sharp enough on high-resolution screens, and small
_FRAME = 2  # image pixels around each tile, so that white cells stay visible on a white page
BORDER = _FRAME / _DENSITY  # the same in pixels on the page
_MAX_SIDE = 440  # pixels of one tile
# Pixels between tiles, across and down: for two tick labels, and for a title. Like the sides, they are even numbers, so
# that `_DENSITY` makes them whole image pixels.
_GAPS = (18, 24)


@dataclass(frozen=True)
class Atlas:
    """`tiles` square matrices in rows, at most `width` pixels wide and `height` pixels high together.

    The default height leaves the controls in view.

    >>> atlas = Atlas(8, 840)
    >>> atlas.rows, atlas.columns, atlas.side, atlas.corner(5)
    (2, 4, 196, (214, 220))
    """

    tiles: int
    width: int = 840
    height: int = 500

    @cached_property
    def columns(self) -> int:
        """The number of columns that maximizes the tile side times the root of the filled share of the grid."""
        return max(range(1, self.tiles + 1), key=lambda n: self._side(n) * math.sqrt(self.tiles / n / self._rows(n)))

    @property
    def rows(self) -> int:
        return self._rows(self.columns)

    @cached_property
    def side(self) -> int:
        """The width and height of a tile."""
        return self._side(self.columns)

    @property
    def pitch(self) -> tuple[int, int]:
        """The distance from one tile to the next, across and down."""
        return self.side + _GAPS[0], self.side + _GAPS[1]

    @property
    def extent(self) -> tuple[int, int]:
        """The width and height of all tiles together."""
        across, down = self.pitch
        return (self.columns - 1) * across + self.side, (self.rows - 1) * down + self.side

    def corner(self, tile: int) -> tuple[int, int]:
        """The upper left corner of a tile."""
        row, column = divmod(tile, self.columns)
        return column * self.pitch[0], row * self.pitch[1]

    def png(self, colors: NDArray[np.uint8], masked: NDArray[np.bool_], palette: NDArray[np.uint8]) -> str:
        """The image as a data URI. It begins `BORDER` pixels to the left of and above the first tile.

        Args:
            colors: uint8 [tiles, length, length], 0 to NUM_COLORS - 1; ignored where masked.
            masked: bool, broadcastable to the shape of `colors`.
            palette: uint8 [NUM_COLORS, 3].
        """
        cells = np.where(masked, np.uint8(_MASKED), colors + np.uint8(_FIRST_COLOR))
        side = int(self.side * _DENSITY)
        cell_of_pixel = _centers(cells.shape[-1], side)
        cells = cells.take(cell_of_pixel, axis=1).take(cell_of_pixel, axis=2)
        width, height = (int(size * _DENSITY) + 2 * _FRAME for size in self.extent)
        sheet = np.full((height, width), _GAP, dtype=np.uint8)
        for tile, pixels in enumerate(cells):
            x, y = (int(at * _DENSITY) for at in self.corner(tile))
            sheet[y : y + side + 2 * _FRAME, x : x + side + 2 * _FRAME] = _MASKED
            sheet[y + _FRAME : y + _FRAME + side, x + _FRAME : x + _FRAME + side] = pixels
        image, file = Image.fromarray(sheet, mode="P"), io.BytesIO()
        image.putpalette(bytes(3) + bytes(theme.MASKED_RGBA[:3]) + palette.tobytes())
        image.save(file, "PNG", transparency=bytes([0, theme.MASKED_RGBA[3]]), compress_level=1)
        return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()

    def visible_cells(self, length: int) -> NDArray[np.int64]:
        """The positions 0 <= p < length that the image shows: all of them, or one per pixel if there are more cells."""
        side = int(self.side * _DENSITY)
        return np.arange(length) if length <= side else _centers(length, side)

    def hover_cells(self, length: int, limit: int) -> NDArray[np.int64]:
        """Evenly spaced positions 0 <= p < length, at least one, such that tiles * len(positions)^2 <= `limit`.

        >>> Atlas(16).hover_cells(8, 1024).tolist(), Atlas(16).hover_cells(8, 256).tolist()
        ([0, 1, 2, 3, 4, 5, 6, 7], [1, 3, 5, 7])
        """
        side = max(1, math.isqrt(limit // self.tiles))
        step = math.ceil(length / side)
        return np.minimum(np.arange(step // 2, length + step // 2, step), length - 1)

    def hover_sheet(self, cells: NDArray[np.object_]) -> NDArray[np.object_]:
        """Arrange the cells of all tiles, [tiles, side, side, ...], like the tiles, with None in the gaps between them.

        >>> Atlas(2).hover_sheet(np.array([[["a"]], [["b"]]], dtype=object))
        array([['a', None, 'b']], dtype=object)
        """
        side = cells.shape[1]
        shape = self.rows * (side + 1) - 1, self.columns * (side + 1) - 1, *cells.shape[3:]
        sheet = np.full(shape, None, dtype=object)
        for tile in range(self.tiles):
            row, column = (at * (side + 1) for at in divmod(tile, self.columns))
            sheet[row : row + side, column : column + side] = cells[tile]
        return sheet

    def hover_edges(self, length: int, side: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """x and y of the edges between the cells of a hover sheet: matrices of `length`, shown by `side` cells."""
        edges = np.append(np.arange(0, length, math.ceil(length / side)), length) * (self.side / length)
        x, y = (
            np.concatenate([edges + tile * pitch for tile in range(tiles)])
            for tiles, pitch in zip((self.columns, self.rows), self.pitch, strict=True)
        )
        return x, y

    def _rows(self, columns: int) -> int:
        return math.ceil(self.tiles / columns)

    def _side(self, columns: int) -> int:
        rows = self._rows(columns)
        across = (self.width - (columns - 1) * _GAPS[0]) / columns
        down = (self.height - (rows - 1) * _GAPS[1]) / rows
        return max(int(min(across, down, _MAX_SIDE)) // 2 * 2, 2)


def _centers(cells: int, pixels: int) -> NDArray[np.int64]:
    """The cell under the center of each of `pixels` pixels."""
    return (2 * np.arange(pixels) + 1) * cells // (2 * pixels)


def on_tile_click(hover: go.Heatmap, callback: Callable[[int], None]) -> None:
    """Call `callback(number)` when the user clicks a tile of a live figure.

    `hover` is the invisible heatmap over the tiles; its z is the number of the tile, or None in the gaps.
    """

    def clicked(trace: go.Heatmap, points: Any, _: Any) -> None:
        for row, column in points.point_inds:
            if trace.z[row][column] is not None:  # not a gap
                callback(int(trace.z[row][column]))

    hover.on_click(clicked)
