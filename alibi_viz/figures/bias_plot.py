"""The bias of every head, or what the softmax makes of it, e^bias: one square tile per head on one
color scale.

The figure is equally high for any number of heads, so that the text below it stays where it is.
Beside the tiles is the profile of one row, what its query has for each key, if there is room.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.arguments import check_choice
from alibi_viz.figures import matrices, theme
from alibi_viz.figures.heatmap_grid import LETTER, hover_trace
from alibi_viz.figures.matrices import matrices_picture
from alibi_viz.figures.theme import WEIGHT_SCALE, ColorScale, Picture, as_array
from alibi_viz.figures.tile_grid import DENSITY, PAD, Grid

# The text beside the color bar
SHOWS = {"weight": "weight left at equal content", "bias": "bias, linear scale"}
# Cells with a hover text: with several heads in the figure, and with one
HOVER_ALL = 2048
HOVER_ONE = 65536
_TEMPLATE = (
    "head %{z}, query %{customdata[0]}, key %{customdata[1]}, %{customdata[2]} apart"
    "<br>bias %{customdata[3]}, weight left %{customdata[4]:.1%}"
)

# Pixels
_MARGIN = {"l": 56, "r": 20, "t": 48, "b": 42}
_HEIGHT = 416  # of the figure
_PLOT_HEIGHT = _HEIGHT - _MARGIN["t"] - _MARGIN["b"]
_BAR = matrices.COLOR_BAR | {
    "len": 200,
    "thickness": 8,
    "ticks": "",
    "ticklen": 0,
    "tickfont": {"size": 11},
    "ypad": 2,
}
_BEFORE_PROFILE = 72  # for the numbers at its axis
_LEAST_PROFILE = 120  # a narrower one is left out
_FRAME_COLOR = "#D6368F"  # not in any of the color scales, and visible on both themes

# From the longest title to the shortest
_TITLES = ("head {head}, m = {slope}", "{head}: m={slope}", "{head}: {slope}")
_TITLE_OVERHANG = 17  # pixels that a title may be longer than its tile

Floats = NDArray[np.float32]


def bias_figure(bias: ArrayLike, masked: ArrayLike, **options: Any) -> go.Figure:
    """Biases as a plotly figure with hover texts.

    Args:
        bias: [heads, length, length] or [heads, 1, length]; finite where not masked.
        masked: bool, broadcastable to [heads, length, length]; these cells are gray.
        options: `show`: "weight" for the weight that a key gets at equal content, or "bias";
            `heads`: the number of each head, 1, 2, ... by default; `slopes`: the text of each
            slope, for the titles; `page_width`: pixels available for the figure, 880 by default;
            `density`: image pixels per pixel of the page.

    >>> import alibi_viz as av
    >>> bias = av.alibi_bias(av.alibi_slopes(2), 4)
    >>> figure = av.figures.bias_figure(bias, ~av.causal_mask(4), show="bias")
    >>> (tiles,) = figure.select_traces({"name": "tiles"})
    >>> # Query, key and distance of a cell of head 1
    >>> tiles.customdata[3, 0].tolist()[:3]
    [3, 0, 3]
    """
    return theme.figure(bias_picture(bias, masked, **options))


def bias_picture(
    bias: ArrayLike,
    masked: ArrayLike,
    *,
    show: str = "weight",
    heads: Sequence[int] = (),
    slopes: Sequence[str] = (),
    page_width: int = 880,
    density: float = DENSITY,
    profile: tuple[int, int] | None = None,
    hover: bool = True,
) -> Picture:
    """One tile per head.

    Args:
        bias: [heads, length, length] or [heads, 1, length]; finite where not masked.
        masked: bool, broadcastable to [heads, length, length]; these cells are gray.
        show: "weight" for the weight that a key gets at equal content, relative to the most favored
            key of its query (see `weights_from_bias`), or "bias" for the bias itself.
        heads: [heads], the number of each head; 1, 2, ... by default.
        slopes: [heads], the text of each slope for the title of its tile, which is shorter where
            there is little room; none by default.
        page_width: pixels available for the figure.
        density: image pixels per pixel of the page, see `Grid`.
        profile: the (tile, query) whose row stands beside the tiles, counted from 0; by default the
            last row of the middle tile.
        hover: whether cells have hover texts, which take longer than all the rest.
    """
    values, hidden = _checked(bias, masked)
    tiles, length, _ = values.shape
    head_numbers = list(heads) if len(heads) else list(range(1, tiles + 1))
    if len(head_numbers) != tiles or len(slopes) not in (0, tiles):
        raise ValueError(
            f"heads and slopes must have {tiles} entries, got {len(head_numbers)} and {len(slopes)}"
        )
    check_choice("show", show, SHOWS)

    width = max(page_width - _MARGIN["l"] - _MARGIN["r"], 40)
    grid = _grid(tiles, width, density)
    cells, masked_cells, scale = _cells(values, hidden, grid.visible_cells(length), show)
    tiles_width, _ = grid.extent
    plot_width = tiles_width + 2 * PAD
    picture = matrices_picture(
        grid,
        cells,
        masked_cells,
        scale=scale,
        titles=_titles(head_numbers, slopes, grid.side),
        axis_labels=(range(length), range(length)),
        legend=SHOWS[show],
        plot=(plot_width, _PLOT_HEIGHT),
        page_width=page_width,
        margin=_MARGIN,
        bar=_BAR,
    )
    start_of_profile = plot_width + _BEFORE_PROFILE
    if width - start_of_profile >= _LEAST_PROFILE:
        tile, query = profile or ((tiles - 1) // 2, length - 1)
        _add_profile(
            picture,
            values[tile, query],
            hidden[tile, query],
            show=show,
            start=start_of_profile / width,
            title=f"head {head_numbers[tile]}, query {query:,}",
            frame=_row_frame(grid, tile, query, length),
        )
    if hover:
        limit = HOVER_ONE if tiles == 1 else HOVER_ALL
        texts = _hover_texts(values, hidden, grid.hover_cells(length, limit))
        step = grid.hover_step(length, limit)
        picture["data"].append(hover_trace(grid, length, texts, head_numbers, _TEMPLATE, step=step))
    return picture


def _grid(tiles: int, width: int, density: float) -> Grid:
    """One large tile, or at most four or eight tiles in a row.

    32 heads then have four rows, and every figure is equally high.
    """
    if tiles == 1:
        across = 1
    elif tiles <= 8:
        across = 4
    else:
        across = 8
    return Grid(tiles, width - 2 * PAD, _PLOT_HEIGHT - 2 * PAD, density, across)


def _row_frame(grid: Grid, tile: int, query: int, length: int) -> dict[str, Any]:
    """A frame around a row, at least three pixels high."""
    left, top = grid.corners[tile].tolist()
    cell = grid.side / length
    bottom_of_row = min((query + 1) * cell, grid.side)
    top_of_row = min(query * cell, bottom_of_row - min(3, grid.side))
    return {
        "x0": left - 1,
        "x1": left + grid.side + 1,
        "y0": top + max(top_of_row, 0),
        "y1": top + bottom_of_row + 1,
        "line": {"color": _FRAME_COLOR, "width": 2},
    }


def _add_profile(
    picture: Picture,
    row: Floats,
    masked: NDArray[np.bool_],
    *,
    show: str,
    start: float,
    title: str,
    frame: dict[str, Any],
) -> None:
    """Add a row as a curve, what each key has for its query, and a frame around this row.

    `row` and `masked` are [key]. `start` is where the curve begins, as a share of the width.
    """
    length = len(row)
    if show == "weight":
        row = weights_from_bias(row, masked)
        texts = _three_digits(100 * row) + "%"
        axis_range = [0.0, 1.03]
        tick_format = ".0%"
    else:
        texts = _three_digits(row)
        visible = row[~masked]
        low = float(visible.min(initial=0))
        high = float(visible.max(initial=0))
        height = high - low if high > low else 1.0  # an axis needs a height
        axis_range = [low - 0.03 * height, high + 0.03 * height]
        tick_format = ".3~g"

    curve = {
        "type": "scatter",
        "name": "profile",
        "x": np.arange(length),
        "y": np.where(masked, np.nan, row),
        "customdata": list(texts),
        "hovertemplate": "key %{x}: %{customdata}<extra></extra>",
        "mode": "lines" if length > 1 else "markers",
        "line": {"color": theme.BLUE, "width": 2, "shape": "hvh"},
        "fill": "tozeroy",
        "xaxis": "x2",
        "yaxis": "y2",
    }
    words = {
        **theme.TITLE,
        "text": f'<span style="color:{_FRAME_COLOR}">▭</span> {title}',
        "xref": "x2 domain",
        "yref": "y2 domain",
    }
    picture["data"].append(curve)
    layout = picture["layout"]
    layout["shapes"] = [frame]
    layout["annotations"].append(words)
    layout["xaxis2"] = {
        "anchor": "y2",
        "domain": [start, 1],
        "range": [-0.5, length - 0.5],
        "tickvals": np.unique(np.linspace(0, length - 1, 4).astype(int)).tolist(),
        "title": {"text": "key position j"},
        "showgrid": False,
        "fixedrange": True,
    }
    layout["yaxis2"] = {
        "anchor": "x2",
        "range": axis_range,
        "tickformat": tick_format,
        "fixedrange": True,
    }


def _checked(bias: ArrayLike, masked: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    """Both arguments of a figure as [heads, length, length]."""
    values = as_array(bias, np.float32, "bias")
    hidden = as_array(masked, bool, "masked")
    if values.ndim != 3 or values.shape[1] not in (1, values.shape[2]) or not values.size:
        raise ValueError(
            "bias must be [heads, length or 1, length] and not empty, got shape "
            f"{list(values.shape)}"
        )
    length = values.shape[2]
    shape = (len(values), length, length)
    try:
        return np.broadcast_to(values, shape), np.broadcast_to(hidden, shape)
    except ValueError:
        raise ValueError(
            f"masked must fit [heads, length, length] = {list(shape)}, got {list(hidden.shape)}"
        ) from None


def _cells(
    values: Floats, hidden: NDArray[np.bool_], places: NDArray[np.int64], show: str
) -> tuple[Floats, NDArray[np.bool_], ColorScale]:
    """What is shown for the queries and keys at some places, where it is masked, and its colors."""
    masked = hidden[:, places[:, None], places]
    if show == "weight":
        weights = weights_from_bias(values[:, places], hidden[:, places])
        return weights[..., places], masked, WEIGHT_SCALE
    cells = np.where(masked, np.float32(0), values[:, places[:, None], places])
    return cells, masked, ColorScale.around_zero(float(cells.min()), float(cells.max()))


def _titles(head_numbers: Sequence[int], slopes: Sequence[str], side: int) -> list[str]:
    """The title of each tile, as long as there is room for in all of them."""
    if not slopes:
        return [f"head {number}" for number in head_numbers]
    room = side + _TITLE_OVERHANG
    pairs = list(zip(head_numbers, slopes, strict=True))
    for form in _TITLES:
        titles = [form.format(head=head, slope=slope) for head, slope in pairs]
        longest = max(map(len, titles)) * LETTER
        if longest <= room:
            return titles
    return titles


def _hover_texts(
    values: Floats, hidden: NDArray[np.bool_], places: NDArray[np.int64]
) -> NDArray[np.object_]:
    """Query, key, distance, bias and relative weight between some places, see `_TEMPLATE`:
    [heads, query, key, 5]."""
    query, key = np.meshgrid(places, places, indexing="ij")
    biases = _three_digits(values[:, query, key])
    biases[hidden[:, query, key]] = "masked"
    weights = weights_from_bias(values[:, places], hidden[:, places])[..., places]
    columns = np.broadcast_arrays(query, key, np.abs(query - key), biases, weights)
    return np.stack(columns, axis=-1, dtype=object)


def weights_from_bias(bias: Floats, masked: NDArray[np.bool_]) -> Floats:
    """The weight of each key relative to that of the most favored key of its query at equal
    content; 0 where masked.

    It is the softmax before its normalization, so forms of ALiBi with the same attention weights
    give the same.

    >>> import torch
    >>> import alibi_viz as av
    >>> from alibi_viz.figures.bias_plot import weights_from_bias
    >>> bias = av.alibi_bias(torch.tensor([1.0]), 3, form="key").expand(-1, 3, -1)
    >>> masked = ~av.causal_mask(3)
    >>> weights_from_bias(bias.numpy(), masked.numpy())[0, 2].round(3)
    array([0.135, 0.368, 1.   ], dtype=float32)
    """
    visible = np.where(masked, np.float32(-np.inf), bias)
    largest = visible.max(-1, keepdims=True)
    visible -= np.where(np.isneginf(largest), 0, largest)
    return np.exp(visible, out=visible)


def _three_digits(values: Floats) -> NDArray[np.object_]:
    """Each value as a text with three significant digits and a real minus sign."""
    texts = np.char.mod("%.3g", values + np.float32(0))  # -0.0 becomes 0.0
    return np.char.replace(texts, "-", "\N{MINUS SIGN}").astype(object)
