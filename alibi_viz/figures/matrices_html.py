"""A few matrices side by side as HTML, for reports: it needs neither a kernel nor JavaScript."""

import html
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from alibi_viz.arguments import check_instance
from alibi_viz.figures.png import png_source
from alibi_viz.figures.theme import ORANGE, WEIGHT_SCALE, ColorScale, as_array

_MOST_CELLS = 32  # queries and keys of a picture
_SIDE = 224  # pixels of a picture


def comparison_html(wanted: Tensor, got: Tensor, place: tuple[int, int, int]) -> str:
    """Draw the correct weights, the checked ones, and their difference for one head, as HTML.

    Of long sequences, the part around `place` is shown.

    Args:
        wanted: the correct weights [heads, query, key].
        got: the checked weights, the same shape.
        place: (head, query, key), negative from the end; a frame marks the cell.
    """
    num_heads, num_queries, num_keys = wanted.shape
    head = place[0] % num_heads
    query = place[1] % num_queries
    key = place[2] % num_keys

    queries = _part_around(query, num_queries)
    keys = _part_around(key, num_keys)
    marked_cell = (query - queries.start, key - keys.start)

    correct = as_array(wanted[head])[queries, keys]
    checked = as_array(got[head])[queries, keys]
    error = checked - correct

    # A scale needs a length, even if all are zero.
    largest = max(correct.max(), checked.max())
    if largest == 0:
        largest = 1.0
    largest_error = np.abs(error).max()
    if largest_error == 0:
        largest_error = 1.0

    weight_scale = ColorScale(0.0, float(largest), weights=True)
    error_scale = ColorScale(-largest_error, largest_error)
    error_caption = f"got minus wanted ({-largest_error:.2g} blue, {largest_error:.2g} orange)"
    return _side_by_side(
        f"head {head + 1}, queries {queries.start} to {queries.stop - 1} down, "
        f"keys {keys.start} to {keys.stop - 1} across",
        [
            _picture(f"wanted (0 to {largest:.2g})", correct, weight_scale, marked_cell),
            _picture(f"got (0 to {largest:.2g})", checked, weight_scale, marked_cell),
            _picture(error_caption, error, error_scale, marked_cell),
        ],
    )


def _part_around(position: int, length: int) -> slice:
    """At most `_MOST_CELLS` positions that include this one, and mostly those before it.

    >>> _part_around(70, 80)
    slice(41, 73, None)
    """
    start = max(0, min(position + 3, length) - _MOST_CELLS)
    return slice(start, min(start + _MOST_CELLS, length))


def weights_html(weights: Mapping[str, Tensor], rows: str) -> str:
    """Draw attention weights side by side, as HTML.

    Args:
        weights: {caption: weights [rows, keys]}. Each row is drawn relative to its largest weight.
        rows: what a row is, such as "heads".

    Raises TypeError for weights that are no mapping, and ValueError for a matrix of another shape.
    """
    check_instance("weights", weights, Mapping)
    pictures = []
    for caption, matrix in weights.items():
        values = as_array(matrix)
        if values.ndim != 2 or values.size == 0:
            raise ValueError(
                f"weights must be [rows, keys] and not empty, got shape {list(values.shape)} for "
                f"{caption!r}"
            )
        largest = values.max(-1, keepdims=True).clip(1e-30)
        pictures.append(_picture(caption, values / largest, WEIGHT_SCALE))
    return _side_by_side(
        f"{rows} (down), keys (across). Yellow is the largest weight of a row.", pictures
    )


def _side_by_side(text: str, pictures: Sequence[str]) -> str:
    return (
        f"<p>{html.escape(text)}</p>"
        f'<div style="display:flex;flex-wrap:wrap;gap:16px">{"".join(pictures)}</div>'
    )


def _picture(
    caption: str,
    values: NDArray[np.float64],
    scale: ColorScale,
    marked_cell: tuple[int, int] | None = None,
) -> str:
    """One matrix with a caption, and a frame around a cell (row, column)."""
    caption = html.escape(caption)
    # Without compression, any version of zlib writes the same bytes.
    source = png_source(scale.indices(values), scale.palette.tobytes(), compress_level=0)
    cell_size = _SIDE / max(values.shape)
    height, width = (round(cell_size * cells) for cells in values.shape)

    frame = ""
    if marked_cell is not None:
        row, column = marked_cell
        place = f"top:{row * cell_size - 1:g}px;left:{column * cell_size - 1:g}px"
        size = f"width:{cell_size:g}px;height:{cell_size:g}px;box-sizing:border-box"
        outline = f"outline:2px solid {ORANGE}"
        frame = f'<div style="position:absolute;{place};{size};{outline}"></div>'

    image = (
        f'<img alt="{caption}" width="{width}" height="{height}" '
        f'style="image-rendering:pixelated;outline:1px solid #888" src="{source}">'
    )
    return (
        f'<figure style="margin:0"><div style="position:relative">{image}{frame}</div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )
