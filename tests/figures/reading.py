"""Read figures back: the numbers of a heatmap, and the colors of a grid of matrices."""

import base64
import io
from typing import Any

import numpy as np
import plotly.graph_objects as go
from PIL import Image

from alibi_viz.figures.matrices import Grid, named_trace


def numbers(figure: go.Figure, name: str) -> np.ndarray:
    """The cells of a heatmap, NaN for the gaps."""
    return np.array(named_trace(figure, name).z, dtype=object).astype(float)


def pixels(source: str) -> np.ndarray:
    """Red, green, blue and opacity of every pixel of an image: uint8 [height, width, 4]."""
    kind, data = source.split(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))


def cell_colors(source: str, grid: Grid, length: int) -> np.ndarray:
    """The color of the center of every cell of a grid, uint8 [tiles, length, length, 4]."""
    image = pixels(source)
    height, width = image.shape[:2]
    tile, row, column = np.indices((grid.tiles, length, length))
    x, y = np.moveaxis(grid.corners[tile], -1, 0) + (np.stack([column, row]) + 0.5) * grid.side / length
    return image[(y / grid.extent[1] * height).astype(int), (x / grid.extent[0] * width).astype(int)]


def hovered(figure: go.Figure, length: int, grid: Grid) -> dict[tuple[int, int, int], Any]:
    """What the hover layer of a grid shows at the center of each cell: (number of the tile, row, column) -> data."""
    layer, found = named_trace(figure, "tiles"), {}
    for number, (left, top) in enumerate(grid.corners.tolist()):
        at = (np.arange(length) + 0.5) * grid.side / length
        rows, columns = (np.searchsorted(edges, start + at) - 1 for edges, start in ((layer.y, top), (layer.x, left)))
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                assert layer.z[row][column] is not None, number
                found[layer.z[row][column], i, j] = layer.customdata[row][column]
    return found
