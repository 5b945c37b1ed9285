"""Many matrices as a grid of tiles on one pair of axes of a plotly figure, such as one per head.

The grid is one PNG in a layout image. An invisible heatmap over it has the hover texts, for fewer
cells if there are many, and takes clicks. One heatmap per head would be simpler, but plotly gets
every number as text: in JupyterLab, a step of a slider took 1,702 ms for 32 heads of 256 x 256 (179
ms with at most 64 cells a side), and one image 65 ms.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.figures.theme import named_trace, update_changed
from alibi_viz.figures.tile_grid import Grid

LETTER = 6.2  # pixels of a letter of a title

# The names of the traces
TITLES = "titles"
_TILES = "tiles"


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
        name=TITLES,
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
        named_trace(figure, TITLES),
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
    *,
    step: int = 1,
) -> None:
    """Fill the hover layer of a figure with a grid.

    Args:
        figure: with a grid from `add_grid`.
        grid: the grid.
        size: the (rows, columns) of each matrix, or one number for both.
        custom: the data of the hover texts, [tiles, rows, columns, ...].
        tile_numbers: the number of each tile.
        step: each hover text is that of a square of so many rows and columns, and at the end of
            fewer. With more than one, `custom` has fewer rows and columns than the matrix.
    """
    rows, columns = (size, size) if isinstance(size, int) else size
    tiles, hover_rows, hover_columns = custom.shape[:3]
    number_of_cell = np.array(tile_numbers, dtype=object)[:, None, None]
    update_changed(
        named_trace(figure, _TILES),
        x=_cell_edges(grid.corners[:, 0], grid.side, columns, step),
        y=_cell_edges(grid.corners[:, 1], grid.side, rows, step),
        z=grid.arrange(np.broadcast_to(number_of_cell, (tiles, hover_rows, hover_columns))),
        customdata=grid.arrange(custom),
        visible=True,
    )


def _cell_edges(
    tile_starts: NDArray[np.int64], side: int, length: int, step: int
) -> NDArray[np.float64]:
    """The edges of the hover cells in each tile, whose matrix has `length` rows or columns.

    A hover cell is `step` of them wide, the last one perhaps less.
    """
    edges = np.append(np.arange(0, length, step), length) * (side / length)
    return np.add.outer(np.unique(tile_starts), edges).ravel()


def hide_hover(figure: go.Figure) -> None:
    """Remove the hover layer of a figure with a grid, until `fill_hover` fills it again."""
    # On each change, a FigureWidget redraws every visible trace and copies all data.
    update_changed(
        named_trace(figure, _TILES), visible=False, x=None, y=None, z=None, customdata=None
    )


def on_tile_click(figure: go.FigureWidget, callback: Callable[[int], None]) -> None:
    """Call `callback(number)` when the user clicks a tile of a live figure."""

    def clicked(tiles: go.Heatmap, points: Any, _: Any) -> None:
        for row, column in points.point_inds:
            if tiles.z[row][column] is not None:  # not a gap
                callback(int(tiles.z[row][column]))

    named_trace(figure, _TILES).on_click(clicked)
