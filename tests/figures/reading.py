"""Read figures back: the colors of a grid of matrices and what its hover layer shows."""

import base64
import io
from itertools import product
from typing import Any

import numpy as np
import plotly.graph_objects as go
from PIL import Image

from alibi_viz.figures.theme import named_trace
from alibi_viz.figures.tile_grid import Grid


def pixels(source: str) -> np.ndarray:
    """Red, green, blue and opacity of every pixel of an image: uint8 [height, width, 4]."""
    kind, data = source.split(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))


def cell_colors(source: str, grid: Grid, rows: int, columns: int) -> np.ndarray:
    """The color of the center of every cell of a grid, uint8 [tiles, rows, columns, 4]."""
    image = pixels(source)
    height, width = image.shape[:2]
    tile, row, column = np.indices((grid.tiles, rows, columns))
    x, y = np.moveaxis(
        grid.corners[tile] + (np.stack([column, row], -1) + 0.5) * grid.side / [columns, rows],
        -1,
        0,
    )
    return image[
        (y / grid.extent[1] * height).astype(int), (x / grid.extent[0] * width).astype(int)
    ]


def hovered(
    figure: go.Figure, rows: int, columns: int, grid: Grid
) -> dict[tuple[int, int, int], Any]:
    """What the hover layer of a grid shows at the center of each cell: (number of the tile, row,
    column) -> data."""
    layer, found = named_trace(figure, "tiles"), {}
    for left, top in grid.corners.tolist():
        y, x = (
            start + (np.arange(count) + 0.5) * grid.side / count
            for start, count in ((top, rows), (left, columns))
        )
        under = layer.y.searchsorted(y) - 1, layer.x.searchsorted(x) - 1
        for (i, row), (j, column) in product(*map(enumerate, under)):
            found[layer.z[row][column], i, j] = layer.customdata[row][column]
    return found
