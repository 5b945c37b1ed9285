"""A figure of many matrices, such as one per head: a grid of tiles with axes and one color bar."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.arguments import as_list, check_integer
from alibi_viz.figures import theme
from alibi_viz.figures.heatmap_grid import LETTER, grid_image, hover_trace, title_trace
from alibi_viz.figures.theme import WEIGHT_SCALE, ColorScale, Picture, as_array
from alibi_viz.figures.tile_grid import DENSITY, HEIGHT, PAD, Grid

MARGIN = {"l": 56, "r": 20, "t": 58, "b": 46}
# A color bar on the left above the tiles. plotly draws one only for a trace that uses its colors,
# and the trace of the titles does.
COLOR_BAR = {
    "orientation": "h",
    "len": 220,
    "lenmode": "pixels",
    "x": 0,
    "xanchor": "left",
    "y": 1,
    "yref": "container",
    "yanchor": "top",
    "ypad": 6,
}
_ROOMY_SIDE = 160  # pixels from which each tile has its own tick labels
_TICK_ROOM = 24  # pixels of a tick label
_LEGEND_WIDTH = 440  # pixels of the color bar with its text
_MASKED = "masked"  # the name of the gray cells in the legend


def page_grid(tiles: int, page_width: int, density: float = DENSITY, height: int = HEIGHT) -> Grid:
    """The grid for a figure on a page of so many pixels.

    All tiles together are at most `height` pixels high.
    """
    width = page_width - MARGIN["l"] - MARGIN["r"] - 2 * PAD
    return Grid(tiles, width, height, density=density)


def plot_size(grid: Grid) -> tuple[int, int]:
    """The width and height of the axes for all tiles of a grid and the legend, in pixels."""
    grid_width, grid_height = grid.extent
    legend_width = min(_LEGEND_WIDTH, grid.width + 2 * PAD)
    return max(grid_width + 2 * PAD, legend_width), grid_height + 2 * PAD


def weights_figure(
    weights: ArrayLike, titles: Sequence[str], *, first_query: int = 0, page_width: int = 880
) -> go.Figure:
    """Matrices of attention weights beside each other, such as right and wrong ones.

    Each row is drawn relative to its largest weight, and cells of weight 0 are masked.

    Args:
        weights: [matrices, query, key].
        titles: [matrices].
        first_query: the position of the first query.
        page_width: pixels available for the figure.

    >>> import alibi_viz as av
    >>> weights = av.alibi_bias(av.alibi_slopes(2), 8).softmax(-1)
    >>> figure = av.figures.weights_figure(weights, ["head 1", "head 2"])
    """
    values = as_array(weights, name="weights")
    titles = as_list("titles", titles, "strings", str)
    check_integer("first_query", first_query, 0)
    check_integer("page_width", page_width, 1)
    if values.ndim != 3 or not values.size or len(titles) != len(values):
        raise ValueError(
            "weights must be [matrices, query, key] with a title for each matrix, got shape "
            f"{list(values.shape)} and {len(titles)} titles"
        )
    largest = values.max(-1, keepdims=True).clip(1e-30)
    rows = range(first_query, first_query + values.shape[1])
    grid = page_grid(len(values), page_width)
    return theme.figure(
        weights_picture(grid, values / largest, titles, rows, range(values.shape[2]))
    )


def weights_picture(
    grid: Grid,
    weights: NDArray[np.floating],
    titles: Sequence[str],
    rows: Sequence[int],
    keys: Sequence[int],
    *,
    row: str = "query",
) -> Picture:
    """Matrices of weights, each divided by the largest of its row; see `weights_figure`.

    `rows` and `keys` are the numbers of rows and columns, and `row` is what a row is.
    """
    masked = ~(weights > 0)
    places = [[f"{row} {number}, key {key}<br>relative weight " for key in keys] for number in rows]
    texts = np.char.add(places, np.where(masked, "masked", np.char.mod("%.3g", weights)))
    plot_width, plot_height = plot_size(grid)
    picture = matrices_picture(
        grid,
        weights,
        masked,
        scale=WEIGHT_SCALE,
        titles=titles,
        axis_titles=("query position i" if row == "query" else row, "key position j"),
        axis_labels=(rows, keys),
        legend="weight / largest of its row",
        plot=(plot_width, plot_height),
        page_width=plot_width + MARGIN["l"] + MARGIN["r"],
    )
    numbers = range(1, len(weights) + 1)
    hover = hover_trace(grid, texts.shape[1:], texts.astype(object), numbers, "%{customdata}")
    picture["data"].append(hover)
    return picture


def matrices_picture(
    grid: Grid,
    cells: NDArray[Any],
    masked: NDArray[np.bool_],
    *,
    scale: ColorScale,
    titles: Sequence[str],
    axis_titles: tuple[str, str] = ("query position i", "key position j"),
    axis_labels: tuple[Sequence[int], Sequence[int]],
    legend: str,
    plot: tuple[int, int],
    page_width: int,
    margin: Mapping[str, int] = MARGIN,
    bar: Mapping[str, Any] = COLOR_BAR,
) -> Picture:
    """Matrices as tiles, without hover texts, which are slow; see `heatmap_grid.hover_trace`.

    Args:
        grid: from `page_grid`.
        cells: [tiles, rows, columns], of which `Grid.visible_cells` may leave some out.
        masked: bool, the same shape.
        scale: the colors.
        titles: the title of each tile.
        axis_titles: what rows and columns are.
        axis_labels: the numbers of all rows and of all columns.
        legend: the text beside the color bar.
        plot: the width and height of the axes in pixels, such as `plot_size(grid)`.
        page_width: of the figure in pixels, which may be wider than axes and margins.
        margin: around the axes, in pixels.
        bar: the properties of the color bar.
    """
    plot_width, plot_height = plot
    across = margin["l"] + margin["r"]
    down = margin["t"] + margin["b"]
    row_title, column_title = axis_titles
    row_labels, column_labels = axis_labels

    if masked.any():
        room = page_width - margin["l"] - bar["len"] - 20
        fits = LETTER * (len(legend) + len(_MASKED)) <= room
        separator = " &nbsp; " if fits else "<br>"
        legend += f'{separator}<span style="color:{theme.MASKED}">■</span> {_MASKED}'
    beside_bar = {
        "text": legend,
        "xref": "paper",
        "x": 0,
        "xanchor": "left",
        "xshift": bar["len"] + 20,
        "yref": "paper",
        "y": 1,
        "yanchor": "top",  # it may have two lines
        "yshift": margin["t"] - bar["ypad"] + 3,
        "showarrow": False,
    }

    title = title_trace(grid, titles)
    # plotly draws a color bar only for a trace that uses its colors.
    title["marker"] |= {"color": [0], "coloraxis": "coloraxis"}
    return theme.picture(
        [title],
        width=page_width,
        height=plot_height + down,
        margin=dict(margin),
        hovermode="closest",
        showlegend=False,
        xaxis={
            **_axis(column_title, column_labels, grid.corners[:, 0], grid.side),
            "range": [-PAD, plot_width - PAD],
            # Of a very narrow page, where tiles of a few pixels are cut off at the edge, all
            "domain": [0, min(plot_width / (page_width - across), 1)],
        },
        # Tiles are square because of the figure's size. A `scaleanchor` would fail when the page is
        # resized.
        yaxis={
            **_axis(row_title, row_labels, grid.corners[:, 1], grid.side),
            "range": [plot_height - PAD, -PAD],  # down
        },
        coloraxis=scale.color_axis(**bar),
        images=[grid_image(grid, grid.png(scale.indices(cells), masked, scale.palette))],
        annotations=[beside_bar],
    )


def _axis(
    title: str, labels: Sequence[int], tile_starts: NDArray[np.int64], side: int
) -> dict[str, Any]:
    """An axis with labels of cells in the tiles that start there.

    Small tiles share the labels of the first: labels would overlap, and each takes the browser
    1 ms.
    """
    # Four digits at the end of a tile would touch those at the start of the next one.
    is_roomy = side >= _ROOMY_SIDE and max(labels) < 1000
    labeled_starts = np.unique(tile_starts) if is_roomy else tile_starts[:1]

    if _TICK_ROOM * len(labels) <= side:
        count = len(labels)
    elif is_roomy:
        count = 3
    else:
        count = 2
    labeled_cells = np.unique(np.linspace(0, len(labels) - 1, count).astype(int))
    centers = (labeled_cells + 0.5) * side / len(labels)
    return {
        "title": {"text": title},
        "tickvals": np.add.outer(labeled_starts, centers).ravel(),
        "ticktext": [str(labels[cell]) for cell in labeled_cells] * len(labeled_starts),
        "tickangle": 0,
        "tickfont": {"size": 11},
        "showgrid": False,
        "showline": False,
        "fixedrange": True,
    }
