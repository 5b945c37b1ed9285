"""Cut the part of the attention matrix that lies within a window into rectangles.

For a narrow window, blocks of 64 queries each read the keys from the window of their first query to their last query.
For a wide one, blocks of 64 queries read *themselves*; then each second block reads its *neighbor* before it, with
blocks of 64 queries, 128, and so on; last, the largest blocks read the *band* of keys before them. With blocks of 2
instead of 64:

    narrow, 3               wide, 6

    0                       0
    0 0                     0 0
    0 0 0                   1 1 0           0  themselves
    0 0 0 0                 1 1 0 0         1  neighbors
    . 0 0 0 0               2 2 2 2 0       2  band
    . 0 0 0 0 0             2 2 2 2 0 0
    . . . 0 0 0 0           2 2 2 2 1 1 0
    . . . 0 0 0 0 0         2 2 2 2 1 1 0 0

Large rectangles are fastest for each pair; small blocks waste less work outside the window.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from torch import Tensor

__all__ = ["Tile", "blocks", "tiles"]

# Measured on the CPU (benchmarks/attention.py):
_SMALLEST = 64  # queries in a block; with fewer the kernel is slow, with more it computes more pairs outside the window
_NARROW = 2048  # up to this window, reading all keys of a block at once is faster than merging several tiles
_BLOCKS_PER_WINDOW = 8  # for wide windows
_NEARLY_ALL = 0.9  # from this share of the keys on, blocks without a window are faster


@dataclass(frozen=True)
class Tile:
    """`count` rectangles of the attention matrix, each of `rows` queries and `width` keys."""

    side: str  # where the keys are: "before" all queries, "own" (they include the queries' own tokens) or "after"
    query: int  # the first query of the first rectangle
    rows: int
    key: int  # the first key of the first rectangle
    width: int
    count: int
    query_step: int  # queries from one rectangle to the next
    key_step: int

    def queries(self, tensor: Tensor) -> Tensor:
        """The rows of a tensor [batch, query, ...]: a view [batch, count, rows, ...]."""
        return blocks(tensor, self.query, self.rows, self.query_step, self.count)

    def keys(self, tensor: Tensor) -> Tensor:
        """The columns of a tensor [batch, key, ...]: a view [batch, count, width, ...]."""
        return blocks(tensor, self.key, self.width, self.key_step, self.count)

    def part(self, start: int, end: int) -> "Tile":
        """The rectangles from `start` up to `end`."""
        query, key = self.query + start * self.query_step, self.key + start * self.key_step
        return replace(self, query=query, key=key, count=end - start)

    def split_rows(self, parts: int) -> "Tile":
        """The same pairs in `parts` rectangles with equal keys, if this is a single rectangle that can be divided."""
        if self.count > 1 or parts < 2 or self.rows % parts or self.side == "own":
            return self
        rows = self.rows // parts
        return replace(self, rows=rows, count=parts, query_step=rows, key_step=0)


def blocks(tensor: Tensor, first: int, size: int, step: int, count: int) -> Tensor:
    """View [batch, length, ...] as blocks of `size` that start `step` apart: [batch, count, size, ...]."""
    batch_stride, stride, *strides = tensor.stride()
    shape = (tensor.shape[0], count, size, *tensor.shape[2:])
    offset = tensor.storage_offset() + first * stride
    return tensor.as_strided(shape, (batch_stride, step * stride, stride, *strides), offset)


def tiles(query_length: int, key_length: int, window: int, *, causal: bool = True) -> list[Tile]:
    """Tiles that contain each pair of a query and a key at most `window` steps back exactly once.

    The queries are the last of the keys. If not `causal`, also the pairs at most `window` steps ahead. Each query is in
    one tile with its own token, and this tile comes first.

    >>> [(tile.side, tile.rows, tile.width, tile.count) for tile in tiles(256, 256, 100)]
    [('own', 64, 64, 1), ('own', 64, 128, 1), ('own', 64, 164, 2)]
    >>> [(tile.side, tile.rows, tile.width, tile.count) for tile in tiles(256, 256, 256)]
    [('own', 64, 64, 4), ('before', 64, 64, 2), ('before', 128, 128, 1)]
    """
    before = key_length - query_length
    has_window = window <= _NEARLY_ALL * key_length
    if has_window and window <= _NARROW:
        return list(_own(query_length, before, window, ahead=0 if causal else window))
    size = _SMALLEST
    while size < query_length and (not has_window or 2 * size * _BLOCKS_PER_WINDOW <= window):
        size *= 2
    neighbors = list(_neighbors(query_length, before, size))
    result = [*_own(query_length, before), *neighbors, *_band(query_length, before, window, size)]
    if not causal:
        result += [_transposed(tile, before) for tile in neighbors]
        result += _band(query_length, before, window, size, ahead=True)
    return result


def _own(query_length: int, before: int, window: int = 0, *, ahead: int = 0) -> Iterator[Tile]:
    """Each of the smallest blocks reads itself, `window` keys before its start, and `ahead` keys after its end."""

    def shape(first: int) -> tuple[int, int, int]:
        rows = min(_SMALLEST, query_length - first)
        return rows, min(window, before + first), min(ahead, query_length - first - rows)

    for (rows, back, more), group in groupby(range(0, query_length, _SMALLEST), key=shape):
        first, *others = group
        width = back + rows + more
        yield Tile("own", first, rows, before + first - back, width, 1 + len(others), _SMALLEST, _SMALLEST)


def _neighbors(query_length: int, before: int, size: int) -> Iterator[Tile]:
    """Within blocks of `size` queries, each second block of 64, 128, ... queries reads the one before it."""
    rows = _SMALLEST
    while rows < size:
        count, rest = divmod(query_length, 2 * rows)
        if count:
            yield Tile("before", rows, rows, before, rows, count, 2 * rows, 2 * rows)
        if rest > rows:
            start = query_length - rest
            yield Tile("before", start + rows, rest - rows, before + start, rows, 1, rows, rows)
        rows *= 2


def _band(query_length: int, before: int, window: int, size: int, *, ahead: bool = False) -> Iterator[Tile]:
    """Each block of `size` queries reads `window` keys before its start, or after its end."""

    def shape(first: int) -> tuple[int, int]:
        rows = min(size, query_length - first)
        return rows, min(window, query_length - first - rows if ahead else before + first)

    for (rows, width), group in groupby(range(0, query_length, size), key=shape):
        first, *others = group
        if width:
            key = before + first + (rows if ahead else -width)
            yield Tile("after" if ahead else "before", first, rows, key, width, 1 + len(others), size, size)


def _transposed(tile: Tile, before: int) -> Tile:
    """The rectangles with queries and keys swapped."""
    return replace(
        tile, side="after", query=tile.key - before, rows=tile.width, key=tile.query + before, width=tile.rows
    )
