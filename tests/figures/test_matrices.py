"""Any matrices -> a picture that reads back: every cell in its place and color, with the right hover text and click."""

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alibi_viz.figures import matrices, theme
from alibi_viz.figures.color_scale import NUM_COLORS, WEIGHT_SCALE
from alibi_viz.figures.matrices import Grid, named_trace
from tests.figures.reading import cell_colors, hovered, pixels

PALETTE = np.random.default_rng(0).integers(0, 256, (NUM_COLORS, 3)).astype(np.uint8)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 12), st.integers(1, 40), st.integers(300, 1200), st.integers(0, 99))
def test_png_shows_every_cell_in_its_color(tiles: int, length: int, width: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    colors = random.integers(0, NUM_COLORS, (tiles, length, length)).astype(np.uint8)
    masked = random.random((tiles, length, length)) < 0.3
    grid = Grid(tiles, width)
    source = grid.png(colors, masked, PALETTE)
    seen = cell_colors(source, grid, length)
    assert (seen[masked] == theme.MASKED_RGBA).all()
    assert (seen[~masked][:, :3] == PALETTE[colors[~masked]]).all()
    assert (seen[~masked][:, 3] == 255).all()
    opaque = np.count_nonzero(pixels(source)[..., 3])
    assert opaque == tiles * round(1.5 * grid.side) ** 2, "the gaps between the tiles are transparent"


@pytest.mark.parametrize("width", [450, 840, 1200])
@pytest.mark.parametrize("tiles", range(1, 33))
def test_tiles_fit_the_page_and_no_row_is_empty(tiles: int, width: int) -> None:
    grid = Grid(tiles, width)
    rows = len(np.unique(grid.corners[:, 1]))
    assert (rows - 1) * grid.columns < tiles <= rows * grid.columns
    assert grid.extent[0] <= width and grid.extent[1] <= 500 and grid.side >= 40


@given(st.integers(1, 32), st.integers(1, 256), st.sampled_from([512, 2048, 65536]))
def test_hover_cells_are_all_positions_if_they_fit_and_evenly_spaced_otherwise(
    tiles: int, length: int, limit: int
) -> None:
    cells = Grid(tiles).hover_cells(length, limit)
    assert tiles * len(cells) ** 2 <= limit and 0 <= cells.min() <= cells.max() < length
    if tiles * length**2 <= limit:
        assert cells.tolist() == list(range(length))
    steps = np.diff(cells)
    assert len(cells) == 1 or (steps.min() > 0 and len(set(steps[:-1])) <= 1)


def test_hover_layer_and_clicks_name_the_tile_under_the_pointer() -> None:
    figure, grid = go.FigureWidget(), Grid(5, 600)
    matrices.add_grid(figure, "%{customdata[0]}")
    cells = np.arange(5 * 9).reshape(5, 3, 3, 1).astype(object)
    matrices.fill_hover(figure, grid, 3, cells, numbers=[7, 8, 9, 10, 11])
    found = hovered(figure, 3, grid)
    assert {place: data[0] for place, data in found.items()} == {
        (7 + tile, row, column): 9 * tile + 3 * row + column for tile, row, column in np.ndindex(5, 3, 3)
    }
    clicked: list[int] = []
    matrices.on_tile_click(figure, clicked.append)
    z = named_trace(figure, "tiles").z
    for row, column in np.ndindex(z.shape):
        click(figure, "tiles", row, column)
    assert sorted(set(clicked)) == [7, 8, 9, 10, 11] and len(clicked) == 45, "gaps do nothing"


def click(figure: go.FigureWidget, name: str, row: int, column: int, y: int = 0) -> None:
    """What the browser sends for a click on a cell of a heatmap."""
    index = figure.data.index(named_trace(figure, name))
    points = {"trace_indexes": [index], "point_indexes": [[row, column]], "xs": [0], "ys": [y], "zs": [0]}
    event = {"event_type": "plotly_click", "points": points, "device_state": None, "selector": None}
    figure._js2py_pointsCallback = event


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(0, 3000), st.integers(0, 99))
def test_figure_of_matrices_that_are_not_square_reads_back(rows: int, columns: int, first: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    weights = random.random((2, rows, columns))
    masked = random.random(weights.shape) < 0.3
    figure, grid = matrices.blank("%{customdata}"), matrices.page_grid(2, 1000)
    numbers = range(1, rows + 1), range(first, first + columns)
    options = {"scale": WEIGHT_SCALE, "titles": ("right", "wrong"), "numbers": numbers, "legend": "weight"}
    matrices.draw(figure, grid, weights, masked, **options)
    matrices.fill_hover(figure, grid, (rows, columns), weights.astype(object), (1, 2))
    image, layer, layout = pixels(figure.layout.images[0].source), named_trace(figure, "tiles"), figure.layout
    for tile, row, column in np.ndindex(weights.shape):
        place = (np.array([column, row]) + 0.5) * grid.side / [columns, rows] + grid.corners[tile]
        x, y = (place * np.array(image.shape[1::-1]) / grid.extent).astype(int)
        color = theme.MASKED_RGBA
        if not masked[tile, row, column]:
            color = *WEIGHT_SCALE.palette[WEIGHT_SCALE.indices(weights[tile, row, column, None])[0]], 255
        assert (image[y, x] == color).all()
        at = np.searchsorted(layer.y, place[1]) - 1, np.searchsorted(layer.x, place[0]) - 1
        assert (layer.z[at], layer.customdata[at]) == (tile + 1, weights[tile, row, column])
    assert (layout.yaxis.ticktext[0], layout.xaxis.ticktext[-1]) == ("1", str(first + columns - 1))
    assert layout.yaxis.range[0] > layout.yaxis.range[1], "the first row is at the top"
    assert ("masked" in layout.annotations[0].text) == masked.any()
