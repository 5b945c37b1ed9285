"""Attention weights that were checked, beside the correct ones."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from alibi_viz.figures import theme
from alibi_viz.figures.color_scale import ColorScale
from alibi_viz.figures.matrices import png_source
from alibi_viz.figures.theme import as_array

_SHOWN = 32  # queries and keys at most; more would be too small to see
_SIDE = 224  # pixels of a picture
_ROW = '<div style="display:flex;flex-wrap:wrap;gap:16px">{}</div>'


def comparison_html(wanted: Tensor, got: Tensor, place: tuple[int, int, int]) -> str:
    """Draw the correct weights, the checked ones, and their difference for one head, as HTML.

    The pictures are part of the HTML, so they need neither a kernel nor JavaScript. Of long sequences, the part around
    `place` is shown.

    Args:
        wanted: the correct weights [heads, query, key].
        got: the checked weights, the same shape.
        place: (head, query, key); a frame marks the cell.
    """
    head, query, key = place
    rows, keys = _part(query, wanted.shape[1]), _part(key, wanted.shape[2])
    correct, checked = (as_array(weights[head])[rows, keys] for weights in (wanted, got))
    error = checked - correct
    largest, limit = max(correct.max(), checked.max()), np.abs(error).max() or 1.0
    weights, cell = ColorScale(0.0, float(largest), "weight"), (query - rows.start, key - keys.start)
    pictures = (
        _picture(f"wanted (0 to {largest:.2g})", correct, weights, cell),
        _picture(f"got (0 to {largest:.2g})", checked, weights, cell),
        _picture(f"got minus wanted ({-limit:.2g} blue, {limit:.2g} orange)", error, ColorScale(-limit, limit), cell),
    )
    where = f"head {head + 1}, queries {rows.start} to {rows.stop - 1} down, keys {keys.start} to {keys.stop - 1}"
    return f"<p>{where} across</p>{_ROW.format(''.join(pictures))}"


def weights_html(weights: Mapping[str, Tensor], rows: str) -> str:
    """Draw attention weights [rows, keys] side by side as HTML, {caption: weights}. `rows` says what a row is."""
    pictures = (_picture(name, as_array(each), ColorScale(0.0, 1.0, "weight")) for name, each in weights.items())
    return (
        f"<p>{rows} (down), keys (across). Yellow is the largest weight of a row.</p>{_ROW.format(''.join(pictures))}"
    )


def _part(index: int, size: int) -> slice:
    """At most `_SHOWN` positions that contain `index`, preferably before it."""
    start = max(0, min(index + 3, size) - _SHOWN)
    return slice(start, min(start + _SHOWN, size))


def _picture(caption: str, values: NDArray[np.float64], scale: ColorScale, cell: tuple[int, int] | None = None) -> str:
    """One matrix with a caption, and a frame around a cell."""
    # Without compression, the bytes are the same with every version of zlib: tests compare outputs.
    source = png_source(scale.indices(values), scale.palette.tobytes(), compress_level=0)
    size = _SIDE / max(values.shape)
    height, width = (round(size * length) for length in values.shape)
    frame = ""
    if cell is not None:
        top, left = (place * size - 1 for place in cell)
        frame = (
            f'<div style="position:absolute;top:{top:g}px;left:{left:g}px;width:{size:g}px;height:{size:g}px;'
            f'box-sizing:border-box;outline:2px solid {theme.COLORS[1]}"></div>'
        )
    style = "image-rendering:pixelated;outline:1px solid #888"
    return (
        f'<figure style="margin:0"><div style="position:relative"><img alt="{caption}" width="{width}" '
        f'height="{height}" style="{style}" src="{source}">{frame}</div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )
