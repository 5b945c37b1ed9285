"""The bias of every head, or what the softmax makes of it, e^bias: one square tile per head on one
color scale."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.arguments import check_choice
from alibi_viz.figures import heatmap_grid, matrices
from alibi_viz.figures.theme import WEIGHT_SCALE, ColorScale, as_array
from alibi_viz.figures.tile_grid import DENSITY

# The text beside the color bar
SHOWS = {"weight": "weight left at equal content", "bias": "bias, linear scale"}
# Cells with a hover text: with several heads in the figure, and with one
HOVER_ALL = 2048
HOVER_ONE = 65536
_TEMPLATE = (
    "head %{z}<br>query %{customdata[0]}, key %{customdata[1]}<br>distance %{customdata[2]}"
    "<br>bias %{customdata[3]}<br>relative weight %{customdata[4]:.3g}"
)

Floats = NDArray[np.float32]


def bias_figure(bias: ArrayLike, masked: ArrayLike, **options: Any) -> go.Figure:
    """Biases as a plain plotly figure with hover texts. The arguments are those of `draw`.

    >>> import alibi_viz as av
    >>> bias = av.alibi_bias(av.alibi_slopes(2), 4)
    >>> figure = av.figures.bias_figure(bias, ~av.causal_mask(4), show="bias")
    >>> # Query, key, distance, bias and relative weight of a cell of head 1
    >>> figure.data[0].customdata[3, 0].tolist()
    [3, 0, 3, -0.1875, 0.8290291]
    """
    figure = blank()
    draw(figure, bias, masked, **options)(figure)
    return figure


def blank() -> go.Figure:
    """The figure without data."""
    return matrices.blank(_TEMPLATE)


def draw(
    figure: go.Figure,
    bias: ArrayLike,
    masked: ArrayLike,
    *,
    show: str = "weight",
    heads: Sequence[int] = (),
    slopes: Sequence[str] = (),
    page_width: int = 880,
    density: float = DENSITY,
) -> Callable[[go.Figure], None]:
    """Draw one tile per head into a figure from `blank`, plain or live.

    Returns a function that adds the hover texts to the figure. They are slow, so an app adds them
    when controls rest.

    Args:
        bias: [heads, length, length] or [heads, 1, length]; finite where not masked.
        masked: bool, broadcastable to [heads, length, length]; these cells are gray.
        show: "weight" for the weight that a key gets at equal content, relative to the most favored
            key of its query (see `weights_from_bias`), or "bias" for the bias itself.
        heads: [heads], the number of each head; 1, 2, ... by default.
        slopes: [heads], the text of each slope, added to the title of its tile if there is room;
            none by default.
        page_width: pixels available for the figure.
        density: image pixels per pixel of the page, see `Grid`.
    """
    values, hidden = _checked(bias, masked)
    tiles, length, _ = values.shape
    head_numbers = list(heads) if len(heads) else list(range(1, tiles + 1))
    if len(head_numbers) != tiles or len(slopes) not in (0, tiles):
        raise ValueError(
            f"heads and slopes must have {tiles} entries, got {len(head_numbers)} and {len(slopes)}"
        )
    check_choice("show", show, SHOWS)

    grid = matrices.page_grid(tiles, page_width, density)
    cells, masked_cells, scale = _cells(values, hidden, grid.visible_cells(length), show)
    matrices.draw(
        figure,
        grid,
        cells,
        masked_cells,
        scale=scale,
        titles=_titles(head_numbers, slopes, grid.side),
        axis_labels=(range(length), range(length)),
        legend=SHOWS[show],
    )

    def add_hover(figure: go.Figure) -> None:
        limit = HOVER_ONE if tiles == 1 else HOVER_ALL
        texts = _hover_texts(values, hidden, grid.hover_cells(length, limit))
        step = grid.hover_step(length, limit)
        with figure.batch_update():
            heatmap_grid.fill_hover(figure, grid, length, texts, head_numbers, step=step)

    return add_hover


def _checked(bias: ArrayLike, masked: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    """Both arguments of `draw` as [heads, length, length]."""
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
    """The title of each tile, with its slope if there is room for that in all of them."""
    titles = [f"head {number}" for number in head_numbers]
    if not slopes:
        return titles
    with_slopes = [f"{title}, m = {slope}" for title, slope in zip(titles, slopes, strict=True)]
    longest = max(map(len, with_slopes)) * heatmap_grid.LETTER
    return with_slopes if longest <= side else titles


def _hover_texts(
    values: Floats, hidden: NDArray[np.bool_], places: NDArray[np.int64]
) -> NDArray[np.object_]:
    """Query, key, distance, bias and relative weight between some places, see `_TEMPLATE`:
    [heads, query, key, 5]."""
    query, key = np.meshgrid(places, places, indexing="ij")
    biases = _shortest(values[:, query, key])
    biases[hidden[:, query, key]] = "masked"
    weights = weights_from_bias(values[:, places], hidden[:, places])[..., places]
    columns = np.broadcast_arrays(query, key, np.abs(query - key), biases, _shortest(weights))
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


def _shortest(values: Floats) -> NDArray[np.object_]:
    """float32 values as Python floats with their own shortest digits, not the 17 digits of a
    converted float64."""
    return values.astype(str).astype(np.float64).astype(object)
