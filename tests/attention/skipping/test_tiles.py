"""Tiles cover the part of the attention matrix within the span, each pair once."""

from collections.abc import Iterable, Iterator, Sequence
from unittest import mock

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from alibi_viz.attention.skipping import tiles as tiles_module
from alibi_viz.attention.skipping.tiles import Tile, tiles

LENGTHS = st.tuples(st.integers(0, 700), st.integers(0, 700)).map(sorted)
SPANS = st.one_of(st.integers(0, 100), st.integers(0, 3000))


def rectangles(parts: Iterable[Tile]) -> Iterator[tuple[Tile, slice, slice]]:
    """Each rectangle of the tiles: its queries and keys."""
    for tile in parts:
        assert min(tile.rows, tile.width, tile.count) >= 1, tile
        for index in range(tile.count):
            query = tile.query + index * tile.query_step
            key = tile.key + index * tile.key_step
            assert min(query, key) >= 0, tile
            yield tile, slice(query, query + tile.rows), slice(key, key + tile.width)


def times_covered(parts: Iterable[Tile], query_length: int, key_length: int) -> Tensor:
    """int [query, key]: how many rectangles contain each pair. All rectangles must lie within the
    matrix."""
    counts = torch.zeros(query_length, key_length, dtype=torch.int32)
    for tile, queries, keys in rectangles(parts):
        assert queries.stop <= query_length and keys.stop <= key_length, tile
        counts[queries, keys] += 1
    return counts


def signed_distance(query_length: int, key_length: int) -> Tensor:
    """[query, key]: negative for keys after the query."""
    return torch.arange(key_length - query_length, key_length)[:, None] - torch.arange(key_length)


def assert_covers_the_span_once(lengths: Sequence[int], span: int, causal: bool) -> Tensor:
    counts = times_covered(tiles(*lengths, span, causal=causal), *lengths)
    distance = signed_distance(*lengths)
    first_distance = 0 if causal else -span
    is_within = (first_distance <= distance) & (distance <= span)
    assert bool((counts[is_within] == 1).all())
    assert bool((counts <= 1).all())
    return counts


@given(lengths=LENGTHS, span=SPANS, causal=st.booleans())
@example(lengths=[700, 700], span=0, causal=True)
@example(lengths=[129, 129], span=10**9, causal=False)
def test_each_pair_within_the_span_is_in_one_tile_and_none_in_two(
    lengths: list[int], span: int, causal: bool
) -> None:
    assert_covers_the_span_once(lengths, span, causal)


@settings(max_examples=20)
@given(
    lengths=st.sampled_from([(1700, 1700), (1400, 1800), (1990, 2000)]),
    span=st.integers(1025, 1250),
)
def test_wide_spans_leave_out_pairs_beyond_the_band_on_one_or_both_sides(
    lengths: tuple[int, int], span: int
) -> None:
    with mock.patch.object(tiles_module, "_NARROW", 1024):
        for causal in (True, False):
            assert tiles(*lengths, span, causal=causal)[-1].side == (
                "before" if causal else "after"
            )
            counts = assert_covers_the_span_once(lengths, span, causal)
            assert bool((counts[signed_distance(*lengths) > span] == 0).any())


@given(lengths=LENGTHS, span=SPANS, causal=st.booleans())
def test_sides_of_the_keys_and_own_tiles_first(lengths: list[int], span: int, causal: bool) -> None:
    parts = tiles(*lengths, span, causal=causal)
    distance = signed_distance(*lengths)
    sides = [tile.side for tile in parts]
    assert sides == sorted(sides, key=["own", "before", "after"].index)
    if causal:
        assert "after" not in sides
    own = torch.zeros(lengths[0], dtype=torch.int32)
    for tile, queries, keys in rectangles(parts):
        of_tile = distance[queries, keys]
        if tile.side == "own":
            own[queries] += 1
            assert bool((of_tile == 0).any(1).all())  # each query's own key
            if causal:
                # A causal mask hides at most the keys of later queries of the block.
                assert int(of_tile[-1].min()) == 0
        elif tile.side == "before":
            assert bool((of_tile > 0).all())
        else:
            assert bool((of_tile < 0).all())
    assert bool((own == 1).all())


@given(
    lengths=LENGTHS,
    span=SPANS,
    causal=st.booleans(),
    threads=st.integers(0, 9),
    size=st.integers(1, 5),
)
@example(
    lengths=[128, 128], span=128, causal=True, threads=2, size=1
)  # the last tile is a single rectangle
def test_parts_of_a_tile_cover_its_pairs(
    lengths: list[int], span: int, causal: bool, threads: int, size: int
) -> None:
    for tile in tiles(*lengths, span, causal=causal):
        split = tile.split_rows(threads)
        divided = (
            tile.count == 1 and threads > 0 and tile.rows % threads == 0 and tile.side != "own"
        )
        assert split.count == (threads if divided else tile.count)
        parts = [
            split.part(start, min(start + size, split.count))
            for start in range(0, split.count, size)
        ]
        assert torch.equal(times_covered(parts, *lengths), times_covered([tile], *lengths)), tile


@given(
    length=st.integers(1, 300),
    span=st.integers(0, 400),
    layout=st.sampled_from(["plain", "heads", "expanded"]),
)
def test_queries_and_keys_are_views_of_the_rectangles(length: int, span: int, layout: str) -> None:
    tensor = torch.arange(2.0 * length * 3).view(2, length, 3)
    if layout == "heads":  # a head of a tensor [batch, length, heads, channels]
        tensor = torch.arange(2.0 * length * 6).view(2, length, 2, 3)[:, :, 1]
    elif layout == "expanded":
        tensor = torch.arange(6.0).view(2, 1, 3).expand(2, length, 3)
    for tile in tiles(length, length, span):
        views = tile.queries(tensor), tile.keys(tensor)
        assert all(
            view.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
            for view in views
        )
        for index, (_, *slices) in enumerate(rectangles([tile])):
            assert all(
                torch.equal(view[:, index], tensor[:, part])
                for view, part in zip(views, slices, strict=True)
            )
