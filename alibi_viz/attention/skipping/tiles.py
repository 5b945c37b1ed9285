"""Cut the part of the attention matrix within a span into rectangles, and batch equal ones.

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

# All four were measured on the CPU (benchmarks/attention.py); they change the speed, not the
# result.
_BLOCK = 64  # queries in the smallest block: fewer are slow, more compute more pairs in vain
_NARROW = 2048  # up to this span, reading a block's keys at once beats merging several rectangles
_BLOCKS_PER_SPAN = 8  # for wide spans
_NEARLY_ALL = 0.9  # from this share of the keys on, blocks without a span are faster


@dataclass(frozen=True)
class Tile:
    """`count` rectangles of equal size: `rows` queries by `width` keys.

    `query` and `key` are the first query and the first key of the first rectangle.
    """

    # Where the keys are: "before" all queries, "own" (they include the queries' own tokens) or
    # "after"
    side: str
    query: int
    rows: int
    key: int
    width: int
    count: int = 1
    query_step: int = 0  # queries from one rectangle to the next
    key_step: int = 0  # keys from one rectangle to the next

    def queries(self, tensor: Tensor) -> Tensor:
        """The rows of a tensor [batch, query, ...]: a view [batch, count, rows, ...]."""
        return blocks(tensor, self.query, self.rows, self.query_step, self.count)

    def keys(self, tensor: Tensor) -> Tensor:
        """The columns of a tensor [batch, key, ...]: a view [batch, count, width, ...]."""
        return blocks(tensor, self.key, self.width, self.key_step, self.count)

    def part(self, start: int, end: int) -> "Tile":
        """The rectangles from `start` up to `end`."""
        return replace(
            self,
            query=self.query + start * self.query_step,
            key=self.key + start * self.key_step,
            count=end - start,
        )

    def split_rows(self, parts: int) -> "Tile":
        """The same pairs in `parts` rectangles with equal keys, if it is one that can be
        divided."""
        if self.count > 1 or parts < 2 or self.rows % parts or self.side == "own":
            return self
        rows = self.rows // parts
        return replace(self, rows=rows, count=parts, query_step=rows, key_step=0)


def blocks(tensor: Tensor, first: int, size: int, step: int, count: int) -> Tensor:
    """View [batch, length, ...] as `count` blocks of `size`, `step` apart.

    Returns [batch, count, size, ...]. Blocks overlap where `step` is less than `size`.
    """
    batch_stride, stride, *strides = tensor.stride()
    shape = (tensor.shape[0], count, size, *tensor.shape[2:])
    offset = tensor.storage_offset() + first * stride
    return tensor.as_strided(shape, (batch_stride, step * stride, stride, *strides), offset)


def tiles(query_length: int, key_length: int, span: int, *, causal: bool = True) -> list[Tile]:
    """Tiles that contain each pair of a query and a key at most `span` steps back exactly once.

    The queries are the last of the keys. If not `causal`, also the pairs at most `span` steps
    ahead. Each query is in one tile with its own token, and this tile comes first.

    >>> from alibi_viz.attention.skipping.tiles import tiles
    >>> [(tile.side, tile.rows, tile.width, tile.count) for tile in tiles(256, 256, 256)]
    [('own', 64, 64, 4), ('before', 64, 64, 2), ('before', 128, 128, 1)]
    """
    result = []
    rectangles = _rectangles(query_length, key_length, span, causal=causal)
    for _, group in groupby(rectangles, key=_shape_and_distance):
        equal = list(group)
        step = 0
        if len(equal) > 1:
            step = equal[1].query - equal[0].query
        result.append(replace(equal[0], count=len(equal), query_step=step, key_step=step))
    return result


def _shape_and_distance(rectangle: Tile) -> tuple[str, int, int, int]:
    """What consecutive rectangles must have in common to be computed as a batch."""
    return rectangle.side, rectangle.rows, rectangle.width, rectangle.key - rectangle.query


def _rectangles(query_length: int, key_length: int, span: int, *, causal: bool) -> Iterator[Tile]:
    """The rectangles of `tiles`, one by one."""
    before = key_length - query_length  # keys before the first query
    has_span = span <= _NEARLY_ALL * key_length
    if has_span and span <= _NARROW:
        yield from _own(query_length, before, span, ahead=0 if causal else span)
        return

    size = _BLOCK  # of the largest blocks
    while size < query_length and (not has_span or 2 * size * _BLOCKS_PER_SPAN <= span):
        size *= 2
    neighbors = list(_neighbors(query_length, before, size))

    yield from _own(query_length, before)
    yield from neighbors
    for first in range(0, query_length, size):  # the band before each of the largest blocks
        end = before + first  # the block's own first key
        width = min(span, end)
        if width:
            rows = min(size, query_length - first)
            yield Tile("before", query=first, rows=rows, key=end - width, width=width)
    if causal:
        return

    # The same, transposed: the keys after the queries.
    for neighbor in neighbors:
        yield Tile(
            "after",
            query=neighbor.key - before,
            rows=neighbor.width,
            key=neighbor.query + before,
            width=neighbor.rows,
        )
    for first in range(0, query_length - size, size):  # the band after each of the largest blocks
        end = first + size
        width = min(span, query_length - end)
        yield Tile("after", query=first, rows=size, key=before + end, width=width)


def _own(query_length: int, before: int, span: int = 0, *, ahead: int = 0) -> Iterator[Tile]:
    """Each of the smallest blocks reads itself, `span` keys before it and `ahead` keys after it."""
    for first in range(0, query_length, _BLOCK):
        rows = min(_BLOCK, query_length - first)
        keys_before = min(span, before + first)
        keys_after = min(ahead, query_length - first - rows)
        yield Tile(
            "own",
            query=first,
            rows=rows,
            key=before + first - keys_before,
            width=keys_before + rows + keys_after,
        )


def _neighbors(query_length: int, before: int, size: int) -> Iterator[Tile]:
    """Within blocks of `size`, each second block of 64, 128, ... queries reads its neighbor."""
    block = _BLOCK
    while block < size:
        for first in range(block, query_length, 2 * block):
            rows = min(block, query_length - first)
            yield Tile("before", query=first, rows=rows, key=before + first - block, width=block)
        block *= 2
