"""Many square matrices in one image: the tiles, where they lie, and the PNG.

A heatmap trace per head sends every number as text and redraws every trace: 1.7 s for 32 heads of 256 x 256. One
palette PNG, a byte a cell before compression, is drawn by the browser in a frame. So the eye gets every cell from the
PNG, and the pointer gets true values from a sparse invisible grid over it (see `hover_cells`).

Coordinates are in cells, x to the right and y downwards. Tile 0 has its first cell at [0, 1) x [0, 1).
"""

import base64
import io
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from alibi_viz.figures import theme
from alibi_viz.figures.color_scale import COLORS

__all__ = ["Atlas"]

_GAP, _MASKED, _FIRST = 0, 1, 2  # what a byte means; from 2 to 254 it is a colour
assert _FIRST + COLORS <= 256
_TALLEST = 500  # pixels of all tiles together, so that the controls stay in view
_LARGEST = 440  # pixels of one tile
_GAPS = (18, 24)  # pixels between tiles: room for two tick labels, and for a title


@dataclass(frozen=True)
class Atlas:
    """`tiles` matrices of `length` x `length` cells, in rows, on a page of `width` pixels."""

    tiles: int
    length: int
    width: int = 840

    @cached_property
    def columns(self) -> int:
        """As many as give the largest tiles; a hole in the last row counts half as much as its size."""
        return max(range(1, self.tiles + 1), key=lambda n: self._size(n) * math.sqrt(self.tiles / n / self._rows(n)))

    @property
    def rows(self) -> int:
        return self._rows(self.columns)

    @property
    def tile_pixels(self) -> float:
        """The side of a tile on the page."""
        return self._size(self.columns)

    @cached_property
    def zoom(self) -> int:
        """PNG pixels a cell, so that gaps of a fraction of a cell can be drawn when there are few cells."""
        return math.ceil(64 / self.length)

    @cached_property
    def pitch(self) -> tuple[float, float]:
        """From one tile to the next, in cells, right and down. The gap below has room for a title."""
        right, down = (math.ceil(gap / self.tile_pixels * self.length * self.zoom) / self.zoom for gap in _GAPS)
        return self.length + right, self.length + down

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height of all tiles, without a margin, in cells."""
        right, down = self.pitch
        return (self.columns - 1) * right + self.length, (self.rows - 1) * down + self.length

    def corner(self, tile: int) -> tuple[float, float]:
        """The upper left corner of a tile, in cells.

        >>> from alibi_viz.figures.atlas import Atlas
        >>> Atlas(1, 8).corner(0)
        (0.0, 0.0)
        """
        row, column = divmod(tile, self.columns)
        return column * self.pitch[0], row * self.pitch[1]

    def png(self, colors: NDArray[np.uint8], masked: NDArray[np.bool_], palette: NDArray[np.uint8]) -> str:
        """The image, as a data URI.

        Args:
            colors: uint8 [tiles, length, length] or what broadcasts to it, 0 to COLORS - 1; any value where masked.
            masked: bool, likewise.
            palette: uint8 [COLORS, 3].
        """
        shape = (self.tiles, self.length, self.length)
        cells = np.where(masked, np.uint8(_MASKED), colors + np.uint8(_FIRST))
        cells = np.broadcast_to(cells, shape).repeat(self.zoom, axis=1).repeat(self.zoom, axis=2)
        width, height = (round(side * self.zoom) for side in self.extent)
        sheet = np.full((height, width), _GAP, dtype=np.uint8)
        for tile in range(self.tiles):
            x, y = (round(at * self.zoom) for at in self.corner(tile))
            sheet[y : y + cells.shape[1], x : x + cells.shape[2]] = cells[tile]
        image = Image.fromarray(sheet, mode="P")
        grey = theme.MASKED_RGBA
        image.putpalette(bytes(3) + bytes(grey[:3]) + palette.tobytes())
        file = io.BytesIO()
        image.save(file, "PNG", transparency=bytes([0, grey[3]]), compress_level=1)
        return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()

    def hover_cells(self, most: int) -> NDArray[np.int64]:
        """Positions 0 <= p < length, evenly spaced, such that tiles * len(positions)^2 is at most `most`.

        All of them when they fit; at least one.

        >>> from alibi_viz.figures.atlas import Atlas
        >>> Atlas(16, 8).hover_cells(1024).tolist()
        [0, 1, 2, 3, 4, 5, 6, 7]
        >>> Atlas(16, 8).hover_cells(256).tolist()
        [1, 3, 5, 7]
        """
        side = max(1, math.isqrt(most // self.tiles))
        step = math.ceil(self.length / side)
        return np.minimum(np.arange(step // 2, self.length + step // 2, step), self.length - 1)

    def _rows(self, columns: int) -> int:
        return math.ceil(self.tiles / columns)

    def _size(self, columns: int) -> float:
        rows = self._rows(columns)
        across = (self.width - (columns - 1) * _GAPS[0]) / columns
        down = (_TALLEST - (rows - 1) * _GAPS[1]) / rows
        return max(min(across, down, _LARGEST), 1)
