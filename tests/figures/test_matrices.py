"""Any matrices -> a picture that reads back: every cell in its place and color, with the right
hover text and click."""

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alibi_viz.figures import heatmap_grid, matrices, theme
from alibi_viz.figures.theme import WEIGHT_SCALE, named_trace
from alibi_viz.figures.tile_grid import Grid
from tests.figures.reading import cell_colors, hovered, pixels


@pytest.mark.parametrize(
    ("tiles", "width"), [(n, width) for n in range(1, 33) for width in (450, 840, 1200)]
)
def test_tiles_fit_the_page_and_no_row_is_empty(tiles: int, width: int) -> None:
    grid = Grid(tiles, width)
    rows = len(np.unique(grid.corners[:, 1]))
    assert (rows - 1) * grid.columns < tiles <= rows * grid.columns
    assert grid.extent[0] <= width and grid.extent[1] <= 500 and grid.side >= 40


def test_clicks_name_the_tile_under_the_pointer() -> None:
    figure, clicked = go.FigureWidget(matrices.blank("")), []
    heatmap_grid.fill_hover(
        figure, Grid(5, 600), 3, np.zeros((5, 3, 3), dtype=object), tile_numbers=[7, 8, 9, 10, 11]
    )
    heatmap_grid.on_tile_click(figure, clicked.append)
    for row, column in np.ndindex(named_trace(figure, "tiles").z.shape):
        click(figure, "tiles", row, column)
    assert sorted(set(clicked)) == [7, 8, 9, 10, 11] and len(clicked) == 45, "gaps do nothing"


def click(figure: go.FigureWidget, name: str, row: int, column: int, y: int = 0) -> None:
    """What the browser sends for a click on a cell of a heatmap."""
    index = figure.data.index(named_trace(figure, name))
    points = {
        "trace_indexes": [index],
        "point_indexes": [[row, column]],
        "xs": [0],
        "ys": [y],
        "zs": [0],
    }
    event = {"event_type": "plotly_click", "points": points, "device_state": None, "selector": None}
    figure._js2py_pointsCallback = event


@settings(max_examples=15)
@given(
    st.integers(1, 12),
    st.integers(1, 9),
    st.integers(1, 40),
    st.integers(300, 1200),
    st.integers(0, 99),
)
def test_figure_of_matrices_reads_back(
    tiles: int, rows: int, columns: int, width: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    weights = random.random((tiles, rows, columns))
    masked = random.random(weights.shape) < 0.3
    figure, grid = matrices.blank("%{customdata}"), matrices.page_grid(tiles, width)
    axis_labels = (range(1, rows + 1), range(7, 7 + columns))
    options = {
        "scale": WEIGHT_SCALE,
        "titles": [""] * tiles,
        "axis_labels": axis_labels,
        "legend": "weight",
    }
    matrices.draw(figure, grid, weights, masked, **options)
    heatmap_grid.fill_hover(
        figure, grid, (rows, columns), weights.astype(object), range(1, tiles + 1)
    )
    source, layout = figure.layout.images[0].source, figure.layout
    colors, palette = (
        cell_colors(source, grid, rows, columns),
        WEIGHT_SCALE.palette[WEIGHT_SCALE.indices(weights)],
    )
    assert (
        colors == np.where(masked[..., None], theme.MASKED_RGBA, np.insert(palette, 3, 255, -1))
    ).all()
    found = {
        (tile + 1, row, column): weight for (tile, row, column), weight in np.ndenumerate(weights)
    }
    assert hovered(figure, rows, columns, grid) == found
    assert (pixels(source)[..., 3] > 0).sum() == tiles * round(1.5 * grid.side) ** 2, (
        "the gaps are transparent"
    )
    assert (layout.yaxis.ticktext[0], layout.xaxis.ticktext[0]) == ("1", "7")
    assert layout.yaxis.range[0] > layout.yaxis.range[1], "the first row is at the top"
    assert ("masked" in layout.annotations[0].text) == masked.any()
