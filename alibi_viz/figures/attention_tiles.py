"""The weights of every head as small matrices, with the same query framed in each of them, and the selected head."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.figures import attention_layout as layout
from alibi_viz.figures import theme
from alibi_viz.figures.arrays import update_changed
from alibi_viz.figures.atlas import Atlas
from alibi_viz.figures.attention_layout import LOGITS, MAX_WEIGHT, TILES, TITLES, WEIGHTS
from alibi_viz.figures.attention_row import numbers
from alibi_viz.figures.color_scale import NUM_COLORS
from alibi_viz.figures.tokens import label

__all__ = ["draw_tiles"]

_MAX_HOVER = 4096  # cells with a hover text, in all tiles together
_MIN_FRAME = 3  # pixels: the smallest height of the frame around a query
_LETTER = 6.2  # pixels of a title
_PALETTE = theme.rgb(theme.SEQUENTIAL, NUM_COLORS)


def draw_tiles(
    figure: go.Figure,
    tokens: Sequence[str],
    steps: NDArray[np.float64],
    *,
    head: int,
    query: int,
    start: int,
    page_width: int,
) -> None:
    """Draw one tile per head.

    Args:
        figure: the figure, after `attention_layout.place`.
        tokens: [length], of the whole text.
        steps: content, bias, logits and weights, [4, heads, query, key].
        head, query: the selected head, counted from 0, and the position of the selected query.
        start: the position of the first query and key of `steps`.
        page_width: pixels available for the figure.
    """
    _, heads, length, _ = steps.shape
    atlas = layout.tiles(page_width, heads)
    visible = np.ix_(np.arange(heads), *2 * [atlas.visible_cells(length)])
    colors = np.rint(np.minimum(steps[WEIGHTS][visible] / MAX_WEIGHT, 1) * (NUM_COLORS - 1)).astype(np.uint8)
    png = atlas.png(colors, np.isneginf(steps[LOGITS][visible]), _PALETTE)
    update_changed(figure.layout.images[0], source=png)
    corners = np.array([atlas.corner(tile) for tile in range(heads)])
    update_changed(figure.data[TITLES], x=corners[:, 0], y=corners[:, 1] - 2, text=_titles(atlas, head))
    update_changed(
        figure.layout.shapes[layout.QUERY_FRAME], path=_row_frames(atlas, (query - start) / length, 1 / length)
    )
    left, top = corners[head].tolist()
    frame = {"x0": left - 2, "x1": left + atlas.side + 2, "y0": top - 2, "y1": top + atlas.side + 2}
    update_changed(figure.layout.shapes[layout.HEAD_FRAME], **frame)
    _draw_hover(figure.data[TILES], tokens, steps, atlas, start)


def _titles(atlas: Atlas, head: int) -> list[str]:
    """The number of each head, with the word if there is room, and the selected one in bold."""
    names = [f"head {number}" for number in range(1, atlas.tiles + 1)]
    if len(names[-1]) * _LETTER > atlas.side:
        names = [name.removeprefix("head ") for name in names]
    return [f"<b>{name}</b>" if tile == head else name for tile, name in enumerate(names)]


def _row_frames(atlas: Atlas, top: float, height: float) -> str:
    """A path around the same row in every tile. `top` and `height` are fractions of a tile."""
    high = max(height * atlas.side, _MIN_FRAME)
    middle = (top + height / 2) * atlas.side
    path = ""
    for tile in range(atlas.tiles):
        x, y = atlas.corner(tile)
        path += f"M{x},{y + middle - high / 2:.2f}H{x + atlas.side}V{y + middle + high / 2:.2f}H{x}Z"
    return path


def _draw_hover(trace: go.Heatmap, tokens: Sequence[str], steps: NDArray[np.float64], atlas: Atlas, start: int) -> None:
    """Fill the invisible heatmap: for every cell [content, bias, logit, weight, query, key, head]."""
    length = steps.shape[-1]
    positions = atlas.hover_cells(length, _MAX_HOVER)
    side = len(positions)
    custom = np.empty((atlas.tiles, side, side, 7), dtype=object)
    custom[..., :4] = numbers(steps[:, :, positions][..., positions])
    names = np.array([f"{at} “{label(tokens[at])}”" for at in (start + positions).tolist()], dtype=object)
    custom[..., 4], custom[..., 5] = names[:, None], names
    custom[..., 6] = np.arange(1, atlas.tiles + 1)[:, None, None]
    sheet = atlas.hover_sheet(custom)
    x, y = atlas.hover_edges(length, side)
    update_changed(trace, x=x, y=y, z=sheet[..., 6], customdata=sheet)  # the same for all heads: not sent again
