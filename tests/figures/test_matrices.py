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
    assert (grid.rows - 1) * grid.columns < tiles <= grid.rows * grid.columns
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
def test_weight_pair_reads_back(rows: int, keys: int, first: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    pair = random.random((2, rows, keys)) * (random.random((2, rows, keys)) < 0.7)
    figure, options = matrices.blank_pair(), {"row_name": "head", "names": ("right", "wrong")}
    matrices.draw_pair(figure, *pair, rows=range(1, rows + 1), keys=range(first, first + keys), **options)
    for weights, heatmap, title in zip(pair, figure.data, ("right", "wrong"), strict=True):
        shown = np.array(heatmap.z, dtype=object).astype(float)
        np.testing.assert_array_equal(np.isnan(shown), weights == 0)
        np.testing.assert_array_equal(np.nan_to_num(shown), weights)
        assert (list(heatmap.x), list(heatmap.y)) == (list(range(first, first + keys)), list(range(1, rows + 1)))
        assert heatmap.hovertemplate.startswith("head %{y}, key %{x}") and title in heatmap.hovertemplate
        assert heatmap.coloraxis == "coloraxis"
    axis, x, y = figure.layout.coloraxis, figure.layout.xaxis2, figure.layout.yaxis2
    assert (axis.cmin, axis.cmax, axis.colorscale) == (0, 1, tuple(map(tuple, WEIGHT_SCALE.axis["colorscale"])))
    assert y.range[0] > rows and y.range[1] < 1, "the first row is at the top"
    assert x.range[0] < first and x.range[1] > first + keys - 1
    assert x.tickvals[-1] == first + keys - 1 and len(x.tickvals) <= 8, "the newest token has a label"
