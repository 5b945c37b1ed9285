"""Cut the part of the attention matrix that lies within an attention span into rectangles, and
batch equal ones.

For a narrow span, blocks of 64 queries each read the keys from the span of their first query to
their last query. For a wide one, blocks of 64 queries read *themselves*; then each second block
reads its *neighbor* before it, with blocks of 64 queries, 128, and so on; last, the largest blocks
read the *band* of keys before them. With blocks of 2:

    narrow, 3               wide, 6

    0                       0
    0 0                     0 0
    0 0 0                   1 1 0           0  themselves
    0 0 0 0                 1 1 0 0         1  neighbors
    . 0 0 0 0               2 2 2 2 0       2  band
    . 0 0 0 0 0             2 2 2 2 0 0
    . . . 0 0 0 0           2 2 2 2 1 1 0
    . . . 0 0 0 0 0         2 2 2 2 1 1 0 0

Large rectangles are fastest for each pair; small blocks waste less work outside the span. Equal
rectangles that follow each other along the diagonal are a tile, which the kernel computes as a
batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from torch import Tensor

# Measured on the CPU (benchmarks/attention.py). Fewer queries per block are slow, more compute more
# pairs in vain.
_BLOCK = 64  # queries in the smallest block; speed only
# Up to this span, reading all keys of a block at once beats merging several rectangles; speed only
_NARROW = 2048
_BLOCKS_PER_SPAN = 8  # for wide spans; speed only
_NEARLY_ALL = 0.9  # from this share of the keys on, blocks without a span are faster; speed only


@dataclass(frozen=True)
class Tile:
    """`count` rectangles of equal size; `query` and `key` are the first query and key of the first
    of them."""

    # Where the keys are: "before" all queries, "own" (they include the queries' own tokens) or
    # "after"
    side: str
    query: int
    rows: int
    key: int
    width: int
    count: int = 1
    query_step: int = 0  # queries from one rectangle to the next
    key_step: int = 0

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
        """The same pairs in `parts` rectangles with equal keys, if this is a single rectangle that
        can be divided."""
        if self.count > 1 or parts < 2 or self.rows % parts or self.side == "own":
            return self
        rows = self.rows // parts
        return replace(self, rows=rows, count=parts, query_step=rows, key_step=0)


def blocks(tensor: Tensor, first: int, size: int, step: int, count: int) -> Tensor:
    """View [batch, length, ...] as blocks of `size` that start `step` apart: [batch, count, size,
    ...]."""
    batch_stride, stride, *strides = tensor.stride()
    shape = (tensor.shape[0], count, size, *tensor.shape[2:])
    offset = tensor.storage_offset() + first * stride
    return tensor.as_strided(shape, (batch_stride, step * stride, stride, *strides), offset)


def tiles(query_length: int, key_length: int, span: int, *, causal: bool = True) -> list[Tile]:
    """Tiles that contain each pair of a query and a key at most `span` steps back exactly once.

    The queries are the last of the keys. If not `causal`, also the pairs at most `span` steps
    ahead. Each query is in one tile with its own token, and this tile comes first.

    >>> [(tile.side, tile.rows, tile.width, tile.count) for tile in tiles(256, 256, 256)]
    [('own', 64, 64, 4), ('before', 64, 64, 2), ('before', 128, 128, 1)]
    """
    result = []
    rectangles = _rectangles(query_length, key_length, span, causal=causal)
    for _, equal in groupby(
        rectangles, key=lambda each: (each.side, each.rows, each.width, each.key - each.query)
    ):
        first, *others = equal
        step = others[0].query - first.query if others else 0
        result.append(replace(first, count=1 + len(others), query_step=step, key_step=step))
    return result


def _rectangles(query_length: int, key_length: int, span: int, *, causal: bool) -> Iterator[Tile]:
    """The rectangles of `tiles`, one by one."""
    before = key_length - query_length
    has_span = span <= _NEARLY_ALL * key_length
    if has_span and span <= _NARROW:
        yield from _own(query_length, before, span, ahead=0 if causal else span)
        return
    size = _BLOCK
    while size < query_length and (not has_span or 2 * size * _BLOCKS_PER_SPAN <= span):
        size *= 2
    neighbors = list(_neighbors(query_length, before, size))
    yield from _own(query_length, before)
    yield from neighbors
    for first in range(0, query_length, size):  # the band before each of the largest blocks
        if width := min(span, before + first):
            yield Tile(
                "before", first, min(size, query_length - first), before + first - width, width
            )
    if not causal:
        for each in neighbors:  # transposed
            yield Tile("after", each.key - before, each.width, each.query + before, each.rows)
        for first in range(0, query_length - size, size):  # the band after each
            yield Tile(
                "after", first, size, before + first + size, min(span, query_length - first - size)
            )


def _own(query_length: int, before: int, span: int = 0, *, ahead: int = 0) -> Iterator[Tile]:
    """Each of the smallest blocks reads itself, `span` keys before its start, and `ahead` keys
    after its end."""
    for first in range(0, query_length, _BLOCK):
        rows, back = min(_BLOCK, query_length - first), min(span, before + first)
        yield Tile(
            "own",
            first,
            rows,
            before + first - back,
            back + rows + min(ahead, query_length - first - rows),
        )


def _neighbors(query_length: int, before: int, size: int) -> Iterator[Tile]:
    """Within blocks of `size` queries, each second block of 64, 128, ... queries reads the one
    before it."""
    rows = _BLOCK
    while rows < size:
        for first in range(rows, query_length, 2 * rows):
            yield Tile(
                "before", first, min(rows, query_length - first), before + first - rows, rows
            )
        rows *= 2
