"""Where the square tiles of a grid stand, and the image of all of them.

The coordinates of a grid are pixels on the page, x to the right and y down, from the upper left
corner of the first tile. They don't depend on the size of the matrices, so that only the image
changes with it.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alibi_viz.figures.png import png_source
from alibi_viz.figures.theme import MASKED_RGBA

PAD = 4  # pixels around the grid, for the frame of a tile; plotly hides what lies outside the axes

# The meaning of a byte in the image; colors go from 2 to 254.
_GAP = 0
_MASKED = 1
_FIRST_COLOR = 2

# Image pixels per pixel on the page
DENSITY = 1.5  # sharp enough on high-resolution screens and in files, and small
COARSE_DENSITY = 1.0  # all that another screen can show, in less than half of the bytes
_MAX_SIDE = 440  # pixels of one tile
HEIGHT = 500  # pixels of all tiles, at most, unless an app asks for another height
# Pixels between tiles, for two tick labels and for a title. Like the sides, they are even numbers,
# so that `_DENSITY` makes them whole image pixels.
_GAP_ACROSS = 18
_GAP_DOWN = 24


@dataclass(frozen=True)
class Grid:
    """`tiles` squares in rows, at most `width` pixels wide and `height` pixels high together.

    The default height leaves the controls in view. The image has `density` pixels per pixel of the
    page, `DENSITY` or `COARSE_DENSITY`. With `across`, so many tiles stand in a row, whether there
    are as many or not; otherwise as many as make large tiles.

    >>> from alibi_viz.figures.tile_grid import Grid
    >>> grid = Grid(8, 840)
    >>> grid.columns, grid.side, grid.corners[5].tolist()
    (4, 196, [214, 220])
    """

    tiles: int
    width: int = 840
    height: int = HEIGHT
    density: float = DENSITY
    across: int | None = None

    @cached_property
    def columns(self) -> int:
        """The number of columns, by default with large tiles and few empty places."""
        if self.across is not None:
            return min(self.across, self.tiles)

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
        return self._side(self.across or self.columns)

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
        x_range = [-PAD, width - PAD]
        y_range: list[float] = [height + PAD, -PAD]  # down
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
        side = int(self.side * self.density)
        rows, columns = tiles.shape[1:]
        tiles = tiles.take(_centers(rows, side), axis=1)
        tiles = tiles.take(_centers(columns, side), axis=2)

        # A frame, so that white cells are visible on a white page
        tiles[:, [0, -1], :] = _MASKED
        tiles[:, :, [0, -1]] = _MASKED

        gaps = (int(_GAP_ACROSS * self.density), int(_GAP_DOWN * self.density))
        sheet = self.arrange(tiles, gaps, fill=_GAP)
        red, green, blue, opacity = MASKED_RGBA
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

        >>> from alibi_viz.figures.tile_grid import Grid
        >>> len(Grid(1).visible_cells(500)), len(Grid(1).visible_cells(9999))
        (500, 660)
        """
        side = int(self.side * self.density)
        if length <= side:
            return np.arange(length)
        return _centers(length, side)

    def hover_step(self, length: int, limit: int) -> int:
        """How many of `length` cells share a hover text, for at most `limit` texts in all tiles.

        >>> from alibi_viz.figures.tile_grid import Grid
        >>> Grid(16).hover_step(8, 1024), Grid(16).hover_step(8, 256)
        (1, 2)
        """
        most_per_side = max(1, math.isqrt(limit // self.tiles))
        return math.ceil(length / most_per_side)

    def hover_cells(self, length: int, limit: int) -> NDArray[np.int64]:
        """The middle one of the cells that share a hover text: positions 0 <= p < length.

        They are `hover_step` cells apart. There is at least one position.

        >>> from alibi_viz.figures.tile_grid import Grid
        >>> Grid(16).hover_cells(8, 1024).tolist()
        [0, 1, 2, 3, 4, 5, 6, 7]
        >>> Grid(16).hover_cells(8, 256).tolist()
        [1, 3, 5, 7]
        """
        step = self.hover_step(length, limit)
        centers = np.arange(step // 2, length + step // 2, step)
        return np.minimum(centers, length - 1)


def _centers(cells: int, pixels: int) -> NDArray[np.int64]:
    """The cell under the center of each of `pixels` pixels."""
    return (2 * np.arange(pixels) + 1) * cells // (2 * pixels)
