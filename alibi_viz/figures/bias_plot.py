"""The bias of every head, or what the softmax makes of it, e^bias: one square tile per head on one
color scale."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.arguments import check_choice
from alibi_viz.figures import matrices
from alibi_viz.figures.theme import WEIGHT_SCALE, ColorScale, as_array

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
    """
    values, hidden = as_array(bias, np.float32, "bias"), as_array(masked, bool, "masked")
    if values.ndim != 3 or values.shape[1] not in (1, values.shape[2]) or not values.size:
        raise ValueError(
            "bias must be [heads, length or 1, length] and not empty, got shape "
            f"{list(values.shape)}"
        )
    tiles, length = len(values), values.shape[-1]
    try:
        values, hidden = (
            np.broadcast_to(array, (tiles, length, length)) for array in (values, hidden)
        )
    except ValueError:
        shape = list(hidden.shape)
        raise ValueError(
            f"masked must fit [heads, length, length] = {[tiles, length, length]}, got {shape}"
        ) from None
    numbers = [*heads] or [*range(1, tiles + 1)]
    if len(numbers) != tiles or len(slopes) not in (0, tiles):
        raise ValueError(
            f"heads and slopes must have {tiles} entries, got {len(numbers)} and {len(slopes)}"
        )
    check_choice("show", show, SHOWS)
    grid = matrices.page_grid(tiles, page_width)
    at = grid.visible_cells(length)
    masks = hidden[:, at[:, None], at]
    if show == "weight":
        scale, cells = WEIGHT_SCALE, weights_from_bias(values[:, at], hidden[:, at])[..., at]
    else:
        cells = np.where(masks, np.float32(0), values[:, at[:, None], at])
        scale = ColorScale.around_zero(float(cells.min()), float(cells.max()))
    titles = [f"head {number}" for number in numbers]
    long = [f"{title}, m = {slope}" for title, slope in zip(titles, slopes, strict=False)]
    titles = long if long and max(map(len, long)) * matrices.LETTER <= grid.side else titles
    ends, legend = (range(length), range(length)), SHOWS[show]
    matrices.draw(
        figure, grid, cells, masks, scale=scale, titles=titles, numbers=ends, legend=legend
    )

    def add_hover(figure: go.Figure) -> None:
        at = grid.hover_cells(length, HOVER_ONE if tiles == 1 else HOVER_ALL)
        query, key = np.meshgrid(at, at, indexing="ij")
        texts = _shortest(values[:, query, key])
        texts[hidden[:, query, key]] = "masked"
        weights = _shortest(weights_from_bias(values[:, at], hidden[:, at])[..., at])
        parts = np.broadcast_arrays(query, key, np.abs(query - key), texts, weights)
        with figure.batch_update():
            matrices.fill_hover(
                figure, grid, length, np.stack(parts, axis=-1, dtype=object), numbers
            )

    return add_hover


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
