"""A figure of many matrices, such as one per head: a grid of tiles with axes and one color bar."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.figures import heatmap_grid, theme
from alibi_viz.figures.theme import ColorScale, named_trace, update_changed
from alibi_viz.figures.tile_grid import DENSITY, HEIGHT, PAD, Grid

_MARGIN = {"l": 56, "r": 20, "t": 58, "b": 46}
_ROOMY_SIDE = 160  # pixels from which each tile has its own tick labels
_TICK_ROOM = 24  # pixels of a tick label
_BAR_LENGTH = 220  # pixels of the color bar
_LEGEND_WIDTH = 440  # pixels of the color bar with its text
_MASKED = "masked"  # the name of the gray cells in the legend


def page_grid(tiles: int, page_width: int, density: float = DENSITY, height: int = HEIGHT) -> Grid:
    """The grid for a figure from `blank` on a page of so many pixels.

    All tiles together are at most `height` pixels high.
    """
    width = page_width - _MARGIN["l"] - _MARGIN["r"] - 2 * PAD
    return Grid(tiles, width, height, density=density)


def blank(template: str) -> go.Figure:
    """A figure of one grid and its color bar, without data.

    `template` is that of the hover texts.
    """
    figure = theme.blank(height=480, hovermode="closest", showlegend=False, margin=_MARGIN)
    heatmap_grid.add_grid(figure, template)
    # plotly draws a color bar only for a trace that uses its colors.
    named_trace(figure, heatmap_grid.TITLES).marker.update(color=[0], coloraxis="coloraxis")
    figure.update_layout(
        coloraxis_colorbar={
            **theme.COLOR_BAR,
            "orientation": "h",
            "len": _BAR_LENGTH,
            "lenmode": "pixels",
            "x": 0,
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "ypad": 6,
        }
    )

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

    # The legend beside the color bar
    figure.add_annotation(
        xref="paper",
        x=0,
        xanchor="left",
        xshift=_BAR_LENGTH + 20,
        yref="paper",
        y=1,
        yanchor="top",  # it may have two lines
        yshift=_MARGIN["t"] - 3,
        showarrow=False,
    )
    return figure


def draw(
    figure: go.Figure,
    grid: Grid,
    cells: NDArray[Any],
    masked: NDArray[np.bool_],
    *,
    scale: ColorScale,
    titles: Sequence[str],
    axis_labels: tuple[Sequence[int], Sequence[int]],
    legend: str,
    plot_size: tuple[int, int] | None = None,
    page_width: int | None = None,
) -> None:
    """Draw matrices into a figure from `blank`, plain or live.

    The hover texts are removed, because they are slow; see `fill_hover` in heatmap_grid.py.

    Args:
        figure: from `blank`.
        grid: from `page_grid`.
        cells: [tiles, rows, columns], of which `Grid.visible_cells` may leave some out.
        masked: bool, the same shape.
        scale: the colors.
        titles: the title of each tile.
        axis_labels: the numbers of all rows and of all columns.
        legend: the text beside the color bar.
        plot_size: the width and height of the axes in pixels. By default, the figure gets the size
            of the grid.
        page_width: of a figure with a `plot_size`.
    """
    if plot_size is None:
        grid_width, grid_height = grid.extent
        legend_width = min(_LEGEND_WIDTH, grid.width + 2 * PAD)
        plot_width = max(grid_width + 2 * PAD, legend_width)
        plot_height = grid_height + 2 * PAD
    else:
        plot_width, plot_height = plot_size
    x_range = [-PAD, plot_width - PAD]
    y_range = [plot_height - PAD, -PAD]  # down
    row_labels, column_labels = axis_labels

    if page_width is None:
        page_width = plot_width + _MARGIN["l"] + _MARGIN["r"]
    if masked.any():
        room = page_width - _MARGIN["l"] - _BAR_LENGTH - 20
        fits = heatmap_grid.LETTER * (len(legend) + len(_MASKED)) <= room
        separator = " &nbsp; " if fits else "<br>"
        legend += f'{separator}<span style="color:{theme.MASKED}">■</span> {_MASKED}'

    with figure.batch_update():
        if plot_size is None:
            update_changed(
                figure.layout,
                width=plot_width + _MARGIN["l"] + _MARGIN["r"],
                height=plot_height + _MARGIN["t"] + _MARGIN["b"],
            )
        _draw_axis(figure.layout.xaxis, x_range, column_labels, grid.corners[:, 0], grid.side)
        _draw_axis(figure.layout.yaxis, y_range, row_labels, grid.corners[:, 1], grid.side)
        png = grid.png(scale.indices(cells), masked, scale.palette)
        heatmap_grid.fill_grid(figure, grid, png, titles)
        heatmap_grid.hide_hover(figure)
        update_changed(figure.layout.coloraxis, **scale.axis)
        legend_annotation = figure.layout.annotations[0]
        update_changed(legend_annotation, text=legend)


def _draw_axis(
    axis: Any,
    ends: Sequence[float],
    labels: Sequence[int],
    tile_starts: NDArray[np.int64],
    side: int,
) -> None:
    """Set the range of an axis and label cells of the tiles that start there.

    Small tiles share the labels of the first: labels would overlap, and each takes the browser
    1 ms.
    """
    is_roomy = side >= _ROOMY_SIDE
    labeled_starts = np.unique(tile_starts) if is_roomy else tile_starts[:1]

    if _TICK_ROOM * len(labels) <= side:
        count = len(labels)
    elif is_roomy:
        count = 3
    else:
        count = 2
    labeled_cells = np.unique(np.linspace(0, len(labels) - 1, count).astype(int))
    centers = (labeled_cells + 0.5) * side / len(labels)

    update_changed(
        axis,
        range=ends,
        tickvals=np.add.outer(labeled_starts, centers).ravel(),
        ticktext=[str(labels[cell]) for cell in labeled_cells] * len(labeled_starts),
    )
