"""Many matrices in one PNG. The decoded image shows every cell in its place."""

import base64
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from alibi_viz.figures import theme
from alibi_viz.figures.atlas import BORDER, Atlas
from alibi_viz.figures.color_scale import NUM_COLORS

PALETTE = np.random.default_rng(0).integers(0, 256, (NUM_COLORS, 3)).astype(np.uint8)
DENSITY = 1.5  # image pixels per pixel on the page


def decoded(uri: str) -> np.ndarray:
    """Red, green, blue and opacity of every pixel: uint8 [height, width, 4]."""
    kind, data = uri.split(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 40), st.integers(300, 1200), st.integers(0, 99))
def test_png_shows_every_cell_in_its_color(tiles, length, width, seed):
    random = np.random.default_rng(seed)
    colors = random.integers(0, NUM_COLORS, (tiles, length, length)).astype(np.uint8)
    masked = random.random((tiles, length, length)) < 0.3
    atlas = Atlas(tiles, width)
    pixels = decoded(atlas.png(colors, masked, PALETTE))
    assert pixels.shape[:2] == tuple(round(DENSITY * (side + 2 * BORDER)) for side in reversed(atlas.extent))
    tile, row, column = np.indices(colors.shape)
    x, y = (np.array([atlas.corner(one) for one in range(tiles)])[tile, axis] for axis in (0, 1))
    cell = atlas.side / length
    seen = pixels[
        ((y + BORDER + (row + 0.5) * cell) * DENSITY).astype(int),
        ((x + BORDER + (column + 0.5) * cell) * DENSITY).astype(int),
    ]
    assert (seen[masked] == theme.MASKED_RGBA).all()
    assert (seen[~masked][:, :3] == PALETTE[colors[~masked]]).all()
    assert (seen[~masked][:, 3] == 255).all()
    opaque = np.count_nonzero(pixels[..., 3])
    assert opaque == tiles * round(DENSITY * (atlas.side + 2 * BORDER)) ** 2  # the gaps are transparent


def test_png_broadcasts_a_mask_for_all_heads():
    atlas = Atlas(2)
    colors, masked = np.zeros((2, 4, 4), dtype=np.uint8), np.eye(4, dtype=bool)
    whole = np.broadcast_to(masked, (2, 4, 4))
    assert atlas.png(colors, masked, PALETTE) == atlas.png(colors, whole, PALETTE)


@pytest.mark.parametrize("width", [450, 840, 1200])
@pytest.mark.parametrize("tiles", range(1, 33))
def test_tiles_fit_the_page_and_no_row_is_empty(tiles, width):
    atlas = Atlas(tiles, width)
    assert (atlas.rows - 1) * atlas.columns < tiles <= atlas.rows * atlas.columns
    assert atlas.extent[0] <= width
    assert atlas.extent[1] <= 500
    assert atlas.side >= 40


@given(st.integers(1, 32), st.integers(1, 256))
def test_visible_cells_are_all_positions_if_the_image_has_a_pixel_for_each(tiles, length):
    atlas = Atlas(tiles)
    cells = atlas.visible_cells(length)
    assert len(cells) == min(length, int(atlas.side * DENSITY))
    assert cells.min() >= 0 and cells.max() < length
    assert len(cells) == 1 or np.diff(cells).min() > 0


@given(st.integers(1, 32), st.integers(1, 256), st.sampled_from([512, 2048, 65536]))
def test_hover_cells_are_all_positions_if_they_fit_and_evenly_spaced_otherwise(tiles, length, limit):
    cells = Atlas(tiles).hover_cells(length, limit)
    assert tiles * len(cells) ** 2 <= limit
    assert cells.min() >= 0 and cells.max() < length
    if tiles * length**2 <= limit:
        assert cells.tolist() == list(range(length))
    steps = np.diff(cells)
    assert len(cells) == 1 or (steps.min() > 0 and len(set(steps[:-1])) <= 1)
