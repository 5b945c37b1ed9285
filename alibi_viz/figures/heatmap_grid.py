"""Many matrices as a grid of tiles on one pair of axes of a plotly figure, such as one per head.

The grid is one PNG in a layout image. An invisible heatmap over it has the hover texts, for fewer
cells if there are many, and takes clicks. One heatmap per head would be simpler, but plotly gets
every number as text: in JupyterLab, a step of a slider took 1,702 ms for 32 heads of 256 x 256 (179
ms with at most 64 cells a side), and one image 65 ms.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alibi_viz.figures.tile_grid import Grid

LETTER = 6.2  # pixels of a letter of a title
TILES = "tiles"  # the name of the trace with hover texts; its z is the number of a tile


def grid_image(grid: Grid, png: str, x: str = "x", y: str = "y") -> dict[str, Any]:
    """The layout image of all tiles, on a pair of axes."""
    width, height = grid.extent
    return {
        "source": png,
        "xref": x,
        "yref": y,
        "x": 0,
        "y": 0,
        "sizex": width,
        "sizey": height,
        "sizing": "stretch",
        "layer": "below",
    }


def title_trace(grid: Grid, titles: Sequence[str], x: str = "x", y: str = "y") -> dict[str, Any]:
    """A title above each tile, as a trace."""
    return {
        "type": "scatter",
        "name": "titles",
        "mode": "markers+text",
        "x": grid.corners[:, 0],
        "y": grid.corners[:, 1] - 2,
        "text": list(titles),
        "textposition": "top right",
        "textfont": {"size": 11},
        "marker": {"opacity": 0, "size": 1},
        "cliponaxis": False,
        "hoverinfo": "skip",
        "xaxis": x,
        "yaxis": y,
    }


def hover_trace(
    grid: Grid,
    size: int | tuple[int, int],
    custom: NDArray[np.object_],
    tile_numbers: Sequence[int],
    template: str,
    *,
    step: int = 1,
    x: str = "x",
    y: str = "y",
) -> dict[str, Any]:
    """The hover texts of all cells, as an invisible heatmap.

    Args:
        grid: the grid.
        size: the (rows, columns) of each matrix, or one number for both.
        custom: the data of the hover texts, [tiles, rows, columns, ...].
        tile_numbers: the number of each tile, which is the z of its cells.
        template: of the hover texts.
        step: each hover text is that of a square of so many rows and columns, and at the end of
            fewer. With more than one, `custom` has fewer rows and columns than the matrix.
    """
    rows, columns = (size, size) if isinstance(size, int) else size
    tiles, hover_rows, hover_columns = custom.shape[:3]
    number_of_cell = np.array(tile_numbers, dtype=object)[:, None, None]
    return {
        "type": "heatmap",
        "name": TILES,
        "x": _cell_edges(grid.corners[:, 0], grid.side, columns, step),
        "y": _cell_edges(grid.corners[:, 1], grid.side, rows, step),
        "z": grid.arrange(np.broadcast_to(number_of_cell, (tiles, hover_rows, hover_columns))),
        "customdata": grid.arrange(custom),
        "hovertemplate": f"{template}<extra></extra>",
        "hoverongaps": False,
        "opacity": 0,
        "showscale": False,
        "xaxis": x,
        "yaxis": y,
    }


def _cell_edges(
    tile_starts: NDArray[np.int64], side: int, length: int, step: int
) -> NDArray[np.float64]:
    """The edges of the hover cells in each tile, whose matrix has `length` rows or columns.

    A hover cell is `step` of them wide, the last one perhaps less.
    """
    edges = np.append(np.arange(0, length, step), length) * (side / length)
    return np.add.outer(np.unique(tile_starts), edges).ravel()
