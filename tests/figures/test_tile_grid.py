"""Any number of square tiles fits on a page of any width."""

import numpy as np
import pytest

from alibi_viz.figures.tile_grid import Grid

each_grid = pytest.mark.parametrize(("tiles", "width"), [(1, 1200), (7, 840), (32, 450)])


@each_grid
def test_tiles_fit_the_page(tiles, width):
    grid_width, grid_height = Grid(tiles, width).extent
    assert grid_width <= width
    assert grid_height <= 500


@each_grid
def test_tiles_are_large_enough_to_be_told_apart(tiles, width):
    assert Grid(tiles, width).side >= 40


@each_grid
def test_only_the_last_row_has_empty_places(tiles, width):
    grid = Grid(tiles, width)
    _, tiles_in_row = np.unique(grid.corners[:, 1], return_counts=True)
    *full_rows, last_row = tiles_in_row.tolist()
    assert set(full_rows) <= {grid.columns}
    assert 1 <= last_row <= grid.columns
