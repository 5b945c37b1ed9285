"""Read figures back: the colors of a grid of matrices and what its hover layer shows."""

import base64
import io

import numpy as np
from PIL import Image


def named_trace(figure, name):
    """The trace of a figure with this name."""
    (trace,) = figure.select_traces({"name": name})
    return trace


def pixels(source):
    """Red, green, blue and opacity of every pixel of an image: uint8 [height, width, 4]."""
    kind, data = source.split(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))


def center(grid, tile, row, column, shape):
    """The place (x, y) of the center of a cell, in pixels on the page, from the upper left.

    `shape` is the number of rows and columns of each tile.
    """
    rows, columns = shape
    left, top = grid.corners[tile]
    x = left + (column + 0.5) * grid.side / columns
    y = top + (row + 0.5) * grid.side / rows
    return x, y


def cell_colors(source, grid, rows, columns):
    """The color of the center of every cell of a grid, uint8 [tiles, rows, columns, 4]."""
    image = pixels(source)
    image_height, image_width = image.shape[:2]
    page_width, page_height = grid.extent

    colors = np.empty((grid.tiles, rows, columns, 4), dtype=np.uint8)
    for tile, row, column in np.ndindex(grid.tiles, rows, columns):
        x, y = center(grid, tile, row, column, (rows, columns))
        pixel_row = int(y / page_height * image_height)
        pixel_column = int(x / page_width * image_width)
        colors[tile, row, column] = image[pixel_row, pixel_column]
    return colors


def hovered(figure, rows, columns, grid):
    """What the hover layer of a grid shows at the center of each cell: (number of the tile, row,
    column) -> data."""
    layer = named_trace(figure, "tiles")
    # The edges of the hover cells, in ascending order.
    row_edges = layer.y
    column_edges = layer.x
    numbers = layer.z
    data = layer.customdata

    shown = {}
    for tile, row, column in np.ndindex(grid.tiles, rows, columns):
        x, y = center(grid, tile, row, column, (rows, columns))
        hover_row = row_edges.searchsorted(y) - 1
        hover_column = column_edges.searchsorted(x) - 1
        number = numbers[hover_row][hover_column]
        shown[number, row, column] = data[hover_row][hover_column]
    return shown
