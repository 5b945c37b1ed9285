"""Any matrices -> a picture that reads back: every cell in its place and color, with the right
hover text."""

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from alibi_viz.figures import matrices, theme
from alibi_viz.figures.heatmap_grid import hover_trace
from alibi_viz.figures.theme import WEIGHT_SCALE
from alibi_viz.figures.tile_grid import Grid
from tests.figures.reading import cell_colors, hovered, named_trace, pixels
from tests.rows import each_case

# The colors that the scale of weights interpolates: of the weights 0, 1/9, 2/9, ..., 1
STOPS = np.array([list(bytes.fromhex(color[1:])) for color in theme.SEQUENTIAL])


class Drawing(NamedTuple):
    """Matrices, and the figure that shows them."""

    ninths: NDArray[np.int64]  # [tiles, rows, columns]; the weights are so many ninths
    masked: NDArray[np.bool_]  # the same shape
    texts: NDArray[np.object_]  # the same shape, for the hover layer: the number of each cell
    grid: Grid
    figure: go.Figure

    @property
    def png(self):
        """The image of all tiles."""
        (image,) = self.figure.layout.images
        return image.source


def draw(tiles, rows, columns, width=840, share=0.3):
    """Draw random matrices, of which about a `share` of the cells is masked.

    Rows count from 1, columns from 7, and tiles from 1.
    """
    random = np.random.default_rng(0)
    shape = (tiles, rows, columns)
    ninths = random.integers(0, 10, shape)
    masked = random.random(shape) < share
    grid = matrices.page_grid(tiles, width)
    picture = matrices.matrices_picture(
        grid,
        ninths / 9,
        masked,
        scale=WEIGHT_SCALE,
        titles=[f"tile {number}" for number in range(1, tiles + 1)],
        axis_labels=(range(1, rows + 1), range(7, 7 + columns)),
        legend="weight",
        plot=matrices.plot_size(grid),
        page_width=width,
    )
    texts = np.arange(ninths.size).reshape(shape).astype(object)
    hover = hover_trace(grid, (rows, columns), texts, range(1, tiles + 1), "%{customdata}")
    picture["data"].append(hover)
    return Drawing(ninths, masked, texts, grid, go.Figure(picture))


@pytest.fixture(scope="module")
def five_tiles():
    """Five matrices of 3 x 4 cells, so that a place of the grid is empty."""
    return draw(5, rows=3, columns=4)


any_drawing = st.builds(
    draw,
    tiles=st.integers(1, 12),
    rows=st.integers(1, 9),
    columns=st.integers(1, 40),
    width=st.integers(300, 1200),
)


# Cells


@settings(max_examples=8)
@given(any_drawing)
def test_every_cell_has_its_color(drawing):
    _, rows, columns = drawing.ninths.shape
    expected = np.empty((*drawing.ninths.shape, 4))
    for cell, ninth in np.ndenumerate(drawing.ninths):
        opaque = (*STOPS[ninth], 255)
        expected[cell] = theme.MASKED_RGBA if drawing.masked[cell] else opaque
    colors = cell_colors(drawing.png, drawing.grid, rows, columns)
    np.testing.assert_array_equal(colors, expected)


@settings(max_examples=8)
@given(any_drawing)
def test_every_cell_has_its_hover_text(drawing):
    _, rows, columns = drawing.texts.shape
    expected = {}
    for (tile, row, column), text in np.ndenumerate(drawing.texts):
        expected[tile + 1, row, column] = text
    assert hovered(drawing.figure, rows, columns, drawing.grid) == expected


def test_hover_text_of_several_cells_covers_them():
    """Of five rows and columns, one text is that of the first three, another of the last two."""
    grid = Grid(1)  # a tile of 440 pixels
    texts = np.array([[["a", "b"], ["c", "d"]]], dtype=object)
    hover = hover_trace(grid, 5, texts, [1], "", step=3)
    assert hover["x"] == pytest.approx([0, 264, 440])
    assert hover["y"] == pytest.approx([0, 264, 440])


def test_last_hover_text_may_be_that_of_a_single_cell():
    """With a step of four, two texts are those of the first eight of nine rows and columns."""
    grid = Grid(1)  # a tile of 440 pixels
    texts = np.full((1, 3, 3), "text", dtype=object)
    hover = hover_trace(grid, 9, texts, [1], "", step=4)
    assert hover["x"] == pytest.approx([0, 440 * 4 / 9, 440 * 8 / 9, 440])
    assert hover["y"] == pytest.approx([0, 440 * 4 / 9, 440 * 8 / 9, 440])


@each_case("tiles", {"one place is empty": 5, "no place is empty": 6})
def test_gaps_are_transparent(tiles):
    drawing = draw(tiles, rows=3, columns=4)
    opacity = pixels(drawing.png)[..., 3]
    # The image has 3 pixels for 2 on the page, and the side of a tile is an even number.
    pixels_of_a_tile = (drawing.grid.side // 2 * 3) ** 2
    assert (opacity > 0).sum() == tiles * pixels_of_a_tile


# Around the cells


def test_axes_have_the_given_labels(five_tiles):
    layout = five_tiles.figure.layout
    assert layout.yaxis.ticktext[:3] == ("1", "2", "3")
    assert layout.xaxis.ticktext[:4] == ("7", "8", "9", "10")


def test_first_row_is_at_the_top(five_tiles):
    bottom, top = five_tiles.figure.layout.yaxis.range
    assert bottom > top


def test_titles_stand_above_their_tiles(five_tiles):
    titles = named_trace(five_tiles.figure, "titles")
    corners = five_tiles.grid.corners.tolist()
    for number, (x, y) in enumerate(corners):
        assert titles.text[number] == f"tile {number + 1}"
        assert titles.x[number] == x
        assert titles.y[number] < y


@each_case(
    ("share", "is_said"),
    {"all masked": (1.0, True), "none masked": (0.0, False)},
)
def test_legend_says_whether_cells_are_masked(share, is_said):
    drawing = draw(2, rows=3, columns=3, share=share)
    (legend,) = drawing.figure.layout.annotations
    assert legend.text.startswith("weight")
    assert legend.text.endswith("masked") is is_said
